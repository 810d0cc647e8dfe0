"""Changes of columns, planned: tables of what is asked for and what comes of it."""

import pyarrow as pa
import pytest

from lance_spark.errors import AlreadyExists, InvalidName, NotFound, Refused, SchemaMismatch
from lance_spark.format.evolution import (
    AddColumn,
    AlterColumn,
    DropColumn,
    RenameColumn,
    Widened,
    comment_of,
    plan_evolution,
    why_not_widen,
)

pytestmark = pytest.mark.pure

PERSON = pa.struct([pa.field("name", pa.string()), pa.field("age", pa.int32())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("text", pa.string(), metadata={"comment": "what was said", "k": "v"}),
        pa.field("person", PERSON),
        pa.field("tags", pa.list_(pa.string())),
    ]
)


def planned(*changes):
    return plan_evolution(SCHEMA, changes)


def test_columns_are_added_at_the_end_also_inside_of_a_struct():
    plan = planned(
        AddColumn(("n",), pa.int64(), comment="a number"),
        AddColumn(("person", "email"), pa.string()),
        AddColumn(("more",), pa.struct([pa.field("a", pa.int8())])),
        AddColumn(("more", "b"), pa.int8()),
    )
    assert plan.schema.names == ["id", "text", "person", "tags", "n", "more"]
    assert comment_of(plan.schema.field("n")) == "a number"
    assert [field.name for field in plan.schema.field("person").type] == ["name", "age", "email"]
    assert [field.name for field in plan.schema.field("more").type] == ["a", "b"]
    assert (plan.only_adds, plan.writes_fragments, plan.casts) == (True, True, ())


def test_columns_are_dropped_renamed_and_altered_in_one_go():
    plan = planned(
        RenameColumn(("text",), "words"),
        DropColumn(("tags",)),
        AlterColumn(("id",), nullable=True),
        AlterColumn(("words",), comment="what was written"),
        RenameColumn(("person", "name"), "full_name"),
        DropColumn(("person", "age")),
    )
    assert plan.schema.names == ["id", "words", "person"]
    assert plan.schema.field("id").nullable
    assert plan.schema.field("words").metadata == {b"comment": b"what was written", b"k": b"v"}
    assert [field.name for field in plan.schema.field("person").type] == ["full_name"]
    assert (plan.only_adds, plan.writes_fragments) == (False, False)


def test_a_wider_type_is_a_cast_under_the_names_before_and_after():
    plan = planned(AlterColumn(("id",), type=pa.int64()), RenameColumn(("id",), "key"))
    assert plan.casts == (Widened("id", "key", pa.int64()),)
    assert planned(AlterColumn(("id",), type=pa.int64()), DropColumn(("id",))).casts == ()
    twice = planned(AlterColumn(("id",), type=pa.int64()), AlterColumn(("id",), type=pa.int64()))
    assert twice.casts == (Widened("id", "id", pa.int64()),)
    swapped = planned(AlterColumn(("id",), type=pa.int64()), DropColumn(("id",)), RenameColumn(("text",), "id"))
    assert swapped.casts == ()
    fresh = planned(AddColumn(("n",), pa.int32()), AlterColumn(("n",), type=pa.int64()))
    assert (fresh.casts, fresh.schema.field("n").type) == ((), pa.int64())


@pytest.mark.parametrize(
    "change",
    [
        AlterColumn(("id",)),
        AlterColumn(("id",), type=pa.int32(), nullable=False),
        AlterColumn(("text",), comment="what was said"),
        AlterColumn(("id",), comment=""),
        RenameColumn(("id",), "id"),
        DropColumn(("nothing",), if_exists=True),
        DropColumn(("person", "nothing"), if_exists=True),
    ],
)
def test_what_changes_nothing_is_no_step(change):
    plan = planned(change)
    assert plan.steps == ()
    assert plan.schema.equals(SCHEMA, check_metadata=True)


def test_an_empty_comment_is_removed():
    assert planned(AlterColumn(("text",), comment="")).schema.field("text").metadata == {b"k": b"v"}


