"""Which fragments a compaction may touch, which indexes it needs beside them, and how tasks are put into commits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from lance_spark.compaction.model import RewriteTask, RewrittenTask
from lance_spark.errors import Refused
from lance_spark.location import is_within
from lance_spark.manifest.contents import Fragment
from lance_spark.manifest.indexes import IndexRecord
from lance_spark.merge.snapshot import Snapshot

_REHOMED = frozenset(
    {
        "BTreeIndexDetails",
        "BitmapIndexDetails",
        "BloomFilterIndexDetails",
        "InvertedIndexDetails",
        "LabelListIndexDetails",
        "NGramIndexDetails",
        "VectorIndexDetails",
        "ZoneMapIndexDetails",
    }
)
"""Kinds of indexes that were seen to answer the same from another place: the end of the name of their details."""


def inherited_fragments(snapshot: Snapshot, root: str) -> frozenset[int]:
    """The fragments with files in a place that is not the chain's own.

    A branch owns what is in its directory. Main owns all that is below ``root``, the dataset's URI: a merge lets it
    read files of branches.
    """
    branch = snapshot.pin.branch
    own = {
        key
        for key, base in snapshot.bases.items()
        if key is None or (branch is None and base.is_dataset and is_within(base.uri, root))
    }
    return frozenset(
        fragment.id
        for fragment in snapshot.contents.fragments()
        if any(file.base_id not in own for file in fragment.files)
    )


def grouped(tasks: Sequence[RewriteTask], most: int) -> tuple[tuple[RewriteTask, ...], ...]:
    """The tasks in their order, in at most so many groups of about the same size."""
    count = min(most, len(tasks))
    left, groups, start = sum(task.bytes for task in tasks), [], 0
    for number in range(count):
        others = count - number - 1
        share, size, end = left / (others + 1), 0, start
        while end < len(tasks) - others and (end == start or others == 0 or size + tasks[end].bytes / 2 <= share):
            size += tasks[end].bytes
            end += 1
        groups.append(tuple(tasks[start:end]))
        left, start = left - size, end
    return tuple(groups)


def indexes_to_rehome(indexes: Iterable[IndexRecord], fragments: Collection[int]) -> tuple[IndexRecord, ...]:
    """The inherited indexes that know rows of the fragments.

    pylance would rewrite such an index into the branch, and then look for it in the parent. Raises Refused for an index
    of which it is not certain what it needs.
    """
    found = []
    for index in indexes:
        if index.base_id is None or not fragments:
            continue
        if index.fragments is None or index.is_internal:
            raise Refused(
                f"The inherited index '{index.name}' does not say which fragments it covers: after a compaction it "
                "might be lost.",
                hint="Optimize the parent, or make the index again on the branch.",
            )
        if not index.fragments.isdisjoint(fragments):
            _check_kind(index)
            found.append(index)
    return tuple(found)


def _check_kind(index: IndexRecord) -> None:
    kind = index.details[0].rpartition(".")[2] if index.details else "unknown"
    if kind not in _REHOMED:
        raise Refused(
            f"The inherited index '{index.name}' is of a kind ({kind}) of which it is not known whether it survives a "
            "compaction of inherited fragments.",
            hint="Leave own_only=False out, or drop the index on the branch first.",
        )


def same_sources(task: RewriteTask, now: Mapping[int, Fragment]) -> bool:
    """Whether the fragments are as they were when the task was planned: same files, same rows deleted, same row ids.

    ``now`` are those of another version, by id.
    """
    return all(now.get(source.id) == source for source in task.sources)


def landed(entry: RewrittenTask, paths: Collection[str]) -> bool:
    """Whether the new fragments of a task are in a version that has these data files."""
    return bool(entry.files) and all(path in paths for path in entry.files)
