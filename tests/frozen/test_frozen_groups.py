"""Groups as datasets hold them: rows whose values are equal are in one split, whatever type or encoding they have."""

import datetime as dt
import unicodedata
from decimal import Decimal

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceTable
from lance_spark.errors import Refused

GROUPS = range(40)
SPLIT = {"a": 0.5, "b": 0.3, "c": 0.2}
DAY = dt.datetime(2026, 11, 23, tzinfo=dt.timezone.utc)
VALUES = {
    "int8": (pa.int8(), lambda n: n - 20),
    "uint64": (pa.uint64(), lambda n: 2**64 - 1 - n),
    "float16": (pa.float16(), lambda n: n / 2),
    "float32": (pa.float32(), lambda n: n / 3),
    "float64": (pa.float64(), lambda n: n / 3),
    "bool": (pa.bool_(), lambda n: n % 2 == 0),
    "decimal": (pa.decimal128(20, 4), lambda n: Decimal(n - 7) / 8),
    "wide decimal": (pa.decimal256(50, 4), lambda n: Decimal(n - 7) / 8),
    "string": (pa.string(), lambda n: f"päti{n}"),
    "large string": (pa.large_string(), lambda n: f"päti{n}"),
    "dictionary": (pa.dictionary(pa.int16(), pa.string()), lambda n: f"p{n}"),
    "binary": (pa.binary(), lambda n: bytes([n, 0, 255])),
    "fixed-size binary": (pa.binary(3), lambda n: bytes([n, 0, 255])),
    "date32": (pa.date32(), lambda n: DAY.date() + dt.timedelta(n)),
    "date64": (pa.date64(), lambda n: DAY.date() + dt.timedelta(n)),
    "timestamp": (pa.timestamp("us"), lambda n: DAY + dt.timedelta(microseconds=n)),
    "timestamp with zone": (pa.timestamp("ms", "Asia/Tokyo"), lambda n: DAY + dt.timedelta(hours=n)),
    "nanoseconds": (pa.timestamp("ns"), lambda n: n),
    "time": (pa.time64("ns"), lambda n: n * 10**9),
    "duration": (pa.duration("s"), lambda n: dt.timedelta(seconds=n)),
}


def splits_of(uri, values, kind, **call):
    """The splits in which the rows of each value are, of a table that has three rows of each."""
    column = pa.array(values, kind)
    rows = pa.table({"id": range(3 * len(values)), "key": pa.chunked_array([column] * 3)})
    lance.write_dataset(rows, uri, max_rows_per_file=50)
    table = LanceTable.for_path(uri)
    table.frozen.create("s", split=SPLIT, by="key", **call)
    found = {}
    for batch in table.frozen.batches("s", columns="id", with_position=True):
        for row in batch.to_pylist():
            found.setdefault(row["id"] % len(values), set()).add(row["_split"])
    assert sorted(found) == list(range(len(values)))
    return [found[number] for number in range(len(values))]


@pytest.mark.parametrize("name", VALUES)
def test_groups_never_straddle_splits(tmp_path, name):
    kind, value = VALUES[name]
    found = splits_of(str(tmp_path / "t.lance"), [value(n) for n in GROUPS], kind)
    assert all(len(splits) == 1 for splits in found)
    assert len(set.union(*found)) == (2 if kind == pa.bool_() else 3)


def test_zeros_are_one_group_and_so_is_all_that_is_no_number(tmp_path):
    found = [
        splits_of(str(tmp_path / f"{seed}.lance"), [0.0, -0.0, float("nan"), -float("nan")], pa.float64(), seed=seed)
        for seed in range(12)
    ]
    assert all(zero == negative and nan == other for zero, negative, nan, other in found)
    assert any(zero != nan for zero, _, nan, _ in found)


def test_texts_are_equal_character_by_character(tmp_path):
    """As in SQL: two ways to write a letter are two groups, as large and small letters are."""
    composed = [f"é{n}" for n in GROUPS]
    found = splits_of(
        str(tmp_path / "t.lance"), composed + [unicodedata.normalize("NFD", text) for text in composed], pa.string()
    )
    assert all(len(splits) == 1 for splits in found)
    assert found[: len(GROUPS)] != found[len(GROUPS) :]


def test_a_dictionary_that_holds_null_is_a_row_without_a_group(tmp_path):
    uri = str(tmp_path / "t.lance")
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 2], pa.int8()), pa.array(["x", None, "y"]))
    lance.write_dataset(pa.table({"id": range(4), "key": keys}), uri)
    with pytest.raises(Refused, match="1 rows have no 'key'"):
        LanceTable.for_path(uri).frozen.create("s", by="key")
