"""``__manifest``: reads it, and commits changes only on the exact version for which they were decided.

A change adds a small file with the new rows and marks the old ones as deleted, in one commit of the kind "Merge".
pylance refuses it if anything was committed since that version. So its cost does not grow with the catalog, and the
indexes stay. After a dozen such changes the table is rewritten as one file ("Overwrite", which is just as strict) and
reindexed; until the indexes exist, readers see correct rows a little more slowly. Measured at 50,000 tables: 5 to 10 ms
for a change and 60 ms for every twelfth; pylance's namespace takes 67 ms for each.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.catalog.directories import check_reachable
from lance_spark.catalog.entry_rules import (
    INDEXES,
    OBJECT_ID,
    SCHEMA,
    CatalogChange,
    Edit,
    RowFilter,
    Rows,
    is_complete,
    no_rows,
    refusal,
    upgraded_rows,
)
from lance_spark.catalog.lake_rules import KEY, ManifestAtPublish, ManifestAtRef, decode_ref
from lance_spark.catalog.name_rules import MANIFEST
from lance_spark.catalog.others_rules import check_ours
from lance_spark.catalog.published import cleaned_up, version_seen
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import AlreadyExists, Conflict, CorruptData, InvalidOption, LanceSparkError, NotFound, Refused
from lance_spark.storage import files
from lance_spark.storage.commits import check_nothing_missing
from lance_spark.storage.credentials import again_if_refused, dataset_at, for_commit, for_pylance
from lance_spark.storage.failures import OPENING, translated

if TYPE_CHECKING:
    import lance


class _Turn:
    """Who may change one ``__manifest`` now, of the threads of this process."""

    def __init__(self) -> None:
        self.lock = RLock()


_TURNS: WeakValueDictionary[str, _Turn] = WeakValueDictionary()
_TURNS_LOCK = Lock()
_ATTEMPTS = 60
_LONGEST_PAUSE = 0.5
"""Seconds."""
_FRAGMENTS = 12
"""Number of files at which the catalog is rewritten as one: each costs readers a request on an object store."""
_MANY = 1000
"""Maximum rows that one change deletes or adds before the table is rewritten and reindexed."""


def decide(manifest: DatasetLocation, change: CatalogChange) -> Edit:
    """The effect of a change on the newest version. Commits nothing. Raises the errors of the change."""
    return change.edit(read_rows(manifest, change.needs))


def apply(manifest: DatasetLocation, change: CatalogChange, check: Callable[[], None] | None = None) -> Edit:
    """Decide a change on the newest version and commit it; returns the edit.

    ``check`` is called after the decision and before each attempt to commit it, and may raise. Since the commit
    requires the same version, the rows at the time of the check were those of that version. An error of the check
    counts only if the rows have not changed since.

    Raises the change's errors if it is not possible, and Conflict if others keep committing.
    """
    check_may_change(manifest, change.doing)
    with _in_turn(manifest):
        return _apply(manifest, change, check)


@contextmanager
def _in_turn(manifest: DatasetLocation) -> Iterator[None]:
    """Threads of one process take turns: thirty that change thirty tables would use up each other's attempts."""
    with _TURNS_LOCK:
        turn = _TURNS.setdefault(manifest.uri, _Turn())
    with turn.lock:
        yield


def _apply(manifest: DatasetLocation, change: CatalogChange, check: Callable[[], None] | None) -> Edit:
    for attempt in range(_ATTEMPTS):
        snapshot = newest(manifest)
        if snapshot is not None:
            check_ours(snapshot.dataset.metadata, change.doing)
        try:
            rows, addresses = (no_rows(), None) if snapshot is None else snapshot.addressed(change.needs)
        except (CorruptData, NotFound):
            again = newest(manifest)  # a cleanup removed files of the version while it was read
            if snapshot is None or again is None or again.version == snapshot.version:
                raise
            continue
        edit = change.edit(rows)
        if edit.is_empty:
            return edit
        if check is not None and not _holds(check, manifest, snapshot):
            continue
        try:
            rewritten = _write(manifest, snapshot, _by_fragment(rows, addresses, edit.remove), edit, change.doing)
        except Conflict:
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.005 * 2**attempt)))
            continue
        if rewritten:
            index_if_possible(manifest)
        return edit
    raise refusal(Conflict, change.doing, "others kept changing the catalog", hint="Run it again.")


def check_may_change(manifest: DatasetLocation, doing: str) -> None:
    """Raise Refused at a tag of the lake, and for a reader of complete publishes."""
    if isinstance(manifest, ManifestAtPublish):
        raise only_read(doing)
    if isinstance(manifest, ManifestAtRef) and manifest.why_frozen:
        raise refusal(Refused, doing, manifest.why_frozen, hint=f"Use the catalog without a {manifest.kind}.")


