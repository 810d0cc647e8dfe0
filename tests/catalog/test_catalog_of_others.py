"""Catalogs that belong to another writer: tables are read as it means them, and nothing is changed."""

from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceCatalog, LanceTable
from lance_spark.catalog import others_rules
from lance_spark.catalog.lookup import read_name
from lance_spark.catalog.tables import claim_table
from lance_spark.cleanup.lake import check_of_ours
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.core.table_options import WriteOptions
from lance_spark.engine.session_spark import engine_of
from lance_spark.errors import Refused
from lance_spark.format.others import directories_above
from lance_spark.rows.rows import delete_where, truncate
from lance_spark.storage import others
from lance_spark.storage.commits import create_dataset
from lance_spark.storage.resolving import NamedTable

PROPERTIES = [{"table_version_management": "true"}, {"partition_spec_v1": "[]", "schema": "{}"}]


@pytest.fixture
def root(tmp_path):
    """A catalog with one table of three versions."""
    catalog = LanceCatalog(str(tmp_path / "root"))
    catalog.create_namespace("n")
    uri = catalog.declare_table("n.parts").location.uri
    for row in range(3):
        lance.write_dataset(pa.table({"id": pa.array([row] if row else [], pa.int64())}), uri, mode="append")
    return catalog


def of_others(root, properties):
    lance.dataset(root.catalog.manifest.uri).update_metadata(properties)


@pytest.mark.parametrize("properties", PROPERTIES, ids=lambda each: min(each))
def test_nothing_of_it_is_changed(root, properties):
    of_others(root, properties)
    before = lance.dataset(root.catalog.manifest.uri).version
    for change in (
        lambda: root.create_namespace("m"),
        lambda: root.drop_table("n.parts"),
        lambda: root.rename_table("n.parts", "others"),
        lambda: root.declare_table("more"),
        lambda: root.maintain().apply(),
        lambda: check_of_ours(root.catalog, "clean up"),
        lambda: claim_table(NamedTable(root.catalog.root, "n.parts"), WriteOptions()),
    ):
        with pytest.raises(Refused, match=f"its property {min(properties)} says") as refused:
            change()
        assert "Use the tool that made it" in refused.value.hint
    assert lance.dataset(root.catalog.manifest.uri).version == before
    assert root.table("n.parts")._pin().version == 3


def changes(t, rows):
    """Every kind of change of a table that is opened by its path."""
    policy = CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(0))
    return {
        "append": lambda: t.write(rows),
        "overwrite": lambda: t.write(rows, mode="overwrite"),
        "delete": lambda: delete_where(t.location, None, "id = 1", engine_of(None)),
        "truncate": lambda: truncate(t.location, None),
        "add columns": lambda: t.add_columns({"more": "id + 1"}),
        "drop columns": lambda: t.drop_columns("id"),
        "create an index": lambda: t.indexes.create("id", "btree", run_on="local"),
        "optimize": lambda: t.optimize(),
        "restore": lambda: t.restore(1),
        "merge": lambda: t.branches.merge("exp"),
        "create a branch": lambda: t.branches.create("new"),
        "delete a branch": lambda: t.branches.delete("exp"),
        "alter a branch": lambda: t.branches.alter("exp", owner="me"),
        "protect": lambda: t.branches.alter("main", protected=True),
        "create a tag": lambda: t.tags.create("new"),
        "move a tag": lambda: t.tags.move("good", version=1),
        "delete a tag": lambda: t.tags.delete("good"),
        "alter a tag": lambda: t.tags.alter("good", expire_after="30d"),
        "clean up": lambda: t.cleanup(policy),
        "create a table": lambda: create_dataset(DatasetLocation(f"{t.location.uri}2"), rows.schema),
        "clone": lambda: t.clone(f"{t.location.uri}-clone"),
    }


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("verb", sorted(changes(None, None)))
@pytest.mark.parametrize("properties", PROPERTIES, ids=lambda each: min(each))
def test_nothing_of_its_tables_is_changed_by_path(root, properties, verb):
    t = LanceTable.for_path(root.table("n.parts").location.uri)
    t.tags.create("good", version=2)
    t.branches.create("exp", version=1)
    of_others(root, properties)
    others.forget()
    before = {path for path in Path(t.location.uri).rglob("*") if path.is_file()}
    with pytest.raises(Refused, match=f"its property {min(properties)} says") as refused:
        changes(t, pa.table({"id": pa.array([9], pa.int64())}))[verb]()
    assert "Use the tool that made it" in refused.value.hint
    assert {path for path in Path(t.location.uri).rglob("*") if path.is_file()} == before
    assert t.head().num_rows == 2
    assert t.fsck().findings == ()


