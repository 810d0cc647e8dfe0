"""What the cast table allows either arrives unchanged or is refused, for any types and values."""

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.arrow_values import arrays, holds_forbidden_null, plain, type_pairs

from lance_spark.errors import SchemaMismatch
from lance_spark.format.schema import conform_column, why_not

pytestmark = pytest.mark.pure


@given(st.data())
def test_an_allowed_conversion_keeps_every_value_or_raises(data):
    source, target = data.draw(type_pairs())
    assume(why_not(source, target) is None)
    field = pa.field("c", target, data.draw(st.booleans()))
    array = data.draw(arrays(source))
    before = plain(array)
    try:
        result = conform_column(array, field)
    except SchemaMismatch:
        return
    result.validate()
    assert result.type == target
    assert plain(result) == before
    assert not holds_forbidden_null(before, target, field.nullable)


@given(st.data())
def test_an_array_of_the_right_type_is_passed_on_whatever_it_holds(data):
    kind = data.draw(type_pairs())[0]
    assume("time64[ns]" not in str(kind))
    array = data.draw(arrays(kind))
    assert plain(conform_column(array, pa.field("c", kind))) == plain(array)
