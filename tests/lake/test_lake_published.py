"""Readers of the last complete publish: all tables before a publish or all after it, whatever dies or comes between."""

import threading
from dataclasses import replace
from datetime import timedelta

import lance
import pytest
from support.killed import killed_at
from support.lakes import Lake

from lance_spark import LanceCatalog
from lance_spark.catalog import journal as journals
from lance_spark.catalog.lake import catalog_of
from lance_spark.catalog.lookup import list_tables, open_table
from lance_spark.catalog.published import at_published
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.lake import publish as publishing
from lance_spark.storage.datasets import locate
from lance_spark.storage.resolving import NamedTable, take_target

ENGINE = LocalRunner()
BEFORE = {"a": [0, 1, 2], "b": [0, 1, 2], "c": [0, 1, 2]}
AFTER = {"a": [0, 1, 2, 10], "c": [0, 1, 2, 11], "new": [9], "x": [0, 1, 2]}


@pytest.fixture
def lake(tmp_path):
    made = Lake.make(f"{tmp_path}/lake")
    made.write("a", 10)
    made.write("c", 11)
    made.rename("b", "x")
    made.create("new")
    return made


def seen(catalog):
    """What a reader sees: every table with its rows."""
    return {str(name): rows(catalog, name) for name in list_tables(catalog)}


def rows(catalog, name):
    location, pin = open_table(catalog, name, RefSpec())
    return sorted(lance.dataset(location.uri, version=pin.version).to_table()["id"].to_pylist())


def publish(lake):
    return publishing.publish(lake.catalog, lambda: lake.branch, ENGINE)


def begin(lake):
    plan = publishing.plan_publish(lake.catalog, lake.branch, ENGINE)
    journal = replace(plan.journal, sequence=max(journals.sequences(lake.catalog.manifest), default=0) + 1)
    assert journals.write_journal(lake.catalog.manifest, journal)
    return journal, plan.prepared


def test_a_reader_stays_before_a_publish_and_the_next_one_is_after_it(lake):
    before = at_published(lake.catalog)
    assert seen(before) == BEFORE
    publish(lake)
    assert seen(before) == BEFORE
    after = at_published(lake.catalog)
    assert seen(after) == AFTER
    assert (before.ref.sequence, after.ref.sequence) == (0, 1)
    assert seen(lake.catalog) == AFTER


STEPS = [
    (publishing, "publish_table", 0),
    (publishing, "publish_table", 1),
    (publishing, "_publish_rows", 0),
    (journals, "decide", 0),
    (publishing, "remember_publish", 0),
    (publishing, "remember_publish", 1),
    (journals, "write_outcome", 0),
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("room", "step", "nth"), STEPS, ids=[f"{step}-{nth}" for _, step, nth in STEPS])
def test_no_reader_sees_half_of_a_killed_publish(lake, monkeypatch, room, step, nth, after):
    early = at_published(lake.catalog)
    monkeypatch.setattr(publishing, "_THREADS", 1)
    with killed_at(room, step, nth + 1, after=after):
        publish(lake)
    late = at_published(lake.catalog)
    is_complete = (step, after) == ("write_outcome", True)
    assert seen(early) == BEFORE
    assert seen(late) == (AFTER if is_complete else BEFORE)
    publishing.recover(lake.catalog, ENGINE)
    assert seen(early) == BEFORE
    assert seen(late) == (AFTER if is_complete else BEFORE)
    assert seen(at_published(lake.catalog)) == AFTER


@pytest.mark.parametrize("step", ["decide", "take_back_table", "_take_rows_back", "write_outcome", None])
def test_readers_never_see_a_publish_that_is_taken_back(lake, step):
    early = at_published(lake.catalog)
    journal, prepared = begin(lake)
    lake.declare_main("new")
    expected = {name: BEFORE[name] for name in BEFORE}

    def look(reader):
        return {name: rows(reader, name) for name in BEFORE}

    if step is not None:
        with killed_at(journals if hasattr(journals, step) else publishing, step):
            publishing.finish(lake.catalog, journal, ENGINE, prepared)
        late = at_published(lake.catalog)
        assert look(early) == look(late) == expected
    assert not publishing.finish(lake.catalog, journal, ENGINE, prepared).is_published
    lake.write_main("a", 50)
    assert look(early) == look(at_published(lake.catalog)) == {**expected, "a": [0, 1, 2, 50]}


def test_other_commits_are_seen_until_a_later_publish_changes_the_table(lake):
    reader = at_published(lake.catalog)
    lake.write_main("a", 50)
    lake.write_main("b", 51)
    assert seen(reader) == {"a": [0, 1, 2, 50], "b": [0, 1, 2, 51], "c": [0, 1, 2]}
    journal, prepared = begin(lake)
    lake.write_main("a", 60)  # after the decision, before the commit
    assert rows(reader, "a") == [0, 1, 2, 50, 60]
    publishing.publish_table(publishing._of_table(lake.catalog, journal, journal.tables[0]), ENGINE)
    lake.write_main("a", 70)
    lake.write_main("b", 71)
    both = [rows(reader, name) for name in ("a", "b")]
    assert both == [[0, 1, 2, 50, 60], [0, 1, 2, 51, 71]]
    publishing.finish(lake.catalog, journal, ENGINE, prepared)
    assert [rows(reader, name) for name in ("a", "b")] == both
    assert rows(at_published(lake.catalog), "a") == [0, 1, 2, 10, 50, 60, 70]


