"""Listing key ranges on local disks and other stores: complete, within the root, never shorter because of a failure."""

import os
import threading
from datetime import datetime, timezone
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.core.layout import KeyRange, tile
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import PermissionDenied, StorageFailure
from lance_spark.storage.datasets import locate
from lance_spark.storage.listing import LISTING, list_range

EVERYTHING = KeyRange(None, None)
PATHS = [
    *("!", "a b", "a+b", "100%25", "~", "zz", "é/日本", "😀", "data.lance", "data!/x", "data0/x", "[1]*?", "x\ny"),
    *(f"data/{number:08b}.lance" for number in range(0, 256, 7)),
    *("data/deadbeef.lance", "data/é %20", "data/blob/0/1", "_versions/1.manifest", "_transactions/7-x.txn"),
    *("_deletions/0-1-2.arrow", "_deletions/99-1-2.arrow", "_indices/u/page.idx", ".hidden", "data/.tmpx"),
    *("tree/a/data/1", "tree/a/b/data/0", "tree/a-b/data/1", "tree/é/data/0"),
]
ROOTS = ["", "tree/a", "tree/a/b", "tree/a-b", "tree/é"]


@pytest.fixture
def location(uri):
    for path in PATHS:
        file = Path(uri, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(path)
    return locate(uri)


@pytest.fixture
def memory():
    """A dataset in a store of fsspec that is neither a disk nor S3."""
    filesystem = fsspec.filesystem("memory")
    for path in PATHS:
        filesystem.pipe_file(f"/bucket/t.lance/{path}", path.encode())
    filesystem.pipe_file("/bucket/t.lance0/x", b"")
    yield DatasetLocation.at("memory://bucket/t.lance")
    filesystem.rm("/bucket", recursive=True)


def listed(location, part=EVERYTHING):
    return sorted(path for batch in list_range(location, part) for path in batch["path"].to_pylist())


@pytest.mark.parametrize("store", ["location", "memory"])
@pytest.mark.parametrize("splits", [1, 2, 8, 50])
def test_the_ranges_together_list_every_file_once(request, store, splits):
    place = request.getfixturevalue(store)
    found = [listed(place, part) for part in tile(ROOTS, splits)]
    assert sorted(path for own in found for path in own) == sorted(PATHS)


BOUNDS = (
    st.none() | st.sampled_from(PATHS) | st.text(max_size=3) | st.sampled_from(["data", "data/", "data0", "tree/a/"])
)


@pytest.mark.parametrize("store", ["location", "memory"])
@given(after=BOUNDS, until=BOUNDS)
def test_a_range_lists_its_own_files_only(request, store, after, until):
    part = KeyRange(after, until)
    assert listed(request.getfixturevalue(store), part) == sorted(filter(part.holds, PATHS))


def test_directories_outside_of_the_range_are_not_opened(location, monkeypatch):
    opened, real = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: opened.append(os.path.relpath(path, location.uri)) or real(path))
    assert listed(location, KeyRange("tree/a/b/", "tree/a/b0")) == ["tree/a/b/data/0"]
    assert opened == ["tree/a", "tree/a/b", "tree/a/b/data"]


def test_a_file_has_its_size_and_time(location):
    os.utime(Path(location.uri, "zz"), ns=(0, 1_795_232_936_123_456_789))
    (batch,) = list_range(location, KeyRange("zy", "zz"))
    assert batch.schema == LISTING
    modified = datetime(2026, 11, 21, 3, 48, 56, 123456, tzinfo=timezone.utc)
    assert batch.to_pylist() == [{"path": "zz", "size": 2, "last_modified": modified}]


def test_a_root_that_is_not_there_has_no_files(uri, tmp_path):
    assert list(list_range(locate(uri), EVERYTHING)) == []
    assert list(list_range(DatasetLocation.at("memory://bucket/none"), EVERYTHING)) == []


def test_rows_come_in_batches(location, monkeypatch):
    monkeypatch.setattr("lance_spark.storage.listing.BATCH_ROWS", 20)
    sizes = [batch.num_rows for batch in list_range(location, EVERYTHING)]
    assert set(sizes[:-1]) == {20}
    assert sum(sizes) == len(PATHS)


def test_links_to_directories_are_nothing_and_links_to_files_are_themselves(location, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    os.symlink(outside, Path(location.uri, "_indices", "linked"))
    os.symlink(location.uri, Path(location.uri, "loop"))
    os.symlink(outside / "precious", Path(location.uri, "data", "link"))
    os.symlink(tmp_path / "nowhere", Path(location.uri, "data", "broken"))
    assert listed(location) == sorted([*PATHS, "data/link", "data/broken"])
    (batch,) = list_range(location, KeyRange("data/linj", "data/link"))
    assert batch["size"].to_pylist() == [len(str(outside / "precious"))]


@pytest.mark.parametrize(
    "directory", ["linked/deep", "data/linked", "../outside", "data/../data", "data/", ".", "./data"]
)
def test_a_range_behind_a_link_or_spelled_as_no_file_is_has_no_files(location, directory):
    outside = Path(location.uri).parent / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "precious").write_text("precious")
    os.symlink(outside, Path(location.uri, "linked"))
    os.symlink(outside, Path(location.uri, "data", "linked"))
    there = Path(location.uri, directory)
    assert any(path.is_file() for path in there.rglob("*")) or any(there.iterdir())
    assert listed(location, KeyRange(f"{directory}/", f"{directory}0")) == []


def entries_that(monkeypatch, act):
    """``act`` on each directory before its entries are used, after they were read."""
    real = os.scandir

    def scandir(path):
        entries = list(real(path))
        act(Path(path))
        return _Scan(iter(entries))

    monkeypatch.setattr(os, "scandir", scandir)


