"""Updates of narrow columns of wide tables write these columns only; pylance reads the rows."""

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceTable
from lance_spark.errors import SchemaMismatch
from lance_spark.rows import action_rules

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", newest=0.6)]

ROWS, WIDTH = 400, 64


@pytest.fixture(params=[True, False], ids=["stable", "plain"])
def wide(spark, uri, request, monkeypatch):
    """A branch with a wide column, two fragments and deleted rows; tables as small as this one count as worth it."""
    monkeypatch.setattr(action_rules, "WORTH", 0)
    values = pa.array(range(ROWS * WIDTH), pa.float32())
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "k": pa.array([None if row % 5 == 0 else row % 7 for row in range(ROWS)], pa.int32()),
            "x": pa.array(range(ROWS), pa.float64()),
            "v": pa.FixedSizeListArray.from_arrays(values, WIDTH),
        }
    )
    lance.write_dataset(table, uri, max_rows_per_file=ROWS // 2, enable_stable_row_ids=request.param)
    lance.dataset(uri).create_branch("exp")
    dataset = lance.dataset(f"{uri}/tree/exp")
    dataset.delete("id IN (3, 250)")
    return LanceTable.for_path(uri, spark=spark).checkout(branch="exp")


def rows(table):
    """By id, as pylance reads them, without the wide column."""
    dataset = lance.dataset(f"{table.location.uri}/tree/exp")
    dataset.validate()
    return {row["id"]: (row["k"], row["x"]) for row in dataset.to_table(columns=["id", "k", "x"]).to_pylist()}


def fragments(table):
    return [fragment.fragment_id for fragment in lance.dataset(f"{table.location.uri}/tree/exp").get_fragments()]


def test_some_rows_get_new_values_and_no_row_is_written_again(wide):
    before, known = rows(wide), fragments(wide)
    result = wide.update({"x": "x + k"}, where="k > 1", message="narrow")
    matched = {key for key, (k, _) in before.items() if k is not None and k > 1}
    assert rows(wide) == {key: (k, x + k if key in matched else x) for key, (k, x) in before.items()}
    assert (result.rows_updated, result.rows_deleted, result.rows_inserted) == (len(matched), 0, 0)
    assert fragments(wide) == known
    assert 0 < result.bytes < ROWS * WIDTH
    assert result.version.version == wide.version
    feed = [row[0] for row in wide.changes(wide.version - 1, key="id").select("_change_type").collect()]
    assert feed.count("update_postimage") == len(feed) / 2 == len(matched)


def test_all_rows_get_new_values(wide):
    before, known = rows(wide), fragments(wide)
    result = wide.update({"x": "-x", "k": "0"})
    assert rows(wide) == {key: (0, -x) for key, (_, x) in before.items()}
    assert result.rows_updated == len(before) == ROWS - 2
    assert fragments(wide) == known


def test_an_update_beside_others_counts_what_it_changed(wide, monkeypatch):
    """A commit in between: values are computed again on top of it, and the rows are counted there."""
    from lance_spark.columns import columns

    look = columns.FilledFiles.overtaken

    def overtaken(self, head):
        monkeypatch.setattr(columns.FilledFiles, "overtaken", look)
        lance.dataset(f"{wide.location.uri}/tree/exp").delete("id = 7")
        return look(self, head)

    monkeypatch.setattr(columns.FilledFiles, "overtaken", overtaken)
    result = wide.update({"x": "x + 1"}, where="id < 390")
    found = rows(wide)
    assert (result.rows_updated, result.files) == (387, 2)
    assert 7 not in found
    assert found[9][1] == 10


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"x": "x + 1"}, "id < 0"),  # no row
        ({"k": "'5'"}, "id < 390"),  # to be cast
        ({"v": "array_repeat(cast(1 as float), 64)"}, "id < 390"),  # the wide column itself
        ({"x": "target.x + 1"}, "id < 390"),  # a name that only rows know
    ],
)
def test_whole_rows_are_written_where_columns_do_not_do(wide, values, where):
    before = fragments(wide)
    result = wide.update(values, where=where)
    assert (fragments(wide) != before) == bool(result.rows_updated)


def test_an_indexed_column_keeps_its_index(wide):
    lance.dataset(f"{wide.location.uri}/tree/exp").create_scalar_index("x", "BTREE")
    before = fragments(wide)
    wide.update({"x": "x + 1000"}, where="id < 390")
    assert fragments(wide) != before
    assert lance.dataset(f"{wide.location.uri}/tree/exp").count_rows("x = 1010") == 1


def test_a_value_that_does_not_fit_changes_nothing(wide):
    before = rows(wide)
    with pytest.raises(SchemaMismatch, match="cannot hold many"):
        wide.update({"k": "'many'"}, where="id < 390")
    assert rows(wide) == before
