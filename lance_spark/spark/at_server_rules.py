"""What a client of Spark Connect types in place of a handle's verb if the client has no access to the store."""

from __future__ import annotations

from collections.abc import Mapping

_NONE = "A process with access to the store has to do it: "
_PYTHON = f"{_NONE}run it there in Python."
_SHELL = _NONE + "lance-git {} there."
_LAKE_SHELL = _NONE + "lance-catalog {} there."
_ALTER = "ALTER TABLE lake.ns.t "
_HISTORY = "DESCRIBE HISTORY lake.ns.t"
_CHANGES = "SELECT * FROM lake.ns.t CHANGES FROM VERSION 3"
_LOAD = "spark.read.format('lance').load(uri)"


def _call(procedure: str, arguments: str = "") -> str:
    return f"CALL lake.system.{procedure}(table => 'ns.t'{arguments and ', ' + arguments})"


def _of_lake(procedure: str, arguments: str = "") -> str:
    return f"CALL lake.system.{procedure}({arguments})"


SERVED = ("checkout", "count_rows", "for_path", "head", "query", "schema", "to_df")
"""Verbs of a table that the server executes."""
TABLE: Mapping[str, str] = {
    **dict.fromkeys(SERVED, f"{_LOAD}, in a session that has registered a catalog."),
    "add_columns": _ALTER + "ADD COLUMN c INT, then UPDATE lake.ns.t SET c = ...",
    "add_columns_from": _ALTER + "ADD COLUMN c INT, then MERGE INTO lake.ns.t ...",
    "add_columns_with": _PYTHON,
    "alter_columns": _ALTER + "ALTER COLUMN c ...",
    "analyze": _call("analyze"),
    "blobs": "SELECT payload FROM lake.ns.t",
    "branch": f"{_HISTORY} tells the branch of each version.",
    "browse": _PYTHON,
    "changes": _CHANGES,
    "cherry_pick": _call("cherry_pick", "ref => 'exp@7'"),
    "cleanup": _call("cleanup", "older_than => '7d'"),
    "clone": _call("clone", "target => 's3://bucket/copy.lance'"),
    "compact_wal": _PYTHON,
    "delete": "DELETE FROM lake.ns.t WHERE ...",
    "diff": _CHANGES,
    "disable_auto_cleanup": _PYTHON,
    "drop_columns": _ALTER + "DROP COLUMN c",
    "enable_auto_cleanup": _PYTHON,
    "expire_refs": _call("expire_refs"),
    "flatten": _PYTHON,
    "fsck": _call("fsck"),
    "history": _HISTORY,
    "log": _HISTORY,
    "maintain": _LAKE_SHELL.format("maintain"),
    "merge": "MERGE INTO lake.ns.t USING source ON ..., or df.mergeInto('lake.ns.t', condition)",
    "near_duplicates": _PYTHON,
    "nearest_join": _PYTHON,
    "open_cleanup_plan": _PYTHON,
    "optimize": _call("optimize"),
    "overwrite": "df.writeTo('lake.ns.t').overwrite(condition)",
    "reflog": _SHELL.format("reflog"),
    "relocate": _PYTHON,
    "rename_columns": _ALTER + "RENAME COLUMN c TO d",
    "repair": _call("fsck", "repair => true"),
    "restore": _call("restore", "ref => '3'"),
    "revert": _call("revert", "version => 7"),
    "search": _PYTHON,
    "storage": _call("storage"),
    "transaction": _call("create_branch", "name => 'work'")
    + ", changes of lake.ns.`t@work`, then "
    + _call("merge_branch", "branch => 'work'"),
    "undo_repair": _SHELL.format("fsck"),
    "update": "UPDATE lake.ns.t SET c = ... WHERE ...",
    "update_columns": "UPDATE lake.ns.t SET c = ... WHERE ...",
    "update_columns_from": "MERGE INTO lake.ns.t USING source ON ... WHEN MATCHED THEN UPDATE SET *",
    "update_columns_with": _PYTHON,
    "version": _HISTORY + " LIMIT 1",
    "versions": "SELECT * FROM lake.ns.t.versions",
    "write": "df.writeTo('lake.ns.t').append(), or df.write.format('lance').mode('append').save(uri)",
}
BRANCHES: Mapping[str, str] = {
    "alter": _SHELL.format("branch --alter"),
    "create": _call("create_branch", "name => 'exp'"),
    "delete": _call("drop_branch", "name => 'exp'"),
    "list": "SELECT * FROM lake.ns.t.branches",
    "merge": _call("merge_branch", "branch => 'exp'"),
    "restore": _SHELL.format("branch --restore"),
}
TAGS: Mapping[str, str] = {
    "alter": _SHELL.format("tag --alter"),
    "create": _call("create_tag", "name => 'v1'"),
    "delete": _call("drop_tag", "name => 'v1'"),
    "list": "SELECT * FROM lake.ns.t.tags",
    "move": _SHELL.format("tag -f"),
    "restore": _SHELL.format("tag --restore"),
}
INDEXES: Mapping[str, str] = {
    "create": _call("create_index", "column => 'id'"),
    "drop": _PYTHON,
    "list": "SELECT * FROM lake.ns.t.indexes",
    "optimize": _call("create_index", "column => 'id', replace => true"),
    "stats": "SELECT * FROM lake.ns.t.indexes",
}
LAYOUT: Mapping[str, str] = {
    "analyze": _call("analyze"),
    "cluster_by": _ALTER + "CLUSTER BY (a, b)",
    "describe": "SHOW CREATE TABLE lake.ns.t",
    "partition_by": _ALTER + "PARTITIONED BY (days(ts))",
}
CONSTRAINTS: Mapping[str, str] = {
    "add": _ALTER + "ADD CONSTRAINT positive CHECK (price > 0)",
    "drop": _ALTER + "DROP CONSTRAINT positive",
    "list": _PYTHON,
}
REMOTES: Mapping[str, str] = {
    "at": _SHELL.format("remote"),
    "fetch": _SHELL.format("fetch"),
    "list": _SHELL.format("remote"),
    "pull": _SHELL.format("pull"),
    "push": _SHELL.format("push"),
    "push_tag": _SHELL.format("push"),
}
FROZEN: Mapping[str, str] = dict.fromkeys(("batches", "create", "delete", "diff", "lineage", "list", "read"), _PYTHON)
STREAMS: Mapping[str, str] = {
    "resume": _PYTHON,
    "upsert": "foreachBatch with df.mergeInto('lake.ns.t', condition)",
}
CATALOG: Mapping[str, str] = {
    "alter_namespace": "ALTER NAMESPACE lake.ns SET PROPERTIES (...)",
    "alter_table": _ALTER + "SET TBLPROPERTIES (...)",
    "browse": _PYTHON,
    "clone": _LAKE_SHELL.format("clone"),
    "create_namespace": "CREATE NAMESPACE lake.ns",
    "declare_table": "CREATE TABLE lake.ns.t (...)",
    "deregister_table": _PYTHON,
    "describe_namespace": "DESCRIBE NAMESPACE EXTENDED lake.ns",
    "describe_table": "DESCRIBE TABLE EXTENDED lake.ns.t",
    "drop_namespace": "DROP NAMESPACE lake.ns",
    "drop_table": "DROP TABLE lake.ns.t",
    "list_namespaces": "SHOW NAMESPACES IN lake",
    "list_tables": "SHOW TABLES IN lake.ns",
    "maintain": _LAKE_SHELL.format("maintain"),
    "migrate": _of_lake("migrate"),
    "move_table": "ALTER TABLE lake.ns.t RENAME TO ns2.t",
    "namespace_exists": "SHOW NAMESPACES IN lake",
    "publish": _of_lake("publish_branch", "branch => 'exp'"),
    "publishes": _of_lake("list_publishes"),
    "recover": _of_lake("recover"),
    "reflog": _LAKE_SHELL.format("reflog"),
    "register_table": _PYTHON,
    "register_views": "lance_spark.register(spark, catalog='lake', root=...): SQL has its tables without views.",
    "rename_table": "ALTER TABLE lake.ns.t RENAME TO ns.u",
    "storage": _LAKE_SHELL.format("storage"),
    "table": "spark.table('lake.ns.t')",
    "table_exists": "spark.catalog.tableExists('lake.ns.t')",
    "transaction": _of_lake("create_lake_branch", "name => 'work'")
    + ", changes of a catalog on it, then "
    + _of_lake("merge_lake_branch", "name => 'work'"),
    "write_table": "df.writeTo('lake.ns.t').create()",
}
LAKE_BRANCHES: Mapping[str, str] = {
    "alter": _LAKE_SHELL.format("branch --alter"),
    "create": _of_lake("create_lake_branch", "name => 'exp'"),
    "delete": _of_lake("drop_lake_branch", "name => 'exp'"),
    "diff": _of_lake("diff_lake", "name => 'exp'"),
    "list": _of_lake("list_lake_branches"),
    "merge": _of_lake("merge_lake_branch", "name => 'exp'"),
    "restore": _LAKE_SHELL.format("branch --restore"),
}
LAKE_TAGS: Mapping[str, str] = {
    "create": _of_lake("create_lake_tag", "name => 'v1'"),
    "delete": _of_lake("drop_lake_tag", "name => 'v1'"),
    "list": _of_lake("list_lake_tags"),
    "restore": _LAKE_SHELL.format("tag --restore"),
}
COLLECTIONS = ("branches", "constraints", "frozen", "indexes", "layout", "remotes", "streams", "tags")
"""What has verbs of its own."""


def instead_of(statement: str) -> str:
    """The hint of an error of the store."""
    if statement.startswith(_NONE):
        return f"This client of Spark Connect has no access to the store. {statement}"
    return f"This client of Spark Connect has no access to the store. Where the server has it, type: {statement}"
