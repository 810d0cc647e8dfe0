"""What refs and publishes of a lake leave in its directories if their processes die, and nothing names any more.

A branch of ``__manifest`` begins with a manifest, and its ref follows; a deletion removes the ref, and then files. Who
dies in between leaves a directory below ``tree/`` that has no ref. The branches of tables that have the changes of a
branch of the lake are made and removed in the same way. Small files have a passing name until they are whole.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from lance_spark import errors
from lance_spark.catalog import lake, services
from lance_spark.catalog.directories import list_root
from lance_spark.catalog.journal import AUDITS, read_audit
from lance_spark.catalog.lake_rules import BRANCH, TAG, name_of
from lance_spark.catalog.name_rules import MANIFEST, Catalog, is_inside
from lance_spark.catalog.publish_rules import is_of_tables
from lance_spark.core.layout import KeyRange, is_passing
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.reflog import kept_branches
from lance_spark.core.ref_files import BRANCHES
from lance_spark.core.ref_names import LAKE_BRANCH, is_dataset_directory
from lance_spark.storage import files, refs
from lance_spark.storage.listing import list_range

_ID = re.compile(r"-([0-9a-f]{8})$")
_OF_REFS, _OF_PUBLISHES = "_refs", "_lake"
DEFAULT_AGE = timedelta(days=1)
"""What is younger may belong to a process that goes on."""


@dataclass(frozen=True, order=True)
class Leftover:
    """A directory of a branch without a ref, a file with a passing name, or the last audit of a branch that is gone."""

    directory: str
    """That of the table, or ``__manifest``."""
    path: str
    """Below it."""
    branch: str = ""
    """The name that the branch had; empty for a file."""
    files: int = 1
    bytes: int = 0
    sure: bool = True
    """Whether nobody can miss it. A complete branch that lost its ref is named, but stays."""

    @property
    def place(self) -> str:
        """Relative to the catalog's root."""
        return f"{self.directory}/{self.path}"


def find_leftovers(catalog: Catalog, now: datetime, age: timedelta = DEFAULT_AGE) -> list[Leftover]:
    """All of them, sorted; none without ``__manifest``, but for the journal of a service's catalog. Changes nothing.

    Raises CorruptData for a ref of the lake that cannot be read: what belongs to it must not look left over.
    """
    oldest = int((now - age).timestamp() * 1e6)
    if catalog.service is not None:
        journal = [*_audits(catalog, (), oldest), *_passing(catalog, _OF_PUBLISHES, oldest)]
        return sorted(journal)
    if not catalog.reads_manifest or not files.list_names(catalog.manifest, "_versions"):
        return []
    found = list(_in_manifest(catalog, oldest))
    known = _known_ids(catalog)
    found += _audits(catalog, known, oldest)
    tables = [name for name in list_root(catalog.root)[0] if name != MANIFEST and is_inside(name)]
    for several in files.each(catalog.root, partial(_in_table, catalog, known, oldest), tables):
        found += several
    return sorted(found)


def remove_leftover(catalog: Catalog, leftover: Leftover) -> bool:
    """Remove one, unless it has a ref by now, or is not surely left over."""
    if not leftover.sure:
        return False
    in_journal = leftover.directory == _journal(catalog)
    location = catalog.journal if in_journal else catalog.at(leftover.directory)
    if not leftover.branch:
        files.delete(location, [leftover.path])
        return True
    if refs.is_taken(location, leftover.branch):
        return False
    refs.drop_files(location, leftover.branch)
    return True


@dataclass
class _Directory:
    """The files of a branch without a ref."""

    paths: list[str]
    bytes: int = 0
    newest: int = 0
    """Microseconds since the epoch."""


def _in_manifest(catalog: Catalog, oldest: int) -> Iterator[Leftover]:
    for branch, found in _without_ref(catalog.manifest, "tree").items():
        if found.newest <= oldest:
            sure = _is_unfinished(catalog, branch, found.paths)
            yield Leftover(MANIFEST, f"tree/{branch}", branch, len(found.paths), found.bytes, sure)
    for directory in (_OF_REFS, _OF_PUBLISHES):
        yield from _passing(catalog, directory, oldest)


def _journal(catalog: Catalog) -> str:
    """What the directory with the journal is called in a leftover."""
    return MANIFEST if catalog.service is None else catalog.journal.uri


def _passing(catalog: Catalog, directory: str, oldest: int) -> Iterator[Leftover]:
    for path, size, moment in _listed(catalog.journal, directory):
        if is_passing(path) and moment <= oldest:
            yield Leftover(_journal(catalog), path, bytes=size)


