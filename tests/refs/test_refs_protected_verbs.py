"""Every verb, on a branch that is protected and on one that is not: what a protected branch takes and what it refuses.

A verb that is added to LanceTable has to be put into one of the lists, or a test here fails.
"""

import lance
import pyarrow as pa
import pytest
from support.local_datasets import contents

from lance_spark import LanceCatalog, LanceTable, register, unregister

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]

_NAMES = """
blobs branch branches browse changes checkout cleanup clone count_rows diff expire_refs for_path frozen fsck head
history indexes log near_duplicates nearest_join open_cleanup_plan query reflog remotes schema search
storage tags to_df transaction undo_repair version versions
"""
OTHERS = frozenset(_NAMES.split())
"""What changes no row, column or setting of the branch itself. A transaction publishes by a merge."""
PYTHON = {
    "write": lambda t, frame: t.write(frame),
    "write overwrite": lambda t, frame: t.write(frame, mode="overwrite"),
    "overwrite": lambda t, frame: t.overwrite(frame, where="id = 200"),
    "delete": lambda t, _: t.delete("id = 1"),
    "update": lambda t, _: t.update({"more": "5"}, where="id = 1"),
    "merge": lambda t, frame: t.merge(frame, on="id").when_not_matched_insert_all().execute(),
    "add_columns": lambda t, _: t.add_columns({"twice": "id * 2"}),
    "add_columns_with": lambda t, _: t.add_columns_with(lambda batch: {"twin": batch["id"]}, schema="twin bigint"),
    "add_columns_from": lambda t, frame: t.add_columns_from(frame.withColumnRenamed("more", "twin"), on="id"),
    "update_columns": lambda t, _: t.update_columns({"more": "id * 2"}),
    "update_columns_with": lambda t, _: t.update_columns_with(lambda batch: {"more": batch["id"]}, schema=["more"]),
    "update_columns_from": lambda t, frame: t.update_columns_from(frame, on="id"),
    "drop_columns": lambda t, _: t.drop_columns(["more"]),
    "rename_columns": lambda t, _: t.rename_columns({"more": "other"}),
    "alter_columns": lambda t, _: t.alter_columns(comments={"id": "the key"}),
    "cherry_pick": lambda t, _: t.cherry_pick("work", lance.dataset(t.location.branch_uri("work")).version),
    "revert": lambda t, _: t.revert(2),
    "restore": lambda t, _: t.checkout(branch=t.branch or "main", version=1).restore(),
    "layout": lambda t, _: t.layout.cluster_by("id"),
    "constraints": lambda t, _: t.constraints.add("small", "id < 1000"),
    "disable_auto_cleanup": lambda t, _: t.disable_auto_cleanup(),
    "a stream": lambda t, frame: stream(t, frame, lambda out: out.format("lance").option("path", t.location.uri)),
    "a stream of upserts": lambda t, frame: t.streams.upsert(key="id", query_id="q")(frame, 0),
    "mode overwrite": lambda t, frame: (
        frame.write.format("lance").mode("overwrite").options(**branch_option(t)).save(t.location.uri)
    ),
    "saveAsTable": lambda t, frame: frame.write.mode("overwrite").format("lance").saveAsTable(name(t)),
    "writeTo append": lambda t, frame: frame.writeTo(name(t)).append(),
    "writeTo createOrReplace": lambda t, frame: frame.writeTo(name(t)).using("lance").createOrReplace(),
    "writeTo replace": lambda t, frame: frame.writeTo(name(t)).using("lance").replace(),
}
UPKEEP = {
    "optimize": lambda t: t.optimize(own_only=False),
    "optimize in an order": lambda t: t.optimize(own_only=False, sort_by="id"),
    "analyze": lambda t: t.analyze("id"),
    "flatten": lambda t: t.flatten() if t.branch else None,
    "indexes": lambda t: (t.indexes.create("id", kind="btree"), t.indexes.optimize(), t.indexes.drop("id_idx")),
    "relocate": lambda t: t.relocate(),
    "maintain": lambda t: t.maintain().apply() if not t.branch else None,
    "merge of a branch": lambda t: t.branches.merge("work", into=t.branch or "main"),
}
COVERED = {
    "compact_wal": "refused where rows wait; tests/optimize/test_optimize_wal.py",
    "repair": "makes branches of its own without on_main; tests/fsck/test_fsck_repairs.py",
    "streams": "its verb upserts is a stream of upserts above",
    "enable_auto_cleanup": "refused as disable_auto_cleanup is; tests/refs/test_refs_protected.py",
}
SQL = [
    "INSERT INTO {t} VALUES (200, 1)",
    "INSERT OVERWRITE {t} VALUES (200, 1)",
    "DELETE FROM {t} WHERE id = 1",
    "DELETE FROM {t}",
    "TRUNCATE TABLE {t}",
    "UPDATE {t} SET more = 5 WHERE id = 1",
    "MERGE INTO {t} AS t USING (SELECT 1L AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "ALTER TABLE {t} ADD COLUMNS (new INT)",
    "ALTER TABLE {t} DROP COLUMN more",
    "ALTER TABLE {t} RENAME COLUMN more TO other",
    "CREATE OR REPLACE TABLE {t} (a INT)",
    "CREATE OR REPLACE TABLE {t} AS SELECT 1L AS id",
    "REPLACE TABLE {t} AS SELECT 1L AS id",
    "CALL lake.system.restore(table => 'ns1.{known}', ref => '{branch}@1')",
    "CALL lake.system.revert(table => 'ns1.{known}', version => 2, branch => '{branch}')",
    "CALL lake.system.cherry_pick(table => 'ns1.{known}', ref => 'work@3', into => '{branch}')",
]
BY_DAY = (
    "write overwrite",
    "merge",
    "drop_columns",
    "saveAsTable",
    "writeTo createOrReplace",
    "INSERT OVERWRITE",
    "DELETE FROM",
    "TRUNCATE",
    "ALTER TABLE {t} DROP COLUMN",
    "CREATE OR REPLACE",
    "CALL lake.system.restore",
)
"""What destroys most. The others end in the same doors, of which tests/refs/test_refs_protected.py tries each."""
BRANCHES = ["main", pytest.param("exp", marks=pytest.mark.when(day=0))]
WHOLE = ["DROP TABLE lake.ns1.protected", "DROP TABLE lake.ns1.protected PURGE", "DROP NAMESPACE lake.ns1 CASCADE"]


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    unregister(spark)
    catalog = LanceCatalog(str(tmp_path_factory.mktemp("lakes") / "lake"), spark=spark)
    catalog.create_namespace("ns1")
    register(spark, catalog="lake", root=catalog.catalog.uri)
    register(spark)
    yield catalog
    spark.catalog.setCurrentCatalog("spark_catalog")
    unregister(spark)


