"""``log`` and ``show`` of datasets that pylance wrote."""

import json
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.local_datasets import make_dataset, numbers

from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.core.show import plain_text
from lance_spark.errors import CorruptData, NotFound
from lance_spark.log.log import log, show
from lance_spark.log.print_rules import graph_lines, log_lines, show_lines
from lance_spark.refs.refs import create_tag
from lance_spark.storage import files
from lance_spark.storage.datasets import locate

OLD = Path(__file__).parents[3] / "shared" / "data" / "old-writers"


def entries(uri, branch=None, **arguments):
    return log(locate(uri), branch, **arguments)


def pins(found):
    return [str(entry.pin) for entry in found]


def append(uri, count=1, start=0, **arguments):
    return lance.write_dataset(numbers(count, start), uri, mode="append", **arguments)


def manifest(uri, version):
    return Path(uri, "_versions", f"{2**64 - 1 - version:020d}.manifest")


@pytest.fixture
def reads(monkeypatch):
    """Paths of the single files that were read."""
    found = []
    whole = files.read
    monkeypatch.setattr(files, "read", lambda location, path: found.append(path) or whole(location, path))
    return found


def test_each_version_with_what_it_did(uri):
    make_dataset(uri, numbers(10))
    append(uri, 5, 10, commit_message="more")
    dataset = lance.dataset(uri)
    dataset.delete("id < 4")
    dataset.update({"id": "id + 100"}, where="id = 5")
    dataset.add_columns({"twice": "id * 2"})
    dataset.drop_columns(["twice"])
    dataset.create_scalar_index("id", "BTREE")
    dataset.optimize.compact_files()
    dataset.update_config({"a": "b"})
    lance.dataset(uri, version=2).restore()
    lance.write_dataset(numbers(2), uri, mode="overwrite")
    found = entries(uri, stat=True)
    assert [entry.words for entry in found] == [
        "overwrite",
        "restore",
        "config",
        "compact",
        "reserve fragments",
        "index",
        "change columns",
        "add columns",
        "update",
        "delete",
        "append",
        "create",
    ]
    for entry in found:
        assert entry.total_rows == lance.dataset(uri, version=entry.version).count_rows()
    rows = {entry.words: (entry.stat.rows_added, entry.stat.rows_removed) for entry in found}
    assert rows["create"] == (10, 0)
    assert rows["append"] == (5, 0)
    assert rows["delete"] == (0, 4)
    assert rows["update"] == (1, 1)
    assert rows["compact"] == rows["index"] == rows["add columns"] == (0, 0)
    assert rows["overwrite"] == (2, 15)
    stats = {entry.words: entry.stat for entry in found}
    assert (stats["append"].files_added, stats["compact"].files_added) == (1, 1)
    (path,) = (file.path for file in lance.dataset(uri).get_fragments()[0].metadata.files)
    assert stats["overwrite"].bytes_added == Path(uri, "data", path).stat().st_size
    assert [entry.message for entry in found if entry.message] == ["more"]
    times = {each["version"]: each["timestamp"].timestamp() for each in lance.dataset(uri).versions()}
    assert all(entry.timestamp.timestamp() == pytest.approx(times[entry.version], abs=1e-5) for entry in found)
    assert entries(uri)[3].stat is None


def test_a_log_goes_on_past_the_fork(uri):
    make_dataset(uri, numbers(3), numbers(2, 3))
    lance.dataset(uri).create_branch("a")
    append(f"{uri}/tree/a", 1, 10)
    lance.dataset(f"{uri}/tree/a").create_branch("a/b")
    append(uri, 1, 20)
    append(f"{uri}/tree/a/b", 1, 30)
    found = entries(uri, "a/b", stat=True)
    assert pins(found) == ["a/b@4", "a@3", "main@2", "main@1"]
    assert [entry.inherited for entry in found] == [False, True, True, True]
    assert [entry.stat.rows_added for entry in found] == [1, 1, 2, 3]
    assert [entry.heads for entry in found] == [("a/b",), ("a",), (), ()]
    assert [entry.forks for entry in found] == [(), ("a/b",), ("a",), ()]
    assert [str(entry.parents[0]) for entry in found[:3]] == ["a@3", "main@2", "main@1"]


def test_a_new_branch_is_at_the_version_it_was_created_from(uri):
    make_dataset(uri, numbers(3))
    lance.dataset(uri).create_branch("a")
    (only,) = entries(uri, "a")
    assert (str(only.pin), only.heads, only.forks) == ("main@1", ("main", "a"), ("a",))
    detail = show(locate(uri), PinnedVersion("a", 1))
    assert detail.entry.heads == ("a",)
    assert (detail.entry.words, detail.entry.stat.rows_added) == ("clone", 0)
    assert detail.bases == (uri,)