def _audits(catalog: Catalog, known: Collection[str], oldest: int) -> Iterator[Leftover]:
    """What the last audits of branches said that are gone for good."""
    for path, size, moment in _listed(catalog.journal, AUDITS):
        branch_id = path.rpartition("/")[2].removesuffix(".json")
        if branch_id in known or is_passing(path) or moment > oldest:
            continue
        if not is_of_tables(branch_id) or not _has_branch(catalog, branch_id):
            yield Leftover(_journal(catalog), path, bytes=size)


def _has_branch(catalog: Catalog, audited: str) -> bool:
    """Whether a table still has the branch that an audit looked at, or that is unknown.

    The store of a service's table may open only with what the service hands out for its name, which no record has.
    """
    try:
        record = read_audit(catalog.journal, audited)
    except errors.CorruptData:
        return True
    if record is None:
        return False
    if catalog.service is None:
        return any(refs.is_taken(catalog.at(place), record.branch) for place in record.tables if is_inside(place))
    try:
        return any(refs.is_taken(services.elsewhere(catalog, place), record.branch) for place in record.tables)
    except (errors.PermissionDenied, errors.StorageFailure):
        return True


def _in_table(catalog: Catalog, known: Collection[str], oldest: int, directory: str) -> list[Leftover]:
    """Branches of branches of the lake that are gone: with a known id, somebody may be at it."""
    found = _without_ref(catalog.at(directory), f"tree/{LAKE_BRANCH.rstrip('/')}")
    return [
        Leftover(directory, f"tree/{branch}", branch, len(each.paths), each.bytes)
        for branch, each in found.items()
        if each.newest <= oldest and (match := _ID.search(branch)) is not None and match[1] not in known
    ]


def _without_ref(location: DatasetLocation, below: str) -> dict[str, _Directory]:
    """Branches that have files and no ref, and that no record keeps."""
    found: dict[str, _Directory] = {}
    for path, size, moment in _listed(location, below):
        parts = path.split("/")
        own = next((at for at, part in enumerate(parts) if at > 1 and is_dataset_directory(part)), None)
        if own is not None:
            each = found.setdefault("/".join(parts[1:own]), _Directory([]))
            each.paths.append("/".join(parts[own:]))
            each.bytes += size
            each.newest = max(each.newest, moment)
    if not found:
        return {}
    # The refs come last: one that is being made has its files first.
    there = {*refs.list_ref_names(location, BRANCHES)}
    there |= {change.name for change in kept_branches(refs.read_changes(location), there)}
    return {branch: each for branch, each in found.items() if branch not in there}


def _listed(location: DatasetLocation, directory: str) -> Iterator[tuple[str, int, int]]:
    """(path, bytes, microseconds since the epoch) of the files below a directory; without a time it counts as new."""
    for batch in list_range(location, KeyRange.below(directory)):
        times = batch["last_modified"].cast("int64").to_pylist()
        for path, size, moment in zip(batch["path"].to_pylist(), batch["size"].to_pylist(), times, strict=True):
            yield path, size or 0, 2**62 if moment is None else moment


def _is_unfinished(catalog: Catalog, branch: str, paths: Collection[str]) -> bool:
    """Whether a branch of ``__manifest`` without a ref was never complete, or is being deleted, by what it says itself.

    A complete one has lost its ref by accident: its rows say what it pins, and a repair can bring it back.
    """
    manifests = [path for path in paths if path.startswith("_versions/") and path.endswith(".manifest")]
    if not manifests:
        return True
    kind = BRANCH if name_of(BRANCH, branch) is not None else TAG
    with suppress(errors.CorruptData, errors.NotFound):
        ref = lake.read_ref(catalog, kind, name_of(kind, branch) or "")
        if ref is not None:
            return ref.temporary or not ref.ready
    others = [path for path in paths if not path.startswith(("_versions/", "_transactions/"))]
    return len(manifests) == 1 and not others


def _known_ids(catalog: Catalog) -> frozenset[str]:
    """The ids of all refs of the lake, complete or not, and of those whose deletion can be undone."""
    names = {*refs.list_ref_names(catalog.manifest, BRANCHES), *(change.name for change in lake.set_aside(catalog))}

    def read(branch: str) -> str:
        kind = BRANCH if name_of(BRANCH, branch) is not None else TAG
        ref = lake.read_ref(catalog, kind, name_of(kind, branch) or "")
        return "" if ref is None else ref.id

    return frozenset(files.each(catalog.root, read, sorted(names))) - {""}
