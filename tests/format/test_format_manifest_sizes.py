"""Rows and bytes of fragments, as manifests record them."""

import pytest
from support.manifest_bytes import data_file, deletion_file, field, fragment, head

from lance_spark.errors import CorruptData
from lance_spark.format.manifest import recorded_sizes

pytestmark = pytest.mark.pure


def deleting(rows):
    return b"".join([field(2, 7), field(3, 1), field(4, rows)])


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (fragment(0, [data_file("a")]), (0, 10, 0, 1000)),
        (fragment(7, [data_file("a"), data_file("b", base=0)]), (7, 10, 0, 2000)),
        (fragment(7, [data_file("a")], deletion_file(3, 1)), (7, 10, 1, 1000)),
        (fragment(7, [data_file("a")], deleting(10)), (7, 10, 10, 1000)),
        (fragment(7, [data_file("a")], deleting(0)), (7, 10, None, 1000)),  # pylance: not recorded
        (fragment(7, [data_file("a")], deleting(None)), (7, 10, None, 1000)),
        (fragment(7, [field(1, "a")]), (7, 10, 0, 0)),
        (fragment(7, []), (7, 10, 0, 0)),
        (field(2, field(1, 7) + field(2, data_file("a"))), (7, None, 0, 1000)),
        (field(2, b""), (0, None, 0, 0)),
        (fragment(2**40, [data_file("a")], more=field(99, "of a later writer")), (2**40, 10, 0, 1000)),
    ],
)
def test_what_is_recorded_of_a_fragment(record, expected):
    assert list(recorded_sizes(record + head())) == [expected]


def test_fragments_come_in_the_order_of_the_manifest():
    records = b"".join(fragment(number, [data_file(str(number))] * number) for number in (5, 0, 3))
    assert [(size[0], size[3]) for size in recorded_sizes(records + head())] == [(5, 5000), (0, 0), (3, 3000)]
    assert list(recorded_sizes(head())) == []


def test_bytes_that_are_no_manifest():
    with pytest.raises(CorruptData, match="damaged"):
        list(recorded_sizes(b"\x12\xff\xff"))
