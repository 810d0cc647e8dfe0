"""A branch of the lake in Spark: whatever writes there leaves main alone, with the first change and with later ones."""

from datetime import timedelta

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the usual name for it

from lance_spark import LanceCatalog, register, unregister
from lance_spark.catalog import manifest_commits
from lance_spark.catalog.entry_rules import RowFilter
from lance_spark.errors import Conflict, NotFound, Refused

pytestmark = [pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(newest=0.6, oldest=0.1)]

ROWS = [(1, "a"), (2, "b"), (3, None)]
FIRST, ADDED = ROWS[0], (9, "new")
SOURCE = "SELECT * FROM VALUES (2L, 'B'), (9L, 'new') AS s(id, v)"
MERGE = f"MERGE INTO {{t}} t USING ({SOURCE}) s ON t.id = s.id"
INSERTS = "WHEN NOT MATCHED THEN INSERT *"
STATEMENTS = {
    "insert": ("INSERT INTO {t} VALUES (7, 'x')", [*ROWS, (7, "x")], [*ROWS, (7, "x"), (7, "x")]),
    "insert_overwrite": ("INSERT OVERWRITE {t} VALUES (7, 'x')", [(7, "x")], [(7, "x")]),
    "update": ("UPDATE {t} SET v = concat(v, '!')", [(1, "a!"), (2, "b!"), ROWS[2]], [(1, "a!!"), (2, "b!!"), ROWS[2]]),
    "update_some": ("UPDATE {t} SET v = 'z' WHERE id = 1", [(1, "z"), *ROWS[1:]], [(1, "z"), *ROWS[1:]]),
    "delete_pushed": ("DELETE FROM {t} WHERE id = 1", ROWS[1:], ROWS[1:]),
    "delete_by_spark": ("DELETE FROM {t} WHERE length(concat(v, 'x')) = 2 AND id < 2", ROWS[1:], ROWS[1:]),
    "delete_subquery": ("DELETE FROM {t} WHERE id IN (SELECT min(id) FROM {t})", ROWS[1:], ROWS[2:]),
    "delete_all": ("DELETE FROM {t}", [], []),
    "truncate": ("TRUNCATE TABLE {t}", [], []),
    "merge": (
        f"{MERGE} WHEN MATCHED THEN UPDATE SET * {INSERTS}",
        [FIRST, (2, "B"), ROWS[2], ADDED],
        [FIRST, (2, "B"), ROWS[2], ADDED],
    ),
    "merge_inserts": (f"{MERGE} {INSERTS}", [*ROWS, ADDED], [*ROWS, ADDED]),
    "replace_as": ("CREATE OR REPLACE TABLE {t} AS SELECT 5L AS id, 'r' AS v", [(5, "r")], [(5, "r")]),
    "replace_as_only": ("REPLACE TABLE {t} AS SELECT 5L AS id, 'r' AS v", [(5, "r")], [(5, "r")]),
    "replace": ("CREATE OR REPLACE TABLE {t} (id BIGINT, v STRING)", [], []),
    "optimize": ("OPTIMIZE {t}", ROWS, ROWS),
    "optimize_call": ("CALL etl.system.optimize('{n}', own_only => false)", ROWS, ROWS),
    "vacuum": ("VACUUM {t} RETAIN 0 HOURS", ROWS, ROWS),
    "create_index": ("CALL etl.system.create_index('{n}', 'id', replace => true)", ROWS, ROWS),
    "properties": ("ALTER TABLE {t} SET TBLPROPERTIES (team = 'air')", ROWS, ROWS),
}
"""Statements for a table {t} of catalog ``etl``, {n} within it, and its rows after the first and the second time."""


def table_of(rows):
    ids, values = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(values, pa.string())})


