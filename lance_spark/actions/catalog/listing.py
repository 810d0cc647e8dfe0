"""Listing namespaces and tables, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.actions.catalog.opening import need_manifest
from lance_spark.catalog.changes import below, quoted, refusal
from lance_spark.catalog.directory import v1_name
from lance_spark.catalog.entries import LOCATION, OBJECT_ID, OBJECT_TYPE
from lance_spark.catalog.model import Catalog, Page
from lance_spark.catalog.names import DELIMITER, NAMESPACE, TABLE, Identifier, Name, identify_namespace
from lance_spark.errors import InvalidOption, NotFound
from lance_spark.store.catalog.directories import list_root, look
from lance_spark.store.catalog.snapshots import CatalogVersion, read

_COLUMNS = (OBJECT_ID, OBJECT_TYPE, LOCATION)
_NOTHING = pa.schema([(name, pa.string()) for name in _COLUMNS]).empty_table()
_AT_ONCE = 256
"""Directories that are looked at for one page before it is known how many of them are tables."""


def list_tables(
    catalog: Catalog,
    namespace: Name = "",
    recursive: bool = False,
    limit: int | None = None,
    page_token: str | None = None,
) -> Page:
    """The tables in a namespace, or also those in the namespaces in it; in the order of their ids' bytes.

    In compatibility mode directories in the root that no row names are tables as well. Raises NotFound for a namespace
    that is not there, InvalidOption for a limit below 1.
    """
    within = identify_namespace(namespace)
    rows = _rows(catalog, within, f"list the tables of '{within}'", limit)
    ids = _ids(rows, TABLE, within, recursive)
    if within.is_root and catalog.reads_directories:
        return _with_directories(catalog, rows, ids, page_token, limit)
    return _page(ids, page_token, limit)


def list_namespaces(
    catalog: Catalog,
    parent: Name = "",
    recursive: bool = False,
    limit: int | None = None,
    page_token: str | None = None,
) -> Page:
    """The namespaces in a namespace, or also those in them. V1 has none. Errors as of :func:`list_tables`."""
    within = identify_namespace(parent)
    rows = _rows(catalog, within, f"list the namespaces of '{within}'", limit)
    return _page(_ids(rows, NAMESPACE, within, recursive), page_token, limit)


def _rows(catalog: Catalog, within: Identifier, doing: str, limit: int | None) -> pa.Table:
    """Ids, types and locations of what is in a namespace, however deep. Raises as :func:`list_tables`."""
    if limit is not None and limit < 1:
        raise InvalidOption(f"A page of {limit} entries is none.", hint="Give a limit of 1 or more, or none at all.")
    if not within.is_root:
        need_manifest(catalog, doing)
    if not catalog.reads_manifest:
        return _NOTHING
    predicate = None
    if not within.is_root:
        predicate = f"{OBJECT_ID} = {quoted(within.object_id)} OR {below(within.object_id)}"

    def question(snapshot: CatalogVersion) -> pa.Table:
        return snapshot.columns(_COLUMNS if catalog.reads_directories else _COLUMNS[:2], predicate)

    rows = read(catalog.manifest, question, _NOTHING)
    if not within.is_root and not _has_namespace(rows, within):
        raise refusal(NotFound, doing, "there is no such namespace")
    return rows


def _has_namespace(rows: pa.Table, within: Identifier) -> bool:
    there = pc.and_(pc.equal(rows[OBJECT_ID], within.object_id), pc.equal(rows[OBJECT_TYPE], NAMESPACE))
    return bool(pc.any(there).as_py())


def _ids(rows: pa.Table, kind: str, within: Identifier, recursive: bool) -> pa.ChunkedArray:
    """Ids of the rows of a type in a namespace."""
    chosen = pc.equal(rows[OBJECT_TYPE], kind)
    depth = pc.count_substring(rows[OBJECT_ID], DELIMITER)
    within_depth = len(within.parts)
    deep_enough = pc.greater_equal(depth, within_depth) if recursive else pc.equal(depth, within_depth)
    return rows[OBJECT_ID].filter(pc.and_(chosen, deep_enough))


def _page(ids: pa.ChunkedArray, token: str | None, limit: int | None) -> Page:
    if token is not None:
        ids = ids.filter(pc.greater(ids, token))
    if limit is not None and len(ids) > limit:
        ids = sorted(ids.take(pc.select_k_unstable(ids, limit, [("id", "ascending")])).to_pylist())
        return Page(tuple(ids), ids[-1])
    return Page(tuple(sorted(ids.to_pylist())))


def _with_directories(
    catalog: Catalog, rows: pa.Table, registered: pa.ChunkedArray, token: str | None, limit: int | None
) -> Page:
    """Rows and directories, merged by name. A directory that a row names, whatever its id, is that row's alone."""
    taken = {*rows[OBJECT_ID].to_pylist()}
    claimed = set(rows[LOCATION].to_pylist())
    directories, _ = list_root(catalog.root)
    names = [name for directory in directories if directory not in claimed and (name := v1_name(directory)) is not None]
    unnamed = _after([name for name in names if name not in taken and DELIMITER not in name], token)
    ids: list[str] = []
    for name in merge(_after(registered.to_pylist(), token), _existing(catalog, unnamed, limit)):
        if limit is not None and len(ids) == limit:
            return Page(tuple(ids), ids[-1])
        ids.append(name)
    return Page(tuple(ids))


def _after(names: Sequence[str], token: str | None) -> list[str]:
    return sorted(name for name in names if token is None or name > token)


def _existing(catalog: Catalog, names: Sequence[str], limit: int | None) -> Iterator[str]:
    """Those of the names whose directories are tables. For a page only as many are looked at as it takes."""
    size = len(names) if limit is None else max(limit + 1, _AT_ONCE)
    for start in range(0, len(names), max(size, 1)):
        part = names[start : start + size]
        states = look(catalog.root, [f"{name}.lance" for name in part])
        yield from (name for name in part if states[f"{name}.lance"].is_table)
