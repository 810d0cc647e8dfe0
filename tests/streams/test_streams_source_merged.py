"""A merge that brings a compaction along, in a stream of appended rows: its new rows come once, and nothing else does.

Whatever happens to the two branches: tests/changes/test_changes_streamed_histories.py. Which rows are new is decided in
tests/streams/test_streams_source_merged_rules.py.
"""

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.feeds import replace_column
from support.stream_sources import Query, ids

from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Refused
from lance_spark.format import row_ids
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.storage.datasets import locate, pin_latest


def table(first, end):
    return pa.table({"id": pa.array(range(first, end), pa.int64()), "v": pa.array([n % 3 for n in range(first, end)])})


class Branches:
    """Main with ids 0 to 8 in five files, and a branch ``b`` of it."""

    def __init__(self, uri, stable):
        self.uri = uri
        lance.write_dataset(table(0, 6), uri, max_rows_per_file=2, enable_stable_row_ids=stable)
        lance.write_dataset(table(6, 9), uri, mode="append", max_rows_per_file=2)
        lance.dataset(uri).create_branch("b")

    def at(self, branch):
        return lance.dataset(f"{self.uri}/tree/{branch}" if branch else self.uri)

    def add(self, branch, first, end):
        lance.write_dataset(table(first, end), self.at(branch).uri, mode="append")

    def compact(self, branch):
        self.at(branch).optimize.compact_files()

    def merge(self, source, into):
        location = locate(self.uri)
        merge(location, pin_latest(location, source), into, MergeOptions(), LocalRunner())


@pytest.fixture(params=[False, True], ids=["plain", "stable"])
def branches(uri, request):
    return Branches(uri, request.param)


@pytest.fixture
def plain(uri):
    return Branches(uri, False)


@pytest.mark.when(day=0.25)
@pytest.mark.parametrize("ours", [False, True], ids=["fast-forward", "both sides"])
@pytest.mark.parametrize(
    "options", [{}, {"max_files_per_trigger": 1}, {"max_versions_per_trigger": 1}], ids=["all", "files", "versions"]
)
def test_its_new_rows_come_once(branches, ours, options):
    rows, seen = Query(branches.uri, **options), Query(branches.uri, changes="true", key="id")
    for query in (rows, seen):
        query.drain()
    if ours:
        branches.add(None, 9, 11)
    branches.add("b", 20, 22)
    branches.compact("b")
    branches.add("b", 22, 23)
    branches.merge("b", None)
    branches.add(None, 30, 32)
    expected = [*range(11 if ours else 9), 20, 21, 22, 30, 31]
    assert ids(rows.drain()) == expected
    assert ids(rows.restart().run()) == ids(rows.batches[-1])
    assert ids(seen.drain()) == expected
    assert {row["_change_type"] for row in seen.rows} == {"insert"}
    everything = Query(branches.uri, starting_version=1, **options)
    assert ids(everything.drain()) == expected


def test_hour_after_hour_a_branch_is_compacted_and_merged(branches):
    """As a sink with ``optimize_every`` and a job that publishes do, and maintenance of main beside them."""
    query, early = (Query(branches.uri, query_id=name) for name in ("q", "early"))
    early.plan()
    location, expected = locate(branches.uri), [*range(9)]
    for hour in range(1, 5):
        for first in (10 * hour, 10 * hour + 3):
            branches.add("b", first, first + 3)
            branches.at("b").delete(f"id = {first}")
            expected += [first + 1, first + 2]
        optimize(location, "b", OptimizeOptions(), LocalRunner())
        branches.merge("b", None)
        if hour == 2:
            optimize(location, None, OptimizeOptions(), LocalRunner())
        assert ids(query.drain()) == expected
    assert ids(early.run() + early.drain()[9:]) == expected
    assert lance.dataset(branches.uri).count_rows() == len(expected)


def test_a_branch_that_takes_main_in_and_the_way_back(plain):
    main, b = Query(plain.uri), Query(plain.uri, branch="b")
    for query in (main, b):
        query.drain()
    plain.add("b", 20, 22)
    plain.add(None, 10, 12)
    plain.compact(None)
    plain.merge(None, "b")
    plain.compact("b")
    plain.add("b", 22, 24)
    plain.compact("b")
    plain.merge("b", None)
    assert ids(main.drain()) == [*range(9), 10, 11, *range(20, 24)]
    assert ids(b.drain()) == ids(main.rows)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"filter": "id % 2 = 0", "columns": "id"}, [{"id": 20}, {"id": 22}, {"id": 24}]),
        ({"filter": "v = 1"}, [{"id": 22, "v": 1}]),
        ({"columns": "v"}, [{"v": n % 3} for n in range(20, 25)]),
    ],
)
def test_filters_and_columns(branches, options, expected):
    query = Query(branches.uri, **options)
    before = len(query.drain())
    branches.add("b", 20, 25)
    branches.compact("b")
    branches.merge("b", None)
    assert query.drain()[before:] == expected


