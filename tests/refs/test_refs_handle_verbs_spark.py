"""Each verb of a handle: it changes, reads or starts from the branch of the handle, and main only where main is named.

A table with all verbs: a new one has to say here what it acts on.
"""

import inspect
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceTable

pytestmark = pytest.mark.when(spark="newest")
ROWS = "id BIGINT, v DOUBLE"


def table(ids, v=0.0):
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([v] * len(ids))})


def made(handle, rows):
    return handle.spark.createDataFrame(rows, ROWS)


def merged(handle):
    source = made(handle, [(7, 7.0)])
    return handle.merge(source, on="id").when_not_matched_insert_all().execute()


def in_transaction(handle):
    with handle.transaction() as within:
        within.write(made(within, [(8, 8.0)]))


def with_index(handle, then):
    handle.indexes.create("id")
    then(handle.indexes)


CHANGES = {
    "add_columns": lambda dev: dev.add_columns({"w": "v + 1"}),
    "add_columns_from": lambda dev: dev.add_columns_from(dev.spark.createDataFrame([(0, 1)], "id BIGINT, w INT"), "id"),
    "add_columns_with": lambda dev: dev.add_columns_with(
        lambda b: b.select(["v"]).rename_columns(["w"]), "w DOUBLE", "v"
    ),
    "alter_columns": lambda dev: dev.alter_columns(comments={"v": "of dev"}),
    "branches.merge": lambda dev: dev.branches.merge("exp"),
    "cherry_pick": lambda dev: dev.cherry_pick("exp", 2),
    "delete": lambda dev: dev.delete("id = 0"),
    "drop_columns": lambda dev: dev.drop_columns("v"),
    "flatten": lambda dev: dev.flatten(),
    "indexes.create": lambda dev: dev.indexes.create("id"),
    "indexes.drop": lambda dev: with_index(dev, lambda indexes: indexes.drop("id_idx")),
    "indexes.optimize": lambda dev: with_index(dev, lambda indexes: indexes.optimize()),
    "merge": merged,
    "optimize": lambda dev: dev.optimize(own_only=False),
    "overwrite": lambda dev: dev.overwrite(made(dev, [(0, 1.0)]), "id = 0"),
    "rename_columns": lambda dev: dev.rename_columns({"v": "w"}),
    "restore": lambda dev: dev.restore(2),
    "revert": lambda dev: dev.revert(3),
    "transaction": in_transaction,
    "update": lambda dev: dev.update({"v": "1"}, "id = 0"),
    "update_columns": lambda dev: dev.update_columns({"v": "v + 1"}),
    "update_columns_from": lambda dev: dev.update_columns_from(made(dev, [(0, 1.0)]), "id"),
    "update_columns_with": lambda dev: dev.update_columns_with(lambda b: b.select(["v"]), ["v"], "v"),
    "write": lambda dev: dev.write(made(dev, [(9, 9.0)])),
    "enable_auto_cleanup": lambda dev: dev.enable_auto_cleanup(100, timedelta(days=2)),
    "disable_auto_cleanup": lambda dev: (dev.enable_auto_cleanup(100, timedelta(days=2)), dev.disable_auto_cleanup()),
}
"""Verbs that make a version of the branch."""
ANSWERS = {
    "analyze": (lambda dev: dev.analyze("id").rows, 7),
    "branch": (lambda dev: dev.branch, "dev"),
    "changes": (lambda dev: dev.changes(2).count(), 1),
    "checkout": (lambda dev: dev.checkout(version=2).to_df().count(), 6),
    "count_rows": (lambda dev: dev.count_rows(), 7),
    "head": (lambda dev: dev.head(100).num_rows, 7),
    "history": (lambda dev: dev.history().first().branch, "dev"),
    "indexes.list": (lambda dev: [each.name for each in dev.indexes.list()], ["id_idx"]),
    "indexes.stats": (lambda dev: type(dev.indexes.stats("id")).__name__, "IndexStats"),
    "log": (lambda dev: next(iter(dev.log().entries)).branch, "dev"),
    "query": (lambda dev: dev.query(lambda df: df.selectExpr("max(id)")).first()[0], 11),
    "schema": (lambda dev: dev.schema.fieldNames(), ["id", "v"]),
    "to_df": (lambda dev: dev.to_df().count(), 7),
    "version": (lambda dev: dev.version, 4),
    "versions": (lambda dev: dev.versions().count(), 4),
}
"""What they tell of the branch."""
STARTS = {
    "branches.create": lambda dev: (dev.branches.create("new"), dev.branches["new"])[1].parent_branch,
    "tags.create": lambda dev: (dev.tags.create("new"), dev.tags["new"])[1].branch,
    "tags.move": lambda dev: (dev.tags.move("old"), dev.tags["old"])[1].branch,
    "frozen.create": lambda dev: (dev.frozen.create("set"), dev.tags["set"])[1].branch,
}
"""What they make begins on the branch."""
ELSEWHERE = {
    "blobs": "test_scan_blobs_elsewhere.py",
    "browse": "test_ui_cli.py",
    "layout": "test_layout_declared.py",
    "constraints": "test_write_constraints.py",
    "compact_wal": "test_optimize_wal.py",
    "diff": "test_tables_local_write.py",
    "clone": "test_remotes_following.py",
    "remotes.pull": "test_remotes_following.py",
    "remotes.push": "test_remotes_pushing.py",
    "remotes.fetch": "test_remotes_fetching.py",
    "remotes.push_tag": "test_remotes_pushing.py",
    "remotes.at": "test_remotes_spark.py",
    "search": "test_search_spark.py",
    "nearest_join": "test_search_spark.py",
    "near_duplicates": "test_search_near_duplicates.py",
    "streams.upsert": "test_streams_sink_spark.py",
    "streams.resume": "test_streams_sink_spark.py",
}
"""Files whose tests show which branch of two datasets, which vectors or which query."""
WHOLE = {
    "branches": {"alter", "delete", "list", "restore"},
    "tags": {"alter", "delete", "list", "restore"},
    "frozen": {"batches", "delete", "diff", "lineage", "list", "read"},
    "remotes": {"list"},
    "indexes": set(),
    "streams": set(),
    "": {"cleanup", "expire_refs", "for_path", "fsck", "maintain", "open_cleanup_plan", "reflog", "relocate", "repair"}
    | {"storage", "undo_repair"},
}
"""Verbs of the whole dataset, and those that name what they act on."""


