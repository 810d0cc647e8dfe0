"""Defaults of columns: what they can be, and what rows without the column have."""

from datetime import date, datetime, timezone
from decimal import Decimal

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceTable
from lance_spark.columns.columns import alter_columns
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import InvalidOption, LanceSparkError, SchemaMismatch
from lance_spark.format.column_defaults import default_of, settled, value_of, with_default
from lance_spark.format.evolution import AddColumn
from lance_spark.format.kept_types import LENGTH_KEY
from lance_spark.storage.datasets import locate

NOW = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
BEFORE_1970 = datetime.fromisoformat("1969-12-31T23:59:59.500000")
UTC = pa.timestamp("us", "UTC")


def column(kind, **metadata):
    return pa.field("c", kind, metadata=metadata or None)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1", pa.int8(), 1),
        ("- 1L", pa.int64(), -1),
        ("1.50", pa.decimal128(9, 2), Decimal("1.50")),
        ("1", pa.decimal128(3, 2), Decimal("1.00")),
        ("0.5", pa.float32(), 0.5),
        ("1e3", pa.float64(), 1000.0),
        ("'it\\'s'", pa.string(), "it's"),
        ("true", pa.bool_(), True),
        ("NULL", pa.int32(), None),
        ("DATE '2026-01-31'", pa.date32(), date(2026, 1, 31)),
        ("TIMESTAMP '2026-01-31 13:00:00+01:00'", UTC, NOW),
        ("TIMESTAMP '1969-12-31 23:59:59.5'", pa.timestamp("us"), BEFORE_1970),
        ("current_timestamp()", UTC, NOW),
        ("now()", UTC, NOW),
    ],
)
def test_a_default_is_a_value(text, kind, value):
    found = value_of(text, column(kind), NOW)
    assert found.type == kind
    assert found.as_py() == value
    assert value_of(settled(text, column(kind), NOW), column(kind), datetime.now(timezone.utc)) == found


@pytest.mark.pure
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("128", pa.int8()),
        ("1.5", pa.int32()),
        ("1.505", pa.decimal128(9, 2)),
        ("'1'", pa.int32()),
        ("'2026-01-31'", pa.date32()),
        ("TIMESTAMP '2026-01-31 12:00:00'", UTC),
        ("current_timestamp()", pa.date32()),
        ("uuid()", pa.string()),
        ("1 + 1", pa.int32()),
        ("other", pa.string()),
        ("'a' || 'b'", pa.string()),
        ("array()", pa.list_(pa.int32())),
        ("'a\\n'", pa.string()),
        ("'it''s'", pa.string()),
    ],
)
def test_what_a_column_cannot_have_is_refused(text, kind):
    with pytest.raises(InvalidOption, match="cannot have the default"):
        with_default(column(kind), text)


@pytest.mark.pure
def test_a_text_fits_the_length_of_its_column():
    assert value_of("'a'", column(pa.string(), **{LENGTH_KEY: "char(3)"}), NOW).as_py() == "a  "
    with pytest.raises(SchemaMismatch):
        with_default(column(pa.string(), **{LENGTH_KEY: "varchar(2)"}), "'abc'")
    assert default_of(with_default(with_default(column(pa.int8()), " 1 "), None)) == "1"
    assert default_of(with_default(with_default(column(pa.int8()), "1"), "")) is None


@pytest.fixture
def uri(tmp_path):
    path = str(tmp_path / "t")
    lance.write_dataset(
        pa.table({"id": pa.array([1], pa.int64()), "state": ["old"], "n": pa.array([7], pa.int32())}), path
    )
    return path


def rows(uri):
    return lance.dataset(uri).to_table().sort_by("id").to_pylist()


