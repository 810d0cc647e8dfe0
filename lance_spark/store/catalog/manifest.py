"""Changes ``__manifest``: decided on one version and committed on just that one, or decided again.

A change adds a small file with the new rows and marks the old ones as deleted, in one commit of the kind "Merge".
pylance refuses it if anything at all was committed since the version it was decided on. So its cost does not grow with
the catalog, and the indexes stay. After a dozen such changes the table is rewritten as one file ("Overwrite", which
is as strict) and indexed again; until the indexes are there readers see right rows a little slower. Measured at 50,000
tables: 5 to 10 ms for a change and 60 ms for every twelfth; pylance's namespace takes 67 ms for each.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.catalog.changes import CatalogChange, Edit, refusal
from lance_spark.catalog.entries import OBJECT_ID, SCHEMA, Rows, is_complete, no_rows, upgraded_rows
from lance_spark.errors import AlreadyExists, Conflict, CorruptData, InvalidOption, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.store.catalog.committing import commit
from lance_spark.store.catalog.indexing import has_indexes, index_if_possible
from lance_spark.store.catalog.snapshots import CatalogVersion, newest, read_rows
from lance_spark.store.failures import translated

_ATTEMPTS = 60
_LONGEST_PAUSE = 0.5
"""Seconds."""
_FRAGMENTS = 12
"""So many files hold the catalog before they become one: each costs readers a request on an object store."""
_MANY = 1000
"""Rows that one change deletes or adds before the table is rewritten and indexed again."""


def decide(manifest: DatasetLocation, change: CatalogChange) -> Edit:
    """What a change would do to the newest version. Nothing is committed. Raises what the change raises."""
    return change.edit(read_rows(manifest, change.needs))


def apply(manifest: DatasetLocation, change: CatalogChange, check: Callable[[], None] | None = None) -> Edit:
    """Decide a change on the newest version and commit it; returns what was done.

    ``check`` is asked after the decision and before each attempt to commit it, and may raise. What it found was so at a
    moment at which the rows were those of the version that is committed on; what it raises counts only if they still
    are.

    Raises what the change raises for a wish that cannot be granted, and Conflict when others commit again and again.
    """
    for attempt in range(_ATTEMPTS):
        snapshot = newest(manifest)
        try:
            rows, addresses = (no_rows(), None) if snapshot is None else snapshot.addressed(change.needs)
        except (CorruptData, NotFound):
            again = newest(manifest)  # a cleanup took the files of the version that was being read
            if snapshot is None or again is None or again.version == snapshot.version:
                raise
            continue
        edit = change.edit(rows)
        if edit.is_empty:
            return edit
        if check is not None and not _holds(check, manifest, snapshot):
            continue
        try:
            rewritten = _write(manifest, snapshot, _AddressedRows(rows, addresses), edit, change.doing)
        except Conflict:
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.005 * 2**attempt)))
            continue
        if rewritten:
            index_if_possible(manifest)
        return edit
    raise refusal(Conflict, change.doing, "others changed the catalog again and again", hint="Run it again.")


def _holds(check: Callable[[], None], manifest: DatasetLocation, snapshot: CatalogVersion | None) -> bool:
    """False where a check failed, but the rows have changed since: they tell better why."""
    try:
        check()
    except (Conflict, NotFound):
        again = newest(manifest)
        if again is None or (snapshot is not None and again.version == snapshot.version):
            raise
        return False
    return True


class _AddressedRows:
    """Rows and where they are."""

    def __init__(self, rows: Rows, addresses: pa.Array | None) -> None:
        self.rows = rows
        self.addresses = addresses

    def by_fragment(self, object_ids: tuple[str, ...]) -> dict[int, list[int]]:
        """The addresses of some rows, by the fragments they are in."""
        addresses: dict[int, list[int]] = {}
        if self.addresses is not None and object_ids:
            ids = pa.array(list(object_ids), pa.string())
            chosen = pc.is_in(self.rows.table[OBJECT_ID].cast(pa.string()), value_set=ids)
            for address in self.addresses.filter(chosen).to_pylist():
                addresses.setdefault(address >> 32, []).append(address)
        return addresses


def _write(
    manifest: DatasetLocation, snapshot: CatalogVersion | None, rows: _AddressedRows, edit: Edit, doing: str
) -> bool:
    """Commit on just this version; whether the whole table was rewritten. Raises Conflict."""
    if snapshot is None:
        _create(manifest, edit.add, doing)
        return True
    gone = rows.by_fragment(edit.remove)
    if _is_due(snapshot, edit, gone):
        _rewrite(snapshot, edit, doing)
        return True
    _append(snapshot, edit, gone, doing)
    return not has_indexes(snapshot)


def _is_due(snapshot: CatalogVersion, edit: Edit, gone: dict[int, list[int]]) -> bool:
    """Whether the table has to be rewritten, or should be."""
    dataset = snapshot.dataset
    fragments = {fragment.fragment_id: fragment for fragment in dataset.get_fragments()}
    return (
        len(fragments) >= _FRAGMENTS
        or len(edit.remove) > _MANY
        or (edit.add is not None and edit.add.num_rows > _MANY)
        or dataset.has_stable_row_ids
        or not is_complete(snapshot.schema)
        # A commit of the kind "Merge" cannot drop a file, and pylance keeps none without rows.
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
                    added, manifest.uri, schema=SCHEMA, mode="create", storage_options=manifest.storage_options
                )
            )
            operation = lance.LanceOperation.Overwrite(SCHEMA, fragments)
            lance.LanceDataset.commit(
                manifest.uri,
                operation,
                storage_options=manifest.storage_options,
                max_retries=0,
                commit_message=doing,
            )
    except (AlreadyExists, NotFound) as problem:
        # Whoever loses the race to create a dataset is told "already exists", or that version 0 was not found.
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
    import lance

    dataset = snapshot.dataset
    with translated(snapshot.manifest, doing):
        table = upgraded_rows(dataset.to_table())
        goes = pc.is_in(table[OBJECT_ID].cast(pa.string()), value_set=pa.array(list(edit.remove), pa.string()))
        table = table.filter(pc.invert(goes))
        if edit.add is not None:
            table = pa.concat_tables([table, edit.add])
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
                storage_options=snapshot.manifest.storage_options,
            )
            operation = lance.LanceOperation.Overwrite(table.schema, added)
        commit(snapshot, operation, added, doing)


def _written(snapshot: CatalogVersion, table: pa.Table | None) -> list[Any]:
    """Rows as files of the table; nothing is committed."""
    import lance

    if table is None or table.num_rows == 0:
        return []
    written: list[Any] = lance.fragment.write_fragments(
        table,
        snapshot.dataset,
        schema=snapshot.schema,
        mode="append",
        storage_options=snapshot.manifest.storage_options,
    )
    return written


def upgrade(manifest: DatasetLocation) -> bool:
    """Give the table the columns and the mark of its primary key that it lacks; whether it lacked any."""
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
    """Rewrite the table as one file, indexed, if it is ``least`` files or more; whether that was done.

    To others it is a change like any other one: older versions stay. Another process's commit at the same time comes
    first, and then nothing is done.
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
        return dict(snapshot.dataset.metadata)


def alter_root_properties(manifest: DatasetLocation, put: dict[str, str], unset: tuple[str, ...]) -> None:
    """Set and remove properties of the root namespace. Of two processes that set the same one, the later wins."""
    values: dict[str, str | None] = {**put, **dict.fromkeys(unset)}
    if not values:
        raise InvalidOption("There is nothing to alter.")
    doing = "alter the properties of the root namespace"
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
    raise refusal(Conflict, doing, "others changed the catalog again and again", hint="Run it again.")
