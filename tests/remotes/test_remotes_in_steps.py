"""Pulls and pushes that pylance cannot commit at once: what they report is about all steps."""

import lance
import pyarrow as pa
import pytest

from lance_spark.engine.local import LocalRunner
from lance_spark.merge.cell_rules import Emptied
from lance_spark.merge.report import MergeResult, Summary
from lance_spark.remotes.clone import clone
from lance_spark.remotes.fetch import Remote
from lance_spark.remotes.pull import pull
from lance_spark.remotes.push import push
from lance_spark.storage.datasets import locate, pin_latest


def test_values_left_empty_in_the_first_step_are_told(tmp_path):
    source, one, other = (locate(str(tmp_path / f"{name}.lance")) for name in ("source", "one", "other"))
    rows = pa.table({"id": pa.array(range(4), pa.int64()), "v": pa.array(range(4), pa.int64())})
    lance.write_dataset(rows, source.uri, enable_stable_row_ids=True)
    remote = Remote("origin", source)
    for location in (one, other):
        clone(remote, pin_latest(source, None), location, LocalRunner())
    lance.dataset(one.uri).add_columns({"c": "v * 2"})
    lance.dataset(one.uri).update({"v": "100"}, where="id = 0")
    pushed = push(one, remote, None, LocalRunner()).replayed
    assert (pushed.summary.versions, pushed.summary.columns_added) == (2, ("c",))

    lance.dataset(other.uri).update({"v": "200"}, where="id = 2")
    merged = pull(other, remote, None, None, LocalRunner()).merged

    found = lance.dataset(other.uri).to_table().sort_by("id").to_pydict()
    assert found == {"id": [0, 1, 2, 3], "v": [100, 1, 200, 3], "c": [0, 2, None, 6]}
    assert not merged.fast_forward
    assert merged.summary.columns_added == ("c",)
    assert merged.summary.cells_emptied == (Emptied("c", 1, "origin/main"),)
    assert [note.partition(",")[0] for note in merged.notes] == ["1 row has no value in column 'c'", "in 3 steps"]


def result(version, summary=(1, 1, 0, 1, (), (), 2, 30), **given):
    settled = {"base": f"main@{version or 9}", "fast_forward": False, "up_to_date": version is None}
    return MergeResult("merge", "main", "exp@7", version=version, summary=Summary(*summary), **{**settled, **given})


@pytest.mark.pure
def test_steps_add_up():
    steps = [
        result(None, (0, 0, 0, 0, (), (), 0, 0), notes=("held",)),
        result(4, (1, 5, 2, 1, ("a", "b"), ("x",), 2, 30, 1, (Emptied("a", 2, "exp"),), 1), notes=("empty",)),
        result(
            5, (2, 1, 0, 3, ("c",), ("b",), 1, 10, 0, (Emptied("a", 3, "exp"),)), fast_forward=True, notes=("held",)
        ),
    ]
    found = MergeResult.of_steps(steps)
    assert (found.base, found.version, found.fast_forward, found.up_to_date) == ("main@4", 5, False, False)
    assert found.notes == ("held", "empty")
    assert found.summary == Summary(3, 6, 2, 4, ("a", "c"), ("x",), 3, 40, 1, (Emptied("a", 5, "exp"),), 1)


@pytest.mark.pure
def test_steps_of_which_none_had_anything_are_up_to_date():
    steps = [result(None), result(None)]
    assert MergeResult.of_steps(steps) == steps[-1]
