"""Manifests that Lance wrote: what is decoded is what pylance tells about the same versions."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import DatasetBasePath

from lance_spark.format.contents import RunDecoder
from lance_spark.format.manifest import BasePath, NamedFile, check_flags, decode_head, named_files

pytestmark = pytest.mark.pure

OLD = Path(__file__).parents[3] / "shared" / "data" / "old-writers"
HIGHEST = 2**64 - 1


def rows(count, start=0):
    return pa.table({"id": range(start, start + count), "name": [f"n{number % 3}" for number in range(count)]})


def append(uri, count=6, start=0, **arguments):
    arguments = {"mode": "append", "max_rows_per_file": 3, **arguments}
    return lance.write_dataset(rows(count, start), uri, **arguments)


def manifests(root):
    """Content of all manifests of one chain, by version."""
    found = {}
    for path in Path(root, "_versions").glob("*.manifest"):
        number = int(path.stem)
        found[HIGHEST - number if len(path.stem) == 20 else number] = path.read_bytes()
    return dict(sorted(found.items()))


def tracked(dataset):
    """What pylance says each version of the handle's chain names: files as URIs, index files as directories."""
    found = {}
    for row in dataset.tracked_files().read_all().to_pylist():
        path = row["path"]
        if row["type"] == "manifest":
            found.setdefault(row["version"], set())
            continue
        path = "/".join(path.split("/")[:2]) if path.startswith("_indices/") else path
        found.setdefault(row["version"], set()).add((row["base_uri"], path))
    return found


def as_uris(files, root):
    return {(root if base is None else base.path, path) for base, path in files}


def assert_decoded(root):
    """Compare every version alone, and all of them as a run, with what pylance says. Returns the last one's files.

    pylance does not tell inherited indexes.
    """
    dataset = lance.dataset(root)
    expected, decoder, before = tracked(dataset), RunDecoder(), frozenset()
    times = {version["version"]: version["timestamp"] for version in dataset.versions()}
    assert set(expected) == set(manifests(root))
    for version, content in manifests(root).items():
        now = named_files(content)
        head, added, removed = decoder.feed(content)
        assert (set(added), set(removed)) == (now - before, before - now), version
        assert head == decode_head(content)
        assert head.version == version
        assert head.timestamp_ns / 10**9 == pytest.approx(times[version].timestamp(), rel=0, abs=1e-5)
        check_flags(head)
        told = {file for file in now if file.base is None or "_indices/" not in file.path}
        assert as_uris(told, root) == expected[version], version
        before = now
    return before


def of_kind(files, directory):
    return {file for file in files if file.path.startswith(directory)}