def make(spark, uri):
    """Branches main and exp, which have their second version each, and work, with a row more than main."""
    lance.write_dataset(numbered(0, 3), uri)
    lance.write_dataset(numbered(3, 3), uri, mode="append")
    table = LanceTable.for_path(uri, spark=spark)
    table.branches.create("exp", version=1)
    lance.write_dataset(numbered(50, 3), lance.dataset(uri).checkout_version(("exp", None)), mode="append")
    table.branches.create("work")  # from main
    lance.write_dataset(numbered(60, 1), lance.dataset(uri).checkout_version(("work", None)), mode="append")
    return table


def registered(spark, lake, directory):
    make(spark, lake.catalog.at(directory).uri)
    lake.register_table(f"ns1.{directory}", directory)
    return lake.table(f"ns1.{directory}")


def numbered(first, count):
    return pa.table(
        {"id": pa.array(range(first, first + count), pa.int64()), "more": pa.array([0] * count, pa.int64())}
    )


@pytest.fixture(scope="module")
def protected(spark, lake):
    """Table ns1.protected. No test changes it, if all is well."""
    table = registered(spark, lake, "protected")
    for branch in ("main", "exp"):
        table.branches.alter(branch, protected=True)
    yield table
    for branch in ("main", "exp"):
        table.branches.alter(branch, protected=False)
    lake.drop_table("ns1.protected")


