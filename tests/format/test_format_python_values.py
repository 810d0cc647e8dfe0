"""Values for people to read, also those that Python's dates do not have."""

from datetime import datetime, timezone

import pyarrow as pa
import pytest

from lance_spark.format.python_values import python_rows, python_value, python_values

pytestmark = pytest.mark.pure
FAR = 253_402_300_800_000_000  # the first microsecond of the year 10000
LOCAL = pa.array([FAR, -62_135_596_800_000_001, None], pa.int64()).cast(pa.timestamp("us"))
TOLD = ["10000-01-01T00:00:00.000000", "0000-12-31T23:59:59.999999", None]
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
CASES = [
    (LOCAL, TOLD),
    (pa.array([FAR, None, 0], pa.int64()).cast(pa.timestamp("us", "UTC")), [f"{TOLD[0]}Z", None, EPOCH]),
    (
        pa.array([0, None, 1], pa.int64()).cast(pa.timestamp("s", "Z")),
        ["1970-01-01T00:00:00Z", None, "1970-01-01T00:00:01Z"],
    ),
    (pa.array([2_932_897, None, 0], pa.int32()).cast(pa.date32()), ["10000-01-01", None, EPOCH.date()]),
    (pa.ListArray.from_arrays([0, 1, 1, 3], LOCAL), [TOLD[:1], [], TOLD[1:]]),
    (pa.StructArray.from_arrays([LOCAL], ["a"]).slice(1), [{"a": TOLD[1]}, {"a": None}]),
    (pa.array([[("k", FAR)], None], pa.map_(pa.string(), pa.timestamp("us"))), [[("k", TOLD[0])], None]),
    (pa.array([1, None]), [1, None]),
]


@pytest.mark.parametrize(("values", "expected"), CASES)
def test_values_beyond_those_of_python_are_texts(values, expected):
    assert python_values(values) == expected
    assert python_values(pa.chunked_array([values])) == expected
    assert python_value(values[0]) == expected[0]
    assert python_rows(pa.table({"x": values, "y": values})) == [{"x": each, "y": each} for each in expected]
    assert python_rows(pa.record_batch({"x": values.slice(1)})) == [{"x": each} for each in expected[1:]]