def test_what_publishes_the_table_while_it_is_opened_is_not_seen(lake, monkeypatch):
    from lance_spark.catalog import lookup

    reader, real, done = at_published(lake.catalog), lookup.find_latest, []

    def find(location, branch):
        if not done:
            done.append(publish(lake))
        return real(location, branch)

    monkeypatch.setattr(lookup, "find_latest", find)
    assert rows(reader, "a") == [0, 1, 2]
    assert seen(reader) == BEFORE


def test_many_publishes_later_the_reader_is_where_it_was(lake):
    reader = at_published(lake.catalog)
    publish(lake)
    for number in (20, 21, 22):
        lake.write("a", number)
        middle = at_published(lake.catalog)
        publish(lake)
    assert seen(reader) == BEFORE
    assert rows(middle, "a") == [0, 1, 2, 10, 20, 21]
    assert at_published(lake.catalog).ref.sequence == 4


def test_a_version_that_was_cleaned_up_is_told_with_what_to_do(lake):
    reader = at_published(lake.catalog)
    lake.write_main("a", 50)
    lake.declare_main("z")
    publish(lake)
    uri = lake.uri("a")
    lance.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    with pytest.raises(NotFound, match="cleaned up") as told:
        rows(reader, "a")
    assert "published=True" in told.value.hint
    lance.dataset(lake.catalog.manifest.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    with pytest.raises(NotFound, match="cleaned up"):
        list_tables(reader)
    assert rows(at_published(lake.catalog), "a") == [0, 1, 2, 10, 50]


@pytest.mark.parametrize("mode", ["v1", "v2", "compatibility"])
def test_a_lake_without_publishes_is_read_as_it_is(tmp_path, mode):
    lake = LanceCatalog(f"{tmp_path}/lake", mode=mode)
    reader = lake.checkout(published=True)
    assert reader.list_tables() == []
    lance.write_dataset(lance.dataset(Lake.make(f"{tmp_path}/other").uri("a")).to_table(), f"{tmp_path}/lake/a.lance")
    assert reader.list_tables() == ([] if mode == "v2" else ["a"])
    if mode != "v2":
        assert seen(reader.catalog) == {"a": [0, 1, 2]}
    assert "before the first publish" in str(reader)


def test_nothing_can_be_changed_or_looked_up_elsewhere(lake):
    reader = LanceCatalog(lake.catalog.uri).checkout(published=True)
    changes = [
        lambda: reader.drop_table("a"),
        lambda: reader.rename_table("a", "z"),
        lambda: reader.declare_table("z"),
        lambda: reader.create_namespace("z"),
        lambda: reader.alter_table("a", {"x": "y"}),
        lambda: reader.alter_namespace("", {"x": "y"}),
        lambda: reader.branches.create("z"),
        lambda: reader.tags.create("z"),
        lambda: reader.recover(),
        lambda: reader.migrate(),
        lambda: reader.maintain(),
        lambda: reader.deregister_table("a"),
    ]
    for change in changes:
        with pytest.raises(Refused, match="last complete publish") as told:
            change()
        assert "without 'published'" in told.value.hint
    with pytest.raises(Refused, match="one version of each table"):
        reader.table("a", version=1)
    assert repr(reader).endswith("published=True)")
    assert reader.checkout(branch="main").catalog == lake.catalog


@pytest.mark.parametrize("given", [{}, {"branch": "x", "published": True}, {"branch": "x", "tag": "y"}])
def test_one_of_the_ways_to_check_out(lake, given):
    with pytest.raises(InvalidOption):
        LanceCatalog(lake.catalog.uri).checkout(**given)


def test_the_option_of_reads_and_writes(lake):
    publish(lake)
    lake.write("a", 12)
    begin(lake)
    target = take_target({"catalog": lake.catalog.uri, "catalog_published": "true", "path": "a"}, "load")
    assert rows(catalog_of(target.place), "a") == [0, 1, 2, 10]
    plain = take_target({"catalog": lake.catalog.uri, "catalog_published": "false", "path": "a"}, "load")
    assert plain.place == NamedTable(locate(lake.catalog.uri), "a")


def test_threads_never_read_half_of_a_publish(tmp_path):
    """Each publish gives two tables the same new row; another process writes to the third meanwhile."""
    lake = Lake.make(f"{tmp_path}/lake")
    done, torn, looks = threading.Event(), [], []

    def read():
        while not done.is_set():
            reader = at_published(lake.catalog)
            first = rows(reader, "a")
            second = rows(reader, "c")
            looks.append(len(first))
            if first != second or rows(reader, "a") != first:
                torn.append((reader.ref.sequence, first, second))

    def write():
        while not done.is_set():
            lake.write_main("b", 100)
            done.wait(0.01)

    threads = [threading.Thread(target=each) for each in (read, read, write)]
    for thread in threads:
        thread.start()
    try:
        for number in range(10, 18):
            lake.write("a", number)
            lake.write("c", number)
            assert publish(lake).outcome.is_published
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert torn == []
    assert len({*looks}) > 1
