"""Which columns an append brings along, and which it may not."""

import pyarrow as pa
import pytest

from lance_spark.errors import AlreadyExists, Conflict, InvalidName, Refused, SchemaMismatch
from lance_spark.format.evolution import AddColumn, AlterColumn, Evolution
from lance_spark.write.plan_rules import append_schema, plan_again, plan_merged

pytestmark = pytest.mark.pure

TABLE = pa.schema([("i", pa.int32()), ("f", pa.float32()), ("s", pa.string()), ("d", pa.decimal128(5, 2))])


@pytest.mark.parametrize(
    ("columns", "steps"),
    [
        ([("i", pa.int32())], None),
        ([("i", pa.int8()), ("s", pa.large_string())], None),
        ([("new", pa.string())], [AddColumn(("new",), pa.string())]),
        ([("i", pa.int64())], [AlterColumn(("i",), type=pa.int64())]),
        ([("f", pa.float64())], [AlterColumn(("f",), type=pa.float64())]),
        ([("d", pa.decimal128(9, 4))], [AlterColumn(("d",), type=pa.decimal128(9, 4))]),
        (
            [("z", pa.int8()), ("i", pa.int64()), ("a", pa.int8())],
            [AddColumn(("z",), pa.int8()), AlterColumn(("i",), type=pa.int64()), AddColumn(("a",), pa.int8())],
        ),
        ([pa.field("new", pa.int8(), metadata={"comment": "c"})], [AddColumn(("new",), pa.int8(), comment="c")]),
    ],
)
def test_what_changes(columns, steps):
    plan = plan_merged(TABLE, pa.schema(columns))
    assert (None if plan is None else list(plan.steps)) == steps


def test_new_columns_come_last_and_the_others_keep_their_order():
    plan = plan_merged(TABLE, pa.schema([("z", pa.int8()), ("f", pa.float64()), ("i", pa.int32())]))
    assert plan.schema.names == ["i", "f", "s", "d", "z"]
    assert append_schema(plan.schema, pa.schema([("z", pa.int8()), ("f", pa.float64())])).names == ["f", "z"]


@pytest.mark.parametrize(
    ("field", "error", "words"),
    [
        (pa.field("I", pa.int32()), AlreadyExists, "'i'"),
        (pa.field("a.b", pa.int32()), InvalidName, r"a\.b"),
        (pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}), Refused, "'b'"),
    ],
)
def test_what_cannot_come(field, error, words):
    with pytest.raises(error, match=words):
        plan_merged(TABLE, pa.schema([field]))


@pytest.mark.parametrize(
    "column", [("i", pa.float64()), ("i", pa.string()), ("s", pa.int32()), ("f", pa.int64()), ("d", pa.float64())]
)
def test_what_would_lose_is_refused_by_its_name(column):
    frame = pa.schema([column])
    plan = plan_merged(TABLE, frame)
    with pytest.raises(SchemaMismatch, match=f"Column '{column[0]}'"):
        append_schema(TABLE if plan is None else plan.schema, frame)


@pytest.mark.parametrize(
    ("now", "steps"),
    [
        ([("i", pa.int32())], (AlterColumn(("i",), type=pa.int64()), AddColumn(("y",), pa.int8()))),
        ([("i", pa.int64())], (AddColumn(("y",), pa.int8()),)),
        ([("i", pa.int64()), ("y", pa.int8())], ()),
        ([("i", pa.int64()), ("y", pa.int8()), ("more", pa.int8())], ()),
    ],
)
def test_what_is_left_to_do_after_others_did_a_part_of_it(now, steps):
    rows = pa.schema([("i", pa.int64()), ("y", pa.int8())])
    assert plan_again(pa.schema(now), rows).steps == steps


def test_nothing_left_to_do_is_no_change():
    assert plan_again(TABLE, TABLE) == Evolution(TABLE)


@pytest.mark.parametrize(
    "now",
    [
        [("i", pa.int64()), ("y", pa.int16())],
        [("i", pa.string()), ("y", pa.int8())],
        [("i", pa.int64()), ("y", pa.int8()), pa.field("more", pa.int8(), nullable=False)],
    ],
)
def test_what_others_did_may_not_fit(now):
    with pytest.raises(Conflict):
        plan_again(pa.schema(now), pa.schema([("i", pa.int64()), ("y", pa.int8())]))
