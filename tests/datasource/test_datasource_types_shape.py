"""Nullability, column metadata, nested vectors and names survive both directions."""

import lance
import pyarrow as pa
import pytest
from pyspark.sql import types as st
from support.frames import load, numbers, refused, save

from lance_spark.errors import SchemaMismatch

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("both_ways"), pytest.mark.when(oldest=0.3)]

VECTOR = st.StructField("v", st.ArrayType(st.FloatType()), True, {"arrow.fixed-size-list.size": 2})


def field(name, kind, nullable=True, **metadata):
    return st.StructField(name, kind, nullable, metadata)


def struct(*fields):
    return st.StructType(list(fields))


def test_nullability_survives_at_every_level(spark, uri):
    inner = struct(field("x", st.IntegerType(), False), field("y", st.IntegerType()))
    schema = struct(
        field("id", st.LongType(), False),
        field("l", st.ArrayType(st.IntegerType(), False), False),
        field("m", st.MapType(st.StringType(), st.IntegerType(), False)),
        field("s", inner),
        field("ls", st.ArrayType(inner, False)),
    )
    values = [(1, [1], {"k": 1}, (1, None), [(1, None)]), (2, [], None, None, None)]
    save(spark.createDataFrame(values, schema), uri)
    stored = lance.dataset(uri).schema
    assert [stored.field(name).nullable for name in stored.names] == [False, False, True, True, True]
    assert not stored.field("l").type.value_field.nullable
    assert not stored.field("m").type.item_field.nullable
    assert not stored.field("ls").type.value_type.field("x").nullable
    frame = load(spark, uri)
    assert frame.schema == schema
    assert sorted(frame.collect()) == sorted(spark.createDataFrame(values, schema).collect())


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (pa.field("c", pa.int64(), False), "null", "c"),
        (pa.field("c", pa.struct([pa.field("x", pa.int32(), False)])), "named_struct('x', cast(null as int))", "c.x"),
        (pa.field("c", pa.list_(pa.field("item", pa.int32(), False))), "array(1, null)", "c.element"),
    ],
    ids=["column", "struct field", "element"],
)
def test_a_null_where_the_dataset_forbids_it_is_refused(spark, uri, kind, value, path):
    lance.write_dataset(pa.schema([kind]).empty_table(), uri)
    with refused(SchemaMismatch, "'c", "null"):
        save(numbers(spark, 0, 1).selectExpr(f"{value} as c"), uri)
    assert lance.dataset(uri).version == 1


def test_column_metadata_survives_as_text_both_ways(spark, uri):
    schema = struct(
        field("a", st.IntegerType(), comment="an id", unit="m"),
        field("s", struct(field("x", st.IntegerType(), comment="inner"))),
    )
    save(spark.createDataFrame([(1, (2,))], schema), uri)
    stored = lance.dataset(uri).schema
    assert stored.field("a").metadata == {b"comment": b"an id", b"unit": b"m"}
    assert stored.field("s").type.field("x").metadata == {b"comment": b"inner"}
    assert load(spark, uri).schema == schema


def test_metadata_that_is_not_text_is_kept_as_json(spark, uri):
    save(spark.createDataFrame([(1,)], struct(field("a", st.IntegerType(), n=5, d={"k": [1]}))), uri)
    assert lance.dataset(uri).schema.field("a").metadata == {b"n": b"5", b"d": b'{"k": [1]}'}


def test_a_vector_inside_a_struct_stays_a_vector(spark, uri):
    schema = struct(field("s", struct(VECTOR)), field("l", st.ArrayType(struct(VECTOR))))
    save(spark.createDataFrame([(([1.0, 2.0],), [([3.0, 4.0],)]), ((None,), [])], schema), uri)
    stored = lance.dataset(uri).schema
    assert stored.field("s").type.field("v").type == pa.list_(pa.float32(), 2)
    assert stored.field("l").type.value_type.field("v").type == pa.list_(pa.float32(), 2)
    assert load(spark, uri).schema == schema


def test_a_batch_of_nothing_but_null_vectors_is_written(spark, uri):
    schema = struct(VECTOR, field("s", struct(VECTOR)), field("l", st.ArrayType(st.StringType())))
    save(spark.createDataFrame([(None, (None,), [])] * 2, schema).coalesce(1), uri)
    expected = {"v": None, "s": {"v": None}, "l": []}
    assert lance.dataset(uri).to_table().to_pylist() == [expected] * 2


def test_lists_of_another_length_are_not_vectors(spark, uri):
    with refused(SchemaMismatch, "Column 'v'", "fixed_size_list<item: float>[2]"):
        save(spark.createDataFrame([([1.0, 2.0],), ([1.0],)], struct(VECTOR)), uri)


def test_a_vector_of_vectors_is_read_and_appended(spark, uri):
    kind = pa.list_(pa.list_(pa.float32(), 2), 1)
    lance.write_dataset(pa.table({"v": pa.array([[[1.0, 2.0]], None], kind)}), uri)
    save(load(spark, uri), uri)
    table = lance.dataset(uri).to_table()
    assert table.schema.field("v").type == kind
    assert table["v"].to_pylist() == [[[1.0, 2.0]], None] * 2


@pytest.mark.parametrize(
    "names", [["my col", "a,b", "a/b", "x'y", 'x"y'], ["select", "Order", "ünï", "1a", "count(x)"]]
)
def test_odd_column_names_are_read_and_written(spark, uri, names):
    lance.write_dataset(pa.table({name: [index] for index, name in enumerate(names)}), uri)
    frame = load(spark, uri)
    assert frame.columns == names
    save(frame, uri)
    assert lance.dataset(uri).to_table().to_pylist() == [{name: i for i, name in enumerate(names)}] * 2
    quoted = ",".join(f"`{name}`" for name in names[1:3])
    assert load(spark, uri, columns=quoted).collect() == [(1, 2)] * 2


def test_columns_that_differ_only_in_case_are_kept_apart(spark, uri):
    lance.write_dataset(pa.table({"a": [1], "A": [2]}), uri)
    assert load(spark, uri).collect() == [(1, 2)]
    assert load(spark, uri, columns="A").collect() == [(2,)]


def test_old_dates_and_times_are_the_same_day_on_both_sides(spark, uri):
    save(spark.sql("select date'0001-01-01' d, timestamp_ntz'0001-01-01 00:00:00' t, date'1582-10-14' g"), uri)
    texts = lance.dataset(uri).to_table().to_pylist()[0]
    assert {name: str(value) for name, value in texts.items()} == {
        "d": "0001-01-01",
        "t": "0001-01-01 00:00:00",
        "g": "1582-10-14",
    }
