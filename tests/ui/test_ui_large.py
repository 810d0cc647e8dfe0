"""Ten thousand tables, ten thousand versions, wide rows: pages have parts, and no part grows with the whole."""

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.shown_lakes import write
from support.shown_pages import Tags, opened, text_of

from lance_spark import LanceCatalog
from lance_spark.storage.datasets import locate
from lance_spark.ui.page_rules import PAGE

pytestmark = pytest.mark.when(day=0)
TABLES, VERSIONS = 10_000, 10_000


def test_a_lake_of_ten_thousand_tables_comes_in_parts(tmp_path):
    lake = LanceCatalog(f"{tmp_path}/lake")
    write(lake, "first", pa.table({"id": [1, 2, 3]}))
    made = lake.describe_table("first").location.uri
    for number in range(TABLES - 1):
        shutil.copytree(made, f"{tmp_path}/lake/table_{number:05}.lance")
    client = opened(catalog=lake.catalog)
    assert f"{TABLES:,} tables" in "".join(Tags(text_of(client, "")).words)
    assert "table_00100" not in text_of(client, "")
    parts = [text_of(client, f"tables?start={start}") for start in (0, PAGE, TABLES - PAGE)]
    assert [part.count("<tr>") - part.count("<thead>") for part in parts] == [PAGE] * 3
    assert "more tables" not in parts[-1]
    assert len(max(parts, key=len)) < 60_000
    assert "table_09123" in text_of(client, "tables?q=9123")


def test_a_table_of_ten_thousand_versions_shows_the_newest(tmp_path):
    uri = f"{tmp_path}/t.lance"
    dataset = lance.write_dataset(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), uri)
    for number in range(VERSIONS - 2):
        dataset.update_config({"number": str(number)})
    lance.dataset(uri).create_branch("exp")
    lance.dataset(f"{uri}/tree/exp").update({"name": "'x'"}, where="id = 2")
    client = opened(location=locate(uri))
    graph = text_of(client, "graph")
    assert graph.count('class="version"') == 200
    assert "there are older ones" in graph
    assert text_of(client, "graph?count=1000").count('class="version"') == 1000
    words = "".join(Tags(text_of(client, "row?column=id&value=2")).words)
    assert "Branch exp changed this row." in words


def test_rows_with_hundreds_of_columns_fold(tmp_path):
    uri = f"{tmp_path}/wide.lance"
    lance.write_dataset(pa.table({"id": [1], **{f"c{number}": [number] for number in range(500)}}), uri)
    lance.dataset(uri).create_branch("exp")
    lance.dataset(f"{uri}/tree/exp").update({"c400": "-1"}, where="id = 1")
    client = opened(location=locate(uri))
    assert text_of(client, "rows").count("<th>") < 20
    assert text_of(client, "rows?all=1").count("<th>") == 501
    rows = text_of(client, "diff-rows?a=main&b=exp")
    assert "c400" in rows
    assert "487 columns that are the same everywhere are left out" in rows


def test_a_huge_difference_comes_in_pages(tmp_path):
    uri = f"{tmp_path}/t.lance"
    lance.write_dataset(pa.table({"id": range(5_000), "price": [1.0] * 5_000}), uri)
    lance.dataset(uri).create_branch("exp")
    lance.dataset(f"{uri}/tree/exp").update({"price": "2.0"})
    client = opened(location=locate(uri))
    assert Path(uri).exists()
    for start in (0, 50, 4_950):
        page = text_of(client, f"diff-rows?a=main&b=exp&start={start}")
        assert page.count('<tr class="changed">') == PAGE
        assert ("Next rows" in page) == (start < 4_950)
