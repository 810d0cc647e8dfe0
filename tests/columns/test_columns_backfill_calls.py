"""The arguments of the verbs that compute columns, and how results read."""

import pyarrow as pa
import pytest

from lance_spark.columns.fill_rules import (
    FRAME,
    FUNCTION,
    SQL,
    Asked,
    BackfillOptions,
    BackfillProgress,
    BackfillResult,
    check_read,
    columns_in,
    existing_columns,
    new_columns,
    parse_backfill_options,
    temporary_schema,
)
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import InvalidOption, NotFound, Refused, SchemaMismatch
from lance_spark.format.schema import number_type

pytestmark = pytest.mark.pure

BLOB = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
TABLE_OF_ARROW = pa.table({"y": [1]})
TABLE = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("x", pa.float32()), ("v", pa.list_(pa.float32(), 2)), BLOB]
)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({}, BackfillOptions()),
        ({"incremental": True, "new_rows": "null"}, BackfillOptions(incremental=True, new_rows="null")),
        ({"resume": "v2", "batch_size": 9, "message": "m"}, BackfillOptions(resume="v2", batch_size=9, message="m")),
        ({"progress": print}, BackfillOptions(progress=print)),
    ],
)
def test_options(given, options):
    assert parse_backfill_options(given, Asked(FUNCTION, len)) == options


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"new_row": "null"}, "Did you mean 'new_rows'"),
        ({"colour": 1}, "There are incremental, new_rows"),
        ({"new_rows": "skip"}, "'fill' or 'null'"),
        ({"batch_size": 0}, "at least 1"),
        ({"resume": 3}, "True, False or a text"),
        ({"progress": 3}, "a function"),
    ],
)
def test_bad_options(given, words):
    with pytest.raises(InvalidOption, match=words):
        parse_backfill_options(given, Asked(FUNCTION, len))


def test_an_update_is_never_seen_half_done():
    with pytest.raises(InvalidOption, match="no option 'incremental'"):
        parse_backfill_options({"incremental": True}, Asked(SQL, {}, existing=True))


class Frame:
    """What shows a DataFrame of Spark."""

    columns, sparkSession = ["id"], None  # noqa: N815 - PySpark's name


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize(
    ("kind", "values", "words", "use"),
    [
        (SQL, len, "columns takes a dict of SQL, not a function", 'columns_with(function, schema="emb array<float>")'),
        (
            SQL,
            Frame,
            "columns takes a dict of SQL, not a function",
            'columns_with(function, schema="emb array<float>")',
        ),
        (SQL, Frame(), "columns takes a dict of SQL, not a DataFrame", 'columns_from(df, on="flight_id")'),
        (
            SQL,
            "id",
            "columns takes a dict of SQL, not a value of type str",
            'columns({"speed": "distance / air_time"})',
        ),
        (FUNCTION, {}, "columns_with takes a function, not a dict of SQL", 'columns({"speed": "distance / air_time"})'),
        (FUNCTION, Frame(), "columns_with takes a function, not a DataFrame", 'columns_from(df, on="flight_id")'),
        (FRAME, {}, "columns_from takes a DataFrame, not a dict of SQL", 'columns({"speed": "distance / air_time"})'),
        (
            FRAME,
            len,
            "columns_from takes a DataFrame, not a function",
            'columns_with(function, schema="emb array<float>")',
        ),
        (FRAME, TABLE_OF_ARROW, "not a Table of pyarrow", 'columns_from(df, on="flight_id")'),
    ],
)
def test_values_of_another_kind_are_refused_with_the_verb_that_takes_them(kind, values, words, use, existing):
    verb = "update" if existing else "add"
    with pytest.raises(InvalidOption) as caught:
        Asked(kind, values, existing=existing)
    assert words in caught.value.message
    assert f"t.{verb}_{use}" in caught.value.hint


@pytest.mark.parametrize(
    ("asked", "name", "use"),
    [
        (Asked(SQL, {}), "on", "t.add_columns_from("),
        (Asked(SQL, {}), "schema", "t.add_columns_with("),
        (Asked(SQL, {}), "batch_size", "t.add_columns_with("),
        (Asked(FUNCTION, len), "on", "t.add_columns_from("),
        (Asked(FRAME, Frame(), existing=True), "columns", "t.update_columns_with("),
    ],
)
def test_an_argument_of_another_verb_is_refused_with_that_verb(asked, name, use):
    with pytest.raises(InvalidOption, match=f"{asked.verb} has no {name}=") as caught:
        parse_backfill_options({name: "id"}, asked)
    assert use in caught.value.hint


