"""The options that name a table by its catalog."""

import pytest

from lance_spark.core.catalog_options import CatalogTable, take_catalog
from lance_spark.core.table_options import parse_read_options, parse_write_options
from lance_spark.errors import InvalidOption

pytestmark = pytest.mark.pure


def test_without_a_catalog_all_options_are_left():
    assert take_catalog({"path": "/a/b", "branch": "x"}, "load") == (None, {"path": "/a/b", "branch": "x"})


@pytest.mark.parametrize("spell", [str, str.upper])
@pytest.mark.parametrize(("mode", "meant"), [({}, None), ({"catalog_mode": " V2 "}, "v2")])
def test_a_catalog_a_mode_and_a_name_are_understood_in_any_case(spell, mode, meant):
    given = {spell(key): value for key, value in {"catalog": "s3://b/lake", "branch": "exp", **mode}.items()}
    table, rest = take_catalog({**given, "path": "ns1.`a.b`"}, "load")
    assert table == CatalogTable("s3://b/lake", "ns1.`a.b`", meant)
    assert rest == {spell("branch"): "exp"}


@pytest.mark.parametrize(
    ("given", "words", "hint"),
    [
        ({"catalog": "/lake"}, "No table of the catalog /lake", "load('ns1.flights')"),
        ({"catalog": " ", "path": "t"}, "'catalog' is empty", "option('catalog'"),
        ({"catalog_mode": "v1", "path": "/t"}, "no catalog is named", "Add option('catalog'"),
        ({"catalog": "/lake", "path": "s3://b/t.lance"}, "'s3://b/t.lance'.*it is a path", "leave out 'catalog'"),
        ({"catalog": "/lake", "path": "sub/t"}, "'sub/t'.*it is a path", "leave out 'catalog'"),
        ({"catalog": "/lake", "path": "sub\\t"}, "it is a path", "leave out 'catalog'"),
    ],
    ids=str,
)
def test_what_names_no_table_is_refused_with_the_way_out(given, words, hint):
    with pytest.raises(InvalidOption, match=words) as caught:
        take_catalog(given, "load")
    assert hint in caught.value.hint


@pytest.mark.parametrize("parse", [parse_read_options, parse_write_options])
@pytest.mark.parametrize(("typed", "meant"), [("catalogue", "catalog"), ("catalogMode", "catalog_mode")])
def test_a_misspelt_one_is_told_from_those_of_reads_and_writes(parse, typed, meant):
    with pytest.raises(InvalidOption) as caught:
        parse({typed: "x"})
    assert caught.value.hint == f"Did you mean '{meant}'?"