def test_tags_are_shown_where_they_are(uri):
    make_dataset(uri, numbers(3), numbers(1))
    lance.dataset(uri).create_branch("a")
    for name, spec in (("v1", RefSpec(version=1)), ("v2", RefSpec(branch="a")), ("also", RefSpec(version=1))):
        create_tag(locate(uri), name, spec)
    assert [entry.tags for entry in entries(uri)] == [("v2",), ("also", "v1")]


def test_a_log_can_start_anywhere_and_be_limited(uri):
    make_dataset(uri, *(numbers(1, start) for start in range(6)))
    assert pins(entries(uri, count=2)) == ["main@6", "main@5"]
    found = entries(uri, start=PinnedVersion(None, 4), count=2, stat=True)
    assert pins(found) == ["main@4", "main@3"]
    assert [entry.stat.rows_added for entry in found] == [1, 1]
    assert not any(entry.heads for entry in found)
    assert entries(uri, count=0) == ()


@pytest.mark.parametrize(("stat", "expected"), [(False, 3), (True, 4)])
def test_only_manifests_that_are_shown_are_read(uri, reads, stat, expected):
    make_dataset(uri, *(numbers(1, start) for start in range(9)))
    entries(uri, count=3, stat=stat)
    assert len([path for path in reads if path.endswith(".manifest")]) == expected


def test_versions_that_were_cleaned_up_are_gaps(uri):
    make_dataset(uri, *(numbers(1, start) for start in range(6)))
    for version in (1, 3, 4):
        manifest(uri, version).unlink()
    found = entries(uri, stat=True)
    assert pins(found) == ["main@6", "main@5", "main@2"]
    assert [entry.stat and entry.stat.rows_added for entry in found] == [1, 3, None]
    assert [list(map(str, entry.parents)) for entry in found] == [["main@5"], ["main@2"], []]
    assert plain_text(graph_lines(found)).count("*") == 3


def test_a_branch_whose_fork_was_cleaned_up_shows_its_own_copy(uri):
    make_dataset(uri, *(numbers(1, start) for start in range(3)))
    lance.dataset(uri).create_branch("a")
    append(f"{uri}/tree/a", 1, 10)
    append(uri, 1, 20)
    manifest(uri, 3).unlink()
    found = entries(uri, "a", stat=True)
    assert pins(found) == ["a@4", "a@3", "main@2", "main@1"]
    assert found[1].words == "clone"


@pytest.mark.parametrize("lost", [False, True])
def test_a_transaction_is_read_from_its_file_where_the_manifest_has_none(tmp_path, lost):
    if not OLD.is_dir():
        pytest.skip("the old datasets are not part of the repository")
    root = tmp_path / "old"
    shutil.copytree(OLD / "v0.20.0" / "old_btree_bitmap_indices.lance", root)
    if lost:
        shutil.rmtree(root / "_transactions")
    found = entries(str(root))
    assert pins(found) == ["main@3", "main@2", "main@1"]
    assert [entry.words for entry in found] == (["unknown"] * 3 if lost else ["index", "index", "create"])


@pytest.mark.skipif(not OLD.is_dir(), reason="the old datasets are not part of the repository")
def test_rows_that_the_first_writers_did_not_count_are_counted_by_pylance(tmp_path):
    root = tmp_path / "old"
    shutil.copytree(OLD / "v0.8.0" / "migrated_from_v0.7.5", root)
    assert [entry.total_rows for entry in entries(str(root))] == [92, 90, 100]


def test_old_names_of_manifests(uri):
    make_dataset(uri, *(numbers(1, start) for start in range(12)), enable_v2_manifest_paths=False)
    assert [entry.version for entry in entries(uri, count=3)] == [12, 11, 10]
    assert [entry.version for entry in entries(uri, start=PinnedVersion(None, 2))] == [2, 1]
    assert show(locate(uri), PinnedVersion(None, 3)).entry.total_rows == 3


def merge(uri, branch, version, rows=1):
    properties = {"lance_spark.action": "merge", "lance_spark.source": f"{branch}@{version}"}
    append(uri, rows, 500, transaction_properties=properties, commit_message=f"take {branch} in")


