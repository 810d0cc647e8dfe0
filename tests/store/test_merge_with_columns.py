"""Merges in which rows were replaced and columns changed at once: what pylance commits, and what is refused."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from lance_spark.actions.merge import MergeOptions, merge
from lance_spark.errors import Conflict, Refused
from lance_spark.location import DatasetLocation
from lance_spark.store.datasets import pin_latest


def rows(first, last, **more):
    ids = list(range(first, last))
    return pa.table({"id": pa.array(ids, pa.int64()), **{name: [value] * len(ids) for name, value in more.items()}})


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def location(tmp_path, request):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(0, 5), uri, enable_stable_row_ids=request.param)
    for first in (5, 10):
        lance.write_dataset(rows(first, first + 5), uri, mode="append")
    lance.dataset(uri).create_branch("exp")
    return DatasetLocation(uri)


def exp(location):
    return lance.dataset(location.branch_uri("exp"))


def publish(location):
    return merge(location, pin_latest(location, "exp"), None, MergeOptions())


def test_a_table_that_was_replaced_with_other_columns_is_published(location):
    lance.write_dataset(rows(100, 110, w="x"), exp(location), mode="overwrite")
    result = publish(location)
    now = lance.dataset(location.uri)
    assert (result.version, now.to_table()) == (4, rows(100, 110, w="x"))
    after = lance.write_dataset(rows(200, 201, w="y"), location.uri, mode="append")
    if after.has_stable_row_ids:
        ids = after.to_table(with_row_id=True)["_rowid"].to_pylist()
        assert len(set(ids)) == len(ids)
        assert min(ids) >= 15


def test_it_loses_to_a_commit_that_comes_first(location, monkeypatch):
    """The overwrite must not win over rows that were appended between plan and commit."""
    from lance_spark.store import replaying

    lance.write_dataset(rows(100, 110, w="x"), exp(location), mode="overwrite")
    commit = replaying.commit

    def late(*arguments):
        monkeypatch.setattr(replaying, "commit", commit)
        lance.write_dataset(rows(50, 51), location.uri, mode="append")
        return commit(*arguments)

    monkeypatch.setattr(replaying, "commit", late)
    with pytest.raises(Conflict, match="replaced the whole table"):
        publish(location)
    assert lance.dataset(location.uri).count_rows() == 16


def test_fewer_fragments_and_other_columns_are_refused_before_anything_happens(location):
    exp(location).delete("id < 5")
    exp(location).add_columns({"w": "id + 1"})
    with pytest.raises(Refused, match=r"(?s)compacted or removed.*two steps"):
        publish(location)
    assert lance.dataset(location.uri).version == 3
    merge(location, pin_latest(location, "exp").__class__("exp", 4), None, MergeOptions())
    publish(location)
    assert lance.dataset(location.uri).to_table()["w"].to_pylist() == list(range(6, 16))
