"""Planning a read whose filter an index answers: only the fragments with matches are visited."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lance_spark.scan.plan import FragmentSize

_EXACT = frozenset({"BTree", "Bitmap", "LabelList"})
"""Kinds of index that know the matching rows; others (zone maps, Bloom filters, n-grams) leave data to be read."""
PROBE_LIMIT = 1_000_000
"""Matches counted on the driver at most; a filter with more is planned like a full scan."""


def answering_indexes(explained: str) -> frozenset[str]:
    """Names of the scalar indexes that alone decide which rows match, from pylance's explained plan.

    Only for these may the driver ask which rows match: it then reads index pages, never data. Empty when the
    plan shows anything else, such as a part of the predicate left to check. A plan that a later pylance words
    differently also gives nothing, which costs speed, never rows.
    """
    reads = re.findall(r"LanceRead: .*", explained)
    queries = re.findall(r"ScalarIndexQuery: query=(.*)", explained)
    if len(reads) != 1 or len(queries) != 1 or not reads[0].rstrip().endswith("refine_filter=--"):
        return frozenset()
    indexes = re.findall(r"\]@(.*?)\((\w+)\)(?=[,)]|$)", queries[0].rstrip())
    return frozenset(name for name, _ in indexes) if _EXACT.issuperset(kind for _, kind in indexes) else frozenset()


@dataclass(frozen=True)
class IndexMatches:
    """What indexes tell of the rows that pass a filter."""

    covered: frozenset[int]
    """Ids of the fragments that the indexes know."""
    rows: Mapping[int, int]
    """Number of matching rows in each of those fragments that has any."""


def only_matching(fragments: Sequence[FragmentSize], matches: IndexMatches) -> list[FragmentSize]:
    """The fragments that can hold matches: covered ones weighed by their matches, the others as they are."""
    visited = []
    for fragment in fragments:
        if fragment.fragment_id not in matches.covered:
            visited.append(fragment)
        elif rows := matches.rows.get(fragment.fragment_id, 0):
            share = rows / max(1, fragment.physical_rows)
            size = int(fragment.stored_bytes * share)
            # physical_rows stays: a split fragment is cut by row addresses, and matches may have any of them.
            visited.append(fragment._replace(live_rows=rows, stored_bytes=size))
    return visited
