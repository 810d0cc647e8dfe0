"""Transactions inside of manifests, and beside them, are those that pylance tells of the version."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.dataset import LanceOperation
from support.manifest_bytes import field, head, manifest_file
from test_format_manifest_real import OLD, append, everything, manifests, old_chains

from lance_spark.errors import CorruptData
from lance_spark.format.manifest import decode_head
from lance_spark.format.transactions import UNKNOWN, decode_transaction, inline_transaction

pytestmark = pytest.mark.pure


def operations(root):
    return [inline_transaction(content).operation for content in manifests(root).values()]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"enable_stable_row_ids": True}, {"data_storage_version": "legacy"}, {"data_storage_version": "2.0"}],
    ids=str,
)
def test_every_kind_of_change(uri, arguments):
    dataset = everything(uri, **arguments)
    found = set()
    for version, content in manifests(uri).items():
        transaction = inline_transaction(content)
        if transaction.operation != "Rewrite":  # pylance fails to tell those that rewrote an index
            expected = dataset.read_transaction(version)
            assert (transaction.uuid, transaction.read_version) == (expected.uuid, expected.read_version)
            assert type(expected.operation).__name__ in (transaction.operation, "BaseOperation")
        file = Path(uri, "_transactions", decode_head(content).transaction_file)
        assert decode_transaction(file.read_bytes()) == transaction
        found.add(transaction.operation)
    assert found >= {"Append", "Delete", "Overwrite", "Update", "CreateIndex", "Merge", "Rewrite", "ReserveFragments"}
    assert found >= {"Project", "UpdateConfig", "Restore"}


def test_messages_and_properties(uri):
    append(uri, mode="create")
    append(uri, 3, 6, commit_message="grüße", transaction_properties={"lance_spark.source": "exp@8"})
    *_, content = manifests(uri).values()
    transaction = inline_transaction(content)
    assert transaction.message == "grüße"
    assert transaction.properties["lance_spark.source"] == "exp@8"
    assert inline_transaction(next(iter(manifests(uri).values()))).message is None


def test_branches_begin_with_a_clone(uri):
    append(uri, mode="create")
    lance.dataset(uri).create_branch("a")
    append(f"{uri}/tree/a", 3, 6)
    lance.dataset(f"{uri}/tree/a").create_branch("a/b")
    assert operations(f"{uri}/tree/a") == ["Clone", "Append"]
    assert operations(f"{uri}/tree/a/b") == ["Clone"]


def test_a_replaced_column(uri):
    append(uri, mode="create")
    dataset = lance.dataset(uri)
    dataset.add_columns({"twice": "id * 2"})
    files = []
    for fragment in dataset.get_fragments():
        rows = pa.table({"twice": pa.array([0] * fragment.count_rows(), pa.int64())})
        path = f"new-{fragment.fragment_id}.lance"
        from lance.file import LanceFileWriter

        with LanceFileWriter(f"{uri}/data/{path}", rows.schema) as writer:
            writer.write_batch(rows)
        files.append(
            LanceOperation.DataReplacementGroup(
                fragment.fragment_id,
                lance.fragment.DataFile(path, [2], [0], 2, 2),
            )
        )
    lance.LanceDataset.commit(uri, LanceOperation.DataReplacement(files), read_version=dataset.version)
    assert operations(uri)[-1] == "DataReplacement"


@pytest.mark.parametrize("name", old_chains())
def test_old_writers_kept_transactions_in_files_only(name):
    for content in manifests(OLD / name).values():
        assert inline_transaction(content) is None
        file = decode_head(content).transaction_file
        path = OLD / name / "_transactions" / (file or "")
        if file and path.is_file():
            assert decode_transaction(path.read_bytes()).uuid in file


def test_an_operation_newer_than_this_package_is_unknown():
    assert decode_transaction(field(1, 3) + field(2, "an id") + field(140, b"")).operation == UNKNOWN


def test_damaged_bytes():
    with pytest.raises(CorruptData):
        decode_transaction(b"\xff" * 9)
    with pytest.raises(CorruptData, match="cut off"):
        inline_transaction(b"")
    assert inline_transaction(manifest_file(head())) is None
    with pytest.raises(CorruptData):
        inline_transaction(manifest_file(head(more=field(23, 5000))))
