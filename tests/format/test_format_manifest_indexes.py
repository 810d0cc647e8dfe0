"""Indexes as manifests have them, against what pylance says about the same ones."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.manifest_bytes import field

from lance_spark.errors import CorruptData
from lance_spark.format.contents import _record, decode_indexes
from lance_spark.format.manifest import parse

pytestmark = pytest.mark.pure


def manifest(uri, version):
    return Path(uri, "_versions", f"{2**64 - 1 - version}.manifest").read_bytes()


def test_every_segment_is_as_pylance_describes_it(uri):
    dataset = lance.write_dataset(pa.table({"id": range(100), "kind": [n % 3 for n in range(100)]}), uri)
    assert decode_indexes(manifest(uri, 1)) == ()
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("kind", "BITMAP", name="by kind")
    lance.write_dataset(pa.table({"id": range(9), "kind": range(9)}), uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    dataset = lance.dataset(uri)
    found = {record.uuid: record for record in decode_indexes(manifest(uri, dataset.version))}
    described = {index["uuid"]: index for index in dataset.list_indices()}
    assert found.keys() == described.keys()
    assert len(found) == 4
    for uuid, record in found.items():
        assert (record.name, record.dataset_version) == (described[uuid]["name"], described[uuid]["version"])
        assert record.fragments == set(described[uuid]["fragment_ids"])
        assert (record.base_id, record.is_internal) == (None, False)
        lying = {(path.name, path.stat().st_size) for path in Path(uri, "_indices", uuid).iterdir()}
        assert set(record.needed) == lying


def index(name="a", uuid=b"u" * 16, more=b""):
    return parse("IndexRecord", field(1, field(1, uuid)) + field(3, name) + more)


def test_what_an_old_writer_did_not_say_is_not_made_up():
    record = _record(index())
    assert (record.fragments, record.created_at, record.details, record.files) == (None, None, None, ())
    assert record.needed == (("", 0),)  # any file in its directory


@pytest.mark.parametrize(
    ("details", "needed"),
    [(b"short", ()), (b"\n\x0edetails.binpb", (("details.binpb", 0),))],
)
def test_what_a_fragment_reuse_index_says_is_in_the_manifest_until_it_is_long(details, needed):
    more = field(6, field(1, "/lance.table.FragmentReuseIndexDetails") + field(2, details))
    assert _record(index("__lance_frag_reuse", more=more)).needed == needed


def test_an_index_without_an_id_is_damage():
    with pytest.raises(CorruptData, match="no id"):
        _record(index(uuid=b"short"))
