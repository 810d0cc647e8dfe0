"""What is a vector, for which column, and by which metric it is compared."""

import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import InvalidOption, SchemaMismatch
from lance_spark.search import vector_rules
from lance_spark.search.search_rules import ColumnIndex

pytestmark = pytest.mark.pure

FLOATS = pa.field("v", pa.list_(pa.float32(), 3))
DOUBLES = pa.field("d", pa.list_(pa.float64(), 3))
BYTES = pa.field("h", pa.list_(pa.uint8(), 3))
SEVERAL = pa.field("m", pa.list_(pa.list_(pa.float32(), 3)))


@pytest.mark.parametrize(
    ("type", "shape"),
    [
        (FLOATS.type, vector_rules.Shape(3, "f4", False)),
        (pa.list_(pa.float16(), 2), vector_rules.Shape(2, "f4", False)),
        (DOUBLES.type, vector_rules.Shape(3, "f8", False)),
        (BYTES.type, vector_rules.Shape(3, "u1", False)),
        (SEVERAL.type, vector_rules.Shape(3, "f4", True)),
        (pa.list_(BYTES.type), None),
        (pa.list_(pa.int8(), 3), None),
        (pa.list_(pa.float32()), None),
        (pa.list_(pa.list_(pa.float32())), None),
        (pa.binary(3), None),
        (pa.int64(), None),
    ],
    ids=str,
)
def test_columns_of_vectors(type, shape):
    assert vector_rules.shape_of(type) == shape


