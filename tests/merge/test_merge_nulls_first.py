"""Which columns may be null is committed before the rest of a replay: then the rest must not be refused."""

import lance
import pyarrow as pa
import pytest
from support.cleanup_datasets import place
from support.merge_datasets import assert_sound, error_of, exp, forked, head, rows, run

from lance_spark.errors import Conflict, Refused


def changed(uri, **change):
    exp(uri).alter_columns({"path": "v", **change})


def added(uri):
    more = pa.table([pa.array([1000], field.type) for field in exp(uri).schema], schema=exp(uri).schema)
    lance.write_dataset(more, place(uri, "exp"), mode="append")


REST = {
    "rows": added,
    "the same column renamed": lambda uri: changed(uri, name="value"),
    "the same column renamed, and rows": lambda uri: (changed(uri, name="value"), added(uri)),
    "another column": lambda uri: exp(uri).add_columns({"w": "id * 7"}),
    "another column, and rows": lambda uri: (exp(uri).add_columns({"w": "id * 7"}), added(uri)),
    "updates": lambda uri: exp(uri).update({"v": "5"}, where="id < 3"),
    "a cast": lambda uri: changed(uri, data_type=pa.int32()),
    "the whole table": lambda uri: lance.write_dataset(exp(uri).to_table(), place(uri, "exp"), mode="overwrite"),
    "a compaction": lambda uri: (exp(uri).delete("id = 3"), exp(uri).optimize.compact_files()),
    "a dropped column": lambda uri: exp(uri).drop_columns(["id"]),
    "a deleted fragment and a column": lambda uri: (exp(uri).delete("id < 10"), exp(uri).add_columns({"w": "id * 7"})),
}


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("rest", REST)
@pytest.mark.parametrize("ours", [False, True], ids=["nothing of ours", "a row of ours"])
def test_a_merge_with_other_nulls_is_done_or_changes_nothing(tmp_path, stable, rest, ours):
    uri = forked(str(tmp_path / "t.lance"), stable, index=False)
    changed(uri, nullable=False)
    REST[rest](uri)
    if ours:
        lance.write_dataset(pa.table({"id": [77], "v": [770]}, schema=head(uri).schema), uri, mode="append")
    version, before, schema = head(uri).version, rows(head(uri)) if rest != "a dropped column" else [], head(uri).schema
    told, refused = None, False
    try:
        told = run(uri, dry_run=True)
        run(uri)
    except (Conflict, Refused):
        refused = True
    if refused:
        assert told is None or told.conflicts, told
        assert (head(uri).version, head(uri).schema) == (version, schema)
        assert not before or rows(head(uri)) == before
        return
    assert told.conflicts == ()
    assert [field for field in head(uri).schema if field.name in ("v", "value")] == [
        field for field in exp(uri).schema if field.name in ("v", "value")
    ]
    assert head(uri).count_rows() == exp(uri).count_rows() + ours
    if rest != "a dropped column":
        assert_sound(head(uri))


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_a_dropped_column_beside_updated_rows_counts_as_a_change_of_columns(uri, stable):
    """The nulls were committed, and then the rest was refused."""
    columns = {name: [10 * number for number in range(6)] for name in ("v", "w")}
    lance.write_dataset(pa.table({"id": range(6), **columns}), uri, enable_stable_row_ids=stable)
    head(uri).create_branch("exp")
    exp(uri).update({"v": "5"}, where="id < 3")
    exp(uri).drop_columns(["w"])
    changed(uri, nullable=False)
    head(uri).update_config({"a": "1"})
    before = head(uri).schema
    refusal = error_of(uri)
    if refusal is not None:
        assert isinstance(refusal, Refused)
        assert head(uri).schema == before
        return
    assert head(uri).schema == exp(uri).schema
    assert rows(head(uri)) == rows(exp(uri))