def only_read(doing: str) -> LanceSparkError:
    """Refused, for a change by a reader of complete publishes."""
    why = "the catalog is read as of its last complete publish"
    return refusal(Refused, doing, why, hint="Use the catalog itself, without 'published'.")


def _holds(check: Callable[[], None], manifest: DatasetLocation, snapshot: CatalogVersion | None) -> bool:
    """False if a check failed but the rows have changed since: they give the better reason."""
    try:
        check()
    except (Conflict, NotFound):
        again = newest(manifest)
        if again is None or (snapshot is not None and again.version == snapshot.version):
            raise
        return False
    return True


def _by_fragment(rows: Rows, addresses: pa.Array | None, object_ids: tuple[str, ...]) -> dict[int, list[int]]:
    """The addresses of some rows, by the fragments they are in."""
    found: dict[int, list[int]] = {}
    if addresses is not None and object_ids:
        for address in addresses.filter(rows.has(object_ids)).to_pylist():
            found.setdefault(address >> 32, []).append(address)
    return found


def _write(
    manifest: DatasetLocation, snapshot: CatalogVersion | None, gone: dict[int, list[int]], edit: Edit, doing: str
) -> bool:
    """Commit on exactly this version; returns whether the whole table was rewritten. Raises Conflict."""
    if snapshot is None:
        _create(manifest, edit.add, doing)
        return True
    if _is_due(snapshot, edit, gone):
        _rewrite(snapshot, edit, doing)
        return True
    _append(snapshot, edit, gone, doing)
    names = index_names(snapshot)
    return any(name not in names and column in snapshot.schema.names for name, column, _ in INDEXES)


def _is_due(snapshot: CatalogVersion, edit: Edit, gone: dict[int, list[int]]) -> bool:
    """Whether the table must, or should, be rewritten."""
    dataset = snapshot.dataset
    fragments = {fragment.fragment_id: fragment for fragment in dataset.get_fragments()}
    return (
        len(fragments) >= _FRAGMENTS
        or len(edit.remove) > _MANY
        or (edit.add is not None and edit.add.num_rows > _MANY)
        or dataset.has_stable_row_ids
        or not is_complete(snapshot.schema)
        # A "Merge" commit cannot drop a file, and pylance keeps no file without rows.
        or any(fragments[key].count_rows() == len(addresses) for key, addresses in gone.items())
    )


def _create(manifest: DatasetLocation, added: pa.Table | None, doing: str) -> None:
    import lance

    try:
        with translated(manifest, doing):
            fragments = (
                []
                if added is None
                else lance.fragment.write_fragments(
                    added, manifest.uri, schema=SCHEMA, mode="create", **for_pylance(manifest)
                )
            )
            operation = lance.LanceOperation.Overwrite(SCHEMA, fragments)
            lance.LanceDataset.commit(
                manifest.uri,
                operation,
                **for_commit(manifest),
                max_retries=0,
                commit_message=doing,
            )
    except (AlreadyExists, NotFound) as problem:
        # The loser of a race to create a dataset gets "already exists", or that version 0 was not found.
        raise Conflict(f"Another process created {manifest.uri} first.") from problem


def _append(snapshot: CatalogVersion, edit: Edit, gone: dict[int, list[int]], doing: str) -> None:
    import lance

    dataset = snapshot.dataset
    with translated(snapshot.manifest, doing):
        kept = [
            fragment.delete(f"_rowaddr IN ({', '.join(map(str, gone[fragment.fragment_id]))})")
            if fragment.fragment_id in gone
            else fragment.metadata
            for fragment in dataset.get_fragments()
        ]
        added = _written(snapshot, edit.add)
        commit(snapshot, lance.LanceOperation.Merge([*kept, *added], dataset.lance_schema), added, doing)


def _rewrite(snapshot: CatalogVersion, edit: Edit, doing: str) -> None:
    with translated(snapshot.manifest, doing):
        table = upgraded_rows(snapshot.dataset.to_table())
    goes = pc.is_in(table[OBJECT_ID].cast(pa.string()), value_set=pa.array(list(edit.remove), pa.string()))
    table = table.filter(pc.invert(goes))
    _overwrite(snapshot, table if edit.add is None else pa.concat_tables([table, edit.add]), doing)