def test_new_columns_may_be_null_and_keep_their_comments():
    given = pa.schema([pa.field("y", pa.int32(), nullable=False, metadata={"comment": "c", "other": "o"})])
    assert new_columns(given, None).equals(pa.schema([pa.field("y", pa.int32(), metadata={"comment": "c"})]), True)


def test_vectors_have_a_length():
    given = pa.schema([("v", pa.list_(pa.float32())), ("l", pa.list_(pa.float32()))])
    assert new_columns(given, {"v": 3}).types == [pa.list_(pa.float32(), 3), pa.list_(pa.float32())]


@pytest.mark.parametrize(
    ("field", "vector", "error"),
    [
        (pa.field("y", pa.null()), None, SchemaMismatch),
        (pa.field("y", pa.int32()), {"y": 3}, InvalidOption),
        (pa.field("y", pa.list_(pa.int32())), {"y": 0}, InvalidOption),
        (pa.field("y", pa.list_(pa.int32())), {"z": 3}, InvalidOption),
        (BLOB, None, Refused),
    ],
)
def test_new_columns_that_cannot_be(field, vector, error):
    with pytest.raises(error):
        new_columns(pa.schema([field]), vector)


def test_new_columns_without_any_column_are_refused():
    with pytest.raises(InvalidOption, match="No column"):
        new_columns(pa.schema([]), None)


def test_existing_columns_are_as_they_are_stored():
    given = pa.schema([("v", pa.list_(pa.float32())), ("id", pa.int32())])
    assert existing_columns(TABLE, given) == pa.schema([TABLE.field("v"), TABLE.field("id")])


@pytest.mark.parametrize(
    ("field", "error", "words"),
    [
        (pa.field("z", pa.int32()), NotFound, "'z'"),
        (pa.field("id", pa.string()), SchemaMismatch, "column 'id' are string"),
        (BLOB, Refused, "'b'"),
    ],
)
def test_existing_columns_that_cannot_be_updated(field, error, words):
    with pytest.raises(error, match=words):
        existing_columns(TABLE, pa.schema([field]))


def test_a_function_reads_all_columns_or_those_it_names():
    assert check_read(TABLE, None) == ("id", "x", "v")
    assert check_read(TABLE, ["x"]) == ("x",)
    with pytest.raises(NotFound, match="'xx'"):
        check_read(TABLE, ["xx"])
    assert check_read(TABLE, "x") == ("x",)


NAMES = ("id", "Distance", "air_time", "a.b", "back`tick", "time")


@pytest.mark.parametrize(
    ("expressions", "found"),
    [
        (("1",), ()),
        (("ID + 1", "distance / nullif(air_time, 0) * 60"), ("id", "Distance", "air_time")),
        (("`a.b` || 'x'",), ("a.b",)),
        (("`back``tick`",), ("back`tick",)),
        (("concat('id', 2)",), ("id",)),
        (("id*2", "2 *id"), ("id",)),
        (("hash(*)",), NAMES),
        (("hash(id, * )",), NAMES),
        (("to_json(struct(t.*))",), NAMES),
    ],
)
def test_the_columns_that_sql_reads(expressions, found):
    assert columns_in(expressions, NAMES) == found


def test_files_hold_columns_under_names_that_no_table_has():
    assert temporary_schema(TABLE) == pa.schema(
        [
            ("__fill_0", pa.int64()),
            ("__fill_1", pa.float32()),
            ("__fill_2", TABLE.types[2]),
            ("__fill_3", pa.large_binary()),
        ]
    )


def test_results_and_progress_are_one_line():
    result = BackfillResult(PinnedVersion("exp", 7), ("a", "b"), 3, 1, 3000, 2048)
    assert str(result) == "a, b of exp@7: 3 fragments (1 computed before), 3,000 rows, 2.0 KiB"
    assert str(BackfillProgress("a", 1, 2, 10, 5, ("a",))) == "a: 1 of 2 fragments, 10 rows, 5 B"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("bigint", pa.int64()),
        (" LONG ", pa.int64()),
        ("int", pa.int32()),
        ("smallint", pa.int16()),
        ("byte", pa.int8()),
        ("double", pa.float64()),
        ("real", pa.float32()),
        ("decimal(20, 4)", pa.decimal128(20, 4)),
        ("NUMERIC(7)", pa.decimal128(7, 0)),
    ],
)
def test_names_of_numbers(text, kind):
    assert number_type(text) == kind


@pytest.mark.parametrize("text", ["string", "", "decimal", "decimal(39)", "decimal(3, 4)", "array<int>", "decimal(0)"])
def test_what_is_no_number(text):
    with pytest.raises(InvalidOption, match="cannot be changed to the type"):
        number_type(text)