def test_a_merge_has_its_source_as_second_parent(uri):
    make_dataset(uri, numbers(3))
    lance.dataset(uri).create_branch("exp")
    append(f"{uri}/tree/exp", 1, 10)
    append(uri, 1, 20)
    merge(uri, "exp", 2)
    append(uri, 1, 30)
    found = entries(uri)
    assert pins(found) == ["main@4", "main@3", "main@2", "main@1"]
    assert (found[1].words, found[1].source, found[1].message) == ("merge (append)", "exp@2", "take exp in")
    assert list(map(str, found[1].parents)) == ["main@2", "exp@2"]
    drawn = plain_text(graph_lines(entries(uri, scope="merged"))).splitlines()
    assert [line[:4].rstrip() for line in drawn] == ["*", "M", "|", "|\\", "* |", "| *", "|/", "*"]
    assert pins(entries(uri, scope="merged")) == ["main@4", "main@3", "main@2", "exp@2", "main@1"]


def test_a_branch_that_was_deleted_and_made_again_is_no_parent_of_an_old_merge(uri):
    make_dataset(uri, numbers(3))
    dataset = lance.dataset(uri)
    dataset.create_branch("exp")
    properties = {
        "lance_spark.action": "merge",
        "lance_spark.source": "exp@1",
        "lance_spark.source_id": "another branch of that name",
    }
    append(uri, 1, 20, transaction_properties=properties)
    assert list(map(str, entries(uri)[0].parents)) == ["main@1"]


def test_all_branches(uri):
    make_dataset(uri, numbers(3))
    for name in ("a", "b"):
        lance.dataset(uri).create_branch(name)
    append(f"{uri}/tree/b", 1, 10)
    append(uri, 1, 10)
    append(f"{uri}/tree/a", 1, 10)
    found = entries(uri, scope="all")
    assert pins(found) == ["a@2", "main@2", "b@2", "main@1"]
    assert found[-1].forks == ("a", "b")
    assert found[-1].heads == ()
    drawn = plain_text(graph_lines(found)).splitlines()
    assert [line.split(" ")[0] for line in drawn][-1] == "*"
    assert sum("*" in line for line in drawn) == 4


def test_show_tells_all_of_a_version(uri):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("p", pa.struct([("x", pa.int32())]))])
    make_dataset(uri, pa.table({"id": [1, 2, 3], "p": [{"x": 1}] * 3}, schema=schema))
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id = 2")
    dataset.update_config({"a": "b"})
    detail = show(locate(uri), PinnedVersion(None, 4))
    assert [(column.path, column.type, column.nullable) for column in detail.columns] == [
        ("id", "int64", False),
        ("p", "struct", True),
        ("p.x", "int32", True),
    ]
    assert [(index.name, index.columns) for index in detail.indexes] == [("id_idx", ("id",))]
    assert [(each.key, each.before, each.after) for each in detail.config_changes] == [("a", None, "b")]
    assert (detail.fragments, detail.data_files, detail.deletion_files, detail.deleted_rows) == (1, 1, 1, 1)
    assert (detail.entry.total_rows, detail.storage_version, detail.bases) == (2, "2.2", ())
    assert json.loads(json.dumps(detail.as_record()))["entry"]["version"] == 4
    said = plain_text(show_lines(detail))
    assert "main@4 (main)  config  2 rows" in said
    assert "id_idx  id" in said
    assert "a  null -> b" in said


def test_records_and_text(uri):
    make_dataset(uri, numbers(3))
    append(uri, 2, 3, commit_message="two\nlines")
    found = entries(uri, stat=True)
    record = json.loads(json.dumps(found[0].as_record()))
    assert (record["branch"], record["version"], record["parents"]) == ("main", 2, ["main@1"])
    assert record["stat"]["rows_added"] == 2
    lines = plain_text(log_lines(found)).splitlines()
    assert lines[0].startswith("main@2 (main)  append  5 rows  20")
    assert lines[1:3] == ["    two", "    lines"]
    assert lines[3].startswith("    +2 -0 rows, +1 -0 files, +")


def test_what_is_not_there_is_named(uri):
    with pytest.raises(NotFound, match="no versions"):
        entries(uri)
    make_dataset(uri, numbers(1))
    lance.dataset(uri).create_branch("develop")
    with pytest.raises(NotFound, match="'develop'"):
        entries(uri, "develpo")
    with pytest.raises(NotFound, match="no version 7"):
        show(locate(uri), PinnedVersion(None, 7))


def test_a_damaged_manifest_is_not_left_out(uri):
    make_dataset(uri, numbers(1), numbers(1))
    manifest(uri, 1).write_bytes(b"nothing")
    with pytest.raises(CorruptData):
        entries(uri)