def everything(uri, **arguments):
    """Each way of changing a table, one after the other."""
    append(uri, 30, mode="create", **arguments)
    dataset = append(uri, 9, 30)
    dataset.delete("id % 5 = 0")
    dataset.update({"name": "'new'"}, where="id = 3")
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("name", "BITMAP")
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(4, 37))
    dataset.delete("id IN (6, 7, 8)")
    dataset.add_columns({"double": "id * 2"})
    dataset.optimize.compact_files(target_rows_per_fragment=12)
    dataset.optimize.optimize_indices()
    dataset.drop_columns(["double"])
    dataset.alter_columns({"path": "id", "name": "number"})
    dataset.update_config({"key": "value"})
    dataset.drop_index("name_idx")
    lance.dataset(uri, version=2).restore()
    dataset = append(uri, 3, 100)
    dataset.delete("true")
    append(uri, 5, mode="overwrite")
    append(uri, 3, 5)
    lance.dataset(uri, version=4).restore()
    return lance.dataset(uri)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"enable_v2_manifest_paths": False}, {"enable_stable_row_ids": True}]
    + [{"data_storage_version": version} for version in ("legacy", "2.0", "2.1", "next")],
    ids=str,
)
def test_every_kind_of_change(uri, arguments):
    files = assert_decoded(everything(uri, **arguments).uri)
    assert of_kind(files, "_deletions/")


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "INVERTED", "IVF_PQ"])
def test_every_kind_of_index(uri, kind):
    table = rows(300).append_column("vector", pa.array([[float(n)] * 8 for n in range(300)], pa.list_(pa.float32(), 8)))
    dataset = lance.write_dataset(table, uri)
    if kind == "IVF_PQ":
        dataset.create_index("vector", kind, num_partitions=1, num_sub_vectors=2)
    else:
        dataset.create_scalar_index("name", kind)
    lance.write_dataset(table, uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    found = {file.path for file in of_kind(assert_decoded(uri), "_indices/")}
    assert found == {f"_indices/{index['uuid']}" for index in lance.dataset(uri).list_indices()} != set()


def test_a_compaction_that_leaves_the_indexes_for_later(uri):
    dataset = append(uri, 30, mode="create")
    dataset.create_scalar_index("id", "BTREE")
    dataset.optimize.compact_files(target_rows_per_fragment=100, defer_index_remap=True)
    *_, last = manifests(uri).values()
    on_disk = {f"_indices/{path.name}" for path in Path(uri, "_indices").iterdir()}
    found = {file.path for file in of_kind(named_files(last), "_indices/")}
    assert len(found) == 2
    assert on_disk <= found


def test_branches_and_clones(uri, tmp_path):
    main = append(uri, mode="create")
    main.delete("id = 1")
    main.create_scalar_index("id", "BTREE")
    branch = append(main.create_branch("exp/a").uri, start=6)
    branch.delete("id IN (2, 7)")
    nested = branch.create_branch("nested")
    append(nested.uri, start=20)
    clone = main.shallow_clone(str(tmp_path / "clone"), 2)
    append(clone.uri, start=30)
    copy = main.deep_clone(str(tmp_path / "copy"), 2)
    root, middle = BasePath(uri, True), BasePath(branch.uri, True)

    assert {file.base for file in assert_decoded(uri)} == {None}
    assert {file.base for file in assert_decoded(copy.uri)} == {None}
    assert {file.base for file in assert_decoded(clone.uri)} == {None, root}
    in_branch = assert_decoded(branch.uri)
    assert {(file.base, file.path.split("/")[0]) for file in in_branch} == {
        *[(None, "data"), (None, "_deletions"), (None, "_transactions")],
        *[(root, "data"), (root, "_indices")],
    }
    assert {file.base for file in assert_decoded(nested.uri)} == {None, middle, root}
    *_, last = manifests(nested.uri).values()
    assert decode_head(last).branch == "nested"


@pytest.mark.parametrize("is_dataset_root", [True, False])
def test_files_in_a_registered_base(uri, tmp_path, is_dataset_root):
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    base = DatasetBasePath(str(shelf), name="shelf", is_dataset_root=is_dataset_root)
    append(uri, mode="create", initial_bases=[base], target_bases=["shelf"])
    append(uri, start=6)
    lance.dataset(uri).delete("id IN (0, 6)")
    files = assert_decoded(uri)
    there = {path for place, path in files if place == BasePath(str(shelf), is_dataset_root)}
    assert there == {str(path.relative_to(shelf)) for path in shelf.rglob("*.lance")} != set()


@pytest.mark.parametrize("managed", [False, True])
def test_blobs(uri, managed):
    from lance import blob_array, blob_field

    schema = pa.schema([pa.field("id", pa.int64()), blob_field("blob")])
    if managed:
        schema = schema.with_metadata({"lance.blob.managed": "true"})
    for start, mode in ((0, "create"), (3, "append")):
        blobs = blob_array([b"x" * 200_000] * 3)
        lance.write_dataset(pa.table([pa.array(range(start, start + 3)), blobs], schema), uri, mode=mode)
    *_, last = manifests(uri).values()
    assert decode_head(last).reader_flags & 16384 == (16384 if managed else 0)
    assert_decoded(uri)


def test_spilled_row_lineage(uri):
    append(uri, 30, mode="create", enable_stable_row_ids=True)
    lance.dataset(uri).update_config({"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "0"})
    append(uri, 9, 30)
    lance.dataset(uri).update({"name": "'new'"}, where="id % 7 = 1")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=12)
    assert_decoded(uri)
    *_, last = manifests(uri).values()
    assert decode_head(last).reader_flags & 2048


def test_a_detached_version(uri):
    append(uri, mode="create")
    fragments = lance.fragment.write_fragments(rows(3), uri)
    detached = lance.LanceDataset.commit(uri, lance.LanceOperation.Append(fragments), read_version=1, detached=True)
    (path,) = Path(uri, "_versions").glob("d*.manifest")
    assert decode_head(path.read_bytes()).version == detached.version > 2**63
    assert {NamedFile(None, f"data/{file.path}") for each in fragments for file in each.files} < named_files(
        path.read_bytes()
    )


def old_chains():
    return sorted(str(path.parent.relative_to(OLD)) for path in OLD.rglob("_versions"))


@pytest.mark.skipif(not OLD.is_dir(), reason="the old datasets are not part of the repository")
def test_there_are_old_datasets():
    assert len(old_chains()) > 10


@pytest.mark.parametrize("name", old_chains())
def test_manifests_of_old_writers(name):
    root = OLD / name
    decoder, before = RunDecoder(), frozenset()
    for version, content in manifests(root).items():
        now = named_files(content)
        head, added, removed = decoder.feed(content)
        assert (set(added), set(removed)) == (now - before, before - now)
        assert head.version == version
        check_flags(head)
        before = now
    try:
        expected = tracked(lance.dataset(str(root)))
    except (OSError, ValueError):
        pytest.skip("pylance cannot read it either")
    for version, content in manifests(root).items():
        assert {path for _, path in named_files(content)} == {path for _, path in expected[version]}


@pytest.mark.parametrize("name", [name for name in old_chains() if (OLD / name / "data").is_dir()])
def test_what_old_writers_named_is_there(name):
    *_, last = manifests(OLD / name).values()
    assert not {path for _, path in named_files(last) if not (OLD / name / path).exists()}