def test_rows_written_without_spark_have_defaults(uri):
    table = LanceTable.for_path(uri)
    table.alter_columns(defaults={"state": "'new'", "n": "0"})
    table.write(pa.table({"id": pa.array([2], pa.int64())}), mode="append")
    table.write(pa.table({"id": pa.array([3], pa.int64()), "state": pa.array([None], pa.string())}), mode="append")
    table.alter_columns(defaults={"n": ""})
    table.rename_columns({"state": "status"})
    table.write(pa.table({"id": pa.array([4], pa.int64())}), mode="append")
    assert [(row["status"], row["n"]) for row in rows(uri)] == [("old", 7), ("new", 0), (None, 0), ("new", None)]
    lance.write_dataset(pa.table({"id": pa.array([5], pa.int64())}), uri, mode="append")  # knows nothing of defaults
    assert rows(uri)[-1] == {"id": 5, "status": None, "n": None}
    with pytest.raises(InvalidOption, match="cannot have the default"):
        table.alter_columns(defaults={"n": "'x'"})
    with pytest.raises(LanceSparkError):
        table.alter_columns(defaults={"missing": "1"})


def test_added_columns_have_their_default_in_all_rows(uri):
    LanceTable.for_path(uri).write(pa.table({"id": pa.array([2, 3], pa.int64())}), mode="append")
    lance.dataset(uri).delete("id = 2")
    added = [
        AddColumn(("c",), pa.int32(), default="5", fill="5"),
        AddColumn(("d",), pa.string(), kept={LENGTH_KEY: "char(3)"}, default="'a'", fill="'a  '"),
        AddColumn(("plain",), pa.int32()),
    ]
    alter_columns(locate(uri), None, added, LocalRunner())
    lance.dataset(uri).validate()
    assert [(row["id"], row["c"], row["d"], row["plain"]) for row in rows(uri)] == [
        (1, 5, "a  ", None),
        (3, 5, "a  ", None),
    ]


def test_rows_with_a_default_obey_constraints(uri):
    table = LanceTable.for_path(uri)
    table.constraints.add("positive", "n > 0")
    table.alter_columns(defaults={"n": "-1"})
    with pytest.raises(SchemaMismatch, match="CHECK positive"):
        table.write(pa.table({"id": pa.array([2], pa.int64())}), mode="append")


@pytest.mark.parametrize("ours", [None, "0", "1"])
def test_a_merge_takes_over_defaults(uri, ours):
    table = LanceTable.for_path(uri)
    table.branches.create("other")
    table.checkout(branch="other").alter_columns(defaults={"n": "1"})
    if ours is not None:
        table.alter_columns(defaults={"n": ours})
    if ours == "0":
        with pytest.raises(LanceSparkError, match="'n'"):
            table.branches.merge("other")
        return
    table.branches.merge("other")
    table.write(pa.table({"id": pa.array([2], pa.int64())}), mode="append")
    assert rows(uri)[-1]["n"] == 1


def test_an_overwrite_that_keeps_columns_keeps_their_defaults(uri):
    table = LanceTable.for_path(uri)
    table.alter_columns(defaults={"n": "5", "state": "'new'"})
    table.write(pa.table({"id": pa.array([8], pa.int64())}), mode="overwrite", overwrite_schema=False)
    table.write(pa.table({"id": pa.array([9], pa.int64())}), mode="append")
    assert [(row["id"], row["state"], row["n"]) for row in rows(uri)] == [(8, "new", 5), (9, "new", 5)]
    table.write(pa.table({"id": pa.array([1], pa.int64()), "n": pa.array([1], pa.int32())}), mode="overwrite")
    table.write(pa.table({"id": pa.array([2], pa.int64())}), mode="append")
    assert [row["n"] for row in rows(uri)] == [1, None]


def test_a_column_that_cannot_be_null_may_be_left_out_with_a_default(tmp_path):
    path = str(tmp_path / "strict")
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("n", pa.int32(), nullable=False)])
    lance.write_dataset(pa.table({"id": [1], "n": [1]}, schema=schema), path)
    table, fewer = LanceTable.for_path(path), pa.table({"id": pa.array([2], pa.int64())})
    with pytest.raises(SchemaMismatch, match="is missing"):
        table.write(fewer, mode="append")
    table.alter_columns(defaults={"n": "3"})
    table.write(fewer, mode="append")
    assert [row["n"] for row in rows(path)] == [1, 3]
    with pytest.raises(InvalidOption, match="cannot have the default NULL: the column allows no nulls"):
        table.alter_columns(defaults={"n": "NULL"})