def test_letters_of_a_name_may_change_their_case():
    assert planned(RenameColumn(("id",), "ID")).schema.names[0] == "ID"


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (AddColumn(("id",), pa.int8()), AlreadyExists, "Column 'id' already"),
        (AddColumn(("ID",), pa.int8()), AlreadyExists, "differ only in case"),
        (AddColumn(("person", "Age"), pa.int8()), AlreadyExists, "'person.age'"),
        (AddColumn(("a.b",), pa.int8()), InvalidName, "'a.b'"),
        (AddColumn(("",), pa.int8()), InvalidName, "not empty"),
        (AddColumn(("_rowid",), pa.int8()), InvalidName, "_rowid"),
        (AddColumn(("n",), pa.int8(), nullable=False), Refused, "without NOT NULL"),
        (AddColumn(("n",), pa.int8(), position="FIRST"), Refused, "FIRST"),
        (AddColumn(("n",), pa.int8(), position="AFTER id"), Refused, "AFTER id"),
        (AddColumn(("persn", "x"), pa.int8()), NotFound, "'person'"),
        (AddColumn(("tags", "x"), pa.int8()), Refused, "not a struct"),
        (AddColumn(("id", "x"), pa.int8()), Refused, "not a struct"),
        (DropColumn(("txt",)), NotFound, "Did you mean 'text'"),
        (DropColumn(("TEXT",)), NotFound, "Did you mean 'text'"),
        (DropColumn(("person", "nme")), NotFound, "Did you mean 'person.name'"),
        (RenameColumn(("text",), "ID"), AlreadyExists, "Column 'id' already"),
        (RenameColumn(("text",), "a`b"), InvalidName, "a`b"),
        (RenameColumn(("zzz",), "a"), NotFound, "Columns: 'id', 'text', 'person', 'tags'"),
        (AlterColumn(("id",), type=pa.int16()), SchemaMismatch, "int16 from int32: values could be lost"),
        (AlterColumn(("text",), type=pa.int32()), SchemaMismatch, "only a number"),
        (AlterColumn(("person", "age"), type=pa.int64()), Refused, "inside another column"),
        (AlterColumn(("text",), nullable=False), Refused, "DROP NOT NULL"),
        (AlterColumn(("text",), position="FIRST"), Refused, "FIRST"),
        (AlterColumn(("gone",), nullable=True), NotFound, "no such column"),
    ],
)
def test_what_is_refused_and_what_the_error_says(change, error, says):
    with pytest.raises(error) as raised:
        planned(change)
    assert says in str(raised.value)


def test_changes_see_what_those_before_them_made():
    with pytest.raises(NotFound):
        planned(DropColumn(("text",)), AlterColumn(("text",), comment="x"))
    with pytest.raises(AlreadyExists):
        planned(AddColumn(("n",), pa.int8()), AddColumn(("N",), pa.int8()))
    assert planned(DropColumn(("text",)), AddColumn(("text",), pa.int8())).schema.field("text").type == pa.int8()


def test_the_last_column_stays():
    with pytest.raises(Refused, match="last one of a table"):
        planned(*(DropColumn((name,)) for name in SCHEMA.names))
    with pytest.raises(Refused, match="last one of 'person'"):
        planned(DropColumn(("person", "name")), DropColumn(("person", "age")))


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        (pa.int8(), pa.int16(), True),
        (pa.int32(), pa.int64(), True),
        (pa.uint8(), pa.int16(), True),
        (pa.int64(), pa.int32(), False),
        (pa.int16(), pa.uint16(), False),
        (pa.int16(), pa.uint32(), False),
        (pa.uint32(), pa.int32(), False),
        (pa.float32(), pa.float64(), True),
        (pa.float64(), pa.float32(), False),
        (pa.float32(), pa.float16(), False),
        (pa.int32(), pa.float64(), False),
        (pa.int32(), pa.float32(), False),
        (pa.int64(), pa.float64(), False),
        (pa.int32(), pa.decimal128(10, 0), False),
        (pa.int32(), pa.decimal128(9, 0), False),
        (pa.decimal128(10, 2), pa.decimal128(12, 2), True),
        (pa.decimal128(10, 2), pa.decimal128(12, 3), True),
        (pa.decimal128(10, 2), pa.decimal128(10, 3), False),
        (pa.decimal128(20, 0), pa.uint64(), False),
        (pa.float64(), pa.int64(), False),
        (pa.string(), pa.large_string(), False),
        (pa.date32(), pa.timestamp("us"), False),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), False),
    ],
)
def test_which_types_hold_every_value_of_another(old, new, fits):
    assert (why_not_widen(old, new) is None) == fits
