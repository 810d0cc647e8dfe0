"""A publish of a branch of a lake: main of all tables before or after, whatever fails and whoever helps."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from unittest.mock import patch

import lance
import pytest
from support.catalogs import raw
from support.killed import killed_at
from support.lakes import OWN, Lake, main_rows

from lance_spark.catalog import journal as journals
from lance_spark.catalog import manifest_commits
from lance_spark.catalog.publish_rules import PUBLISHED, TAKEN_BACK, TableOutcome, journal_name
from lance_spark.core import layout
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, CorruptData, NotFound, Refused, StorageFailure
from lance_spark.format.manifest import UnknownFormat
from lance_spark.format.versions import PUBLISH_ID
from lance_spark.lake import manifest_rules
from lance_spark.lake import publish as publishing
from lance_spark.merge.option_rules import Prefer, PublishOptions
from lance_spark.refs.refs import delete_branch
from lance_spark.storage import refs

ENGINE = LocalRunner()
BEFORE = {"a": [0, 1, 2], "b": [0, 1, 2], "c": [0, 1, 2]}
AFTER = {"a": [0, 1, 2, 10], "c": [0, 1, 2, 11], "new": [9], "x": [0, 1, 2]}


@pytest.fixture
def lake(tmp_path):
    return changed(Lake.make(f"{tmp_path}/lake"))


def changed(made):
    """New rows in two tables, a renamed and a new one, on the branch of the lake."""
    made.write("a", 10)
    made.write("c", 11)
    made.rename("b", "x")
    made.create("new")
    return made


def publish(lake, **arguments):
    found = publishing.publish(lake.catalog, lambda: lake.branch, ENGINE, **arguments)
    return found and found.outcome


def recover(lake):
    found = publishing.recover(lake.catalog, ENGINE)
    return found and found.outcome


def begin(lake):
    """A publish whose process died as soon as it was decided."""
    plan = publishing.plan_publish(lake.catalog, lake.branch, ENGINE)
    assert not plan.conflicts
    journal = replace(plan.journal, sequence=max(journals.sequences(lake.catalog.manifest), default=0) + 1)
    assert journals.write_journal(lake.catalog.manifest, journal)
    return journal, plan.prepared


def finish(lake, journal, prepared=None):
    return publishing.finish(lake.catalog, journal, ENGINE, prepared)


def test_all_tables_are_published(lake):
    outcome = publish(lake, options=PublishOptions("nightly"))
    assert lake.state() == AFTER
    assert outcome.is_published
    assert outcome.conflicts == ()
    places = {table.location: (table.before, table.after) for table in outcome.tables}
    assert set(places.values()) == {(1, 2)}
    assert len(places) == 2
    assert outcome.manifest.after == outcome.manifest.before + 1
    assert journals.read_outcome(lake.catalog.manifest, 1) == outcome
    assert recover(lake) is None
    assert not [row for row in main_rows(lake.catalog) if "lance_spark.lake" in (row.metadata or "")]


def test_what_was_published_is_not_published_again(lake):
    publish(lake)
    assert publish(lake) is None
    lake.write("a", 20)
    outcome = publish(lake)
    assert lake.state() == {**AFTER, "a": [0, 1, 2, 10, 20]}
    assert [table.location for table in outcome.tables] == [lake.uri("a").rpartition("/")[2]]
    assert journals.sequences(lake.catalog.manifest) == [2, 1]


def test_what_main_got_meanwhile_stays(lake):
    lake.write_main("a", 50)
    lake.write_main("x" if "x" in lake.state() else "b", 51)
    lake.create_main("other")
    publish(lake)
    assert lake.state() == {**AFTER, "a": [0, 1, 2, 10, 50], "x": [0, 1, 2, 51], "other": [0, 1, 2]}


def test_main_is_unchanged_while_the_audit_looks(lake):
    seen = []

    def look(plan):
        seen.append(lake.state())
        return True

    publish(lake, audit=look)
    assert seen == [BEFORE]
    assert lake.state() == AFTER


def test_a_failed_audit_publishes_nothing(lake):
    with pytest.raises(Refused, match="audit failed"):
        publish(lake, audit=bool_of_nothing)
    assert lake.state() == BEFORE
    assert journals.sequences(lake.catalog.manifest) == []


def bool_of_nothing(_):
    return False


@pytest.mark.when(day=0)
def test_a_preference_for_many_tables_may_name_a_column_that_some_lack(lake):
    for name in ("a", "c"):
        lake.head(name, OWN).delete("id = 1")
        lake.head(name).delete("id = 1")
    publish(lake, audit=lambda _: True, options=PublishOptions(prefer=Prefer.of("elsewhere=ours, *=theirs")))
    assert lake.state() != BEFORE


@pytest.mark.when(day=0.5)
@pytest.mark.parametrize("dies", [False, True], ids=["at once", "ended by another process"])
def test_a_preference_settles_rows_of_all_tables(lake, dies):
    for name in ("a", "c"):
        lake.head(name, OWN).delete("id = 1")
        lake.head(name).delete("id = 1")
    options = PublishOptions(prefer=Prefer.of("theirs"))
    with pytest.raises(Conflict) as refused:
        publish(lake)
    assert "prefer='theirs'" in refused.value.hint
    if dies:
        plan = publishing.plan_publish(lake.catalog, lake.branch, ENGINE, options)
        assert journals.write_journal(lake.catalog.manifest, replace(plan.journal, sequence=1))
        outcome = recover(lake)
    else:
        outcome = publish(lake, options=options)
    assert outcome.is_published
    assert [sorted(lake.head(name).to_table()["id"].to_pylist())[-1] for name in ("a", "c")] == [10, 11]
    assert publish(lake) is None


def test_conflicts_of_all_tables_are_told_before_anything(lake):
    for name in ("a", "c"):
        lake.head(name, OWN).update({"id": "70"}, where="id = 1")
        lake.head(name).update({"id": "80"}, where="id = 1")
    lake.create_main("new")
    before = lake.state()
    with pytest.raises(Conflict) as refused:
        publish(lake)
    for name in ("a", "c", "new"):
        assert f"\n  - {name}: " in refused.value.message
    assert lake.state() == before
    assert journals.sequences(lake.catalog.manifest) == []


@pytest.mark.parametrize("clash", ["rows", "name", "dropped"])
def test_a_conflict_in_the_window_takes_everything_back(tmp_path, clash):
    lake = changed(Lake.make(f"{tmp_path}/lake", "v2"))
    journal, prepared = begin(lake)
    if clash == "rows":
        lake.head("c").add_columns({"id2": "id"})
        lake.head("c").drop_columns(["id"])
        lake.head("c").alter_columns({"path": "id2", "name": "id"})
    elif clash == "name":
        lake.create_main("new")
    else:
        manifest_commits.apply(lake.catalog.manifest, Drop(lake.uri("c").rpartition("/")[2]))
    before = lake.state()
    outcome = finish(lake, journal, prepared)
    assert outcome.outcome == TAKEN_BACK
    assert outcome.conflicts
    assert lake.state() == before
    assert recover(lake) is None
    assert finish(lake, journal, prepared) == outcome
    assert lake.state() == before


class Drop:
    """Another process drops a table of main."""

    doing = "drop"
    needs = publishing.RowFilter(everything=True)

    def __init__(self, location):
        self.location = location

    def edit(self, rows):
        (row,) = rows.at(self.location)
        return manifest_commits.Edit(remove=(row.object_id,))


def test_after_a_publish_was_taken_back_it_can_be_made_again(lake):
    journal, prepared = begin(lake)
    lake.declare_main("new")
    assert not finish(lake, journal, prepared).is_published
    lake.rename("new", "newer")
    publish(lake)
    found = {name: lake.ids(name) for name in ("a", "c", "newer", "x")}
    assert found == {"a": [0, 1, 2, 10], "c": [0, 1, 2, 11], "newer": [9], "x": [0, 1, 2]}


STEPS = ["publish_table", "_publish_rows", "decide", "remember_publish", "write_outcome"]


def killed(step, after):
    """The first thread to get there ends before or after a step, the others go on."""
    return killed_at(journals if hasattr(journals, step) else publishing, step, after=after, alone=True)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_the_next_publish_completes_one_that_was_killed(lake, step, after):
    with killed(step, after):
        publish(lake)
    assert lake.head("b" if "b" in lake.state() else "x").count_rows() == 3
    outcome = recover(lake)
    assert outcome is None if (step, after) == ("write_outcome", True) else outcome.is_published
    assert lake.state() == AFTER
    assert [commits_of(lake, name) for name in ("a", "c")] == [1, 1]
    assert publish(lake) is None


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", ["decide", "take_back_table", "_take_rows_back", "write_outcome"])
def test_the_next_publish_takes_back_what_one_did_that_was_killed_while_it_took_it_back(lake, step, after):
    journal, prepared = begin(lake)
    lake.declare_main("new")
    with killed(step, after):
        finish(lake, journal, prepared)
    outcome = recover(lake)
    assert outcome is None if (step, after) == ("write_outcome", True) else not outcome.is_published
    assert {name: lake.ids(name) for name in BEFORE} == BEFORE
    assert not finish(lake, journal, prepared).is_published
    assert {name: lake.ids(name) for name in BEFORE} == BEFORE


def commits_of(lake, name):
    """How many versions of main a publish made."""
    dataset = lake.head(name)
    numbers = [entry["version"] for entry in dataset.versions()]
    found = [dataset.read_transaction(number) for number in numbers]
    return sum(PUBLISH_ID in (each.transaction_properties or {}) for each in found if each is not None)


@pytest.mark.parametrize("clash", [False, True], ids=["forward", "back"])
def test_helpers_at_the_same_time_end_it_once(lake, clash):
    journal, prepared = begin(lake)
    if clash:
        lake.declare_main("new")
    with ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(lambda own: finish(lake, journal, own), [prepared, None, None]))
    assert len(set(outcomes)) == 1
    assert outcomes[0].outcome == (TAKEN_BACK if clash else PUBLISHED)
    assert [lake.ids(name) for name in ("a", "c")] == [(BEFORE if clash else AFTER)[name] for name in ("a", "c")]
    assert ("x" in {row.object_id for row in main_rows(lake.catalog)}) is not clash
    assert [commits_of(lake, name) for name in ("a", "c")] == ([2, 2] if not_fenced(lake) else [1, 1])


def not_fenced(lake):
    """Whether tables were published before they were taken back."""
    return lake.head("a").version == 3


def test_one_of_two_publishers_begins_again(lake, monkeypatch):
    other = Lake(lake.catalog, lake.base, lake.base)
    real, calls = publishing.plan_publish, []

    def plan(*arguments):
        found = real(*arguments)
        calls.append(found)
        if len(calls) == 1:
            lance.write_dataset(lake.head("b").to_table(), lake.uri("b"), mode="append")
            publish(other_branch(other))
        return found

    monkeypatch.setattr(publishing, "plan_publish", plan)
    outcome = publish(lake)
    assert outcome.sequence == 2
    assert len(calls) == 3
    assert lake.state() == {**AFTER, "other": [9], "x": [0, 0, 1, 1, 2, 2]}


def other_branch(other):
    other.rows = list(other.base)
    other.create("other")
    return other


def test_a_publish_that_begins_while_another_one_looks_is_ended_first(lake, monkeypatch):
    """A process that was between its look for unfinished publishes and its own left one behind for ever."""
    real, looks = journals.sequences, count()

    def list_then(manifest):
        if next(looks) == 1:
            begin(lake)  # another process, which dies
        return real(manifest)

    monkeypatch.setattr(journals, "sequences", list_then)
    publish(lake)
    assert all(outcome is not None for _, outcome in publishing.latest(lake.catalog, 9))
    assert lake.state() == AFTER


def test_a_late_helper_replaces_no_record_of_a_later_publish(lake):
    publish(lake)
    first = journals.read_journal(lake.catalog.manifest, 1)
    lake.write("a", 20)
    publish(lake)
    location = lake.catalog.at(first.tables[0].location)
    remembered = refs.read_branch(location, OWN).metadata
    assert finish(lake, first).is_published
    assert refs.read_branch(location, OWN).metadata == remembered


def test_a_late_helper_does_not_bring_a_deleted_branch_back(lake, monkeypatch):
    """pylance reads a ref, and writes it again a moment later, also if it was deleted in between."""
    publish(lake)
    place = Path(lake.uri("a"), "_refs", "branches")

    def replace_metadata(location, branch, metadata):
        found = {path: path.read_bytes() for path in place.iterdir()}
        delete_branch(location, branch)
        for path, content in found.items():
            path.write_bytes(content)

    monkeypatch.setattr(refs, "replace_metadata", replace_metadata)
    finish(lake, journals.read_journal(lake.catalog.manifest, 1))
    for branch in lake.head("a").branches.list():
        assert lake.head("a", branch).count_rows()


def test_a_damaged_journal_stops_every_publish(lake):
    journals._create(lake.catalog.manifest, journal_name(1), b"{")
    with pytest.raises(CorruptData, match="cannot be read"):
        publish(lake)
    assert lake.state() == BEFORE


def test_a_store_that_fails_leaves_the_publish_to_the_next_one(lake):
    with patch.object(publishing, "publish_table", side_effect=StorageFailure("down")), pytest.raises(StorageFailure):
        publish(lake)
    assert journals.read_verdict(lake.catalog.manifest, 1) is None
    publish(lake)
    assert lake.state() == AFTER


def test_a_table_without_its_branch_is_not_guessed(lake):
    lake.head("a").branches.delete(OWN)
    with pytest.raises(NotFound, match="has its changes"):
        publish(lake)
    assert lake.state() == BEFORE


@pytest.mark.parametrize("mode", ["compatibility", "v2"])
def test_a_dropped_table_goes_unless_it_would_come_back(tmp_path, mode):
    lake = Lake.make(f"{tmp_path}/lake", mode)
    lake.rows = [row for row in lake.rows if row.object_id != "b"]
    if mode == "v2":
        publish(lake)
        assert set(lake.state()) == {"a", "c"}
    else:
        with pytest.raises(Conflict, match="drop it on main"):
            publish(lake)
        assert lake.state() == BEFORE


def test_a_dropped_table_stays_if_main_wrote_to_it(tmp_path):
    lake = Lake.make(f"{tmp_path}/lake", "v2")
    lake.rows = [row for row in lake.rows if row.object_id != "b"]
    lake.write_main("b", 7)
    with pytest.raises(Conflict, match="b: dropped on the branch, and written on main"):
        publish(lake)
    assert lake.ids("b") == [0, 1, 2, 7]


def test_the_catalog_is_still_one_for_pylance(lake):
    publish(lake)
    assert raw(lake.catalog).count_rows() == 4
    assert isinstance(journals.read_outcome(lake.catalog.manifest, 1).manifest, TableOutcome)


def test_what_cannot_be_taken_back_is_named(lake):
    journal, prepared = begin(lake)
    given = publishing._of_table(lake.catalog, journal, journal.tables[0])
    publishing.publish_table(given, ENGINE)
    lake.head("a").update({"id": "77"}, where="id = 10")
    lake.declare_main("new")
    outcome = finish(lake, journal, prepared)
    assert outcome.outcome == TAKEN_BACK
    assert [each.name for each in outcome.conflicts if "could not be taken back" in each.reason] == ["a"]
    with pytest.raises(Conflict, match="not in all tables") as told:
        manifest_rules.check_published(journal, outcome)
    assert "Look at a:" in told.value.hint
    assert (lake.ids("a"), lake.ids("c")) == ([0, 1, 2, 77], [0, 1, 2])
    assert recover(lake) is None


def test_cleaned_up_evidence_does_not_block_the_next_publish(lake):
    journal, prepared = begin(lake)
    finish_one = publishing._of_table(lake.catalog, journal, journal.tables[0])
    publishing.publish_table(finish_one, ENGINE, prepared.get(journal.tables[0].location))
    for number in (50, 51):
        lake.write_main("a", number)
    for name in layout.manifest_paths(None, finish_one.since + 1):
        Path(finish_one.location.uri, name).unlink(missing_ok=True)
    outcome = recover(lake)
    assert outcome.outcome == TAKEN_BACK
    assert any(each.name == "a" and "unknown" in each.reason for each in outcome.conflicts)
    assert lake.ids("c") == [0, 1, 2]
    assert lake.ids("a") == [0, 1, 2, 10, 50, 51]
    assert recover(lake) is None


def test_a_table_whose_version_from_before_was_cleaned_up_does_not_block_the_lake(lake):
    """It cannot be taken back: every later publish, and every deletion of a branch, failed at it."""
    journal, prepared = begin(lake)
    first = publishing._of_table(lake.catalog, journal, journal.tables[0])
    publishing.publish_table(first, ENGINE, prepared.get(journal.tables[0].location))
    lake.declare_main("new")
    for name in layout.manifest_paths(None, first.since):
        Path(first.location.uri, name).unlink(missing_ok=True)
    outcome = recover(lake)
    assert outcome.outcome == TAKEN_BACK
    assert [each.name for each in outcome.conflicts if "could not be taken back" in each.reason] == ["a"]
    assert (lake.ids("a"), lake.ids("c")) == ([0, 1, 2, 10], [0, 1, 2])
    assert recover(lake) is None


@pytest.mark.parametrize("error", [Refused, CorruptData])
def test_an_error_that_comes_again_each_time_takes_the_publish_back(lake, monkeypatch, error):
    begin(lake)
    real = publishing.publish_table

    def fail(given, *arguments):
        if given.location.uri == lake.uri("c"):
            raise error("broken")
        return real(given, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "publish_table", fail)
        assert recover(lake).outcome == TAKEN_BACK
    assert lake.state() == BEFORE
    publish(lake)
    assert lake.state() == AFTER


def test_a_release_that_is_too_old_leaves_a_publish_to_a_newer_one(lake):
    begin(lake)

    with (
        patch.object(publishing, "publish_table", side_effect=UnknownFormat("a flag")),
        pytest.raises(UnknownFormat),
    ):
        recover(lake)
    assert recover(lake).is_published
    assert lake.state() == AFTER


def test_a_publish_to_a_table_without_rows_is_taken_back_for_good(tmp_path):
    lake = Lake.make(f"{tmp_path}/lake")
    lance.write_dataset(lake.head("a").schema.empty_table(), lake.uri("a"), mode="overwrite")
    changed(lake.fork())
    journal, prepared = begin(lake)
    lake.declare_main("new")
    assert not finish(lake, journal).is_published
    for table in journal.tables:
        with pytest.raises(Conflict):
            publishing.publish_table(
                publishing._of_table(lake.catalog, journal, table), ENGINE, prepared.get(table.location)
            )
    assert (lake.ids("a"), lake.ids("c")) == ([], [0, 1, 2])
