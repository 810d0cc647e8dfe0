"""Blobs in a schema, at any depth: their marks, the types of their values, and the values themselves."""

import lance
import pyarrow as pa
import pytest

from lance_spark.errors import SchemaMismatch
from lance_spark.format import blobs
from lance_spark.format.storable import check_new_types

pytestmark = pytest.mark.pure

MARK = {b"lance-encoding:blob": b"true"}
BLOB = pa.field("b", pa.large_binary(), metadata=MARK)
PLAIN = pa.field("b", pa.large_binary())
INSIDE = {
    "bare": lambda blob: blob,
    "in a struct": lambda blob: pa.field("s", pa.struct([blob, pa.field("q", pa.int8())])),
    "in a list": lambda blob: pa.field("l", pa.list_(blob)),
    "in a large list": lambda blob: pa.field("l", pa.large_list(blob)),
    "deep": lambda blob: pa.field("s", pa.struct([("l", pa.list_(pa.field("x", pa.struct([blob]))))])),
}
VALUES = {
    "bare": [b"x", None, b""],
    "in a struct": [{"b": b"x", "q": 1}, None, {"b": None, "q": None}],
    "in a list": [[b"x", None], None, []],
    "in a large list": [[b"x", None], None, []],
    "deep": [{"l": [{"b": b"x"}, None]}, None, {"l": None}],
}


def shown(field):
    """A field with the metadata of everything in it, which pyarrow leaves out when it compares."""
    inner = [field.type.field(at) for at in range(getattr(field.type, "num_fields", 0))]
    return field.name, str(field.type), dict(field.metadata or {}), [shown(each) for each in inner]


@pytest.mark.parametrize("key", ["true", "TRUE"])
def test_a_blob_column_is_known_by_its_mark(key):
    field = pa.field("b", pa.large_binary(), False, {"lance-encoding:blob": key})
    assert blobs.is_blob(field)
    assert not blobs.is_blob_extension(field)
    assert not blobs.is_blob(pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "false"}))
    assert blobs.is_blob(pa.field("b", pa.large_binary(), metadata={"ARROW:extension:name": "lance.blob.v2"}))
    assert not any(blobs.is_blob(pa.field("b", kind)) for kind in (pa.large_binary(), pa.uuid(), pa.int8()))
    assert blobs.plain_bytes(field) == pa.field("b", pa.large_binary(), False)


def test_only_bytes_may_become_a_blob():
    assert all(blobs.holds_bytes(kind) for kind in (pa.binary(), pa.large_binary(), pa.binary(3), pa.null()))
    assert not any(
        blobs.holds_bytes(kind) for kind in (pa.string(), pa.list_(pa.uint8()), pa.struct([("data", pa.binary())]))
    )


@pytest.mark.parametrize("shape", INSIDE)
def test_blobs_are_found_and_replaced_at_any_depth(shape):
    made = INSIDE[shape]
    stored = blobs.stored_as(made(BLOB), lambda field: lance.blob_field(field.name))
    assert shown(stored) == shown(made(lance.blob_field("b")))
    assert all(map(blobs.holds_blobs, (stored, made(BLOB))))
    assert not blobs.holds_blobs(made(PLAIN))
    assert blobs.plain_bytes(stored).type == made(PLAIN).type
    assert shown(blobs.marked(made(PLAIN), stored)) == shown(made(BLOB)) == shown(blobs.marked(made(PLAIN), made(BLOB)))
    assert shown(blobs.marked(made(PLAIN), made(PLAIN))) == shown(made(PLAIN))


@pytest.mark.parametrize("shape", INSIDE)
@pytest.mark.parametrize("start", [0, 1])
def test_bytes_become_blobs_wherever_they_are(shape, start):
    field = INSIDE[shape](lance.blob_field("b"))
    values = pa.array(VALUES[shape], blobs.plain_bytes(field).type)[start:]
    made = blobs.wrapped(values, field)
    assert made.type == field.type
    assert str(made.to_pylist()).count("'data': b'x'") == str(values.to_pylist()).count("b'x'")
    assert made.is_null().to_pylist() == values.is_null().to_pylist()
    assert blobs.wrapped(values, blobs.plain_bytes(field)) is values
    assert blobs.without_rows(pa.schema([field])).schema.field(0).type == field.type


DESCRIBED = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])
PLACES = {
    "bare": (DESCRIBED, lambda place: {"position": place, "size": 3}),
    "in a struct": (
        pa.struct([("b", DESCRIBED), ("q", pa.int8())]),
        lambda place: {"b": {"position": place, "size": 3}, "q": 1},
    ),
    "in a list": (pa.list_(DESCRIBED), lambda place: [{"position": place, "size": 3}, None]),
}


@pytest.mark.parametrize("shape", PLACES)
def test_rows_that_only_moved_are_equal(shape):
    kind, value = PLACES[shape]
    one, other = (blobs.without_places(pa.array([value(place), None], kind)) for place in (0, 64))
    assert one.equals(other)
    assert not one.equals(blobs.without_places(pa.array([None, value(0)], kind)))
    assert blobs.describes_blobs(kind)
    assert sum(len(each) for each in blobs.descriptions_in(pa.array([value(0)], kind))) >= 1


@pytest.mark.parametrize(
    "kind", [pa.list_(BLOB), pa.map_(pa.string(), BLOB.with_name("value")), pa.struct([("l", pa.list_(BLOB))])], ids=str
)
def test_new_tables_have_no_blobs_in_lists_and_maps(kind):
    for version in ("2.1", "2.2", None):
        with pytest.raises(SchemaMismatch, match="Column 'c"):
            check_new_types([pa.field("c", kind)], version)
    check_new_types([pa.field("c", pa.struct([BLOB]))], "2.1")
