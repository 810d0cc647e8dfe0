"""A stream of rows or changes from any branch, without Spark: what each commit gives, where it begins, what it refuses.

Which versions a batch takes and what an offset is: tests/streams/test_streams_source_rules.py.
"""

import logging
import shutil
from collections import Counter
from datetime import datetime, timedelta, timezone
from importlib import import_module

import lance
import pyarrow as pa
import pytest
from support.cleanup_datasets import clean
from support.feeds import replace_column, replayed, state
from support.stream_sources import Query, ids

from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import InvalidOption, NotFound, Refused, SchemaMismatch
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.merge.restore import restore
from lance_spark.storage.datasets import locate, pin_latest
from lance_spark.streams.source import shown
from lance_spark.streams.source_rules import StreamPlace


def table(first, end, **more):
    columns = {"id": pa.array(range(first, end), pa.int64()), "v": pa.array([n % 3 for n in range(first, end)])}
    return pa.table(columns | {name: pa.array([value] * (end - first)) for name, value in more.items()})


def add(uri, first, end, branch=None, **more):
    root = f"{uri}/tree/{branch}" if branch else uri
    lance.write_dataset(table(first, end), root, mode="append", **more)


@pytest.fixture
def nine(uri):
    """Ids 0 to 8: three files, and then two files."""
    lance.write_dataset(table(0, 6), uri, max_rows_per_file=2)
    add(uri, 6, 9, max_rows_per_file=2)
    return uri