@pytest.fixture
def dev(spark, tmp_path):
    """main has 5 rows, dev 2 more in its own 2 versions, exp 1 more; a tag is on main."""
    uri = f"{tmp_path}/t.lance"
    lance.write_dataset(table(range(5)), uri)
    handle = LanceTable.for_path(uri, spark=spark)
    handle.tags.create("old")
    for name in ("dev", "exp"):
        handle.branches.create(name)
    for branch, key in (("dev", 10), ("dev", 11), ("exp", 20)):
        lance.write_dataset(table([key]), f"{uri}/tree/{branch}", mode="append")
    lance.write_dataset(table([30]), uri, mode="append")
    return handle.checkout(branch="dev")


def state(handle, branch):
    dataset = lance.dataset(handle.location.branch_uri(branch))
    return (
        dataset.version,
        dataset.to_table().to_pylist(),
        dataset.schema,
        [index.name for index in dataset.describe_indices()],
    )


@pytest.mark.when(day=0.04)
@pytest.mark.parametrize("verb", CHANGES)
def test_what_a_verb_changes_is_the_branch_of_the_handle(dev, verb):
    before = [state(dev, branch) for branch in (None, "exp")]
    version = dev.version
    CHANGES[verb](dev)
    assert [state(dev, branch) for branch in (None, "exp")] == before
    assert lance.dataset(dev.location.branch_uri("dev")).version > version


@pytest.mark.when(day=0)
def test_what_a_verb_tells_is_of_the_branch_of_the_handle(dev):
    lance.dataset(dev.location.branch_uri("dev")).create_scalar_index("id", "BTREE", name="id_idx")
    assert {verb: tell(dev) for verb, (tell, _) in ANSWERS.items()} == {
        verb: expected for verb, (_, expected) in ANSWERS.items()
    }


def test_what_a_verb_makes_begins_on_the_branch_of_the_handle(dev):
    assert {verb: make(dev) for verb, make in STARTS.items()} == dict.fromkeys(STARTS, "dev")


def test_each_verb_says_what_it_acts_on(dev):
    there = {name for name in dir(type(dev)) if not name.startswith("_")}
    groups = {name for name in there if name in WHOLE}
    verbs = (there - groups) | {
        f"{group}.{name}" for group in groups for name in dir(type(getattr(dev, group))) if not name.startswith("_")
    }
    told = [*CHANGES, *ANSWERS, *STARTS, *ELSEWHERE]
    told += [f"{group}.{name}".lstrip(".") for group, names in WHOLE.items() for name in names]
    assert sorted(told) == sorted(verbs)
    assert not [file for file in ELSEWHERE.values() if not list(Path(inspect.getfile(table)).parents[1].rglob(file))]