class World:
    """A lake with tables that have the rows above, and a branch of it: in SQL, catalogs ``lake`` and ``etl``."""

    def __init__(self, spark, root, names):
        self.spark, self.lake = spark, LanceCatalog(root, spark=spark)
        self.lake.create_namespace("air")
        for name in names:
            uri = self.lake.declare_table(f"air.{name}").location.uri
            lance.write_dataset(table_of(ROWS[:2]), uri)
            lance.write_dataset(table_of(ROWS[2:]), uri, mode="append")
        self.lake.branches.create("etl/nightly")
        self.etl = self.lake.checkout(branch="etl/nightly")
        register(spark, catalog="lake", root=root)
        register(spark, catalog="etl", root=root, branch="etl/nightly")

    def main(self):
        """Everything of main: the rows of the catalog, and the version, the columns and the rows of each table."""
        whole = LanceCatalog(self.lake.catalog.uri).catalog
        rows = manifest_commits.read_rows(whole.manifest, RowFilter(everything=True)).entries
        tables = {}
        for row in rows:
            if row.is_table:
                dataset = lance.dataset(whole.at(row.location).uri)
                tables[row.object_id] = dataset.version, str(dataset.schema), dataset.to_table().to_pylist()
        return sorted(map(repr, rows)), tables

    def rows(self, name):
        found = self.spark.sql(f"SELECT id, v FROM etl.air.{name}").collect()
        return sorted(map(tuple, found), key=repr)


VERBS = {
    "delete": lambda t, _: t.delete("id = 1"),
    "update": lambda t, _: t.update({"v": F.lit("z")}, "id = 1"),
    "merge": lambda t, s: (
        t.merge(s.sql(SOURCE), on="id").when_matched_update_all().when_not_matched_insert_all().execute()
    ),
    "write": lambda t, s: t.write(s.sql(SOURCE)),
    "write_overwrite": lambda t, s: t.write(s.sql(SOURCE), mode="overwrite"),
    "overwrite": lambda t, s: t.overwrite(s.sql("SELECT 1L id, 'o' v"), "id = 1"),
    "add_columns": lambda t, _: t.add_columns({f"c{t.version}": "id + 1"}),
    "add_columns_with": lambda t, _: t.add_columns_with(plus_one(f"c{t.version}"), f"c{t.version} bigint"),
    "add_columns_from": lambda t, s: t.add_columns_from(s.sql(f"SELECT 1L id, 2L c{t.version}"), on="id"),
    "update_columns": lambda t, _: t.update_columns({"v": "'u'"}),
    "alter_columns": lambda t, _: t.alter_columns({"id": "bigint"}),
    "rename_columns": lambda t, _: t.rename_columns({"v": "w"} if "v" in t.schema.names else {"w": "v"}),
    "drop_columns": lambda t, _: t.drop_columns([name for name in t.schema.names if name == "v"]),
    "optimize": lambda t, _: t.optimize(own_only=False),
    "flatten": lambda t, _: t.flatten(),
    "index": lambda t, _: t.indexes.create("id", replace=True),
    "optimize_indexes": lambda t, _: t.indexes.optimize(),
    "drop_index": lambda t, _: (t.indexes.create("id"), t.indexes.drop("id_idx")),
    "auto_cleanup": lambda t, _: t.enable_auto_cleanup(10, timedelta(days=30)),
    "no_auto_cleanup": lambda t, _: t.disable_auto_cleanup(),
    "upsert": lambda t, s: t.streams.upsert("id", query_id=f"q{t.version}")(s.sql(SOURCE), 0),
    "resume": lambda t, _: t.streams.resume(f"q{t.version}", 7),
    "transaction": lambda t, s: in_transaction(t, s),
    "restore": lambda t, s: in_steps(t, lambda: t.write(s.sql(SOURCE)), lambda before: t.restore(before)),
    "revert": lambda t, s: in_steps(t, lambda: t.write(s.sql(SOURCE)), lambda _: t.revert(t.version)),
    "cherry_pick": lambda t, s: with_branch(t, s, lambda name, version: t.cherry_pick(name, version)),
    "branches_merge": lambda t, s: with_branch(t, s, lambda name, _: t.branches.merge(name)),
    "tags": lambda t, _: t.tags.create(f"v{len(t.tags)}"),
}


