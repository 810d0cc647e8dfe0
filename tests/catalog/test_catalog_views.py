"""Names of the temporary views of a catalog's tables."""

import pytest

from lance_spark.catalog.name_rules import Identifier, view_names
from lance_spark.core.texts import quoted_name
from lance_spark.errors import Refused

pytestmark = pytest.mark.pure


def test_a_view_is_called_as_its_table_with_underscores_for_dots():
    tables = [Identifier(("flights",)), Identifier(("ns1", "ns2", "flights")), Identifier(("ns1", "a.b c"))]
    assert list(view_names(tables).values()) == ["flights", "ns1_ns2_flights", "ns1_a.b c"]
    assert list(view_names(tables, "lake_").values()) == ["lake_flights", "lake_ns1_ns2_flights", "lake_ns1_a.b c"]


@pytest.mark.parametrize(
    ("one", "other"), [(("a", "b_c"), ("a_b", "c")), (("a", "t"), ("a_t",)), (("Straße",), ("STRASSE",))]
)
def test_two_tables_never_share_a_view(one, other):
    with pytest.raises(Refused, match="would both get the view") as caught:
        view_names([Identifier(one), Identifier(("x",)), Identifier(other)])
    assert str(Identifier(one)) in caught.value.message
    assert str(Identifier(other)) in caught.value.message


def test_a_name_is_quoted_for_sql():
    assert quoted_name("a-`b`") == "`a-``b```"
