"""A streaming query's traces in a dataset: its tags, the id in its checkpoint, notes of versions cleaned up. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lance_spark.core.records.stored_json import decode_json
from lance_spark.core.ref_names import READER_TAG, STREAM_TAG, check_new_tag_name
from lance_spark.errors import CorruptData, InvalidOption
from lance_spark.format.transactions import Transaction

QUERY, BATCH = "lance_spark.stream.query", "lance_spark.stream.batch"
"""Properties of a version: the query that committed it, and the number of its last batch."""
TAKEN_BACK = "lance_spark.stream.taken_back"
"""Property of a version that removed another one's rows again: the number of that version."""
CHECKPOINT_FILE = "metadata"
"""File of a checkpoint that holds the query's id, which survives restarts and differs per checkpoint."""


def sink_tag(query: str) -> str:
    """The tag on the last version that a query committed. Raises InvalidOption for an id that no tag can have."""
    return _tag(STREAM_TAG, query)


def source_tag(query: str, branch: str | None) -> str:
    """The tag on the first version that a query has yet to read from a branch. Raises InvalidOption as sink_tag.

    A query can read several branches of one dataset. With a single tag, each branch would take it from the others, and
    a cleanup would delete versions that these have yet to read.
    """
    tag = _tag(READER_TAG, query)
    return tag if branch is None else f"{tag}-{branch.replace('/', '.')}"


def parse_query_id(content: bytes, checkpoint: str) -> str:
    """The query's id from a checkpoint's file ``metadata``. Raises CorruptData."""
    try:
        query = decode_json(content)["id"]
    except (ValueError, KeyError, TypeError):
        query = None
    if not isinstance(query, str) or not query:
        raise CorruptData(
            f"The file '{CHECKPOINT_FILE}' of the checkpoint {checkpoint} contains no query id.",
            hint="Is it a checkpoint of Spark's? If only Spark can read it, give the stream an id of your own: "
            "option('query_id', 'orders'). Keep that id as long as the checkpoint.",
        )
    return query


def _tag(prefix: str, query: str) -> str:
    try:
        if not query:
            raise InvalidOption("it is empty.")
        check_new_tag_name(prefix + query)
    except InvalidOption as problem:
        raise InvalidOption(
            f"'{query}' cannot be the id of a query: {problem.message}",
            hint="Use only letters, digits, '.', '-' and '_'.",
        ) from None
    return prefix + query


# --- Notes of a cleanup about the versions that it deletes, for streams that have yet to look at them
# A query that was killed between its commit and the move of its tag finds the batch in the versions after the tag. Once
# those are cleaned up, only the cleanup's notes still record them.

FORMAT = 1
_KEPT = (QUERY, BATCH, TAKEN_BACK)


class Noted(NamedTuple):
    operation: str
    """pylance's name of it, e.g. ``Append``."""
    properties: Mapping[str, str]
    uuid: str = ""
    """UUID of its transaction, if a query committed it."""
    added: tuple[int, ...] | None = None
    """The fragments that it added, if a query committed it: the batch might have to be removed again. None if unknown,
    because the previous version was gone."""

    def transaction(self, version: int) -> Transaction:
        return Transaction(version - 1, self.uuid, self.operation, self.properties)

    def is_same(self, other: Noted) -> bool:
        return self[:3] == other[:3]


def noted(transaction: Transaction, added: Iterable[int] | None = None) -> Noted:
    said = {name: transaction.properties[name] for name in _KEPT if name in transaction.properties}
    fragments = None if added is None else tuple(sorted(added))
    return Noted(transaction.operation, said, transaction.uuid if said else "", fragments)


def encode_note(identity: str, versions: Mapping[int, Noted]) -> bytes:
    """A note of a branch with that identity. Versions that no query committed, nearly all, are stored as ranges."""
    operations: dict[str, list[list[int]]] = {}
    for version, said in sorted(versions.items()):
        ranges = operations.setdefault(said.operation, [])
        if ranges and ranges[-1][1] == version - 1:
            ranges[-1][1] = version
        else:
            ranges.append([version, version])
    queries = {
        str(version): {"properties": dict(said.properties), "uuid": said.uuid, "added": said.added}
        for version, said in versions.items()
        if said.properties
    }
    return json.dumps({"format": FORMAT, "branch": identity, "versions": operations, "queries": queries}).encode()


def decode_note(content: bytes, identity: str) -> dict[int, Noted] | None:
    """The content of a note; None for another branch of the same name, and for an unreadable note."""
    try:
        note = decode_json(content)
        if note["format"] != FORMAT or note["branch"] != identity:
            return None
        queries = {
            int(version): (
                {str(name): str(value) for name, value in said["properties"].items()},
                str(said["uuid"]),
                None if said["added"] is None else tuple(map(int, said["added"])),
            )
            for version, said in note["queries"].items()
        }
        return {
            version: Noted(str(operation), *queries.get(version, ({}, "", None)))
            for operation, ranges in note["versions"].items()
            for first, last in ranges
            for version in range(int(first), int(last) + 1)
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def joined(notes: Iterable[Mapping[int, Noted]]) -> dict[int, Noted]:
    """All notes combined, without versions on which they disagree: those prove nothing."""
    together: dict[int, Noted] = {}
    unsure: set[int] = set()
    for note in notes:
        unsure |= {version for version, said in note.items() if not said.is_same(together.get(version, said))}
        together = updated(together, note)
    return {version: said for version, said in together.items() if version not in unsure}


def updated(before: Mapping[int, Noted], now: Mapping[int, Noted]) -> dict[int, Noted]:
    """The updated notes. An earlier cleanup might know a version's additions when a later one does not."""
    known = {
        version: before[version]
        for version, said in now.items()
        if version in before and before[version].is_same(said) and said.added is None
    }
    return {**before, **now, **known}
