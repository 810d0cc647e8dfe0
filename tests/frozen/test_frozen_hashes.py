"""The hashes of frozen sets. These values are a promise: sets made on other machines, and years ago, depend on them."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import InvalidOption
from lance_spark.frozen.draw_rules import canonical_bytes, check_key_type, hash_groups, hash_row_ids

pytestmark = pytest.mark.pure

UTC = dt.timezone.utc
ORDER = [17826139727625253587, 12829329459078791563, 990272481594733349, 15838781794216662346, 3305500681341664962]
SPLIT = [17934524842847250536, 4303024607890728445, 9891150562296718526, 14205927993929313371, 6658609446512506578]
TEXT = [3106795524670243268, 11758216493228807188, 3106795524670243268]
PAIR = [11890756190967865614]


def test_hashes_of_rows_are_the_documented_ones():
    ids = np.array([0, 1, 2, (7 << 32) | 3, 2**64 - 1], np.uint64)
    assert hash_row_ids(ids, 7, "order").tolist() == ORDER
    assert hash_row_ids(ids, 7, "split").tolist() == SPLIT


def test_hashes_of_rows_are_computed_as_the_module_says():
    from hashlib import blake2b

    def mix(value):
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
        return value ^ (value >> 31)

    secret = blake2b(b"lance_spark.freeze/1/order/-3", digest_size=16).digest()
    first, second = (int.from_bytes(half, "little") for half in (secret[:8], secret[8:]))
    ids = [0, 5, 2**63, 2**64 - 1]
    expected = [mix(mix((each + first) % 2**64) ^ second) for each in ids]
    assert hash_row_ids(np.array(ids, np.uint64), -3, "order").tolist() == expected


def test_rows_never_share_a_hash():
    assert len(set(hash_row_ids(np.arange(100_000, dtype=np.uint64), 1, "order").tolist())) == 100_000


GROUPS = [
    (pa.array([5, -1], pa.int8()), [b"i\1\0\0\x005", b"i\2\0\0\0-1"]),
    (pa.array(["a", ""]), [b"s\1\0\0\0a", b"s\0\0\0\0"]),
    (pa.array([b"a"]), [b"b\1\0\0\0a"]),
    (pa.array([True, False]), [b"t\1\0\0\0\1", b"t\1\0\0\0\0"]),
    (pa.array([dt.date(1970, 1, 2)]), [b"d\1\0\0\x001"]),
    (pa.array([1_000_000], pa.timestamp("us")), [b"T\x0a\0\0\x001000000000"]),
    (pa.array([dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)]), [b"Z\x0a\0\0\x001000000000"]),
    (pa.array([dt.time(0, 0, 1)], pa.time64("us")), [b"h\x0a\0\0\x001000000000"]),
    (pa.array([dt.timedelta(microseconds=3)]), [b"u\4\0\0\x003000"]),
    (pa.array([1.5]), [b"f\x08\0\0\0\x3f\xf8\0\0\0\0\0\0"]),
    (pa.array([Decimal("-12.50")]), [b"n\7\0\0\0-125e-1"]),
    (pa.array([Decimal("0.00")]), [b"n\3\0\0\x000e0"]),
]


@pytest.mark.parametrize(("values", "expected"), GROUPS, ids=lambda each: str(getattr(each, "type", "")))
def test_the_bytes_of_a_value_are_the_documented_ones(values, expected):
    assert canonical_bytes(values) == expected


SAME = [
    (pa.array([5], pa.int8()), pa.array([5], pa.uint64())),
    (pa.array(["x"]), pa.array(["x"], pa.large_string())),
    (pa.array(["x"]), pa.array(["x"]).dictionary_encode()),
    (pa.array(["x"]), pa.array(["x"], pa.string_view())),
    (pa.array([b"x"]), pa.array([b"x"], pa.binary(1))),
    (pa.array([1.5], pa.float32()), pa.array([1.5], pa.float64())),
    (pa.array([0.0]), pa.array([-0.0])),
    (pa.array([float("nan")]), pa.array([-float("nan")])),
    (pa.array([Decimal("1.50")]), pa.array([Decimal("1.5")], pa.decimal256(40, 1))),
    (pa.array([Decimal("100")]), pa.array([Decimal("100.00")])),
    (pa.array([7], pa.timestamp("s")), pa.array([7_000], pa.timestamp("ms"))),
    (pa.array([7], pa.timestamp("s", "UTC")), pa.array([7_000], pa.timestamp("ms", "Asia/Tokyo"))),
    (pa.array([7], pa.time32("s")), pa.array([7_000_000], pa.time64("us"))),
    (pa.array([0], pa.date32()), pa.array([0], pa.date64())),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=lambda each: str(each.type))
def test_a_value_is_the_same_group_in_every_type_that_holds_it(one, other):
    assert canonical_bytes(one) == canonical_bytes(other)
    assert hash_groups([one], 3).tolist() == hash_groups([other], 3).tolist()


def test_groups_of_several_columns_do_not_run_into_one_another():
    one = hash_groups([pa.array(["ab"]), pa.array(["c"])], 0)
    assert one.tolist() != hash_groups([pa.array(["a"]), pa.array(["bc"])], 0).tolist()
    assert one.tolist() != hash_groups([pa.array(["ab"]), pa.array(["c"])], 1).tolist()


def test_hashes_of_groups_are_the_documented_ones():
    assert hash_groups([pa.array(["patient-1", "patient-2", "patient-1"])], 7).tolist() == TEXT
    assert hash_groups([pa.array(["a"]), pa.array([1])], 7).tolist() == PAIR


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.null(), pa.list_(pa.int8(), 2)]
)
def test_values_without_bytes_are_refused_by_the_name_of_their_column(kind):
    with pytest.raises(InvalidOption, match=r"Column 'c' is .*cannot be used to group"):
        check_key_type("c", kind)
