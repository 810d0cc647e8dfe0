"""Rows whose vectors lack a number, or have one that is not finite: no search finds them.

An index leaves them out. Where pylance 14.0.2 compares vectors one by one, a missing number counts as zero, and with
dot an infinite one is nearer than any other: such rows came first until there was an index.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.core.texts import counted
from lance_spark.errors import LanceSparkWarning
from lance_spark.format.schema import ROW_ID
from lance_spark.search.vector_rules import is_incomplete

if TYPE_CHECKING:
    import lance


def any_incomplete(dataset: lance.LanceDataset, column: str, ids: Sequence[int]) -> bool:
    """Whether one of these rows has such a vector."""
    if not ids:
        return False
    rows = dataset._take_rows(list(ids), columns={"v": _path(column)})
    return any(bool(is_incomplete(chunk).any()) for chunk in rows["v"].chunks)


def incomplete_rows(dataset: lance.LanceDataset, column: str, fragments: Sequence[int]) -> list[int]:
    """The ids of all such rows of some fragments; a warning tells their number. Reads all their vectors."""
    chosen = [fragment for fragment in map(dataset.get_fragment, fragments) if fragment is not None]
    found: list[int] = []
    for batch in dataset.scanner(columns={"v": _path(column)}, with_row_id=True, fragments=chosen).to_batches():
        found += batch.column(ROW_ID).filter(pa.array(is_incomplete(batch.column("v")))).to_pylist()
    warnings.warn(
        f"{counted(len(found), 'row')} of {dataset.uri} left out of a search: their vectors in column '{column}' lack "
        "a number, or have one that is not finite.",
        LanceSparkWarning,
        stacklevel=2,
    )
    return found


def without_rows(told: Mapping[str, Any], ids: Sequence[int]) -> dict[str, Any]:
    """The arguments of a scan that ranks no row of these ids."""
    if told.get("fragments") is None:
        from lance.dataset import serialize_row_addrs

        return {**told, "row_addr_blocklist": serialize_row_addrs(ids)}
    kept = f"{ROW_ID} NOT IN ({', '.join(map(str, ids))})"  # pylance takes no list of rows beside one of fragments
    where = told.get("filter")
    return {**told, "filter": kept if where is None else f"({where}) AND {kept}", "prefilter": True}


def _path(column: str) -> str:
    return ".".join(f"`{part}`" for part in column.split("."))