def _overwrite(snapshot: CatalogVersion, table: pa.Table, doing: str) -> None:
    import lance

    dataset = snapshot.dataset
    with translated(snapshot.manifest, doing):
        if is_complete(snapshot.schema):
            added = _written(snapshot, table)
            operation = lance.LanceOperation.Overwrite(dataset.lance_schema, added)
        else:
            added = lance.fragment.write_fragments(
                table,
                snapshot.manifest.uri,
                schema=table.schema,
                mode="overwrite",
                data_storage_version=dataset.data_storage_version,
                **for_pylance(snapshot.manifest),
            )
            operation = lance.LanceOperation.Overwrite(table.schema, added)
        commit(snapshot, operation, added, doing)


def replace_rows(snapshot: CatalogVersion, rows: pa.Table, doing: str) -> None:
    """Replace all rows, and index them. Raises Conflict."""
    _overwrite(snapshot, rows, doing)
    index_if_possible(snapshot.manifest)


def _written(snapshot: CatalogVersion, table: pa.Table | None) -> list[Any]:
    """Rows as files of the table; commits nothing."""
    import lance

    if table is None or table.num_rows == 0:
        return []
    written: list[Any] = lance.fragment.write_fragments(
        table,
        snapshot.dataset,
        schema=snapshot.schema,
        mode="append",
        **for_pylance(snapshot.manifest),
    )
    return written


def upgrade(manifest: DatasetLocation) -> bool:
    """Add the columns that the table lacks, and the mark of its primary key; returns whether any were missing."""
    snapshot = newest(manifest)
    if snapshot is None or is_complete(snapshot.schema):
        return False
    _rewrite(snapshot, Edit(), "upgrade the catalog's columns")
    return True


def fragment_count(manifest: DatasetLocation) -> int:
    """How many files hold the catalog's rows: each costs readers a request on an object store."""
    snapshot = newest(manifest)
    return 0 if snapshot is None else len(snapshot.dataset.get_fragments())


def compact(manifest: DatasetLocation, least: int) -> bool:
    """Rewrite the table as one file, indexed, if it has ``least`` files or more; returns whether that was done.

    To others this is an ordinary change: older versions stay. If another process commits at the same time, nothing is
    done.
    """
    snapshot = newest(manifest)
    if snapshot is None or len(snapshot.dataset.get_fragments()) < least:
        return False
    try:
        _rewrite(snapshot, Edit(), "compact the catalog")
    except Conflict:
        return False
    index_if_possible(manifest)
    return True


def root_properties(manifest: DatasetLocation) -> dict[str, str]:
    """Properties of the root namespace: the metadata of the table (specification "Root Namespace Properties")."""
    snapshot = newest(manifest)
    if snapshot is None:
        return {}
    with translated(manifest, "reading the properties of the root namespace"):
        return {key: value for key, value in snapshot.dataset.metadata.items() if key != KEY}


def alter_root_properties(manifest: DatasetLocation, put: dict[str, str], unset: tuple[str, ...]) -> None:
    """Set and remove properties of the root namespace. If two processes set the same one, the later wins."""
    values: dict[str, str | None] = {**put, **dict.fromkeys(unset)}
    if not values:
        raise InvalidOption("There is nothing to alter.")
    doing = "alter the properties of the root namespace"
    check_may_change(manifest, doing)
    for attempt in range(_ATTEMPTS):
        snapshot = newest(manifest)
        try:
            if snapshot is None:
                _create(manifest, None, doing)
                index_if_possible(manifest)
                continue
            with translated(manifest, doing):
                snapshot.dataset.update_metadata(values)
        except Conflict:
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.005 * 2**attempt)))
            continue
        return
    raise refusal(Conflict, doing, "others kept changing the catalog", hint="Run it again.")


# --- Commits on exactly the version for which a change was decided


def commit(snapshot: CatalogVersion, operation: Any, added: list[Any], doing: str) -> None:
    """Commit on exactly this version. Without retries, both kinds of operation are refused after any other commit.

    That protection fails if a cleanup removed the other commit: pylance does not look at it, and writes an overwrite in
    its place, below the newest version, where it is never seen.
    """
    import lance

    try:
        check_nothing_missing(snapshot.manifest, PinnedVersion(None, snapshot.version))
        with translated(snapshot.manifest, doing):
            lance.LanceDataset.commit(
                snapshot.dataset,
                operation,
                read_version=snapshot.version,
                **for_commit(snapshot.manifest),
                max_retries=0,
                commit_message=doing,
            )
    except Conflict:
        _delete_unused(snapshot.manifest, {file.path for fragment in added for file in fragment.files})
        raise


