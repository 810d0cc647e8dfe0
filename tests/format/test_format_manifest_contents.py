"""Whole manifests that Lance wrote: fragments, columns, indexes and settings are what pylance tells of the version."""

import random
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import DatasetBasePath
from test_format_manifest_real import OLD, append, everything, manifests, old_chains

from lance_spark.errors import CorruptData, Refused
from lance_spark.format.contents import DeletionFile, decode_contents
from lance_spark.format.transactions import inline_transaction

pytestmark = pytest.mark.pure


def newest(uri):
    return decode_contents(list(manifests(uri).values())[-1])


def told(dataset):
    """Fragments as pylance tells them; a size that is not recorded is 0 here."""
    found = []
    for fragment in (fragment.metadata for fragment in dataset.get_fragments()):
        deletion = fragment.deletion_file
        found.append(
            (
                fragment.id,
                fragment.physical_rows,
                [(file.path, list(file.fields), file.file_size_bytes or 0, file.base_id) for file in fragment.files],
                deletion and (deletion.read_version, deletion.id, deletion.num_deleted_rows, deletion.base_id),
            )
        )
    return found


def decoded(contents):
    return [
        (
            fragment.id,
            fragment.physical_rows,
            [(file.path, list(file.fields), file.size, file.base_id) for file in fragment.files],
            fragment.deletion
            and (
                fragment.deletion.read_version,
                fragment.deletion.id,
                fragment.deletion.rows,
                fragment.deletion.base_id,
            ),
        )
        for fragment in contents.fragments()
    ]


def assert_as_pylance_says(root):
    for version, content in manifests(root).items():
        dataset, contents = lance.dataset(root, version=version), decode_contents(content)
        assert decoded(contents) == told(dataset), version
        assert contents.fragment_count == len(dataset.get_fragments())
        assert sum(fragment.rows for fragment in contents.fragments()) == dataset.count_rows()
        assert [field.name for field in contents.fields if field.parent_id == -1] == dataset.schema.names
        assert {field.id: field.name for field in contents.fields} == {
            field.id(): field.name() for field in _flat(dataset.lance_schema.fields())
        }
        assert {index.name for index in contents.indexes} == {index["name"] for index in dataset.list_indices()}
        assert {index.uuid for index in contents.indexes} == {index["uuid"] for index in dataset.list_indices()}
        assert contents.config == dataset.config()
        assert contents.storage_version == dataset.data_storage_version
        assert contents.has_stable_row_ids == dataset.has_stable_row_ids
        assert contents.max_fragment_id >= max((each.fragment_id for each in dataset.get_fragments()), default=-1)


def _flat(fields):
    for field in fields:
        yield field
        yield from _flat(field.children())


@pytest.mark.parametrize(
    "arguments",
    [{}, {"enable_stable_row_ids": True}, {"data_storage_version": "legacy"}, {"data_storage_version": "2.0"}],
    ids=str,
)
def test_every_kind_of_change(uri, arguments):
    assert_as_pylance_says(everything(uri, **arguments).uri)


def test_nested_columns_with_their_types(uri):
    point = pa.struct([pa.field("x", pa.int32(), nullable=False), ("tags", pa.list_(pa.string()))])
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata={"note": "hi"}), ("point", point)])
    lance.write_dataset(pa.table({"id": [1], "point": [{"x": 1, "tags": ["a"]}]}, schema=schema), uri)
    fields = {field.name: field for field in newest(uri).fields}
    assert [(field.id, field.parent_id, field.type, field.nullable) for field in fields.values()] == [
        (0, -1, "int64", False),
        (1, -1, "struct", True),
        (2, 1, "int32", False),
        (3, 1, "list", True),
        (4, 3, "string", True),
    ]
    assert fields["id"].metadata == (("note", b"hi"),)


def test_branches_and_branches_of_branches_inherit_files_from_their_bases(uri):
    append(uri, mode="create")
    lance.dataset(uri).delete("id = 1")
    lance.dataset(uri).create_branch("a")
    lance.dataset(f"{uri}/tree/a").delete("id = 4")
    append(f"{uri}/tree/a", 3, 6)
    lance.dataset(f"{uri}/tree/a").create_branch("a/b")
    append(f"{uri}/tree/a/b", 3, 9)
    for root in (uri, f"{uri}/tree/a", f"{uri}/tree/a/b"):
        assert_as_pylance_says(root)
    last = newest(f"{uri}/tree/a/b")
    assert last.head.branch == "a/b"
    inherited = {file.base_id for fragment in last.fragments() for file in fragment.files}
    assert inherited == {None, *last.head.bases} != {None}


