"""Records of a branch that outlive its versions: what a merge has to know, and only transactions said.

A cherry-pick, a revert and a restore put the same rows into two branches, although neither holds everything of the
other. The version itself records that, but any cleanup removes versions, pylance's too. If rows were rewritten since,
nothing else shows that they are on both sides, and a merge would double them. So each such commit leaves a small file
in the directory of its branch. It is written before the commit: a process that is killed leaves one record too many,
never one too few.

What versions computed, and from what, a cleanup of ours records before it removes them: see
:func:`keep_columns`. It says so of every version, as a merge takes silence for "unknown".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from uuid import uuid4

from lance_spark.core import layout
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.stored_json import decode_json
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import LanceSparkError, StorageFailure, may_have_happened
from lance_spark.format import column_records
from lance_spark.format.column_records import ColumnRecord, Renames
from lance_spark.format.transactions import Transaction
from lance_spark.storage import files, refs
from lance_spark.storage.versions import VersionCache

_LOOKS = 3
"""How often records are listed if a cleanup is joining them meanwhile."""


def recorded(
    location: DatasetLocation,
    read: PinnedVersion,
    why: str,
    commit: Callable[[], int],
    trace: Mapping[str, str] | None = None,
) -> int:
    """Run a commit on top of a version, and record that the version it makes brings rows; returns that version.

    ``why`` is for people who read the record, ``trace`` says whose rows they are. Raises what the commit raises, and
    PermissionDenied if nothing can be recorded; then nothing was committed.
    """
    from lance_spark.storage.small_files import write_below  # imports pyarrow, which commands do not wait for

    begun = layout.BroughtName(read.version + 1, None, _mark(location, read.branch), uuid4().hex)
    path, content = layout.brought_path(read.branch, begun), json.dumps({"action": why, **(trace or {})}).encode()
    write_below(location, path, content)
    try:
        made = commit()
    except LanceSparkError as problem:
        if not may_have_happened(problem):
            files.delete(location, [path])
        raise
    with suppress(StorageFailure):  # committed is committed; the first record stays, which says more than it must
        write_below(location, layout.brought_path(read.branch, begun._replace(first=made, last=made)), content)
        files.delete(location, [path])
    return made


@dataclass(frozen=True)
class Records:
    location: DatasetLocation
    branch: str | None
    names: tuple[str, ...]
    mark: str

    @classmethod
    def of(cls, location: DatasetLocation, branch: str | None) -> Records:
        """One request if there are none."""
        names = tuple(files.list_names(location, f"{layout.branch_root(branch)}{layout.BROUGHT}"))
        return cls(location, branch, names, _mark(location, branch) if names else "")

    def brought(self, gone: Collection[int]) -> tuple[int, ...]:
        """The versions among those that are gone that brought rows, or may have. Ascending."""
        return layout.brought_versions(self.names, self.mark, gone)

    def traces(self, gone: Collection[int]) -> list[dict[str, str]]:
        """What is said of versions that are gone about whose rows they brought; empty where it is not said."""
        found = [record for record in layout.brought_records(self.names, self.mark) if any(map(record.covers, gone))]
        return [_trace_in(content) for content in self._read(found)]

    def columns(self) -> ColumnRecord:
        """What versions that are gone did to columns."""
        looked, found = self, self._read(layout.column_records(self.names, self.mark))
        for _ in range(_LOOKS):
            if None not in found:
                break
            looked = Records.of(self.location, self.branch)  # a cleanup joined them
            found = looked._read(layout.column_records(looked.names, looked.mark))
        return column_records.joined(map(column_records.decode_record, found))

    def _read(self, records: Iterable[layout.BroughtName]) -> list[bytes | None]:
        return [*files.read_many(self.location, [layout.brought_path(self.branch, record) for record in records])]


def _trace_in(content: bytes | None) -> dict[str, str]:
    try:
        return {str(key): str(value) for key, value in decode_json(content or b"{}").items()}
    except (ValueError, AttributeError):
        return {}


def _mark(location: DatasetLocation, branch: str | None) -> str:
    entry = None if branch is None else refs.read_branch(location, branch)
    return sha256(("" if entry is None else entry.identity).encode()).hexdigest()[:16]


# --- What versions did to columns


def keep_columns(location: DatasetLocation, branch: str | None, going: Collection[int], above: int) -> None:
    """Record what versions that are about to be deleted did to columns; safe to repeat.

    A merge compares with no version up to ``above``, so that nothing is kept of these. One record holds everything that
    the earlier ones said: it is written before they are deleted, so that a crash leaves more of them than needed.
    """
    from lance_spark.storage.small_files import write_below  # imports pyarrow, which commands do not wait for

    records = Records.of(location, branch)
    before = layout.column_records(records.names, records.mark)
    known = records.columns()
    # How a version renamed columns is told only beside the version before it.
    versions = {version for each in going for version in (each, each + 1) if each > above}
    said = column_records.joined([known, _read_steps(location, branch, versions)]).above(above)
    if said == known and len(before) <= 1:
        return
    if said.covered:
        mark = records.mark or _mark(location, branch)
        name = layout.BroughtName(said.covered[0][0], said.covered[-1][1], mark, uuid4().hex, columns=True)
        write_below(location, layout.brought_path(branch, name), column_records.encode_record(said))
    files.delete(location, [layout.brought_path(branch, each) for each in before])


def _read_steps(location: DatasetLocation, branch: str | None, versions: Collection[int]) -> ColumnRecord:
    reader = VersionCache()
    transactions = reader.transactions(location, branch, sorted(versions))
    steps = (
        column_records.step_of(version, made, renames(reader, location, PinnedVersion(branch, version), made))
        for version, made in transactions.items()
    )
    return column_records.record_of(transactions, [step for step in steps if step is not None])


def renames(
    reader: VersionCache, location: DatasetLocation, pin: PinnedVersion, transaction: Transaction | None
) -> Renames | None:
    """How a version named columns, if that is all it did to them; None if it did more, or if it is unknown."""
    before = PinnedVersion(pin.branch, pin.version - 1)
    if transaction is None or transaction.operation != "Project":
        return None
    if not (reader.has(location, pin) and reader.has(location, before)):
        return None
    old, new = (
        {entry.id: entry.name for entry in reader.contents(location, each).fields if entry.parent_id < 0}
        for each in (before, pin)
    )
    return tuple((name, new.get(key)) for key, name in old.items() if new.get(key) != name)