def test_a_snapshot_first_and_then_what_is_appended_in_batches_as_large_as_allowed(nine):
    query = Query(nine, max_files_per_trigger=2)
    query.plan()
    assert (ids(query.run()), query.place) == ([0, 1, 2, 3], StreamPlace(2, 2))
    add(nine, 9, 12)
    query.drain()
    assert [ids(batch) for batch in query.batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert not query.plan()
    add(nine, 12, 13)
    assert ids(query.restart().drain()) == list(range(13))
    assert len(query.batches[-1]) == 1


@pytest.mark.parametrize(
    ("limit", "batches"),
    [
        ({}, [9]),
        ({"max_versions_per_trigger": 1}, [6, 3]),
        ({"max_files_per_trigger": 1}, [2, 2, 2, 2, 1]),
        ({"max_bytes_per_trigger": 1}, [2, 2, 2, 2, 1]),
        ({"max_bytes_per_trigger": "1g"}, [9]),
    ],
)
def test_limits(nine, limit, batches):
    query = Query(nine, starting_version=1, **limit)
    assert ids(query.drain()) == list(range(9))
    assert [len(batch) for batch in query.batches] == batches


def test_versions_that_change_no_rows_give_nothing(nine):
    query = Query(nine)
    query.drain()
    lance.dataset(nine).create_scalar_index("id", "BTREE")
    lance.dataset(nine).optimize.compact_files()
    lance.dataset(nine).update_config({"a": "b"})
    lance.dataset(nine).delete("id = 100")
    before = len(query.rows)
    query.drain()
    assert len(query.rows) == before
    add(nine, 9, 10)
    assert ids(query.drain()) == list(range(10))
    every = Query(nine, starting_version=1)
    assert ids(every.drain()) == list(range(10))


CHANGES = {
    "delete": lambda uri: lance.dataset(uri).delete("id = 3"),
    "update": lambda uri: lance.dataset(uri).update({"v": "7"}, where="id = 3"),
    "upsert": lambda uri: (
        lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    ).execute(table(8, 11)),
    "overwrite": lambda uri: lance.write_dataset(table(3, 5), uri, mode="overwrite"),
    "restore": lambda uri: lance.dataset(uri, version=1).restore(),
    "values": lambda uri: replace_column_of(uri),
}


def replace_column_of(uri):
    dataset = lance.dataset(uri)
    dataset.drop_columns(["v"])
    dataset.add_columns({"v": "cast(id as bigint)"})
    replace_column(uri, dataset.get_fragments()[0].fragment_id, "v", [9] * 2)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_refused_after_all_before_it_or_skipped_or_told(nine, change):
    rows, seen = Query(nine), Query(nine, changes="true", key="id")
    skipping = Query(nine, skip_change_commits="true")
    for query in (rows, seen, skipping):
        query.drain()
    add(nine, 20, 22)
    CHANGES[change](nine)
    add(nine, 30, 32)
    expected = [*range(9), 20, 21]
    # The columns of the stream are those of the newest version when it starts.
    rows.restart()
    with pytest.raises(Refused, match="appended rows only"):
        rows.drain()
    assert ids(rows.rows) == expected
    with pytest.raises(Refused, match="skip_change_commits"):
        rows.restart().drain()
    assert ids(skipping.restart().drain()) == sorted([*expected, 30, 31])
    seen.restart().drain()
    at = PinnedVersion(None, lance.dataset(nine).version)
    assert replayed(Counter(), seen.rows, ["id", "v"]) == state(nine, at, ["id", "v"])


def test_an_insert_by_key_and_a_merged_branch_are_appended_rows_and_come_once(nine):
    lance.dataset(nine).create_branch("exp")
    main, exp = Query(nine), Query(nine, branch="exp")
    for query in (main, exp):
        assert ids(query.drain()) == list(range(9))
    add(nine, 20, 25, "exp")
    add(nine, 9, 11)
    lance.dataset(nine).merge_insert("id").when_not_matched_insert_all().execute(table(10, 13))
    location = locate(nine)
    merge(location, pin_latest(location, "exp"), None, MergeOptions(), LocalRunner())
    assert ids(main.drain()) == [*range(13), *range(20, 25)]
    assert ids(exp.drain()) == [*range(9), *range(20, 25)]
    merge(location, pin_latest(location, None), "exp", MergeOptions(), LocalRunner())
    assert ids(exp.drain()) == ids(main.drain())


def test_a_branch_from_the_first_version_on_is_read_through_what_it_was_made_from(nine):
    lance.dataset(nine).create_branch("exp")
    add(nine, 50, 60)
    add(nine, 9, 12, "exp")
    query = Query(nine, branch="exp", starting_version=1, max_versions_per_trigger=1)
    assert ids(query.drain()) == list(range(12))
    assert [len(batch) for batch in query.batches] == [6, 3, 3]
    # The version that a branch was made from is on both.
    assert ids(Query(nine, branch="exp", starting_version=2).drain()) == list(range(6, 12))
    assert ids(Query(nine, branch="exp", starting_version=3).drain()) == list(range(9, 12))


@pytest.mark.parametrize("beyond", [0, 1, 100, 127, 128, 129, 500, 872, 900, 999])
@pytest.mark.parametrize("microseconds", [341_940, 341_941, 341_942, 999_999, 0])
def test_a_commit_time_is_what_pylance_shows(beyond, microseconds):
    stamp = 1_795_440_895 * 10**9 + microseconds * 1_000 + beyond
    told = import_module("lance.dataset")._convert_version_timestamp({"timestamp": stamp})
    assert shown(stamp) == told["timestamp"].astimezone(timezone.utc)


def test_where_a_stream_begins(nine):
    lance.dataset(nine).tags.create("second", 2)
    moment = lance.dataset(nine).versions()[0]["timestamp"].astimezone(timezone.utc)
    for options, expected in (
        ({"starting_version": 1}, range(9)),
        ({"starting_version": 2}, range(6, 9)),
        ({"starting_version": "second"}, range(6, 9)),
        ({"starting_version": "main@2"}, range(6, 9)),
        ({"starting_version": "latest"}, ()),
        ({"starting_timestamp": moment.isoformat()}, range(6, 9)),
        ({"starting_timestamp": "2001-01-01"}, range(9)),
        ({"starting_timestamp": (datetime.now(timezone.utc) + timedelta(days=1)).isoformat()}, ()),
    ):
        query = Query(nine, **options)
        assert ids(query.drain()) == list(expected), options
    latest = Query(nine, starting_version="latest")
    latest.drain()
    add(nine, 9, 11)
    assert ids(latest.drain()) == [9, 10]


def test_a_beginning_that_is_not_there(nine):
    with pytest.raises(NotFound, match="no version 9"):
        Query(nine, starting_version=9).plan()
    with pytest.raises(NotFound, match="second"):
        Query(nine, starting_version="second").plan()
    lance.dataset(nine).create_branch("exp")
    add(nine, 9, 12, "exp")
    with pytest.raises(Refused, match="did not lead to branch 'main'"):
        Query(nine, starting_version="exp@3").plan()
    with pytest.raises(NotFound, match="nosuch"):
        Query(nine, branch="nosuch")
    lance.dataset(nine).cleanup_old_versions(timedelta(0))
    for asked in (1, 2):
        with pytest.raises(NotFound, match="versions are gone") as caught:
            Query(nine, starting_version=asked).plan()
    assert "Begin with version 3" in caught.value.hint


def test_a_batch_is_the_same_however_often_and_whenever_it_is_run(nine):
    query = Query(nine, max_files_per_trigger=2)
    query.plan()
    first = ids(query.run())
    add(nine, 9, 19)
    # Killed before anything was committed: Spark asks for the offset before the first batch again.
    assert ids(query.restart().run()) == first
    query.plan()
    second = ids(query.run())
    add(nine, 19, 29)
    assert ids(query.restart().run()) == second
    query.commit()
    assert ids(query.restart().drain()) == list(range(29))


def test_a_batch_that_was_planned_to_the_newest_version_stays_so(nine):
    query = Query(nine)
    query.plan()
    add(nine, 9, 19)
    lance.dataset(nine).delete("id < 5")
    assert ids(query.restart().run()) == list(range(9))


@pytest.mark.parametrize("changes", ["false", "true"])
def test_columns_filters_and_projection(uri, changes):
    rows = pa.table({"id": [1, 2, 3], "s": pa.array([{"a": n, "b": n} for n in range(3)]), "w": [5, 6, 7]})
    lance.write_dataset(rows, uri)
    lance.write_dataset(rows, uri, mode="append")
    if changes == "true":
        found = Query(uri, changes=changes, columns="w,id", starting_version=2).drain()
        assert [(row["w"], row["id"], row["_change_type"]) for row in found] == [
            (5, 1, "insert"), (6, 2, "insert"), (7, 3, "insert"),
        ]  # fmt: skip
        return
    assert Query(uri, columns="s.b,id", filter="w > 5 AND id < 3").drain() == [{"s": {"b": 1}, "id": 2}] * 2
    with_ids = Query(uri, with_row_id="true", with_row_address="true", columns="id").drain()
    assert [row["_rowaddr"] for row in with_ids] == [0, 1, 2, 2**32, 2**32 + 1, 2**32 + 2]
    with pytest.raises(InvalidOption):
        Query(uri, filter="nosuch > 1").drain()


def test_columns_that_come_are_left_out_until_the_stream_starts_again_and_null_before(nine):
    query = Query(nine)
    query.drain()
    lance.dataset(nine).add_columns({"w": "id * 2"})
    lance.write_dataset(table(9, 11, w=7), nine, mode="append")
    assert ids(query.drain()) == list(range(11))
    assert {*query.rows[-1]} == {"id", "v"}
    lance.write_dataset(table(11, 12, w=8), nine, mode="append")
    assert {*query.restart().drain()[-1]} == {"id", "v", "w"}
    early = Query(nine, starting_version=1).drain()
    assert ids(early) == list(range(12))
    assert {row["id"]: row["w"] for row in early} == {**dict.fromkeys(range(9)), 9: 7, 10: 7, 11: 8}
    # Nothing of the columns is there.
    assert Query(nine, starting_version=1, columns="w").drain()[:2] == [{"w": None}] * 2


def test_columns_that_go_or_change_stop_the_stream_with_their_name(nine):
    dropped, retyped, other = Query(nine), Query(nine), Query(nine, columns="id")
    for query in (dropped, retyped, other):
        query.drain()
    # A narrower type is read as the wider one.
    lance.dataset(nine).alter_columns({"path": "v", "data_type": pa.int32()})
    lance.write_dataset(pa.table({"id": [9], "v": pa.array([1], pa.int32())}), nine, mode="append")
    assert ids(retyped.drain()) == list(range(10))
    lance.dataset(nine).drop_columns(["v"])
    lance.dataset(nine).add_columns({"v": "cast(id as string)"})
    lance.write_dataset(pa.table({"id": [10], "v": ["x"]}), nine, mode="append")
    dropping = pytest.raises(SchemaMismatch, match="no longer has column 'v'")
    with dropping:
        dropped.drain()
    renewed = Query(nine, starting_version=lance.dataset(nine).version)
    assert renewed.drain() == [{"id": 10, "v": "x"}]
    with pytest.raises(SchemaMismatch, match="column 'v' as int64, which this stream cannot read as string"):
        Query(nine, starting_version=1).drain()
    lance.dataset(nine).drop_columns(["v"])
    lance.write_dataset(pa.table({"id": [11]}), nine, mode="append")
    assert ids(other.drain()) == list(range(12))
    with pytest.raises(SchemaMismatch, match="Restart the query"):
        dropped.drain()
    assert ids(dropped.restart().drain()) == list(range(12))


def test_blobs_as_bytes_while_columns_come(uri):
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([[1], [b"x"]], schema=pa.schema([pa.field("id", pa.int64()), blob]))
    lance.write_dataset(rows, uri)
    query = Query(uri, blob_handling="bytes")
    query.drain()
    lance.dataset(uri).add_columns(pa.field("w", pa.int64()))
    lance.write_dataset(rows.append_column("w", [[5]]), uri, mode="append")
    assert query.drain() == [{"id": 1, "b": b"x"}] * 2
    assert Query(uri, blob_handling="bytes", starting_version=1).drain() == [
        {"id": 1, "b": b"x", "w": None}, {"id": 1, "b": b"x", "w": 5},
    ]  # fmt: skip


def test_the_tag_is_there_before_the_first_batch(nine):
    Query(nine, starting_version=1, query_id="q").plan()
    assert lance.dataset(nine).tags.list()["reader-q"]["version"] == 1


def test_a_column_that_was_dropped_or_renamed_later_on(nine):
    query = Query(nine)
    query.drain()
    lance.dataset(nine).alter_columns({"path": "v", "name": "value"})
    lance.write_dataset(pa.table({"id": [9], "value": [5]}), nine, mode="append")
    with pytest.raises(SchemaMismatch, match="no longer has column 'v'"):
        query.drain()
    # The column keeps its id, so an earlier version's values are found under its older name.
    early = Query(nine, starting_version=1).drain()
    assert {row["id"]: row["value"] for row in early} == {**{n: n % 3 for n in range(9)}, 9: 5}


def test_a_branch_that_was_made_anew_and_a_dataset_that_was_made_anew(nine, caplog):
    lance.dataset(nine).create_branch("exp")
    add(nine, 9, 12, "exp")
    main, exp = Query(nine), Query(nine, branch="exp")
    for query in (main, exp):
        query.drain()
    lance.dataset(nine).branches.delete("exp")
    with pytest.raises(NotFound, match="exp"):
        exp.plan()
    lance.dataset(nine).create_branch("exp")
    add(nine, 30, 33, "exp")
    for query in (exp, exp.restart()):
        with pytest.raises(Refused, match="created again") as caught:
            query.plan()
        assert "fail_on_data_loss" in caught.value.hint
    with caplog.at_level(logging.WARNING, "lance_spark.streams"):
        assert ids(exp.restart(fail_on_data_loss="false").drain()) == [*range(12), 30, 31, 32]
    assert "created again" in caplog.text
    assert not exp.plan()
    shutil.rmtree(nine)
    lance.write_dataset(table(50, 53), nine)
    add(nine, 53, 55)
    with pytest.raises(Refused, match="the dataset is a new one"):
        main.restart().plan()
    found = main.restart(fail_on_data_loss="false").drain()
    assert ids(found) == [*range(9), *range(50, 55)]
    # The batch that went on is the same one again.
    assert ids(main.restart().run()) == list(range(50, 55))


def test_versions_that_were_cleaned_away(nine, caplog):
    query = Query(nine)
    query.drain()
    for first in (9, 10, 11, 12):
        add(nine, first, first + 1)
    lance.dataset(nine).cleanup_old_versions(timedelta(0))
    add(nine, 13, 14)
    with pytest.raises(Refused, match="is gone"):
        query.plan()
    with caplog.at_level(logging.WARNING, "lance_spark.streams"):
        assert ids(query.restart(fail_on_data_loss="false").drain()) == [*range(9), 13]
    assert "is gone" in caplog.text
    assert ids(query.restart(fail_on_data_loss="true").run()) == [13]


def test_a_planned_batch_whose_versions_are_gone_is_refused(nine):
    query = Query(nine)
    query.drain()
    add(nine, 9, 10)
    add(nine, 10, 11)
    query.plan()
    lance.dataset(nine).cleanup_old_versions(timedelta(0))
    with pytest.raises(Refused, match="is gone"):
        query.restart().run()


def test_the_tag_keeps_what_the_stream_has_to_read(nine):
    query = Query(nine, query_id="q1", max_files_per_trigger=1)
    query.plan()
    query.run()
    tags = lance.dataset(nine).tags
    assert tags.list()["reader-q1"]["version"] == 2
    for first in (9, 10, 11):
        add(nine, first, first + 1)
    lance.dataset(nine).optimize.compact_files()
    report = clean(nine, older_than=timedelta(0))
    assert [version["version"] for version in lance.dataset(nine).versions()] == [2, 3, 4, 5, 6, 7]
    assert report is not None
    assert ids(query.restart().drain()) == list(range(12))
    assert tags.list()["reader-q1"]["version"] == lance.dataset(nine).version
    clean(nine, older_than=timedelta(0))
    assert len(lance.dataset(nine).versions()) == 1
    add(nine, 12, 13)
    assert ids(query.restart().drain()) == list(range(13))


def test_the_tag_of_a_checkpoint_on_a_branch(nine, tmp_path):
    lance.dataset(nine).create_branch("exp")
    (tmp_path / "metadata").write_text('{"id":"0c0ffee0"}')
    query = Query(nine, branch="exp", checkpointLocation=tmp_path)
    query.drain()
    assert {name: (tag["branch"], tag["version"]) for name, tag in lance.dataset(nine).tags.list().items()} == {
        "reader-0c0ffee0-exp": ("exp", 2)
    }
    add(nine, 9, 12, "exp")
    query.drain()
    assert lance.dataset(nine).tags.list()["reader-0c0ffee0-exp"]["version"] == 3


def test_two_branches_in_one_query_have_a_tag_each(nine):
    """One for both would keep what the branch that is read last has to read, and nothing of the other one."""
    lance.dataset(nine).create_branch("exp")
    both = [Query(nine, branch=branch, query_id="q") for branch in ("main", "exp")]
    for query in both:
        query.drain()
    for first in (9, 10, 11):
        add(nine, first, first + 1)
        add(nine, first, first + 1, "exp")
    clean(nine, older_than=timedelta(0), commit_window=timedelta(0))
    for query in both:
        assert ids(query.restart().drain()) == list(range(12))


@pytest.mark.parametrize("changes", ["false", "true"])
def test_a_stream_that_begins_below_the_fork_keeps_what_its_branch_committed(changes, nine):
    """Its tag is on main as long as it reads what led to the branch."""
    lance.dataset(nine).create_branch("exp")
    for first in (9, 10):
        add(nine, first, first + 1, "exp")
    deep = lance.dataset(nine).checkout_version(("exp", None)).create_branch("exp/deep")
    for first in (11, 12, 13):
        lance.write_dataset(table(first, first + 1), deep, mode="append")
    given = {"branch": "exp/deep", "starting_version": 1, "max_versions_per_trigger": 1, "changes": changes}
    query = Query(nine, query_id="q", **given)
    while query.plan():
        query.run()
        query.commit()
        clean(nine, older_than=timedelta(0), commit_window=timedelta(0))
        query.restart()
    assert ids(query.rows) == list(range(14))
    assert len(query.batches) == 7
    clean(nine, older_than=timedelta(0), commit_window=timedelta(0))
    assert len(deep.versions()) == 1


def test_changes_of_a_large_version_are_compared_in_shares(nine, monkeypatch):
    from lance_spark.streams import source_tasks

    monkeypatch.setattr(source_tasks, "_ROWS_IN_MEMORY", 2)
    query = Query(nine, changes="true", key="id", starting_version=1)
    lance.dataset(nine).update({"v": "v + 1"}, where="id > 1")
    query.restart().drain()
    at = PinnedVersion(None, 3)
    assert replayed(Counter(), query.rows, ["id", "v"]) == state(nine, at, ["id", "v"])
    kinds = Counter(row["_change_type"] for row in query.rows)
    assert kinds == {"insert": 9, "update_preimage": 7, "update_postimage": 7}


def test_a_large_fragment_is_read_by_several_tasks(uri, monkeypatch):
    from lance_spark.streams import source_tasks

    monkeypatch.setattr(source_tasks.partition_rules, "MIN_SPLIT", 70_000)
    lance.write_dataset(table(0, 50_000), uri)
    query = Query(uri)
    query.plan()
    assert ids(query.run()) == list(range(50_000))
    read = Query(uri, filter="id % 2 = 1")
    assert ids(read.drain()) == list(range(1, 50_000, 2))
    parts = query.source.parts(None, query.source.latest(None))
    assert len(source_tasks.divide(parts, query.stream.read, query.schema, 8)) > 2


def test_restore_by_this_package_is_a_change_like_others(nine):
    query = Query(nine, changes="true")
    query.drain()
    restore(locate(nine), PinnedVersion(None, 1), LocalRunner())
    query.drain()
    at = PinnedVersion(None, lance.dataset(nine).version)
    assert replayed(Counter(), query.rows, ["id", "v"]) == state(nine, at, ["id", "v"])
