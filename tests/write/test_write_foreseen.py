"""What a write will start from: the layout and properties by which Spark brings rows, however the target is named."""

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceCatalog, LanceTable
from lance_spark.catalog.staging import alter_properties
from lance_spark.layout.layout_rules import AS_THEY_COME, Arrangement
from lance_spark.storage.datasets import locate
from lance_spark.tables.write import foresee

SCHEMA = pa.schema([("id", pa.int64()), ("c", pa.string()), ("list", pa.list_(pa.int64()))])
EVENLY = Arrangement(("id", "c"))


@pytest.fixture
def uri(tmp_path):
    path = str(tmp_path / "t.lance")
    lance.write_dataset(SCHEMA.empty_table(), path)
    alter_properties(locate(path), None, {"optimize_write": "true"})
    LanceTable.for_path(path).branches.create("exp")
    return path


def arranged(schema=SCHEMA, **options):
    return foresee(options).arranged(schema)


def test_main_a_branch_and_a_new_branch_obey_the_table(uri):
    assert arranged(path=uri) == EVENLY
    assert arranged(path=uri, branch="exp") == EVENLY
    assert arranged(path=f"{uri}@exp") == EVENLY
    assert arranged(path=uri, branch="new", create_branch="true") == EVENLY
    alter_properties(locate(uri), "exp", {"optimize_write": "false"})
    assert (arranged(path=uri), arranged(path=uri, branch="exp")) == (EVENLY, AS_THEY_COME)


@pytest.mark.parametrize(
    "options",
    [{"branch": "gone"}, {"branch": "a", "create_branch": "perhaps"}, {"path": "/nowhere/t.lance"}, {"version": "1"}],
    ids=str,
)
def test_what_the_write_will_refuse_comes_as_it_comes(uri, options):
    assert arranged(**{"path": uri, **options}) == AS_THEY_COME


FRAMES = {
    "the same columns": (SCHEMA, Arrangement(("c",), ("c",), True)),
    "without the column": (pa.schema([("id", pa.int64())]), AS_THEY_COME),
    "of a type that cannot be compared": (pa.schema([("c", pa.list_(pa.int64()))]), AS_THEY_COME),
    "in another case": (pa.schema([("C", pa.string())]), AS_THEY_COME),
    "twice": (pa.schema([("c", pa.string()), ("C", pa.string())]), AS_THEY_COME),
}


@pytest.mark.parametrize("frame", FRAMES)
def test_a_layout_holds_for_rows_that_have_its_columns(uri, frame):
    LanceTable.for_path(uri).layout.partition_by("c")
    schema, expected = FRAMES[frame]
    assert arranged(schema, path=uri) == expected


def test_a_new_table_comes_as_its_options_declare(tmp_path):
    assert arranged(path=str(tmp_path / "new"), partition_by="c") == Arrangement(("c",), ("c",), True)
    assert arranged(path=str(tmp_path / "new")) == AS_THEY_COME


def test_a_table_of_a_catalog(tmp_path):
    lake = LanceCatalog(str(tmp_path / "lake"))
    lake.create_namespace("ns")
    lake.write_table(SCHEMA.empty_table(), "ns.t")
    alter_properties(lake.table("ns.t").location, None, {"optimize_write": "true"})
    given = {"catalog": lake.catalog.uri, "path": "ns.t"}
    assert arranged(**given) == EVENLY
    assert arranged(**given, branch="new", create_branch="true") == EVENLY
    assert foresee(given).planned_with == lake.table("ns.t").version
    assert foresee({**given, "branch": "new", "create_branch": "true"}).planned_with is None
    assert arranged(catalog=lake.catalog.uri, path="ns.gone", cluster_by="c") == Arrangement((), ("c",))
