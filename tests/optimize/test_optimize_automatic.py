"""Writes to a table with ``auto_compact``, without Spark: few fragments, every row, and no error of the write."""

import logging

import lance
import pyarrow as pa
import pytest
from support import stream_queries
from support.processes import Job, Team

from lance_spark import LanceTable
from lance_spark.catalog.staging import alter_properties
from lance_spark.errors import Conflict
from lance_spark.optimize import automatic
from lance_spark.storage.datasets import locate


def rows(*keys):
    return pa.table({"id": pa.array(keys, pa.int64()), "k": pa.array([key % 3 for key in keys], pa.int64())})


@pytest.fixture
def t(uri):
    """A table of one fragment whose writes compact every four."""
    lance.write_dataset(rows(0), uri)
    alter_properties(locate(uri), None, {"auto_compact": "4"})
    return LanceTable.for_path(uri)


def fragments(uri, branch=None):
    dataset = lance.dataset(uri) if branch is None else lance.dataset(f"{uri}/tree/{branch}")
    return len(dataset.get_fragments())


def ids(uri, branch=None):
    return sorted(lance.dataset(uri).checkout_version((branch, None)).to_table()["id"].to_pylist())


def test_appends_never_leave_many_small_fragments(t, uri):
    for key in range(1, 12):
        t.write(rows(key))
        assert fragments(uri) < 4
    assert ids(uri) == [*range(12)]


def append(uri, first):
    for key in range(first, first + 10):
        LanceTable.for_path(uri).write(rows(key))


def test_writers_beside_each_other_compact_and_none_of_them_meets_a_conflict(t, uri):
    with Team(2) as team:
        team.run([Job(append, (uri, first)) for first in (100, 200)])
    assert ids(uri) == [0, *range(100, 110), *range(200, 210)]
    assert fragments(uri) < 2 * 4


def test_a_branch_leaves_what_it_inherited(t, uri):
    t.branches.create("exp")
    exp = t.checkout(branch="exp")
    for key in range(1, 9):
        exp.write(rows(key))
    assert ids(uri, "exp") == [*range(9)]
    assert ids(uri) == [0]
    assert fragments(uri, "exp") < 1 + 4 + 1
    assert all(
        file.base_id is None
        for one in lance.dataset(f"{uri}/tree/exp").get_fragments()[1:]
        for file in one.data_files()
    )


def test_fragments_of_an_index_stay_as_they_are(t, uri):
    for key in range(1, 4):
        t.write(rows(key))
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    covered = [one.fragment_id for one in lance.dataset(uri).get_fragments()]
    for key in range(4, 9):
        t.write(rows(key))
    assert [one.fragment_id for one in lance.dataset(uri).get_fragments()][: len(covered)] == covered
    assert lance.dataset(uri).to_table(filter="id = 2")["k"].to_pylist() == [2]
    assert ids(uri) == [*range(9)]


def test_a_partition_is_compacted_for_itself(t, uri):
    t.layout.partition_by("k")
    for key in range(3, 18):
        t.write(rows(key))
    assert ids(uri) == [0, *range(3, 18)]
    parts = [set(one.to_table()["k"].to_pylist()) for one in lance.dataset(uri).get_fragments()]
    assert all(len(part) == 1 for part in parts)
    assert len(parts) < 3 * 4


def test_batches_of_a_stream_are_compacted_before_the_next_one(t, uri, tmp_path):
    sink = stream_queries.Query(uri, tmp_path / "c")
    for number in range(13):
        sink.batch(number, rows(number + 1))
        sink.batch(number, rows(number + 1))  # Spark repeats a batch that it does not know to be committed
        assert fragments(uri) <= 4
    assert ids(uri) == [*range(14)]


@pytest.mark.when(day={"batches": [60], "layout": [""]})
@pytest.mark.parametrize("layout", ["", "k"])
@pytest.mark.parametrize("batches", [60, 2016])
def test_a_stream_of_small_batches_stays_at_a_steady_number_of_fragments(uri, tmp_path, batches, layout):
    """A week has 2,016 batches of five minutes. Beside one larger file, each partition has 4 files at most."""
    lance.write_dataset(rows(0), uri)
    alter_properties(locate(uri), None, {"auto_compact": "4"})
    LanceTable.for_path(uri).layout.partition_by(*filter(None, [layout]))
    sink, counts = stream_queries.Query(uri, tmp_path / "c"), []
    for number in range(batches):
        sink.batch(number, rows(*range(20 * number + 1, 20 * number + 21)))
        counts.append(fragments(uri))
    assert ids(uri) == [*range(20 * batches + 1)]
    assert max(counts) <= 1 + (3 if layout else 1) * 4


def test_a_compaction_that_fails_is_no_error_of_the_write(t, uri, monkeypatch, caplog):
    def fails(*_):
        raise Conflict("Somebody was faster.")

    monkeypatch.setattr(automatic, "optimize", fails)
    with caplog.at_level(logging.WARNING):
        for key in range(1, 6):
            t.write(rows(key))
    assert ids(uri) == [*range(6)]
    assert "were not compacted: Somebody was faster." in caplog.text


def test_without_the_property_nothing_is_compacted(t, uri):
    alter_properties(locate(uri), None, unset=["auto_compact"])
    for key in range(1, 7):
        t.write(rows(key))
    assert fragments(uri) == 7
