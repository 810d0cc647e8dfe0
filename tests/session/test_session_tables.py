"""What is said of tables in Spark's own catalog, and of several paths."""

import pytest

from lance_spark.core.catalog_options import check_named, nothing_named, path_as_name, refused_table
from lance_spark.errors import InvalidOption, Refused

pytestmark = pytest.mark.pure


def test_a_table_in_sparks_own_catalog_is_refused_with_a_catalog_and_a_statement():
    hint = refused_table("t1").hint
    assert "Register a catalog, lance_spark.register(spark, catalog='lake', root=" in hint
    assert hint.endswith("and type CREATE TABLE lake.t1 (...).")
    assert refused_table("t1", "df.write.saveAsTable('{}')", catalog="prod").hint == (
        "Type df.write.saveAsTable('prod.t1')."
    )


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, None),
        ({"branch": "exp"}, None),
        ({"path": "/p"}, "lance.`/p`"),
        ({"LOCATION": "s3://b/p", "branch": "exp"}, "lance.`s3://b/p@exp`"),
    ],
)
def test_a_path_with_its_branch_is_a_name(options, name):
    found = path_as_name(options)
    assert (found == "") if name is None else found.endswith(f"{name}.")
    hint = refused_table("t1", first=found, catalog="lake").hint
    assert hint.lower().endswith("type create table lake.t1 (...).")
    assert name is None or name in hint


@pytest.mark.parametrize(
    "options",
    [
        {"owner": "me", "provider": "lance"},
        {
            "owner": "me",
            "Provider": "lance",
            "path": "file:/p",
            "location": "file:/p",
            "option.branch": "e",
            "branch": "e",
        },
    ],
)
def test_what_spark_says_when_it_makes_a_table_is_known_from_the_options_of_a_read(options):
    with pytest.raises(Refused, match="Spark's own catalog cannot keep Lance tables") as caught:
        check_named(options, "load")
    view = "CREATE TEMPORARY VIEW t USING lance OPTIONS (path 'file:/p', branch 'e')"
    assert (view in caught.value.hint) == ("path" in options)
    check_named({"path": "/p", "branch": "e"}, "load")


def test_without_a_path_the_hint_says_what_tables_of_sparks_catalog_need():
    assert "load('s3://bucket/t.lance')" in nothing_named("load").hint
    assert "SELECT * FROM lake.t" in nothing_named("load").hint
    assert "df.write.saveAsTable('lake.t')" in nothing_named("save").hint


def test_several_paths_are_refused_with_what_reads_them():
    with pytest.raises(InvalidOption, match=r"load\(\) got 2 paths") as caught:
        check_named({"paths": '["/a", "/b"]'}, "load")
    assert "read.load('/a').unionByName(read.load('/b'))." in caught.value.hint