GOOD = [
    (FLOATS, [1, 2.5, Decimal("3")], [1.0, 2.5, 3.0]),
    (FLOATS, np.array([1, 2, 3], "f8"), [1.0, 2.0, 3.0]),
    (FLOATS, (1, 2, 3), [1.0, 2.0, 3.0]),
    (FLOATS, pa.array([1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]),
    (FLOATS, pa.chunked_array([[1.0], [2.0, 3.0]]), [1.0, 2.0, 3.0]),
    (FLOATS, pa.scalar([1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]),
    (DOUBLES, [0.1, 0.2, 0.3], [0.1, 0.2, 0.3]),
    (BYTES, [0, 255, 7], [0, 255, 7]),
    (BYTES, np.array([1, 2, 3], "i8"), [1, 2, 3]),
    (BYTES, [1.0, 2.0, 3.0], [1, 2, 3]),
    (BYTES, [Decimal("1"), Decimal("2"), Decimal("3")], [1, 2, 3]),
    (BYTES, b"\x01\x02\xff", [1, 2, 255]),
    (BYTES, bytearray(b"abc"), [97, 98, 99]),
    (SEVERAL, [[1, 2, 3], [4, 5, 6]], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    (SEVERAL, [1, 2, 3], [[1.0, 2.0, 3.0]]),
    (SEVERAL, pa.array([[1.0, 2.0, 3.0]]), [[1.0, 2.0, 3.0]]),
]


@pytest.mark.parametrize(("field", "given", "values"), GOOD, ids=lambda value: str(value)[:40])
def test_what_is_taken_as_a_vector(field, given, values):
    found = vector_rules.as_vector(given, field)
    assert found.dtype == np.dtype(vector_rules.shape_of(field.type).number)
    assert found.tolist() == values
    sent = pickle.loads(pickle.dumps(vector_rules.QueryVector.of(found)))
    assert sent == vector_rules.QueryVector.of(found)
    assert sent.values.tolist() == values


BAD = [
    (FLOATS, "abc", "not a list of numbers: str"),
    (FLOATS, 5, "not a list of numbers: int"),
    (FLOATS, [[1.0], [1.0, 2.0]], "not a list of numbers: list"),
    (FLOATS, {"a": 1}, "not a list of numbers: dict"),
    (FLOATS, [1.0, None, 2.0], "not finite"),
    (FLOATS, [1.0, float("inf"), 2.0], "not finite"),
    (FLOATS, [], "has 0 numbers, but those of column 'v' have 3"),
    (FLOATS, [1.0, 2.0], "has 2 numbers"),
    (FLOATS, [[1.0, 2.0, 3.0]], "has 2 dimensions"),
    (BYTES, [1, 2], "has 2 numbers"),
    (BYTES, b"ab", "has 2 numbers"),
    (BYTES, [1, 2, 256], "holds 256, but column 'h' has bytes"),
    (BYTES, [1, 2, -1], "holds -1"),
    (BYTES, [1, 2, 0.5], "holds 0.5"),
    (BYTES, [1, 2, float("nan")], "holds nan"),
    (BYTES, [1, 2, float("inf")], "holds inf"),
    (BYTES, [1, 2, None], "holds nan"),
    (FLOATS, ["1", "2", "3"], "not a list of numbers"),
    (FLOATS, [1.0, "2", 3.0], "not a list of numbers"),
    (FLOATS, [True, False, True], "not a list of numbers"),
    (BYTES, [True, False, True], "not a list of numbers"),
    (BYTES, ["1", "2", "3"], "not a list of numbers"),
    (BYTES, [[1, 2, 3]], "has 2 dimensions"),
    (SEVERAL, [[1, 2], [3, 4]], "has 2 numbers"),
    (SEVERAL, [], "has 0 numbers"),
    (SEVERAL, [[[1, 2, 3]]], "has 3 dimensions"),
]


@pytest.mark.parametrize(("field", "given", "words"), BAD, ids=lambda value: str(value)[:40])
def test_a_value_that_is_no_vector_of_the_column_is_refused(field, given, words):
    with pytest.raises(SchemaMismatch, match=words):
        vector_rules.as_vector(given, field)


def test_many_vectors_keep_their_places():
    given = pa.array([None, [1, 2, 3], None, [0, 255, 9]], pa.list_(pa.int16()))
    places, matrix = vector_rules.as_vectors(given, BYTES)
    assert places.tolist() == [1, 3]
    assert matrix.dtype == np.uint8
    assert matrix.tolist() == [[1, 2, 3], [0, 255, 9]]
    assert vector_rules.as_vectors(given, FLOATS)[1].dtype == np.float32
    assert vector_rules.as_vectors(pa.array([None], pa.list_(pa.int16())), BYTES)[1].shape == (0, 3)
    decimals = pa.array([[Decimal("1.0"), Decimal("2.0"), Decimal("3.0")]], pa.list_(pa.decimal128(2, 1)))
    for field in (FLOATS, BYTES):
        assert vector_rules.as_vectors(decimals, field)[1].tolist() == [[1, 2, 3]]
    for wrong in ([1, 2, 300], [1, 2, -1], [1, 2, None]):
        with pytest.raises(SchemaMismatch, match=r"A query holds .*, but column 'h' has bytes"):
            vector_rules.as_vectors(pa.array([wrong], pa.list_(pa.int16())), BYTES)
    with pytest.raises(SchemaMismatch, match="A query has 2 numbers"):
        vector_rules.as_vectors(pa.array([[1, 2]], pa.list_(pa.int16())), BYTES)
    with pytest.raises(SchemaMismatch, match="several vectors per row"):
        vector_rules.check_alone(SEVERAL)


def test_zeros_have_no_direction():
    vector_rules.check_direction(np.array([0.0, 1.0]), "cosine")
    vector_rules.check_direction(np.zeros(2), "l2")
    vector_rules.check_direction(np.array([[0.0, 1.0], [1.0, 0.0]]), "cosine")
    for zeros in (np.zeros(2), np.array([[0.0, 1.0], [0.0, 0.0]])):
        with pytest.raises(SchemaMismatch, match="all zeros"):
            vector_rules.check_direction(zeros, "cosine")


def test_the_metric_of_a_search():
    index = ColumnIndex("i", {"metric": "cosine"}, ())
    assert vector_rules.effective_metric(None, None, FLOATS) == "l2"
    assert vector_rules.effective_metric(None, None, SEVERAL) == "l2"
    assert vector_rules.effective_metric(None, None, BYTES) == "hamming"
    assert vector_rules.effective_metric(None, index, FLOATS) == "cosine"
    assert vector_rules.effective_metric("dot", None, FLOATS) == "dot"


def test_an_index_of_several_vectors_a_row_answers_with_exact_distances_or_not_at_all():
    index = ColumnIndex("i", {"metric": "cosine"}, ())
    assert vector_rules.check_refined(FLOATS, index, None, True)
    assert vector_rules.check_refined(SEVERAL, index, 10, True)
    assert not vector_rules.check_refined(SEVERAL, index, None, False)
    with pytest.raises(InvalidOption, match="only approximates") as refused:
        vector_rules.check_refined(SEVERAL, index, None, True)
    assert "refine_factor=10" in refused.value.hint


INCOMPLETE = [
    (
        pa.array([[1.0, 2.0], None, [None, 1.0], [float("nan"), 1.0], [1.0, float("-inf")]], pa.list_(pa.float32(), 2)),
        [2, 3, 4],
    ),
    (pa.array([None, [None, None], [0.0, 0.0]], pa.list_(pa.float64(), 2)), [1]),
    (pa.array([[1, 2], [None, 255], None], pa.list_(pa.uint8(), 2)), [1]),
    (pa.array([[np.float16(1), None], [np.float16(1), np.float16(2)]], pa.list_(pa.float16(), 2)), [0]),
    (
        pa.array([[[1.0, 2.0], [None, 1.0]], [[1.0, 1.0]], [], None, [None]], pa.list_(pa.list_(pa.float32(), 2))),
        [0, 4],
    ),
    (pa.array([[1.0, None], [1.0, 2.0], [None, 1.0]], pa.list_(pa.float32(), 2))[1:], [1]),
    (pa.array([], pa.list_(pa.float32(), 2)), []),
]


@pytest.mark.parametrize(("vectors", "places"), INCOMPLETE, ids=lambda each: str(getattr(each, "type", "")))
def test_a_vector_that_lacks_a_number_is_incomplete(vectors, places):
    assert np.flatnonzero(vector_rules.is_incomplete(vectors)).tolist() == places


@pytest.mark.parametrize("column", ["v", None])
def test_lists_without_a_length_can_become_vectors(column):
    schema = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32()))])
    with pytest.raises(SchemaMismatch, match=r"Column 'v' is list.*: vectors need a length") as refused:
        vector_rules.vector_column(schema, column)
    assert "t.add_columns({'v_vector': 'v'}, vector={'v_vector': 384})" in refused.value.hint