def test_a_table_deeper_below_its_root_is_its_own_only_if_it_is_registered(root):
    rows = pa.table({"id": [1]})
    for place in ("years/2025/deep", "years/2025/own"):
        lance.write_dataset(rows, f"{root.catalog.uri}/{place}")
    root.register_table("n.deep", "years/2025/deep")
    of_others(root, PROPERTIES[0])
    others.forget()
    with pytest.raises(Refused, match=rf"Of the catalog {root.catalog.uri}, its property"):
        LanceTable.for_path(f"{root.catalog.uri}/years/2025/deep").write(rows)
    own = LanceTable.for_path(f"{root.catalog.uri}/years/2025/own")
    own.write(rows)
    assert own._pin().version == 2


@pytest.mark.parametrize(
    ("uri", "above"),
    [
        ("s3://bucket/a/b/t", ["s3://bucket/a/b", "s3://bucket/a", "s3://bucket"]),
        ("s3://bucket", []),
        ("/home/me/t", ["/home/me", "/home"]),
        ("file:///t", []),
        ("file:///lake/t", ["file:///lake"]),
    ],
)
def test_the_directories_above_a_table(uri, above):
    assert directories_above(uri) == above


@pytest.mark.parametrize(
    ("pin", "spec", "rows"),
    [
        ({"read_version": 2}, RefSpec(version=2), 1),
        ({"read_tag": "good"}, RefSpec(tag="good"), 1),
        ({"read_branch": "exp"}, RefSpec(branch="exp"), 0),
        ({"read_branch": "main", "read_version": 1}, RefSpec(version=1), 0),
        ({"read_version": None}, RefSpec(), 2),
    ],
    ids=str,
)
def test_a_partition_is_read_at_its_pin(root, pin, spec, rows):
    table = root.table("n.parts")
    table.tags.create("good", version=2)
    table.branches.create("exp", version=1)
    of_others(root, PROPERTIES[1])
    manifest = lance.dataset(root.catalog.manifest.uri)
    manifest.add_columns(pa.schema([(name, pa.int64() if name == "read_version" else pa.string()) for name in pin]))
    values = {name: f"'{value}'" if isinstance(value, str) else str(value) for name, value in pin.items() if value}
    if values:
        manifest.update(values)
    assert read_name(root.catalog, "n.parts").spec == spec
    there = root.table("n.parts")
    assert there.ref == spec
    assert lance.dataset(there.location.uri).checkout_version(there._pin().reference).count_rows() == rows
    assert root.table("n.parts", branch="main")._pin().version == 3


NONE = pa.table({"object_id": ["a"], "object_type": ["table"]})
ROWS = NONE.append_column("read_version", pa.array([7])).append_column("read_branch", pa.array(["exp"]))


@pytest.mark.pure
@pytest.mark.parametrize(
    ("rows", "name", "spec"),
    [(NONE, "a", RefSpec()), (ROWS, "a", RefSpec(branch="exp", version=7)), (ROWS, "b", RefSpec())],
)
def test_the_pin_of_a_row(rows, name, spec):
    assert others_rules.read_pin(rows, name) == spec


@pytest.mark.pure
@pytest.mark.parametrize("properties", [{}, {"owner": "me"}, {"table_version_management": "false"}])
def test_a_catalog_of_ours(properties):
    others_rules.check_ours(properties, "do")