def _delete_unused(manifest: DatasetLocation, paths: set[str]) -> None:
    """Delete the files of a refused commit, unless the commit succeeded after all.

    A client that loses the store's response retries, and gets the error that its version exists: because of itself.
    """
    snapshot = newest(manifest)
    if snapshot is not None and paths:
        held = {file.path for fragment in snapshot.dataset.get_fragments() for file in fragment.metadata.files}
        files.delete(manifest, (f"data/{path}" for path in sorted(paths - held)))


# --- The indexes of ``__manifest``: every change creates missing ones, and never fails because of them


def index_if_possible(manifest: DatasetLocation) -> None:
    """The change is committed: no error from here on may look as if it were not. The next change tries again."""
    with suppress(LanceSparkError):
        ensure_indexes(manifest)


def ensure_indexes(manifest: DatasetLocation) -> tuple[str, ...]:
    """Create the missing indexes in one commit; returns the names of those that were created.

    If another process commits at the same time, the next change, or the doctor, creates them.
    """
    snapshot = newest(manifest)
    if snapshot is None:
        return ()
    there, columns = index_names(snapshot), snapshot.schema.names
    missing = [index for index in INDEXES if index[0] not in there and index[1] in columns]
    try:
        with translated(manifest, "making the catalog's indexes"):
            _index(snapshot, missing)
    except (Conflict, AlreadyExists):
        return ()
    return tuple(name for name, _, _ in missing)


def _index(snapshot: CatalogVersion, missing: Sequence[tuple[str, str, str]]) -> None:
    import lance

    dataset = snapshot.dataset
    fragments = [fragment.fragment_id for fragment in dataset.get_fragments()]
    if not fragments:  # pylance can create indexes without rows only one at a time
        for name, column, kind in missing:
            dataset_at(snapshot.manifest, dataset.uri).create_scalar_index(column, kind, name=name, replace=False)
    elif missing:
        made = [
            dataset.create_index_uncommitted(column, kind, name=name, fragment_ids=fragments)
            for name, column, kind in missing
        ]
        commit(snapshot, lance.LanceOperation.CreateIndex(made, []), [], "index the catalog")


def index_names(snapshot: CatalogVersion) -> frozenset[str]:
    with translated(snapshot.manifest, "reading the indexes"):
        return frozenset(index.name for index in snapshot.dataset.describe_indices())


# --- Reading ``__manifest``: always its newest version, through one session per process
# pylance's own namespace keeps a version open and looks only for the next one. After a cleanup it fails, or silently
# returns the catalog as it was long ago (pylance 14.0.2).

_SNAPSHOT_ATTEMPTS = 4
_ADDRESS = "_rowaddr"
_sessions: dict[int, lance.Session] = {}
_catalogs: set[str] = set()
"""Tables already recognized as the manifest of a catalog."""
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class CatalogVersion:
    manifest: DatasetLocation
    dataset: lance.LanceDataset

    @property
    def version(self) -> int:
        return int(self.dataset.version)

    @property
    def schema(self) -> pa.Schema:
        return self.dataset.schema

    def rows(self, needed: RowFilter) -> Rows:
        """The rows that a decision needs, with all columns."""
        with translated(self.manifest, "reading the catalog"):
            return Rows(upgraded_rows(self.dataset.to_table(filter=needed.predicate())))

    def addressed(self, needed: RowFilter) -> tuple[Rows, pa.Array]:
        """The rows that a decision needs, and the address of each."""
        with translated(self.manifest, "reading the catalog"):
            table = self.dataset.to_table(filter=needed.predicate(), with_row_address=True)
        return Rows(upgraded_rows(table.drop_columns([_ADDRESS]))), table[_ADDRESS]

    def columns(self, names: Sequence[str], filter: str | None = None) -> pa.Table:
        """Some columns of the rows that match a predicate; missing columns are left out."""
        there = [name for name in names if name in self.schema.names]
        with translated(self.manifest, "reading the catalog"):
            return self.dataset.to_table(columns=there, filter=filter)


def newest(manifest: DatasetLocation) -> CatalogVersion | None:
    """The newest version; None if there is no ``__manifest`` yet. Raises NotFound if the bucket does not exist."""
    try:
        with translated(manifest, OPENING):
            dataset = again_if_refused(manifest, lambda: dataset_at(manifest, manifest.uri, session=_session()))
    except NotFound:
        if isinstance(manifest, ManifestAtRef):
            raise _is_gone(manifest) from None
        check_reachable(manifest)
        return None
    if isinstance(manifest, ManifestAtRef):
        _check_ref(manifest, dataset)
    if manifest.uri not in _catalogs:  # checked once: the schema takes as long as everything else here
        if dataset.version < 1 or OBJECT_ID not in dataset.schema.names:
            raise CorruptData(
                f"{manifest.uri} is not the manifest of a catalog.", hint="Restore an older version of it."
            )
        _catalogs.add(manifest.uri)
    if isinstance(manifest, ManifestAtPublish):
        dataset = _before_publish(manifest, dataset)
    return CatalogVersion(manifest, dataset)


