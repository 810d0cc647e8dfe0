"""Looks inside single files, reads descriptions of blobs, and commits the versions of repairs. Through pylance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from lance_spark.core import layout
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records import finding_codes
from lance_spark.core.records.repair_record import PROPERTY
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import CorruptData, LanceSparkError, NotFound, StorageFailure
from lance_spark.format.blobs import descriptions_in
from lance_spark.fsck.finding_rules import Inside
from lance_spark.scan.fragment_reads import parse_deletions
from lance_spark.storage import files
from lance_spark.storage.commits import commit_on
from lance_spark.storage.credentials import options_now
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated
from lance_spark.storage.versions import read_transaction, version_numbers

_MAGIC = b"LANC"
_LEGACY = ((0, 1), (0, 2))
"""Versions in the footers of files of the first format, which pylance can no longer open."""
_FOOTER = 8
_MISSING = {layout.DELETION: finding_codes.DELETION_MISSING, layout.INDEX: finding_codes.INDEX_MISSING}
_DAMAGED = {layout.DELETION: finding_codes.DELETION_DAMAGED, layout.INDEX: finding_codes.INDEX_DAMAGED}
_IS_OPENED = (".lance", ".idx")


def look_inside(location: DatasetLocation, insides: list[Inside]) -> Sequence[tuple[str, str] | None]:
    """For each file, what is wrong with it as a code and a detail; None for a sound one. Runs on executors."""
    return files.each(location, partial(_look, location), insides)


def size_of(location: DatasetLocation, path: str) -> int | None:
    """Size of a file in bytes, by its path below the dataset or its URI; None if it does not exist."""
    found = files.look(*_place(location, path))
    return None if found is None else found.size


def _look(location: DatasetLocation, inside: Inside) -> tuple[str, str] | None:
    try:
        if inside.kind == layout.DELETION:
            return _deletions(location, inside)
        if inside.kind == layout.INDEX:
            return _index(location, inside)
        return _data(location, inside) if inside.path.endswith(".lance") else None
    except NotFound as problem:
        return _MISSING.get(inside.kind, finding_codes.DATA_MISSING), problem.message
    except StorageFailure as problem:
        return finding_codes.FILE_UNREACHABLE, problem.message
    except CorruptData as problem:
        return _DAMAGED.get(inside.kind, finding_codes.DATA_DAMAGED), problem.message


def _deletions(location: DatasetLocation, inside: Inside) -> tuple[str, str] | None:
    content = files.read(*_place(location, inside.path))
    if content is None:
        raise NotFound("It is gone.")
    offsets = parse_deletions(inside.path, content)
    if inside.deleted is not None and len(offsets) != inside.deleted:
        return finding_codes.DELETION_COUNT, f"{len(offsets):,} rows instead of {inside.deleted:,}"
    if inside.rows and len(offsets) and offsets[-1].as_py() >= inside.rows:
        return finding_codes.DELETION_COUNT, f"row {offsets[-1].as_py():,} of {inside.rows:,} rows"
    return None


def _index(location: DatasetLocation, inside: Inside) -> tuple[str, str] | None:
    if not inside.path.endswith(_IS_OPENED):
        return None
    tail = _tail(location, inside.path)
    return None if tail.endswith(_MAGIC) else (finding_codes.INDEX_DAMAGED, "it does not end like an index file")


def _data(location: DatasetLocation, inside: Inside) -> tuple[str, str] | None:
    tail = _tail(location, inside.path)
    if not tail.endswith(_MAGIC):
        return finding_codes.DATA_DAMAGED, "it does not end like a data file"
    if (int.from_bytes(tail[:2], "little"), int.from_bytes(tail[2:4], "little")) in _LEGACY:
        return None
    from lance.file import LanceFileReader

    place, below = _place(location, inside.path)
    uri = f"{place.uri}/{below}" if below else place.uri
    try:
        with translated(place, "reading a footer"):
            rows = LanceFileReader(uri, storage_options=options_now(place)).num_rows()
    except (NotFound, StorageFailure, CorruptData):
        raise
    except LanceSparkError as problem:  # pylance's other errors for unreadable bytes
        return finding_codes.DATA_DAMAGED, problem.message
    if inside.rows and rows != inside.rows:
        return finding_codes.ROW_COUNT, f"{rows:,} rows instead of {inside.rows:,}"
    return None


def _tail(location: DatasetLocation, path: str) -> bytes:
    place, below = _place(location, path)
    with files.reachable(place):
        try:
            whole = files.whole_path(place, below)
            return bytes(files.ask(place, lambda store: store.tail(whole, _FOOTER)))
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound("It is gone.") from None


def _place(location: DatasetLocation, path: str) -> tuple[DatasetLocation, str]:
    """Where a file is, as the root of a store's directory and a path below it."""
    return (DatasetLocation(path, location.options), "") if "://" in path or path.startswith("/") else (location, path)