@pytest.fixture
def open_table(spark, lake):
    table = registered(spark, lake, "open")
    yield table
    lake.drop_table("ns1.open")  # with its files


def rows(spark):
    return spark.createDataFrame([(200, 1)], "id long, more long")


def branch_option(table):
    return {"branch": table.branch} if table.branch else {}


def name(table):
    known = table.location.uri.rpartition("/")[2]
    return f"lake.ns1.`{known}@{table.branch}`" if table.branch else f"lake.ns1.{known}"


def stream(table, frame, target):
    place = f"{table.location.uri}.stream.{table.branch}"
    frame.write.mode("overwrite").parquet(f"{place}/rows")
    read = frame.sparkSession.readStream.schema(frame.schema).parquet(f"{place}/rows")
    out = read.writeStream.option("checkpointLocation", f"{place}/checkpoint").options(**branch_option(table))
    target(out).trigger(availableNow=True).start().awaitTermination()


def on(table, branch):
    return table if branch == "main" else table.checkout(branch=branch)


def run(spark, table, branch, verb):
    if verb in PYTHON:
        PYTHON[verb](on(table, branch), rows(spark))
    else:
        known = table.location.uri.rpartition("/")[2]
        spark.sql(verb.format(t=name(on(table, branch)), known=known, branch=branch)).collect()


def test_every_verb_is_in_a_list():
    known = {verb.split()[0] for verb in (*PYTHON, *UPKEEP)} | OTHERS | COVERED.keys()
    public = {verb for verb in dir(LanceTable) if not verb.startswith("_")} - {"location"}
    assert public - known == set()


def test_a_protected_branch_refuses_what_destroys_most(spark, protected):
    assert_refused(spark, protected, "main", [verb for verb in (*PYTHON, *SQL) if verb.startswith(BY_DAY)])


@pytest.mark.when(day=0)
@pytest.mark.parametrize("branch", ["main", "exp"])
def test_a_protected_branch_refuses_every_write(spark, protected, branch):
    assert_refused(spark, protected, branch, [*PYTHON, *SQL])


def assert_refused(spark, protected, branch, chosen):
    before = contents(protected.location.uri)
    verbs = {verb: lambda verb=verb: run(spark, protected, branch, verb) for verb in chosen}
    verbs |= {text: lambda text=text: spark.sql(text).collect() for text in WHOLE}
    answers = {verb: answer(act) for verb, act in verbs.items()}
    assert {verb: said for verb, said in answers.items() if "is protected" not in said} == {}
    assert {verb: said for verb, said in answers.items() if "protected=False" not in said} == {}
    assert contents(protected.location.uri) == before


def answer(act):
    try:
        act()
    except Exception as refused:  # noqa: BLE001 - Spark's errors and ours
        return f"{type(refused).__name__}: {refused}"
    return "done"


@pytest.mark.parametrize("branch", BRANCHES)
def test_a_protected_branch_takes_merges_and_upkeep(spark, uri, branch):
    table = make(spark, uri)
    table.branches.alter(branch, protected=True)
    before = sorted(row.id for row in on(table, branch).to_df().collect())
    for act in UPKEEP.values():
        act(on(table, branch))
    merged = {3, 4, 5, 60}
    assert sorted(row.id for row in on(table, branch).to_df().collect()) == sorted({*before, *merged})


@pytest.mark.when(day=0)
@pytest.mark.parametrize("branch", ["main", "exp"])
@pytest.mark.parametrize("verb", [*PYTHON, *SQL])
def test_an_unprotected_branch_takes_it(spark, open_table, verb, branch):
    run(spark, open_table, branch, verb)
    assert on(open_table, branch).version > 2 or verb == "disable_auto_cleanup"
