"""Names with refs in them, and metadata tables, in a catalog: which table and which version a name means."""

import lance
import pyarrow as pa
import pytest
from support.catalogs import make_table
from support.local_datasets import numbers

from lance_spark.catalog.lookup import create_namespace, open_catalog, read_name
from lance_spark.catalog.name_rules import Identifier
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_expressions import DEFAULT, parse_moment, parse_version_text
from lance_spark.core.refs import RefSpec
from lance_spark.errors import InvalidName, InvalidOption, NotFound, Refused
from lance_spark.refs.refs import create_branch, create_tag
from lance_spark.storage.resolving import PathRef, read_path, read_path_name, resolve


@pytest.fixture
def lake(tmp_path):
    catalog = open_catalog(str(tmp_path / "lake"))
    create_namespace(catalog, "ns")
    location = make_table(catalog, "ns.flights").location
    create_branch(location, "exp/delays", RefSpec())
    create_tag(location, "v1", RefSpec())
    return catalog


def said(catalog, name, travel=None):
    found = read_name(catalog, name, DEFAULT if travel is None else parse_version_text(travel))
    return str(found.table), found.spec, found.metadata_table


@pytest.mark.parametrize(
    ("name", "travel", "expected"),
    [
        ("ns.flights", None, RefSpec()),
        ("ns.flights", "1", RefSpec(version=1)),
        ("ns.flights", "v1", RefSpec(tag="v1")),
        ("ns.flights", "exp/delays", RefSpec(branch="exp/delays")),
        ("ns.flights", "exp/delays@1", RefSpec(branch="exp/delays", version=1)),
        ("ns.`flights@exp/delays`", None, RefSpec(branch="exp/delays")),
        ("ns.`flights@exp/delays@1`", None, RefSpec(branch="exp/delays", version=1)),
        ("ns.`flights@exp/delays`", "1", RefSpec(branch="exp/delays", version=1)),
        ("ns.`flights@v1`", None, RefSpec(tag="v1")),
        ("ns.`flights@main`", None, RefSpec()),
        ("ns.`flights@1`", None, RefSpec(version=1)),
        ("ns.`flights@@1`", None, RefSpec(version=1)),
        ("ns.`flights@heads/exp/delays`", None, RefSpec(branch="exp/delays")),
    ],
)
def test_a_ref_in_the_name_or_behind_it(lake, name, travel, expected):
    table, spec, metadata_table = said(lake, name, travel)
    assert (table, spec, metadata_table) == ("ns.flights", expected, None)
    resolve(read_name(lake, name).location, spec)


def test_a_moment_on_a_branch(lake):
    found = read_name(lake, "ns.`flights@exp/delays`", parse_moment(4 * 10**15))
    assert (found.spec.branch, resolve(found.location, found.spec).version) == ("exp/delays", 1)


@pytest.mark.parametrize(
    ("name", "travel", "error", "says"),
    [
        ("ns.flihgts", None, NotFound, "no such table"),
        ("ns.`flights@exp/delay`", None, NotFound, "exp/delays"),
        ("ns.`other@exp`", None, NotFound, "no table 'ns.other'"),
        ("ns.flights", "v2", NotFound, "v1"),
        ("ns.`flights@v1`", "1", InvalidOption, "is one version"),
        ("ns.`flights@v1@1`", None, InvalidOption, "is one version"),
        ("ns.`flights@exp/delays@1`", "1", InvalidOption, "already"),
        ("ns.`a/b`", None, InvalidName, "cannot contain '/'"),
    ],
)
def test_names_that_mean_nothing(lake, name, travel, error, says):
    with pytest.raises(error, match=says):
        said(lake, name, travel)


def test_a_table_whose_own_name_has_an_at_sign_is_found_by_it(lake):
    make_table(lake, "ns.`a@b`")
    create_branch(read_name(lake, "ns.`a@b`").location, "exp", RefSpec())
    assert read_name(lake, "ns.`a@b`").table == Identifier(("ns", "a@b"))
    assert read_name(lake, "ns.`a@b@exp`").table == Identifier(("ns", "a@b"))
    assert read_name(lake, "ns.`a@b@exp`").spec == RefSpec(branch="exp")