def plus_one(name):
    def compute(batch):
        return pa.record_batch({name: batch["id"]})

    return compute


def in_transaction(table, spark):
    with table.transaction() as inside:
        inside.write(spark.sql(SOURCE))
        inside.delete("id = 1")


def in_steps(table, first, second):
    first()
    before = table.version - 1
    second(before)


def with_branch(table, spark, then):
    """A branch of the table's own, which begins with what the branch of the lake has of it."""
    name = f"own-{len(table.branches.list(all=True))}"
    here = table.branch, table.version
    made = table.branches.create(name)
    assert ((made.parent_branch or "main"), made.parent_version) == here
    there = table.checkout(branch=name)
    there.write(spark.sql(SOURCE))
    then(name, there.version)


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    unregister(spark)
    register(spark)
    used = (*(f"s_{name}" for name in STATEMENTS), *(f"v_{name}" for name in VERBS))
    names = [*used, *"abcdefgmopqwxyz", "versions", "clashes"]
    yield World(spark, str(tmp_path_factory.mktemp("lakes") / "lake"), names)
    unregister(spark)


@pytest.fixture
def unchanged(world):
    """Main, which the test must leave as it is."""
    before = world.main()
    yield before
    assert world.main() == before


@pytest.mark.when(newest=0.6, oldest=0.1)
@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_change_the_branch_only(world, unchanged, name):
    statement, *expected = STATEMENTS[name]
    for rows in expected:
        world.spark.sql(statement.format(t=f"etl.air.s_{name}", n=f"air.s_{name}")).collect()
        assert world.rows(f"s_{name}") == sorted(rows, key=repr)
        assert world.main() == unchanged


@pytest.mark.when(newest=0.6, oldest=0.1)
@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("name", VERBS)
def test_verbs_of_handles_change_the_branch_only(world, unchanged, name):
    held, before = world.etl.table(f"air.v_{name}"), world.etl.table(f"air.v_{name}").version
    for _ in range(2):
        VERBS[name](world.etl.table(f"air.v_{name}"), world.spark)
        assert world.main() == unchanged
    VERBS[name](held, world.spark)  # it was looked up before the first change
    if name not in NO_VERSIONS:
        assert held.version > before, "nothing was changed"
        assert held.branch.startswith("lake/etl/nightly-")


NO_VERSIONS = {"tags", "no_auto_cleanup", "flatten", "optimize_indexes", "alter_columns", "drop_columns"}
"""Those that may find nothing to do."""


def ids(world, text):
    return sorted(row[0] for row in world.spark.sql(text).collect())


@pytest.mark.when(spark="newest")
def test_tables_and_namespaces_of_the_branch_only(world, unchanged):
    def sql(text):
        found = world.spark.sql(text).collect()
        assert world.main() == unchanged, text
        return found

    sql("CREATE NAMESPACE etl.stage")
    sql("CREATE TABLE etl.stage.new (id BIGINT, v STRING) TBLPROPERTIES (team = 'air')")
    for _ in range(2):
        sql("INSERT INTO etl.stage.new VALUES (1, 'a')")
        sql("UPDATE etl.stage.new SET v = 'b' WHERE v = 'a'")
    sql("CREATE TABLE etl.stage.made AS SELECT id FROM etl.air.a")
    sql("DELETE FROM etl.stage.made WHERE id = 1")
    sql("CREATE OR REPLACE TABLE etl.stage.other AS SELECT 1L AS id")
    sql("CREATE OR REPLACE TABLE etl.stage.other AS SELECT 'x' AS name")
    assert [row.tableName for row in sql("SHOW TABLES IN etl.stage")] == ["made", "new", "other"]
    assert ids(world, "SELECT id FROM etl.stage.new") == [1, 1]
    assert ids(world, "SELECT id FROM etl.stage.made") == [2, 3]
    sql("ALTER TABLE etl.air.b RENAME TO etl.stage.renamed")
    assert ids(world, "SELECT id FROM etl.stage.renamed") == [1, 2, 3]
    sql("DELETE FROM etl.stage.renamed WHERE id = 1")
    sql("DROP TABLE etl.air.c")
    names = [row.tableName for row in sql("SHOW TABLES IN etl.air")]
    assert not {"b", "c"} & {*names}
    sql("ALTER TABLE etl.stage.new RENAME TO etl.stage.newer")
    sql("DROP TABLE etl.stage.other")
    sql("DROP NAMESPACE etl.stage CASCADE")
    assert "stage" not in [row[0] for row in sql("SHOW NAMESPACES IN etl")]
    assert ids(world, "SELECT id FROM lake.air.b") == ids(world, "SELECT id FROM lake.air.c") == [1, 2, 3]