# --- Reading descriptions of blobs, without the blobs


def read_descriptions(
    location: DatasetLocation, pin: PinnedVersion, fragment: int, columns: Sequence[str]
) -> Iterator[pa.StructArray]:
    """The descriptions of blobs in columns, at any depth, of the rows that are not deleted.

    Raises NotFound, CorruptData.
    """
    dataset = open_pinned(location, pin)
    found = dataset.get_fragment(fragment)
    if found is None:
        raise NotFound(f"{pin} has no fragment {fragment}.")
    with translated(location, "reading descriptions of blobs"):
        scanner = dataset.scanner(columns=list(columns), fragments=[found], blob_handling="blobs_descriptions")
        for batch in scanner.to_batches():
            for column in batch.columns:
                yield from descriptions_in(column)


# --- Nulls in columns that cannot be null
# pylance's writer refuses them, so they can only be in a file that was written when the column could be null. The
# schema inside the file tells: no other file is read.

_NULLS_FOUND = "non-nullable"
"""A word of pylance's error for such rows."""


def may_hold_nulls(location: DatasetLocation, path: str, strict: Sequence[Sequence[str]]) -> bool:
    """Whether a file was written when one of these fields, given by their names from the column down, could be null."""
    from lance.file import LanceFileReader

    place, below = _place(location, path)
    uri = f"{place.uri}/{below}" if below else place.uri
    with translated(place, "reading a footer"):
        schema = LanceFileReader(uri, storage_options=options_now(place)).metadata().schema
    return any(_is_nullable(schema, names) for names in strict)


def _is_nullable(schema: pa.Schema, names: Sequence[str]) -> bool:
    """Also for a field that the file does not have, or has under another name."""
    inside: pa.Schema | pa.StructType = schema
    field = None
    for name in names:
        if not isinstance(inside, pa.Schema | pa.StructType) or name not in inside.names:
            return True
        field = inside.field(name)
        inside = field.type
    return field is None or field.nullable


def holds_nulls(location: DatasetLocation, pin: PinnedVersion, fragment: int, column: str) -> bool:
    """Whether a fragment has nulls in a column that cannot be null, or inside it. Reads the column."""
    dataset = open_pinned(location, pin)
    found = dataset.get_fragment(fragment)
    if found is None:
        return False
    try:
        with translated(location, "reading a column"):
            for _ in dataset.scanner(
                columns=[column], fragments=[found], blob_handling="blobs_descriptions"
            ).to_batches():
                pass
    except (NotFound, StorageFailure):
        raise
    except LanceSparkError as problem:
        if _NULLS_FOUND in problem.message:
            return True
        raise
    return False


# --- Versions made by repairs

RESTORED = "restored"


def leave_out(
    location: DatasetLocation, head: PinnedVersion, fragments: Sequence[int], properties: Mapping[str, str]
) -> PinnedVersion:
    """Commit a version in which all rows of some fragments are deleted, without reading them. Raises Conflict."""
    import lance

    operation = lance.LanceOperation.Delete([], list(fragments), "a repair left out what cannot be read")
    return commit_on(location, head, operation, properties)


def versions_after(location: DatasetLocation, branch: str | None, version: int) -> dict[int, str]:
    """The versions of a branch after one, with the repair that made each.

    RESTORED if it made an older version the newest again, "" if no repair made it.
    """
    found = {}
    for number in version_numbers(location, branch):
        if number > version:
            transaction = read_transaction(location, PinnedVersion(branch, number))
            maker = "" if transaction is None else transaction.properties.get(PROPERTY, "")
            found[number] = RESTORED if transaction is not None and transaction.operation == "Restore" else maker
    return found
