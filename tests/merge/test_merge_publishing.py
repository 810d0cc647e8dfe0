"""Publishing one table of a lake: the changes of a branch reach main exactly once, or never."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.merge_datasets import add, assert_sound, exp, forked, head, ids, rows, run

from lance_spark.core import layout
from lance_spark.core.lifetimes import PROTECTED
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, Refused
from lance_spark.log.log import log
from lance_spark.merge import publish as publishing
from lance_spark.merge.merge import commit_prepared
from lance_spark.merge.publish import Published, TablePublish, TakenBack, find_marks
from lance_spark.storage import refs
from lance_spark.storage.datasets import locate, pin_latest

ENGINE = LocalRunner()


def append(uri):
    add(uri, 30, 35, "exp")


def delete(uri):
    exp(uri).delete("id < 5 OR id = 12")


def update(uri):
    exp(uri).update({"v": "-1"}, where="id >= 15")


def add_column(uri):
    exp(uri).add_columns({"w": "id + 1"})


def overwrite(uri):
    lance.write_dataset(pa.table({"id": [1, 2], "v": [3, 4]}), exp(uri).uri, mode="overwrite")


def compact(uri):
    exp(uri).optimize.compact_files()


def everything(uri):
    append(uri)
    delete(uri)
    update(uri)


CHANGES = [append, delete, update, add_column, overwrite, compact, everything]


def start(uri, publish_id="a1"):
    """A publish of the newest version of 'exp', decided now."""
    location = locate(uri)
    return TablePublish(location, pin_latest(location, "exp"), head(uri).version, publish_id)


def publish(given, prepared=None):
    return publishing.publish_table(given, ENGINE, prepared)


def take_back(given):
    return publishing.take_back_table(given, ENGINE)


@pytest.fixture(params=[False, True], ids=["plain", "stable"])
def uri(request, tmp_path):
    return forked(f"{tmp_path}/t", stable=request.param)


@pytest.mark.parametrize("change", CHANGES)
def test_a_prepared_publish_is_committed_later_and_once(uri, change):
    change(uri)
    given, before = start(uri), rows(head(uri))
    prepared = publishing.prepare_publish(given, ENGINE)
    assert rows(head(uri)) == before
    done = publish(given, prepared)
    assert rows(head(uri)) == rows(exp(uri))
    assert done == Published(given.since, given.since + 1)
    assert publish(given) == publish(given, prepared) == done
    assert rows(head(uri)) == rows(exp(uri))
    assert_sound(head(uri))


@pytest.mark.parametrize("change", CHANGES)
def test_a_sleeper_cannot_commit_after_the_fence(uri, change):
    change(uri)
    given, before = start(uri), rows(head(uri))
    prepared = publishing.prepare_publish(given, ENGINE)
    fence = take_back(given)
    with pytest.raises(Conflict):
        commit_prepared(prepared, ENGINE)
    with pytest.raises(TakenBack):
        publish(given, prepared)
    with pytest.raises(TakenBack):
        publish(given)
    assert take_back(given) == fence
    assert rows(head(uri)) == before
    again = start(uri, "a2")
    publish(again)
    assert rows(head(uri)) == rows(exp(uri))
    assert_sound(head(uri))


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_taken_back_can_be_published_again_in_full(uri, change):
    change(uri)
    given, before = start(uri), rows(head(uri))
    done = publish(given)
    back = take_back(given)
    assert rows(head(uri)) == before
    assert back.before >= done.after
    assert take_back(given) == back
    with pytest.raises(TakenBack):
        publish(given)
    again = start(uri, "a2")
    remembered = publish(again)
    assert rows(head(uri)) == rows(exp(uri))
    publishing.remember_publish(again, remembered)
    add(uri, 50, 52, "exp")
    publish(start(uri, "a3"))
    assert rows(head(uri)) == rows(exp(uri))
    assert_sound(head(uri))


def test_concurrent_commits_are_kept(uri):
    everything(uri)
    given = start(uri)
    prepared = publishing.prepare_publish(given, ENGINE)
    add(uri, 100, 103)
    done = publish(given, prepared)
    assert done == Published(given.since + 1, given.since + 2)
    assert ids(head(uri)) == [*ids(exp(uri)), 100, 101, 102]
    add(uri, 200, 202)
    take_back(given)
    assert ids(head(uri)) == [*range(30), 100, 101, 102, 200, 201]
    assert_sound(head(uri))


def test_rows_that_others_changed_meanwhile_are_a_conflict(uri):
    exp(uri).update({"v": "-1"}, where="id = 3")
    given = start(uri)
    prepared = publishing.prepare_publish(given, ENGINE)
    head(uri).update({"v": "-2"}, where="id = 3")
    before = rows(head(uri))
    with pytest.raises(Conflict):
        publish(given, prepared)
    assert rows(head(uri)) == before
    take_back(given)
    assert rows(head(uri)) == before


def test_published_rows_that_others_changed_cannot_be_taken_back(uri):
    append(uri)
    given = start(uri)
    publish(given)
    head(uri).update({"v": "7"}, where="id = 31")
    before = rows(head(uri))
    with pytest.raises(Conflict):
        take_back(given)
    assert rows(head(uri)) == before


@pytest.mark.parametrize("change", [append, everything])
def test_helpers_at_the_same_time_apply_once(uri, change):
    change(uri)
    given = start(uri)
    prepared = publishing.prepare_publish(given, ENGINE)
    with ThreadPoolExecutor(4) as pool:
        done = set(pool.map(lambda own: publish(given, own), [prepared, None, prepared, None]))
    assert len(done) == 1
    assert rows(head(uri)) == rows(exp(uri))
    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(take_back, [given] * 3))) == 1
    assert ids(head(uri)) == list(range(30))


def test_forward_and_back_at_the_same_time_end_as_one_of_them(uri):
    everything(uri)
    given = start(uri)

    def forward(_):
        try:
            return publish(given)
        except TakenBack:
            return None

    with ThreadPoolExecutor(4) as pool:
        several = [pool.submit(forward, 0), pool.submit(take_back, given), pool.submit(forward, 0)]
        for one in several:
            one.result()
    assert find_marks(given).taken_back is not None
    assert ids(head(uri)) == list(range(30))


def test_a_helper_that_prepared_after_the_commit_of_another_does_not_repeat_it(uri, monkeypatch):
    """It looked before the other's commit, and planned on top of it."""
    append(uri)
    given = start(uri)
    prepare = publishing.prepare

    def late(make, engine):
        monkeypatch.setattr(publishing, "prepare", prepare)
        publish(given)
        return prepare(make, engine)

    monkeypatch.setattr(publishing, "prepare", late)
    assert publish(given) == Published(given.since, given.since + 1)
    assert rows(head(uri)) == rows(exp(uri))
    assert head(uri).version == given.since + 1


