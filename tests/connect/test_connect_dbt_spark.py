"""dbt on the Thrift server with the jar of ``lance-catalog jar``, by the macros that the page on servers shows."""

import re
import subprocess
from pathlib import Path

import lance
import pytest
from support.connect_server import thrift_server
from support.environments import environment_with
from support.spark_cluster import HOME, LOOPBACK

from lance_spark import LanceCatalog
from lance_spark.jvm.server.compiling import write_jar

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", day=0)]

PAGE = Path(__file__).parents[2] / "docs" / "start" / "servers.md"
INSTALLED = ("dbt-core>=1.9,<1.10", "dbt-spark>=1.9,<1.10", "pyhive", "thrift", "thrift_sasl", "pure-sasl")
PROFILE = f"""
lake:
  target: dev
  outputs:
    dev: {{type: spark, method: thrift, host: {LOOPBACK}, port: PORT, user: me, schema: ns, threads: 2}}
"""
PROJECT = {
    "dbt_project.yml": """
name: flights
version: "1.0"
profile: lake
flags: {send_anonymous_usage_stats: false}
models: {+file_format: iceberg}
seeds: {+file_format: iceberg}
snapshots: {+file_format: iceberg}
""",
    "seeds/carriers.csv": "id,name\n1,Aa\n2,Bb\n3,Cc\n",
    "models/flown.sql": """
{{ config(materialized='table') }}
select id, name, id * 10 as miles from {{ ref('carriers') }}
""",
    "models/grown.sql": """
{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}
select id, miles + {{ 1 if is_incremental() else 0 }} as miles from {{ ref('flown') }}
{% if is_incremental() %} where id > 1 {% endif %}
""",
    "models/schema.yml": """
models:
  - name: flown
    columns: [{name: id, data_tests: [unique, not_null]}]
""",
    "snapshots/kept.sql": """
{% snapshot kept %}
{{ config(target_schema='ns', unique_key='id', strategy='check', check_cols=['miles']) }}
select * from {{ ref('grown') }}
{% endsnapshot %}
""",
}


@pytest.fixture(scope="module")
def dbt(tmp_path_factory):
    """The program, in an environment of its own."""
    return environment_with(tmp_path_factory.mktemp("dbt"), *INSTALLED) / "dbt"


def test_a_project_is_seeded_built_merged_snapshotted_and_tested(tmp_path, dbt):
    lake = LanceCatalog(f"{tmp_path}/lake")
    for name in ("default", "ns"):
        lake.create_namespace(name)
    write_jar(str(HOME), f"{tmp_path}/lance.jar")
    settings = {
        "spark.master": "local[2]",
        "spark.jars": f"{tmp_path}/lance.jar",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.extensions": "lance_spark.Extensions",
        "spark.sql.catalog.lake": "lance_spark.Catalog",
        "spark.sql.catalog.lake.root": f"{tmp_path}/lake",
        "spark.sql.defaultCatalog": "lake",
    }
    (tmp_path / "spark.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    (macros,) = re.findall(r"```sql\n({% macro .*?)```", PAGE.read_text(), re.DOTALL)
    with thrift_server(tmp_path, tmp_path / "spark.conf") as (_, port):
        project = tmp_path / "project"
        profile = PROFILE.replace("PORT", str(port))
        for path, text in {**PROJECT, "macros/lance.sql": macros, "profiles.yml": profile}.items():
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            (project / path).write_text(text)

        def run(command, *more):
            told = [dbt, "--no-use-colors", command, "--profiles-dir", ".", *more]
            return subprocess.run(told, cwd=project, capture_output=True, text=True, timeout=900)

        for command in ("seed", "run", "snapshot", "run", "snapshot", "test"):
            done = run(command)
            assert done.returncode == 0, (command, done.stdout[-4000:])
        (project / "models" / "seen.sql").write_text("{{ config(materialized='view') }} select 1 as id")
        done = run("run", "--select", "seen")
        assert done.returncode
        assert "Catalog lake does not support views" in done.stdout
    rows = {
        name: lance.dataset(lake.table(f"ns.{name}").location.uri).to_table() for name in ("flown", "grown", "kept")
    }
    assert rows["flown"].sort_by("id").to_pylist() == [
        {"id": each, "name": name, "miles": each * 10} for each, name in ((1, "Aa"), (2, "Bb"), (3, "Cc"))
    ]
    assert rows["grown"].sort_by("id").to_pylist() == [
        {"id": 1, "miles": 10},
        {"id": 2, "miles": 21},
        {"id": 3, "miles": 31},
    ]
    kept = sorted((row["id"], row["miles"], row["dbt_valid_to"] is None) for row in rows["kept"].to_pylist())
    assert kept == [(1, 10, True), (2, 20, False), (2, 21, True), (3, 30, False), (3, 31, True)]