def _before_publish(manifest: ManifestAtPublish, newest: lance.LanceDataset) -> lance.LanceDataset:
    """The version that a reader of complete publishes sees. Raises NotFound if it was cleaned up."""
    whole, version = DatasetLocation(manifest.uri, manifest.options), int(newest.version)
    seen = version_seen(whole, manifest.reader, MANIFEST, whole, version)
    if seen == version:
        return newest
    try:
        with translated(manifest, f"reading version {seen} of the catalog"):
            return dataset_at(manifest, manifest.uri, version=seen, session=_session())
    except NotFound:
        raise cleaned_up(manifest) from None


def _check_ref(manifest: ManifestAtRef, dataset: lance.LanceDataset) -> None:
    """Raise NotFound for a ref that was deleted, or deleted and created again: its tables are at other versions."""
    with translated(manifest, f"reading the {manifest.kind} of the lake"):
        ref = decode_ref(manifest.kind, dataset.metadata.get(KEY), manifest.name)
    if ref is None or ref.id != manifest.id or not ref.ready:
        raise _is_gone(manifest)


def _is_gone(manifest: ManifestAtRef) -> NotFound:
    return NotFound(
        f"{manifest.kind.capitalize()} '{manifest.name}' of the lake {manifest.catalog} was deleted since it was "
        "looked up.",
        hint="If it was created again since, check it out again, or register the catalog again.",
    )


def read(manifest: DatasetLocation, question: Callable[[CatalogVersion], Answer], otherwise: Answer) -> Answer:
    """The newest version's answer to a question; ``otherwise`` if there is no ``__manifest``.

    A cleanup may remove a version's files during the read. Then a newer version is asked; the failure is raised only
    if there is none.
    """
    seen = 0
    for left in reversed(range(_SNAPSHOT_ATTEMPTS)):
        snapshot = newest(manifest)
        if snapshot is None:
            return otherwise
        try:
            return question(snapshot)
        except (CorruptData, NotFound):
            if snapshot.version == seen or not left:
                raise
            seen = snapshot.version
    raise AssertionError("the last attempt returns or raises")


def read_rows(manifest: DatasetLocation, needed: RowFilter) -> Rows:
    """The rows that a decision needs, from the newest version; none if there is no ``__manifest``."""
    return read(manifest, lambda snapshot: snapshot.rows(needed), no_rows())


def newest_rows(manifest: DatasetLocation) -> tuple[int, Rows]:
    """The newest version, and all its rows. Raises NotFound if there is no ``__manifest``."""
    found = read(manifest, lambda snapshot: (snapshot.version, snapshot.rows(RowFilter(everything=True))), None)
    if found is None:
        raise NotFound(f"There is no {manifest.uri}.")
    return found


def rows_at(manifest: DatasetLocation, version: int) -> Rows:
    """All rows of a version. Raises NotFound if it was cleaned up."""
    with translated(manifest, f"reading version {version} of the catalog"):
        dataset = dataset_at(manifest, manifest.uri, version=version)
    return CatalogVersion(manifest, dataset).rows(RowFilter(everything=True))


def _session() -> lance.Session:
    """The session of this process, which caches the contents of files that never change."""
    import lance

    # Keyed by process: a fork inherits the parent's session, but not its threads.
    session = _sessions.get(os.getpid())
    return session or _sessions.setdefault(os.getpid(), lance.Session())


# --- Columns of older versions that the newest one lacks

_MOST = 64
"""How many versions are looked at, spread evenly over all."""


def older_columns(snapshot: CatalogVersion) -> dict[str, int]:
    """Columns of older versions, with the newest version looked at that has each."""
    with translated(snapshot.manifest, "listing versions"):
        versions = sorted((int(ref["version"]) for ref in snapshot.dataset.version_refs()), reverse=True)
    step = max(1, len(versions) // _MOST)
    columns: dict[str, int] = {}
    for version in versions[::step]:
        with translated(snapshot.manifest, f"reading version {version}"):
            older = dataset_at(snapshot.manifest, snapshot.manifest.uri, version=version)
        for name in older.schema.names:
            columns.setdefault(name, version)
    return columns