def test_files_in_a_registered_base(uri, tmp_path):
    (tmp_path / "shelf").mkdir()
    base = DatasetBasePath(str(tmp_path / "shelf"), name="shelf", is_dataset_root=True)
    append(uri, mode="create", initial_bases=[base], target_bases=["shelf"])
    assert_as_pylance_says(uri)


def test_few_and_many_deleted_rows_have_files_of_those_names(uri):
    append(uri, 60_000, mode="create", max_rows_per_file=60_000)
    for predicate in ("id = 3", "id % 2 = 0"):
        lance.dataset(uri).delete(predicate)
        (fragment,) = newest(uri).fragments()
        assert (Path(uri) / fragment.deletion.path_for(fragment.id)).is_file()
    assert {path.suffix for path in Path(uri, "_deletions").iterdir()} == {".arrow", ".bin"}


def test_a_deletion_file_of_an_unknown_type_has_no_name():
    with pytest.raises(CorruptData, match="unknown type 2"):
        DeletionFile(2, 1, 1, 1, None).path_for(0)


def test_two_versions_differ_in_the_fragments_that_a_commit_touched(uri):
    append(uri, 30, mode="create")
    before = newest(uri)
    lance.dataset(uri).delete("id = 4")
    append(uri, 3, 30)
    now = newest(uri)
    assert [fragment.id for fragment in now.fragments_without(before)] == [1, 10]
    assert [fragment.id for fragment in before.fragments_without(now)] == [1]
    assert now.fragments_without(now) == []


def test_stable_row_ids_and_settings(uri):
    append(uri, 6, mode="create", enable_stable_row_ids=True)
    dataset = lance.dataset(uri)
    dataset.update_config({"lance.auto_cleanup.interval": "3"})
    dataset.update_metadata({"owner": "me"})
    dataset.update_schema_metadata({"unit": "m"})
    contents = newest(uri)
    assert contents.next_row_id == 6
    assert all(fragment.row_ids for fragment in contents.fragments())
    assert contents.config["lance.auto_cleanup.interval"] == "3"
    assert contents.table_metadata == {"owner": "me"}
    assert contents.schema_metadata == {"unit": b"m"}


def test_an_empty_table(uri):
    lance.write_dataset(pa.table({"id": pa.array([], pa.int64())}), uri)
    contents = newest(uri)
    assert (contents.fragment_count, list(contents.fragments()), contents.max_fragment_id) == (0, [], -1)


@pytest.mark.parametrize("name", old_chains())
def test_old_writers(name):
    for version, content in manifests(OLD / name).items():
        contents = decode_contents(content)
        try:
            expected = lance.dataset(str(OLD / name), version=version)
        except (OSError, ValueError):
            continue
        assert [field.name for field in contents.fields if field.parent_id == -1] == expected.schema.names
        assert [fragment.id for fragment in contents.fragments()] == [
            each.fragment_id for each in expected.get_fragments()
        ]
        if contents.counts_rows:
            assert sum(fragment.rows for fragment in contents.fragments()) == expected.count_rows()


@pytest.mark.skipif(not OLD.is_dir(), reason="the old datasets are not part of the repository")
def test_the_first_writers_did_not_count_rows():
    *_, last = manifests(OLD / "v0.7.5" / "with_deletions").values()
    contents = decode_contents(last)
    assert not contents.counts_rows
    assert sum(fragment.rows for fragment in contents.fragments()) != 90


def test_damaged_bytes_are_never_anything_but_corrupt(uri):
    everything(uri)
    chance = random.Random(7)
    refused = 0
    for content in list(manifests(uri).values())[-6:]:
        for _ in range(150):
            damaged = bytearray(content[: chance.choice((len(content), chance.randrange(len(content))))])
            for _ in range(chance.randrange(1, 6)):
                if damaged:
                    damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            for read in (decode_contents, inline_transaction):
                try:
                    found = read(bytes(damaged))
                    if read is decode_contents:
                        list(found.fragments())
                        assert all(isinstance(field.name, str) for field in found.fields)
                except (CorruptData, Refused):
                    refused += 1
    assert refused > 100
