"""What is damaged, unknown or hidden stops a run: manifests and ref files that cannot be read, unknown feature flags,
listings with nothing or too little in them.
"""

import struct
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support import cleanup_datasets

from lance_spark.cleanup import cleanup
from lance_spark.errors import CorruptData, NotFound, Refused
from lance_spark.survey import survey as surveying

DAMAGE = {
    "empty": lambda _: b"",
    "cut off": lambda content: content[: len(content) // 2],
    "without its end": lambda content: content[:-1],
    "without its beginning": lambda content: content[7:],
    "other bytes": lambda content: bytes(reversed(content)),
    "zeros": lambda content: bytes(len(content)),
}
WHICH = {
    "old": (None, 1),
    "tagged": (None, 2),
    "fork": (None, 3),
    "latest": (None, 8),
    "old of a branch": ("dev", 4),
    "latest of a branch": ("dev/deep", 6),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize(("branch", "version"), WHICH.values(), ids=WHICH)
def test_a_damaged_manifest_stops_the_run_and_is_named(uri, damage, branch, version):
    cleanup_datasets.busy(uri)
    file = cleanup_datasets.manifest(uri, version, branch)
    file.write_bytes(damage(file.read_bytes()))
    problem = cleanup_datasets.refused(uri, CorruptData)
    assert file.name in problem.message or (version == 8 and uri in problem.message)  # pylance opens the latest


def test_a_damaged_manifest_of_a_version_that_is_known_to_be_old_is_not_read_and_goes(uri):
    """Better than the reference, in which it blocks every cleanup for ever."""
    cleanup_datasets.overwritten(uri, 3)
    cleanup_datasets.manifest(uri, 1).write_bytes(b"")
    cleanup_datasets.age_all(uri, 30)
    cleanup_datasets.clean(uri, older_than=timedelta(days=14))
    assert cleanup_datasets.versions(uri) == [3]
    assert not cleanup_datasets.orphans(uri)


def test_a_manifest_that_holds_another_version_stops_the_run(uri):
    cleanup_datasets.overwritten(uri, 3)
    cleanup_datasets.manifest(uri, 3).write_bytes(cleanup_datasets.manifest(uri, 1).read_bytes())
    cleanup_datasets.refused(uri, CorruptData, r"holds version 1")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff"])
@pytest.mark.parametrize("ref", ["branches/dev.json", "tags/first.json"])
def test_a_damaged_ref_stops_the_run(uri, ref, content):
    cleanup_datasets.busy(uri)
    Path(uri, "_refs", ref).write_bytes(content)
    cleanup_datasets.refused(uri, CorruptData, r"dev|first")


def varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def set_flags(file, reader, writer):
    """Append the two words of flags to a manifest; the last one counts."""
    content = file.read_bytes()
    position = struct.unpack("<q", content[-16:-8])[0]
    size = struct.unpack("<I", content[position : position + 4])[0]
    assert position + 4 + size == len(content) - 16
    message = content[position + 4 : -16] + b"\x48" + varint(reader) + b"\x50" + varint(writer)
    file.write_bytes(content[:position] + struct.pack("<I", len(message)) + message + content[-16:])


@pytest.mark.parametrize(
    ("reader", "writer"),
    [(1 << 20, 0), (0, 1 << 20), (1 << 12, 1 << 12), (1 << 63, 1 << 63), (1 << 14, 0), (0, 1 << 14), (1 << 9, 1 << 9)],
)
@pytest.mark.parametrize(("branch", "version"), WHICH.values(), ids=WHICH)
def test_a_version_with_flags_that_are_not_known_stops_the_run(uri, branch, version, reader, writer):
    cleanup_datasets.busy(uri)
    set_flags(cleanup_datasets.manifest(uri, version, branch), reader, writer)
    problem = cleanup_datasets.refused(uri, (Refused, CorruptData))
    if version != 8:  # pylance opens the latest, and refuses before we do
        assert isinstance(problem, Refused)
        assert cleanup_datasets.manifest(uri, version).name in problem.message


def hide(monkeypatch, hidden):
    """Listings of versions lack what ``hidden`` says."""
    listing = surveying.list_range

    def partial(location, part):
        for batch in listing(location, part):
            yield batch.filter(pa.array([not hidden(path) for path in batch["path"].to_pylist()]))

    monkeypatch.setattr(surveying, "list_range", partial)


@pytest.mark.parametrize(
    "hidden",
    [
        lambda _: True,
        lambda path: path.startswith("_versions/"),
        lambda path: path.startswith("tree/dev/_versions/"),
        lambda path: path.startswith("tree/dev/deep/_versions/"),
        lambda path: path == f"_versions/{2**64 - 3}.manifest",
    ],
    ids=["everything", "main", "branch", "branch of a branch", "a tagged version"],
)
def test_an_empty_listing_and_one_without_what_refs_name_stops_the_run(uri, monkeypatch, hidden):
    cleanup_datasets.busy(uri)
    hide(monkeypatch, hidden)
    cleanup_datasets.refused(uri, CorruptData, r"shows no version|which does not exist|was written")


def test_a_listing_without_a_file_of_the_latest_version_stops_the_run(uri, monkeypatch):
    cleanup_datasets.busy(uri)
    needed = lance.dataset(uri).get_fragments()[0].data_files()[0].path
    listing = cleanup.list_range

    def partial(location, part):
        for batch in listing(location, part):
            yield batch.filter(pa.array([needed not in path for path in batch["path"].to_pylist()]))

    monkeypatch.setattr(cleanup, "list_range", partial)
    cleanup_datasets.refused(uri, CorruptData, f"missing from the listing of .*, such as data/{needed}")


def test_a_dataset_that_is_not_there_stops_the_run(uri):
    with pytest.raises((NotFound, CorruptData)):
        cleanup_datasets.plan(uri)
