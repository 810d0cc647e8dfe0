"""Reads ``__manifest``: always its newest version, through one session per process.

pylance's own namespace keeps a version open and asks for just the next one. After a cleanup it answers with an error or
with the catalog of long ago, without a word (pylance 14.0.2).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lance_spark.catalog.changes import RowFilter
from lance_spark.catalog.entries import OBJECT_ID, Rows, no_rows, upgraded_rows
from lance_spark.errors import CorruptData, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.store.catalog.directories import check_reachable
from lance_spark.store.failures import OPENING, translated

if TYPE_CHECKING:
    import lance

_ATTEMPTS = 4
_ADDRESS = "_rowaddr"
_sessions: dict[int, lance.Session] = {}
_catalogs: set[str] = set()
"""Tables that were seen to be the manifest of a catalog."""
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class CatalogVersion:
    """One version of ``__manifest``."""

    manifest: DatasetLocation
    dataset: lance.LanceDataset

    @property
    def version(self) -> int:
        """Its number."""
        return int(self.dataset.version)

    @property
    def schema(self) -> pa.Schema:
        """All its columns."""
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
        """Some columns of the rows for which a predicate holds; those it does not have are left out."""
        there = [name for name in names if name in self.schema.names]
        with translated(self.manifest, "reading the catalog"):
            return self.dataset.to_table(columns=there, filter=filter)


def newest(manifest: DatasetLocation) -> CatalogVersion | None:
    """The newest version; None where there is no ``__manifest`` yet. Raises NotFound for a bucket that is not there."""
    import lance

    try:
        with translated(manifest, OPENING):
            dataset = lance.dataset(manifest.uri, storage_options=manifest.storage_options, session=_session())
    except NotFound:
        check_reachable(manifest)
        return None
    if manifest.uri not in _catalogs:  # asked once: a schema takes as long as all else here
        if dataset.version < 1 or OBJECT_ID not in dataset.schema.names:
            raise CorruptData(
                f"{manifest.uri} is not the manifest of a catalog.", hint="Restore an older version of it."
            )
        _catalogs.add(manifest.uri)
    return CatalogVersion(manifest, dataset)


def read(manifest: DatasetLocation, question: Callable[[CatalogVersion], Answer], otherwise: Answer) -> Answer:
    """The answer of the newest version to a question; ``otherwise`` where there is no ``__manifest``.

    A cleanup may take a version's files away while it is read. Then a newer one is asked; only if there is none, the
    failure is raised.
    """
    seen = 0
    for left in reversed(range(_ATTEMPTS)):
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
    """The rows that a decision needs, of the newest version; none where there is no ``__manifest``."""
    return read(manifest, lambda snapshot: snapshot.rows(needed), no_rows())


def _session() -> lance.Session:
    """The session of this process, in which what was read of files that never change stays known."""
    import lance

    # By process: a fork has the parent's session, whose threads it does not have.
    session = _sessions.get(os.getpid())
    return session or _sessions.setdefault(os.getpid(), lance.Session())
