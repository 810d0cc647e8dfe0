"""ALTER TABLE changes the layout of a table or of a branch: in words of ours, of Iceberg's, and as settings."""

from datetime import datetime, timezone

import lance
import pyarrow as pa
import pytest
from support.service_lakes import of, place

from lance_spark import LanceTable, register
from lance_spark.errors import InvalidOption, NotFound, Refused

pytestmark = [pytest.mark.spark, pytest.mark.on_connect(day=True)]
ROWS = pa.table(
    {
        "id": pa.array(range(20), pa.int64()),
        "ts": pa.array(
            [datetime(2026, 1, 1 + n % 2, tzinfo=timezone.utc) for n in range(20)], pa.timestamp("us", "UTC")
        ),
        "c": [f"c{n % 3}" for n in range(20)],
    }
)
BEFORE = {"lance_spark.partition_by": "days(ts)", "lance_spark.cluster_by": "zorder(id, c)"}
STATEMENTS = [
    ("PARTITIONED BY (c, bucket(4, ID))", "c, bucket(4, id)", "zorder(id, c)"),
    ("PARTITIONED BY (truncate(2, c), hours(ts))", "truncate(2, c), hours(ts)", "zorder(id, c)"),
    ("PARTITIONED BY NONE", "", "zorder(id, c)"),
    ("ADD PARTITION FIELD bucket(4, id)", "days(ts), bucket(4, id)", "zorder(id, c)"),
    ("DROP PARTITION FIELD days(TS)", "", "zorder(id, c)"),
    ("REPLACE PARTITION FIELD days(ts) WITH c", "c", "zorder(id, c)"),
    ("WRITE ORDERED BY c, ID", "days(ts)", "c, id"),
    ("WRITE UNORDERED", "days(ts)", ""),
    ("CLUSTER BY (c)", "days(ts)", "c"),
    ("CLUSTER BY NONE", "days(ts)", ""),
    ("SET TBLPROPERTIES ('lance_spark.partition_by' = 'c, months(ts)', 'a' = 'b')", "c, months(ts)", "zorder(id, c)"),
    ("SET TBLPROPERTIES ('lance_spark.cluster_by' = 'zorder(c, id)')", "days(ts)", "zorder(c, id)"),
    ("UNSET TBLPROPERTIES ('lance_spark.cluster_by', 'lance_spark.partition_by')", "", ""),
]
PLACES = ["by name", "by path", "a branch", "a branch's path", "the current namespace"]


@pytest.fixture
def table(lake, spark):
    """lake.ns1.t with a layout, and its branch exp/a with the same."""
    uri, where = place(lake, "t")
    dataset = lance.write_dataset(ROWS, uri)
    dataset.update_config(BEFORE)
    lake.register_table("ns1.t", where)
    found = lake.table("ns1.t")
    found.branches.create("exp/a")
    return found


def named(spark, table, where):
    if where == "the current namespace":
        spark.sql("USE lake.ns1")
        return "t"
    ref = "@exp/a" if "branch" in where else ""
    return f"lance.`{table.location.uri}{ref}`" if "path" in where else f"lake.ns1.`t{ref}`"


def layout_of(table):
    found = table.layout.describe()
    return found.partition_by, found.cluster_by


@pytest.mark.when(day=0.02, newest=0.5, oldest=0.25)
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize(("statement", "partition", "cluster"), STATEMENTS, ids=[each[0] for each in STATEMENTS])
def test_what_is_written_from_now_on_has_the_declared_layout(spark, table, where, statement, partition, cluster):
    name = named(spark, table, where)
    rows = spark.sql(f"ALTER TABLE {name} {statement}").collect()
    exp = table.checkout(branch="exp/a")
    changed, other = (exp, table) if "branch" in where else (table, exp)
    assert layout_of(changed) == (partition, cluster)
    assert layout_of(other) == ("days(ts)", "zorder(id, c)")
    if rows:
        (row,) = rows
        assert (row.partition_by, row.cluster_by, row.version) == (partition, cluster, changed.version)
    before = len(changed.to_df().select("c").collect())
    spark.sql(f"INSERT INTO {name} SELECT 7L, timestamp_seconds(0), concat('c', id) FROM range(4)")
    assert changed.to_df().count() == before + 4
    if partition.startswith("c,") or partition == "c":
        branch = ("exp/a", None) if "branch" in where else None
        dataset = lance.dataset(table.location.uri)
        dataset = dataset if branch is None else dataset.checkout_version(branch)
        new = dataset.get_fragments()[1:]
        assert [len({*each.to_table(columns=["c"])["c"].to_pylist()}) for each in new] == [1] * 4


IN_TURN = [
    ("PARTITIONED BY (c)", "c", "zorder(id, c)"),
    ("ADD PARTITION FIELD bucket(4, id)", "c, bucket(4, id)", "zorder(id, c)"),
    ("REPLACE PARTITION FIELD bucket(4, id) WITH days(ts)", "c, days(ts)", "zorder(id, c)"),
    ("DROP PARTITION FIELD days(ts)", "c", "zorder(id, c)"),
    ("WRITE ORDERED BY id", "c", "id"),
    ("SET TBLPROPERTIES ('lance_spark.cluster_by' = 'ts')", "c", "ts"),
]