def test_columns_of_the_branch_only(world, unchanged):
    for text in (
        "ALTER TABLE etl.air.d ADD COLUMN more INT",
        "ALTER TABLE etl.air.d RENAME COLUMN v TO w",
        "ALTER TABLE etl.air.d DROP COLUMN more",
        "ALTER TABLE etl.air.d ALTER COLUMN w COMMENT 'text'",
    ):
        world.spark.sql(text)
        assert world.main() == unchanged, text
    assert world.spark.table("etl.air.d").columns == ["id", "w"]
    assert [row.col_name for row in world.spark.sql("DESCRIBE etl.air.d").collect()] == ["id", "w"]
    assert world.spark.table("lake.air.d").columns == ["id", "v"]


@pytest.mark.when(newest=0.6, oldest=0.1)
@pytest.mark.when(day=0.5)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM etl.air.a TIMESTAMP AS OF '2020-01-01'",
        "SELECT * FROM etl.air.`a@main`",
        "INSERT INTO etl.air.`a@main` VALUES (1, 'x')",
        "DELETE FROM etl.air.`a@main`",
        "CALL etl.system.restore('air.a', 'main@1')",
        "CALL etl.system.optimize('air.a', branch => 'main')",
        "CALL etl.system.create_index('air.a', 'id', branch => 'main')",
        "CALL etl.system.merge_branch('air.a', 'exp', into => 'main')",
        "CALL etl.system.create_branch('air.a', 'exp', from => 'main')",
        "CALL etl.system.create_tag('air.a', 'v1', 'main@1')",
        "CALL etl.system.drop_tag('air.a', 'v1')",
        "CALL etl.system.drop_branch('air.a', 'exp')",
        "CALL etl.system.cleanup('air.a', dry_run => false)",
        "CALL etl.system.fsck('air.a', repair => true)",
        "CALL etl.system.expire_refs('air.a', dry_run => false)",
        "CALL etl.system.storage('air.a')",
        "CALL etl.system.migrate()",
        "CALL etl.system.create_lake_tag('v1')",
        "CALL etl.system.create_lake_branch('other')",
        "CALL etl.system.merge_lake_branch('etl/nightly')",
        "CALL etl.system.publish_branch('etl/nightly')",
        "CALL etl.system.drop_lake_branch('etl/nightly')",
        "CALL etl.system.recover()",
        "ALTER TABLE etl.air.a DROP BRANCH IF EXISTS exp",
        "ALTER TABLE etl.air.a CREATE OR REPLACE TAG v1",
    ],
)
def test_what_leaves_the_branch_is_refused(world, unchanged, text):
    with pytest.raises(Refused, match=r"(read at|is on) branch 'etl/nightly'") as refused:
        world.spark.sql(text).collect()
    assert "use the catalog" in str(refused.value).lower()
    assert world.etl.table("air.a").branch == "main"


