"""Decimals that fit into longs cross to the JVM as longs."""

from decimal import Decimal

import pyarrow as pa
import pytest

from lance_spark.native.tasks import narrow, narrowed

pytestmark = pytest.mark.pure

MOST = 10**18 - 1


def unscaled(values, scale):
    return [None if value is None else int(value.scaleb(scale)) for value in values]


@pytest.mark.parametrize("values", [[], [None], [0, 1, -1], [MOST, -MOST, None, 7], [None] * 9 + [5] * 20])
@pytest.mark.parametrize("scale", [0, 2, 18])
@pytest.mark.parametrize("start", [0, 1, 9])
def test_a_decimal_is_its_unscaled_value(values, scale, start):
    decimals = [None if value is None else Decimal(value).scaleb(-scale) for value in values]
    batch = pa.record_batch({"d": pa.array(decimals, pa.decimal128(18, scale))}).slice(start)
    wire = narrow(batch.schema)
    found = narrowed(batch, wire)
    found.validate(full=True)
    assert found.schema.field("d").metadata == {b"lance_spark.decimal": f"18,{scale}".encode()}
    assert found["d"].to_pylist() == unscaled(decimals[start:], scale)


def test_what_does_not_fit_or_is_no_decimal_stays():
    kinds = [pa.decimal128(19, 2), pa.decimal256(10, 2), pa.int64(), pa.list_(pa.decimal128(9, 2)), pa.string()]
    batch = pa.record_batch([pa.array([None, None], kind) for kind in kinds], names=list("abcde"))
    assert narrow(batch.schema).equals(batch.schema, check_metadata=True)
    assert narrowed(batch, narrow(batch.schema)) is batch


def test_a_column_that_may_not_be_null_stays_one():
    schema = pa.schema([pa.field("d", pa.decimal128(5, 1), nullable=False)])
    assert not narrow(schema).field("d").nullable