class _Scan:
    def __init__(self, entries):
        self.entries = entries

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.entries)


def test_a_file_that_vanishes_while_it_is_listed_takes_no_other_with_it(location, monkeypatch):
    entries_that(monkeypatch, lambda path: path.name == "data" and (path / "é %20").unlink(missing_ok=True))
    assert listed(location) == sorted(path for path in PATHS if path != "data/é %20")


def test_a_directory_that_vanishes_while_it_is_listed_takes_no_other_with_it(location, monkeypatch):
    def act(path):
        if path == Path(location.uri, "_indices"):
            (path / "u/page.idx").unlink()
            (path / "u").rmdir()

    entries_that(monkeypatch, act)
    assert listed(location) == sorted(path for path in PATHS if path != "_indices/u/page.idx")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_directory_that_may_not_be_read_is_an_error(location):
    Path(location.uri, "tree/a").chmod(0)
    try:
        with pytest.raises(PermissionDenied, match="tree/a"):
            listed(location)
    finally:
        Path(location.uri, "tree/a").chmod(0o755)


@pytest.mark.parametrize("name", ["", "data", "tree/a/b"])
@pytest.mark.parametrize(
    ("problem", "error"),
    [(PermissionError(13, "Permission denied"), PermissionDenied), (OSError(116, "Stale file handle"), StorageFailure)],
)
def test_a_directory_that_cannot_be_read_is_an_error(location, monkeypatch, name, problem, error):
    def act(path):
        if path == Path(location.uri, name):
            raise problem

    entries_that(monkeypatch, act)
    with pytest.raises(error, match=problem.strerror):
        listed(location)


def test_a_directory_that_fails_half_way_is_an_error(location, monkeypatch):
    real = os.scandir

    def half(path):
        with real(path) as entries:
            yield next(entries)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "scandir", lambda path: _Scan(half(path)))
    with pytest.raises(StorageFailure, match="Input/output error"):
        listed(location)


def test_a_file_whose_state_cannot_be_read_is_an_error(location, monkeypatch):
    class Entry:
        name = "x"

        def is_dir(self, **_):
            return False

        def is_symlink(self):
            return False

        def stat(self, **_):
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", lambda _: _Scan(iter([Entry()])))
    with pytest.raises(PermissionDenied):
        listed(location)


def test_a_name_that_is_no_text_is_an_error_in_its_range_only(location):
    Path(location.uri, os.fsdecode(b"data/\xff")).touch()
    with pytest.raises(StorageFailure, match=r"data/\\udcff.* is not UTF-8"):
        listed(location)
    assert listed(location, KeyRange("tree", None)) == sorted(path for path in PATHS if path > "tree")


def test_what_is_no_file_does_not_hold_up_the_listing(location):
    os.mkfifo(Path(location.uri, "data/pipe"))
    done = []
    thread = threading.Thread(
        target=lambda: done.extend(listed(location, KeyRange("data/pip", "data/pipe"))), daemon=True
    )
    thread.start()
    thread.join(20)
    assert done == ["data/pipe"]


@pytest.mark.parametrize("problem", [PermissionError("no"), OSError("no"), RuntimeError("no")])
def test_another_store_that_fails_is_an_error(memory, monkeypatch, problem):
    filesystem, real = fsspec.filesystem("memory"), fsspec.filesystem("memory").ls

    def ls(path, **options):
        if path.endswith("tree/a"):
            raise problem
        return real(path, **options)

    monkeypatch.setattr("lance_spark.storage.files.open_filesystem", lambda _: filesystem)
    monkeypatch.setattr(filesystem, "ls", ls)
    with pytest.raises(PermissionDenied if isinstance(problem, PermissionError) else StorageFailure):
        listed(memory)


def test_another_store_that_names_files_of_elsewhere_is_an_error(memory, monkeypatch):
    filesystem = fsspec.filesystem("memory")
    monkeypatch.setattr("lance_spark.storage.files.open_filesystem", lambda _: filesystem)
    monkeypatch.setattr(filesystem, "ls", lambda *_, **__: [{"name": "/other/x", "type": "file", "size": 1}])
    with pytest.raises(StorageFailure, match="not below it"):
        listed(memory)


NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"last_modified": NOON, "created": NOON.replace(year=2020)}, NOON),
        ({"updated": "2026-01-01T12:00:00.000Z", "timeCreated": "2020-01-01T12:00:00.000Z"}, NOON),
        ({"LastModified": NOON}, NOON),
        ({"mtime": NOON.timestamp(), "created": 1.0}, NOON),
        ({"mtime": int(NOON.timestamp())}, NOON),
        ({"last_modified": None, "created": NOON}, NOON),
        ({"created": NOON.timestamp()}, NOON),
        ({"last_modified": datetime(2026, 1, 1, 12), "created": NOON}, None),  # noqa: DTZ001 - of an unknown zone
        ({"updated": "yesterday", "created": NOON}, None),
        ({"updated": "2026-01-01T12:00:00"}, None),
        ({}, None),
    ],
)
def test_times_are_found_under_any_of_their_names_and_unknown_when_not_understood(memory, monkeypatch, told, expected):
    filesystem = fsspec.filesystem("memory")
    entry = {"name": "bucket/t.lance/x", "type": "file", "size": 1, **told}
    monkeypatch.setattr("lance_spark.storage.files.open_filesystem", lambda _: filesystem)
    monkeypatch.setattr(filesystem, "ls", lambda *_, **__: [entry])
    (batch,) = list_range(memory, EVERYTHING)
    assert batch["last_modified"].to_pylist() == [expected]