@pytest.mark.parametrize("options", [{}, {"filter": "id <> 37"}], ids=["all", "filter"])
def test_new_rows_between_older_ones_in_the_order_of_the_file(branches, options, monkeypatch):
    from lance_spark.streams import source_tasks

    query = Query(branches.uri, with_row_address="true", **options)
    query.drain()
    for first in (20, 30, 40):
        branches.add("b", first, first + 9)
    branches.at("b").delete("id in (21, 31, 48)")
    branches.compact("b")
    branches.merge("b", None)
    query.plan()
    expected = [n for first in (20, 30, 40) for n in range(first, first + 9) if n not in (21, 31, 48)]
    expected = [n for n in expected if not options or n != 37]
    for most, split in ((64, 4 * 2**20), (64, 1), (0, 4 * 2**20), (0, 1)):
        monkeypatch.setattr(source_tasks, "_MOST_RANGES", most)
        monkeypatch.setattr(source_tasks.partition_rules, "MIN_SPLIT", split)
        found = query.restart().run()
        assert [row["id"] for row in found] == expected
    places = lance.dataset(branches.uri).to_table(columns=["id"], with_row_address=True).to_pylist()
    assert {row["id"]: row["_rowaddr"] for row in found}.items() <= {
        row["id"]: row["_rowaddr"] for row in places
    }.items()


def test_columns_that_the_branch_added_and_dropped(plain):
    query = Query(plain.uri, columns="id")
    query.drain()
    plain.add("b", 20, 22)
    plain.at("b").add_columns({"w": "id * 2"})
    plain.at("b").drop_columns(["v"])
    plain.compact("b")
    plain.merge("b", None)
    assert ids(query.drain()) == [*range(9), 20, 21]
    assert Query(plain.uri, starting_version=lance.dataset(plain.uri).version).drain() == [
        {"id": 20, "w": 40}, {"id": 21, "w": 42},
    ]  # fmt: skip


def replaced(root):
    fragment = lance.dataset(root).get_fragments()[0]
    replace_column(root, fragment.fragment_id, "v", [9] * fragment.physical_rows)


CHANGES = {
    "a row was deleted": lambda b: lance.dataset(b).delete("id = 3"),
    "a row was updated": lambda b: lance.dataset(b).update({"v": "7"}, where="id = 3"),
    "a row has the same values again": lambda b: lance.dataset(b).update({"v": "v"}, where="id = 3"),
    "values of a column": replaced,
    "the table was overwritten": lambda b: lance.write_dataset(table(0, 9), b, mode="overwrite"),
}


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("after", [False, True], ids=["then compacted", "compacted before"])
@pytest.mark.parametrize("change", CHANGES)
def test_more_than_new_rows_is_a_change(plain, change, after):
    query = Query(plain.uri)
    query.drain()
    plain.add(None, 9, 10)
    plain.add("b", 20, 22)
    if change == "the table was overwritten":
        plain.merge(None, "b")
    if after:
        plain.compact("b")
    CHANGES[change](plain.at("b").uri)
    if not after:
        plain.compact("b")
    plain.merge("b", None)
    version = lance.dataset(plain.uri).version
    with pytest.raises(Refused, match="more than new rows came") as caught:
        query.drain()
    assert "skip_change_commits" in caught.value.hint
    assert f"table.changes({version - 1}, {version})" in caught.value.hint
    assert ids(query.rows) == list(range(10))
    plain.add(None, 30, 32)
    assert ids(query.restart(skip_change_commits="true").drain()) == [*range(10), 30, 31]


def test_rows_that_come_back_are_a_change(plain):
    """They were given before they were deleted."""
    lance.dataset(plain.uri).delete("id = 3")
    plain.merge(None, "b")
    query = Query(plain.uri)
    query.drain()
    plain.add("b", 20, 22)
    lance.dataset(plain.at("b").uri, version=2).restore()
    plain.compact("b")
    plain.merge("b", None)
    assert 3 in lance.dataset(plain.uri).to_table()["id"].to_pylist()
    with pytest.raises(Refused, match="more than new rows came"):
        query.drain()


def test_rows_in_another_order_are_refused(plain):
    query = Query(plain.uri)
    query.drain()
    plain.add("b", 20, 22)
    optimize(locate(plain.uri), "b", OptimizeOptions(own_only=False, sort_by=["v"]), LocalRunner())
    plain.merge("b", None)
    with pytest.raises(Refused, match="reordered"):
        query.drain()


def test_a_compaction_that_is_too_long_to_tell_is_refused(plain, monkeypatch):
    monkeypatch.setattr(row_ids, "_MOST", 10)
    query = Query(plain.uri)
    query.drain()
    plain.add("b", 20, 22)
    plain.compact("b")
    plain.merge("b", None)
    with pytest.raises(Refused, match="no longer known"):
        query.drain()


def test_a_batch_whose_evidence_is_gone_is_refused_and_gives_no_other_rows(plain):
    """Which rows a compaction moved may be known only with a deletion file of the branch."""
    query = Query(plain.uri)
    query.drain()
    plain.add("b", 20, 23)
    plain.at("b").delete("id = 21")
    plain.compact("b")
    plain.merge("b", None)
    query.plan()
    first = query.run()
    assert ids(first) == [20, 22]
    assert query.restart().run() == first
    shutil.rmtree(Path(plain.at("b").uri) / "_deletions")
    with pytest.raises(Refused, match="no longer known"):
        query.restart().run()
