"""jobs/cleanup.py --catalog: all tables of a catalog as one Spark job."""

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.scripts import script

from lance_spark.catalog.lookup import create_namespace, open_catalog
from lance_spark.catalog.tables import declare_table

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]


def rows(first):
    return pa.table({"id": pa.array(range(first, first + 3), pa.int64())})


@pytest.fixture
def lake(tmp_path):
    """Three tables with two versions each, the last of which is damaged, and a clone of an old version of the first."""
    catalog = open_catalog(str(tmp_path / "lake"))
    create_namespace(catalog, "ns")
    places = [declare_table(catalog, name).location.uri for name in ("ns.a", "ns.b", "c", "ns.clone")]
    for place in places[:3]:
        for first in (0, 10):
            lance.write_dataset(rows(first), place, mode="overwrite" if first else "create")
    lance.dataset(places[0]).shallow_clone(places[3], ("main", 1))
    (Path(places[2]) / "_refs" / "tags").mkdir(parents=True)
    (Path(places[2]) / "_refs" / "tags" / "broken.json").write_text("{")
    return catalog.uri, places


def test_all_tables_are_cleaned_in_one_job_as_without_spark(spark, lake, tmp_path, capsys):
    root, places = lake
    job = script("jobs/cleanup.py")
    command = [
        "--catalog",
        root,
        "--older-than",
        "0s",
        "--commit-window",
        "0s",
        "--parallelism",
        "2",
        "--report",
        str(tmp_path / "report.json"),
    ]

    def told(*arguments):
        assert job.main([*command, *arguments]) == 6, "one of the tables cannot be cleaned"
        found = json.loads((tmp_path / "report.json").read_text())["tables"]
        return {table["table"]: (table["state"], table["versions"], table["files"]) for table in found}

    local = told("--run-on", "local")
    assert local["ns.a"][:2] == local["ns.b"][:2] == ("would", 1)
    by_itself = told()
    assert by_itself == local
    assert json.loads((tmp_path / "report.json").read_text())["ran_on"] == "local", "a handful of small tables"
    done = told("--execute", "--run-on", "spark")
    assert json.loads((tmp_path / "report.json").read_text())["ran_on"] == "spark"
    assert done == {name: ("done" if state == "would" else state, *rest) for name, (state, *rest) in local.items()}
    assert "broken" in capsys.readouterr().out
    assert [len(lance.dataset(place).versions()) for place in places] == [1, 1, 2, 1]
    assert lance.dataset(places[3]).to_table()["id"].to_pylist() == [0, 1, 2]