def test_a_name_that_means_a_table_and_a_branch_is_refused_with_both_spellings(lake):
    """Whoever makes a table ``flights@v1`` must not change what readers of the tag get."""
    create_branch(read_name(lake, "ns.flights").location, "exp", RefSpec())
    make_table(lake, "ns.`flights@exp`", numbers(7))
    with pytest.raises(Refused) as refused:
        read_name(lake, "ns.`flights@exp`")
    assert "`flights@exp@main`" in refused.value.hint
    assert "`flights@heads/exp`" in refused.value.hint
    assert lance.dataset(read_name(lake, "ns.`flights@exp@main`").location.uri).count_rows() == 7
    assert read_name(lake, "ns.`flights@heads/exp`").spec == RefSpec(branch="exp")


def test_a_table_whose_name_could_hold_a_ref_that_is_not_there_is_the_table(lake):
    make_table(lake, "ns.`flights@nothing`", numbers(7))
    assert read_name(lake, "ns.`flights@nothing`").table == Identifier(("ns", "flights@nothing"))


def test_metadata_tables(lake):
    assert said(lake, "ns.flights.branches") == ("ns.flights", RefSpec(), "branches")
    assert said(lake, ["ns", "flights@exp/delays", "FILES"]) == ("ns.flights", RefSpec(branch="exp/delays"), "files")
    assert said(lake, "ns.flights.versions", "v1") == ("ns.flights", RefSpec(tag="v1"), "versions")
    with pytest.raises(NotFound, match="no such table"):
        read_name(lake, "ns.nothing.versions")
    with pytest.raises(NotFound, match="no branch or tag"):
        read_name(lake, ["ns", "flights@nothing", "versions"])


def test_a_table_called_like_a_metadata_table_comes_first(lake):
    create_namespace(lake, "ns.deep")
    make_table(lake, "ns.deep.branches", pa.table({"id": [1]}))
    assert said(lake, "ns.deep.branches")[0] == "ns.deep.branches"


def test_a_path_with_a_ref(tmp_path):
    uri = str(tmp_path / "a@b" / "flights.lance")
    location = DatasetLocation.at(uri)
    lance.write_dataset(numbers(3), uri)
    create_branch(location, "exp/delays", RefSpec())
    create_tag(location, "v1", RefSpec())
    for text, expected in {
        "": RefSpec(),
        "@exp/delays": RefSpec(branch="exp/delays"),
        "@exp/delays@1": RefSpec(branch="exp/delays", version=1),
        "@v1": RefSpec(tag="v1"),
        "@1": RefSpec(version=1),
    }.items():
        assert read_path(uri + text) == PathRef(location, expected)
    assert read_path(uri, travel=parse_version_text("v1")).spec == RefSpec(tag="v1")
    for text in ("@nothing", "x", "x@exp/delays"):
        with pytest.raises(NotFound):
            read_path(uri + text)
    lance.write_dataset(numbers(7), f"{uri}@v1")
    with pytest.raises(Refused) as refused:
        read_path(f"{uri}@v1")
    assert f"`{uri}@tags/v1`" in refused.value.hint
    assert read_path(f"{uri}@tags/v1").spec == RefSpec(tag="v1")
    assert read_path(f"{uri}@v1@main").location.uri == f"{uri}@v1"

    assert read_path_name([uri, "FILES"]) == PathRef(location, RefSpec(), "files")
    assert read_path_name([f"{uri}@exp/delays", "versions"]).spec == RefSpec(branch="exp/delays")
    assert read_path_name([uri]) == PathRef(location, RefSpec())
    for parts in (["ns", uri], [uri, "snapshots"], [uri, "files", "x"]):
        with pytest.raises(NotFound, match="no table"):
            read_path_name(parts)


def test_a_catalog_without_namespaces_has_metadata_tables(tmp_path):
    catalog = open_catalog(str(tmp_path / "lake"), mode="v1")
    location = make_table(catalog, "flights").location
    create_branch(location, "exp", RefSpec())
    assert said(catalog, "flights.branches") == ("flights", RefSpec(), "branches")
    assert said(catalog, "`flights@exp`.files") == ("flights", RefSpec(branch="exp"), "files")
    with pytest.raises(NotFound, match="no such table"):
        read_name(catalog, "nothing.branches")
    with pytest.raises(Refused):
        read_name(catalog, "ns.flights")
