"""Changes that pylance commits only one after the other: the hint names the steps, and they lead out."""

import re

import pytest
from support.merge_datasets import add, assert_sound, error_of, exp, forked, head, rows

from lance_spark import LanceTable
from lance_spark.errors import NotCommittable


@pytest.mark.parametrize("columns_last", [False, True], ids=["rows last", "columns last"])
def test_rows_that_keep_their_ids_and_columns_are_merged_in_the_steps_that_the_hint_names(tmp_path, columns_last):
    uri = forked(str(tmp_path / "t.lance"), True, index=False)
    for value in (1, 2):
        exp(uri).add_columns({f"w{value}": "id"})
        exp(uri).update({"v": str(value)}, where="id < 3")
    if columns_last:
        exp(uri).drop_columns(["w1"])
    exp(uri).create_scalar_index("v", "BTREE")
    add(uri, 40, 45)
    before = head(uri).version
    refusal, told = error_of(uri), error_of(uri, dry_run=True)
    assert isinstance(refusal, NotCommittable)
    assert str(told) == str(refusal)
    assert head(uri).version == before
    table = LanceTable.for_path(uri)
    steps = re.findall(r"exp@\d+", refusal.hint)
    for step in [*steps, "exp"]:
        table.branches.merge(step)
    assert len(steps) == 3 + columns_last
    assert [row for row in rows(head(uri)) if row["id"] < 40] == rows(exp(uri))
    assert_sound(head(uri))