@pytest.mark.when(spark="newest")
def test_procedures_and_statements_of_refs_begin_with_the_branch(world, unchanged):
    own = world.etl.table("air.p").branches
    for number in range(2):
        (made,) = world.spark.sql(f"CALL etl.system.create_branch('air.p', 'exp{number}')").collect()
        world.spark.sql(f"CALL etl.system.create_tag('air.p', 'v{number}')")
        world.spark.sql(f"ALTER TABLE etl.air.p CREATE BRANCH stated{number}").collect()
        assert (made.parent_branch, made.parent_version) == (("main", 2) if number == 0 else (own_branch(world), 3))
        assert own[f"stated{number}"].parent_version == made.parent_version
        world.spark.sql("DELETE FROM etl.air.p WHERE id = 1")
    (tagged,) = world.spark.sql("CALL etl.system.create_tag('air.p', 'first', '1')").collect()
    assert (tagged.branch, tagged.version) == ("main", 1)  # a version from before the branch, named by its number
    lance.write_dataset(table_of([(8, "x")]), f"{world.etl.table('air.p').location.uri}/tree/exp0", mode="append")
    (merged,) = world.spark.sql("CALL etl.system.merge_branch('air.p', 'exp0')").collect()
    assert merged.into == own_branch(world)
    assert ids(world, "SELECT id FROM etl.air.p") == [2, 3, 8]
    (undone,) = world.spark.sql(f"CALL etl.system.revert('air.p', {merged.version})").collect()
    assert undone.into == own_branch(world)
    lance.write_dataset(table_of([(7, "x")]), f"{world.etl.table('air.p').location.uri}/tree/exp1", mode="append")
    world.spark.sql("CALL etl.system.cherry_pick('air.p', 'exp1@4')")
    assert ids(world, "SELECT id FROM etl.air.p") == [2, 3, 7]


def own_branch(world):
    return f"lake/etl/nightly-{world.etl.catalog.ref.id}"


def test_writes_of_frames_by_name_and_by_options(world, unchanged):
    frame, root = world.spark.sql(SOURCE), world.lake.catalog.uri
    named = {"catalog": root, "catalog_branch": "etl/nightly"}
    writes = [
        lambda: frame.writeTo("etl.air.w").append(),
        lambda: frame.writeTo("etl.air.w").overwrite(F.lit(True)),
        lambda: frame.write.insertInto("etl.air.w"),
        lambda: frame.write.mode("append").saveAsTable("etl.air.w"),
        lambda: frame.write.format("lance").options(**named).mode("append").save("air.w"),
        lambda: frame.write.format("lance").options(**named).mode("overwrite").save("air.o"),
        lambda: frame.write.format("lance").options(**named).mode("append").save("air.o"),
        lambda: frame.write.format("lance").options(**named).mode("append").save("air.made"),
        lambda: frame.write.format("lance").options(**named).mode("append").save("air.made"),
        lambda: frame.writeTo("etl.air.made2").create(),
        lambda: frame.writeTo("etl.air.made2").append(),
        lambda: world.etl.write_table(frame, "air.made3"),
        lambda: world.etl.write_table(frame, "air.made3", mode="overwrite"),
        lambda: world.etl.write_table(frame, "air.x", mode="overwrite"),
        lambda: world.etl.write_table(frame, "air.x", mode="append"),
        lambda: world.etl.write_table(frame, "air.x", mode="ignore"),
    ]
    for write in writes:
        write()
        assert world.main() == unchanged
    assert ids(world, "SELECT id FROM etl.air.w") == sorted([2, 9] * 4)
    for name in ("o", "made", "made2", "x"):
        assert ids(world, f"SELECT id FROM etl.air.{name}") == [2, 2, 9, 9]
    assert ids(world, "SELECT id FROM etl.air.made3") == [2, 9]
    read = world.spark.read.format("lance").options(**named)
    assert sorted(row.id for row in read.load("air.o").collect()) == [2, 2, 9, 9]
    with pytest.raises(Refused, match="one branch of each table"):
        world.spark.read.format("lance").options(**named, branch="exp").load("air.o").collect()
    with pytest.raises(PySparkException, match="one branch of each table"):
        frame.write.format("lance").options(**named, branch="exp").mode("append").save("air.o")