def test_a_protected_main_accepts_a_publish_and_its_end(uri):
    append(uri)
    refs.replace_main(locate(uri), {PROTECTED: "true"})
    given = start(uri)
    publish(given)
    take_back(given)
    assert ids(head(uri)) == list(range(30))


def test_a_merge_counts_a_publish_only_when_it_is_remembered(uri):
    append(uri)
    given = start(uri)
    done = publish(given)
    publishing.remember_publish(given, done)
    publishing.remember_publish(given, done)
    assert run(uri).up_to_date
    add(uri, 40, 42, "exp")
    run(uri)
    assert rows(head(uri)) == rows(exp(uri))


def test_nothing_to_publish_makes_no_version(uri):
    given = start(uri)
    assert publish(given) == Published(given.since, given.since)
    publishing.remember_publish(given, publish(given))
    take_back(given)
    with pytest.raises(TakenBack):
        publish(given)


def test_missing_evidence_stops_a_helper(uri):
    append(uri)
    given = start(uri)
    publish(given)
    for number in range(60, 63):
        add(uri, number, number + 1)
    for name in layout.manifest_paths(None, given.since + 1):
        Path(uri, name).unlink(missing_ok=True)
    with pytest.raises(Refused, match="cleaned up"):
        publish(given)


def test_the_log_names_a_publish_and_its_end(uri):
    append(uri)
    given = start(uri)
    publish(given)
    take_back(given)
    shown = [(entry.action, entry.source) for entry in log(locate(uri), None)[:2]]
    assert shown == [("take-back", f"main@{given.since + 1}"), ("publish", str(given.source))]


@pytest.mark.parametrize("nullable", [False, True], ids=["a column required", "a column no longer required"])
@pytest.mark.parametrize("killed", [False, True], ids=["", "killed in between"])
def test_which_columns_may_be_null_is_taken_back_too(uri, monkeypatch, nullable, killed):
    if nullable:
        head(uri).alter_columns({"path": "v", "nullable": False})
        run(uri, None, "exp")
    exp(uri).alter_columns({"path": "v", "nullable": nullable})
    new = pa.table({"id": [77], "v": pa.array([None if nullable else 1], pa.int64())}, schema=exp(uri).schema)
    lance.write_dataset(new, exp(uri).uri, mode="append")
    add(uri, 40, 42)
    before, schema, given = rows(head(uri)), head(uri).schema, start(uri)
    publish(given)
    assert head(uri).schema.field("v").nullable is nullable
    assert 77 in ids(head(uri))
    if killed:
        with monkeypatch.context() as patch:
            patch.setattr(publishing, "_take_back_before", lambda *_: None)
            take_back(given)
    back = take_back(given)
    assert (rows(head(uri)), head(uri).schema) == (before, schema)
    assert take_back(given) == back
    assert_sound(head(uri))


def test_a_required_column_stays_optional_for_rows_of_others_when_a_publish_is_taken_back(uri):
    head(uri).alter_columns({"path": "v", "nullable": False})
    run(uri, None, "exp")
    exp(uri).alter_columns({"path": "v", "nullable": True})
    add(uri, 40, 42, "exp")
    add(uri, 50, 52)
    given = start(uri)
    publish(given)
    new = pa.table({"id": [77], "v": pa.array([None], pa.int64())}, schema=head(uri).schema)
    lance.write_dataset(new, uri, mode="append")
    take_back(given)
    assert ids(head(uri)) == [*range(30), 50, 51, 77]
    assert_sound(head(uri))


@pytest.mark.parametrize("rows_too", [False, True], ids=["settings alone", "settings and rows"])
@pytest.mark.parametrize("killed", [False, True], ids=["", "killed in between"])
def test_settings_are_published_and_taken_back(uri, monkeypatch, rows_too, killed):
    key = "lance_spark.constraints.some"
    exp(uri).update_config({key: "v > -5"})
    if rows_too:
        add(uri, 40, 42, "exp")
    before, given = rows(head(uri)), start(uri)
    done = publish(given)
    assert head(uri).config() == {key: "v > -5"}
    assert publish(given) == done
    assert (40 in ids(head(uri))) is rows_too
    if killed:
        with monkeypatch.context() as patch:
            patch.setattr(publishing, "_take_back_before", lambda *_: None)
            take_back(given)
    back = take_back(given)
    assert (rows(head(uri)), head(uri).config()) == (before, {})
    assert take_back(given) == back
    assert_sound(head(uri))