@pytest.mark.on_services
@pytest.mark.on_connect(False)  # by day, too, it would have a case of its own
@pytest.mark.when(day=0)
@pytest.mark.parametrize("where", ["by name", "a branch"])
def test_tables_of_a_service(spark, table, where):
    name = named(spark, table, where)
    changed = table.checkout(branch="exp/a") if where == "a branch" else table
    for statement, partition, cluster in IN_TURN:
        spark.sql(f"ALTER TABLE {name} {statement}")
        assert layout_of(changed) == (partition, cluster)
    spark.sql(f"INSERT INTO {name} SELECT 7L, timestamp_seconds(0), concat('c', id) FROM range(4)")
    branch = ("exp/a", None) if where == "a branch" else None
    dataset = lance.dataset(table.location.uri)
    new = (dataset if branch is None else dataset.checkout_version(branch)).get_fragments()[1:]
    assert [len({*each.to_table(columns=["c"])["c"].to_pylist()}) for each in new] == [1] * 4
    with pytest.raises(NotFound, match="is not partitioned by days"):
        spark.sql(f"ALTER TABLE {name} DROP PARTITION FIELD days(ts)")


@pytest.mark.when(day=0.5, oldest=0)
@pytest.mark.parametrize("begun", [True, False])
def test_on_a_branch_of_the_lake(spark, lake, table, begun):
    lake.branches.create("etl")
    register(spark, catalog="etl", root=str(of(lake).directory), branch="etl")
    if begun:
        spark.sql("INSERT INTO etl.ns1.t SELECT 8L, timestamp_seconds(0), 'c'")
    before = table.version
    for statement, partition, cluster in IN_TURN:
        spark.sql(f"ALTER TABLE etl.ns1.t {statement}")
        there = lake.checkout(branch="etl").table("ns1.t")
        assert layout_of(there) == (partition, cluster)
    spark.sql("INSERT INTO etl.ns1.t SELECT 7L, timestamp_seconds(0), concat('c', id) FROM range(4)")
    assert (table.version, layout_of(table)) == (before, ("days(ts)", "zorder(id, c)"))
    lake.branches.merge("etl")
    assert layout_of(table) == ("c", "ts")
    assert table.count_rows() == 24 + begun


REFUSED = [
    ("PARTITIONED BY (gone)", "there is no column 'gone'", InvalidOption),
    ("PARTITIONED BY (hours(id))", "cannot be partitioned by hours", InvalidOption),
    ("ADD PARTITION FIELD days(ts)", "already partitioned by days", InvalidOption),
    ("DROP PARTITION FIELD ts_day", "is not partitioned by ts_day", NotFound),
    ("ADD PARTITION FIELD c AS shard", "cannot have another name", Refused),
    ("WRITE DISTRIBUTED BY PARTITION", "cannot be declared by itself", Refused),
    ("WRITE ORDERED BY c DESC", "in no other order", Refused),
    ("SET TBLPROPERTIES ('lance_spark.partition_by' = 'foo(c)')", "cannot be partitioned by foo", InvalidOption),
]


@pytest.mark.when(day=0.1)
@pytest.mark.parametrize(("statement", "said", "error"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_is_refused_changes_nothing(spark, table, statement, said, error):
    version = table.version
    with pytest.raises(error, match=said):
        spark.sql(f"ALTER TABLE lake.ns1.t {statement}")
    assert (table.version, layout_of(table)) == (version, ("days(ts)", "zorder(id, c)"))


def test_a_tag_and_a_version_keep_their_layout(spark, table):
    table.tags.create("v1")
    for ref in ("v1", "1"):
        with pytest.raises(Refused, match="never changes"):
            spark.sql(f"ALTER TABLE lake.ns1.`t@{ref}` ADD PARTITION FIELD c")


def test_a_new_table_has_no_layout_among_its_properties(spark, lake):
    with pytest.raises(InvalidOption, match="a part of the layout") as refused:
        spark.sql("CREATE TABLE lake.ns1.made (id INT) TBLPROPERTIES ('lance_spark.partition_by' = 'id')")
    assert "PARTITIONED BY" in str(refused.value)
    assert [each.name for each in lake.list_tables("ns1")] == []


def test_without_the_native_way_a_handle_declares_it(spark, uri, both_ways):
    rows = spark.createDataFrame([(n, f"c{n % 3}") for n in range(9)], "id BIGINT, c STRING")
    rows.write.format("lance").mode("append").save(uri)
    table = LanceTable.for_path(uri, spark=spark)
    assert table.layout.partition_by("c").partition_by == "c"
    rows.coalesce(1).write.format("lance").mode("append").save(uri)
    assert [len({*each.to_table()["c"].to_pylist()}) for each in lance.dataset(uri).get_fragments()][-3:] == [1, 1, 1]