@pytest.mark.when(spark="newest")
def test_streams_by_name(world, unchanged, tmp_path):
    def copy(source, target):
        reader = world.spark.readStream
        stream = reader.table(source) if isinstance(source, str) else reader.format("lance").options(**source).load()
        writer = stream.writeStream.trigger(availableNow=True).option("checkpointLocation", f"{tmp_path}/{target}")
        assert writer.toTable(f"etl.air.{target}").awaitTermination(60)
        assert world.main() == unchanged
        return ids(world, f"SELECT id FROM etl.air.{target}")

    named = {"catalog": world.lake.catalog.uri, "catalog_branch": "etl/nightly", "path": "air.g"}
    for source, target, name in (("etl.air.e", "f", "e"), (named, "copied", "g")):
        before = [1, 2, 3] if target == "f" else []
        assert copy(source, target) == sorted([*before, 1, 2, 3])
        world.spark.sql(f"INSERT INTO etl.air.{name} VALUES (10, 'x')")
        assert copy(source, target) == sorted([*before, 1, 2, 3, 10])
    sink = world.spark.readStream.table("etl.air.e").writeStream.format("lance").trigger(availableNow=True)
    sink = sink.options(**{**named, "path": "air.y", "checkpointLocation": f"{tmp_path}/sink"})
    assert sink.start().awaitTermination(60)
    assert 10 in ids(world, "SELECT id FROM etl.air.y")


@pytest.mark.when(spark="newest")
def test_a_stream_from_a_tag_of_the_lake_is_refused(world, tmp_path):
    world.lake.tags.create("v1")
    register(world.spark, catalog="tagged", root=world.lake.catalog.uri, tag="v1")
    named = {"catalog": world.lake.catalog.uri, "catalog_tag": "v1", "path": "air.g"}
    reader = world.spark.readStream
    for stream in (reader.table("tagged.air.g"), reader.format("lance").options(**named).load()):
        query = (
            stream.writeStream.format("noop").option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True)
        )
        with pytest.raises(PySparkException, match="tag 'v1', which never changes"):
            query.start().awaitTermination(60)


@pytest.mark.when(spark="newest")
def test_metadata_tables(world, unchanged):
    world.spark.sql("DELETE FROM etl.air.m WHERE id = 1")
    assert ids(world, "SELECT version FROM etl.air.m.versions") == [2, 3]
    assert ids(world, "SELECT version FROM etl.air.q.versions") == [1, 2]
    assert ids(world, "SELECT version FROM lake.air.m.versions") == [1, 2]
    assert {row.version for row in world.spark.sql("DESCRIBE HISTORY etl.air.m").collect()} == {1, 2, 3}


@pytest.mark.when(spark="newest")
def test_a_branch_that_was_deleted_is_not_written_to(world, unchanged, spark):
    world.lake.branches.create("short")
    held = world.lake.checkout(branch="short").table("air.a")
    register(spark, catalog="short", root=world.lake.catalog.uri, branch="short")
    world.lake.branches.delete("short")
    for change in (
        lambda: held.delete("id = 1"),
        lambda: spark.sql("DELETE FROM short.air.a WHERE id = 1"),
        lambda: spark.sql("SELECT * FROM short.air.a"),
        lambda: spark.sql("INSERT INTO short.air.a VALUES (1, 'x')"),
        lambda: spark.sql("CREATE TABLE short.air.t (id BIGINT)"),
        lambda: spark.sql("CALL short.system.optimize('air.a')").collect(),
    ):
        with pytest.raises(NotFound, match="'short'"):
            change()


