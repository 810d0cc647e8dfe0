"""A schema of the user's own is a projection: known columns, types that lose nothing, all else refused."""

from decimal import Decimal

import lance
import pyarrow as pa
import pytest
from support.frames import load, refused

from lance_spark.errors import NotFound, SchemaMismatch

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest"), pytest.mark.usefixtures("both_ways")]


@pytest.fixture(scope="module")
def nested(tmp_path_factory):
    uri = str(tmp_path_factory.mktemp("nested") / "t.lance")
    inner = pa.struct(
        [("a", pa.int32()), ("b", pa.string()), ("in", pa.struct([("x", pa.int64()), ("y", pa.int64())]))]
    )
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("small", pa.int16()),
            ("s", inner),
            ("l", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))),
            ("m", pa.map_(pa.string(), pa.struct([("p", pa.int32()), ("q", pa.int32())]))),
        ]
    )
    values = {
        "id": [1, 2],
        "small": [7, None],
        "s": [{"a": 1, "b": "x", "in": {"x": 5, "y": 6}}, None],
        "l": [[{"a": 1, "b": "u"}], None],
        "m": [[("k", {"p": 1, "q": 2})], None],
    }
    lance.write_dataset(pa.table(values, schema=schema), uri)
    return uri


@pytest.mark.parametrize(
    ("schema", "first"),
    [
        ("id bigint", (1,)),
        ("s struct<b:string,a:int>, id bigint", (("x", 1), 1)),
        ("s struct<in:struct<y:bigint>>", (((6,),),)),
        ("l array<struct<b:string>>", ([("u",)],)),
        ("m map<string,struct<q:int>>", ({"k": (2,)},)),
        ("small int", (7,)),
        ("small double", (7.0,)),
        ("id decimal(38,0)", (Decimal(1),)),
        ("id bigint NOT NULL", (1,)),
        ("_rowid bigint, id bigint, _rowaddr bigint", (0, 1, 0)),
    ],
)
def test_a_given_schema_projects_and_widens(spark, nested, schema, first):
    frame = load(spark, nested, schema)
    assert tuple(frame.collect()[0]) == first
    assert frame.count() == 2


@pytest.mark.when(day={"schema": ["nope bigint", "id int", "l array<struct<nope:string>>", "small int NOT NULL"]})
@pytest.mark.parametrize(
    ("schema", "error", "words"),
    [
        ("nope bigint", NotFound, ("'nope'", "id")),
        ("id int", SchemaMismatch, ("'id'", "int64", "int32")),
        ("l array<struct<nope:string>>", SchemaMismatch, ("'l'", "'nope'")),
        ("small int NOT NULL", SchemaMismatch, ("'small'", "null")),
        ("ID bigint", NotFound, ("'ID'", "Did you mean 'id'?")),
        ("id double", SchemaMismatch, ("'id'", "int64", "double")),
        ("id string", SchemaMismatch, ("'id'", "int64", "string")),
        ("s struct<a:int,nope:int>", SchemaMismatch, ("'s'", "'nope'")),
        ("s struct<A:int>", SchemaMismatch, ("'s'", "'A'")),
        ("s struct<a:bigint NOT NULL> NOT NULL", SchemaMismatch, ("'s'", "null")),
    ],
)
def test_a_given_schema_that_does_not_fit_is_refused(spark, nested, schema, error, words):
    with refused(error, *words):
        load(spark, nested, schema).collect()


def test_a_given_schema_works_within_the_columns_option(spark, nested):
    assert load(spark, nested, "id bigint", columns="id,small").count() == 2
    with refused(NotFound, "'small'"):
        load(spark, nested, "small smallint", columns="id").collect()


def test_a_missing_dataset_under_a_given_schema_is_reported_in_full(spark, uri):
    with refused(NotFound, "There is no Lance dataset at", uri):
        load(spark, uri, "id bigint").collect()