def test_procedures_and_tables_about_the_lake(world):
    sql, root = world.spark.sql, world.lake.catalog.uri
    (made,) = sql("CALL lake.system.create_lake_branch('sql', tables => array('air.z', 'air.y'))").collect()
    assert made.tables == 2
    found = sql("SELECT name FROM lake.system.branches WHERE ready").collect()
    assert {"sql", "etl/nightly"} <= {row.name for row in found}
    register(world.spark, catalog="some", root=root, branch="sql")
    sql("DELETE FROM some.air.z WHERE id = 1")
    sql("CREATE TABLE some.air.sql AS SELECT 1L AS id")
    diff = sql("CALL lake.system.diff_lake('sql')").collect()
    assert {(row.name, row.change, row.rows_removed) for row in diff} == {
        ("air.z", "changed", 1),
        ("air.sql", "new", 0),
    }
    done = sql("CALL lake.system.merge_lake_branch(name => 'sql', message => 'nightly')").collect()
    assert {(row.table, row.change, row.state) for row in done} == {
        ("air.z", "rows", "published"),
        ("air.sql", "new", "published"),
    }
    (row,) = sql("SELECT tables, changes FROM lake.system.publishes WHERE message = 'nightly'").collect()
    assert (row.tables, row.changes) == (["air.z"], ["air.sql: new"])
    assert ids(world, "SELECT id FROM lake.air.z") == [2, 3]
    sql("CALL lake.system.tag_lake('2026-11-23')")
    assert "2026-11-23" in {row.name for row in sql("SELECT * FROM etl.system.tags").collect()}
    with pytest.raises(NotFound, match="no branch of the lake 'nope'") as missing:
        sql("CALL lake.system.drop_lake_branch('nope')")
    assert "sql" in str(missing.value)
    with pytest.raises(PySparkException, match=r"(?i)delete"):
        sql("DELETE FROM lake.system.branches WHERE name = 'sql'").collect()
    sql("CALL lake.system.drop_lake_branch(name => 'sql', purge => true)")
    sql("CREATE NAMESPACE IF NOT EXISTS lake.system")
    sql("CREATE TABLE lake.system.tags AS SELECT 1L AS id")
    assert ids(world, "SELECT id FROM lake.system.tags") == [1]


@pytest.mark.when(spark="newest")
def test_earlier_versions_of_the_branch(world):
    """Version 2 is the one that the branch began with; main's later ones are not on it."""
    sql, name = world.spark.sql, "versions"
    lance.write_dataset(table_of([(50, "main")]), world.lake.describe_table(f"air.{name}").location.uri, mode="append")
    count = f"SELECT count(*) FROM etl.air.{name} VERSION AS OF "
    assert [sql(f"{count}{version}").first()[0] for version in (1, 2)] == [2, 3]
    with pytest.raises(NotFound, match="no version 3"):
        sql(f"{count}3").collect()
    sql(f"INSERT INTO etl.air.{name} VALUES (7, 'x')")
    assert [sql(f"{count}{version}").first()[0] for version in (1, 2, 3)] == [2, 3, 4]
    named = {"catalog": world.lake.catalog.uri, "catalog_branch": "etl/nightly"}
    assert world.spark.read.format("lance").options(**named, version="2").load(f"air.{name}").count() == 3
    assert world.etl.table(f"air.{name}", version=2).count_rows() == 3
    with pytest.raises(Refused, match="a version never changes"):
        sql(f"DELETE FROM etl.air.`{name}@2`")
    for other in ("'main'", "'exp'"):
        with pytest.raises(Refused, match="one branch of each table"):
            sql(f"{count}{other}").collect()


@pytest.mark.when(spark="newest")
def test_sql_names_what_clashes(world):
    world.lake.branches.create("clash", tables=["air.clashes"])
    register(world.spark, catalog="clash", root=world.lake.catalog.uri, branch="clash")
    for catalog in ("clash", "lake"):
        world.spark.sql(f"UPDATE {catalog}.air.clashes SET v = '{catalog}' WHERE id = 1")
    with pytest.raises(Conflict, match=r"no table was published\.\n  - air\.clashes: both sides") as clash:
        world.spark.sql("CALL lake.system.merge_lake_branch(name => 'clash')")
    assert "publish again and choose whose value counts: prefer => 'theirs' or 'ours'" in clash.value.hint
