"""Decides whether a batch of a stream is committed, skipped or refused, from the records in versions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from lance_spark.core.refs import MAIN
from lance_spark.core.texts import few
from lance_spark.errors import Refused
from lance_spark.format.stream_notes import BATCH, QUERY, TAKEN_BACK, Noted, sink_tag
from lance_spark.format.transactions import Transaction

_REPLACING = ("Overwrite", "Restore")


@dataclass(frozen=True)
class Batch:
    uri: str
    """URI of the dataset, for errors."""
    branch: str | None
    """None for main."""
    query: str
    number: int

    @property
    def tag(self) -> str:
        """The tag on the last version that the query committed."""
        return sink_tag(self.query)

    @property
    def properties(self) -> dict[str, str]:
        """The properties of the version that commits it."""
        return {QUERY: self.query, BATCH: str(self.number)}


class Watermark(NamedTuple):
    """The version that the tag of a query points at."""

    branch: str | None
    version: int
    there: bool
    """Whether the version exists."""
    transaction: Transaction | None


@dataclass(frozen=True)
class BranchLook:
    """What a branch records about a query, at one moment."""

    mark: Watermark | None
    """None if the query has no tag."""
    newer: Mapping[int, Transaction | None]
    """The transactions of the versions after the watermark; None for a version without a record. Cleaned-up versions
    are included only if the cleanup noted them. Empty without a watermark."""
    newest: int
    noted: Mapping[int, Noted] = field(default_factory=dict)
    """Everything that cleanups noted, of missing versions and of some existing ones."""


_BESIDE_APPENDS = frozenset(
    {"Append", "Delete", "Update", "Rewrite", "CreateIndex", "ReserveFragments", "UpdateConfig", "UpdateBases"}
)
"""Operations that leave columns and the meaning of an append as they are."""


def is_like(known: Mapping[int, Transaction | None], start: int, head: int) -> bool:
    """Whether an append that was planned on one version is the same on a later one, by the versions in between."""
    between = [known.get(version) for version in range(start + 1, head + 1)]
    return all(one is not None and one.operation in _BESIDE_APPENDS for one in between)


class BatchDecision(NamedTuple):
    action: Literal["begin", "commit", "skip"]
    """``begin``: first tag the newest version, so that no later one is forgotten; then examine the branch again."""
    at: int | None = None
    """The newest version that the query committed, where the tag belongs; None if there is none."""


def decide(batch: Batch, look: BranchLook) -> BatchDecision:
    """Decide what to do with a batch.

    Raises Refused, with a hint to continue, if it is uncertain whether the batch is in, or if earlier rows of the query
    were replaced.
    """
    mark = look.mark
    if mark is None:
        if batch.number == 0:
            return BatchDecision("begin")
        raise _refused(batch, f"tag '{batch.tag}', which records what was committed before, is missing")
    if mark.branch != batch.branch:
        raise _refused(batch, f"tag '{batch.tag}' is on branch '{mark.branch or MAIN}': the query wrote there before")
    known = {version: batch_of(transaction, batch.query) for version, transaction in _entries(look).items()}
    own = {version: number for version, number in sorted(known.items()) if number is not None}
    # The tag marks where the query began, as long as its first batch is only in a cleanup's note.
    if not mark.there or (not own and batch.number > 0):
        raise _refused(batch, f"version {mark.version}, where tag '{batch.tag}' is, no longer belongs to the query")
    at = max(own, default=None)
    last = max(own.values(), default=-1)
    if last > batch.number:
        raise _behind(batch, last)
    if last == batch.number:
        return BatchDecision("skip", at)
    since = mark.version if at is None else at
    _check_known(batch, look, since)
    replaced = [
        version
        for version, transaction in look.newer.items()
        if version > since and transaction is not None and transaction.operation in _REPLACING
    ]
    if own and replaced:
        raise _refused(batch, f"version {replaced[0]} replaced all rows, including those of earlier batches")
    return BatchDecision("commit", at)


def doubled(look: BranchLook, query: str) -> tuple[int, int] | None:
    """A version and a later one that repeats a batch of it; None if no batch is repeated.

    Two drivers ran the query at the same time. Batches that were taken back do not count.
    """
    own = [
        (version, number, transaction.properties.get(TAKEN_BACK))
        for version, transaction in sorted(_entries(look).items())
        if transaction is not None and (number := batch_of(transaction, query)) is not None
    ]
    done = {back for _, _, back in own}
    last: tuple[int, int] | None = None
    for version, number, back in own:
        if back is not None or str(version) in done:
            continue
        if last is not None and number <= last[1]:
            return last[0], version
        last = version, number
    return None


def last_batch(look: BranchLook, query: str) -> int:
    """The newest batch of a query that is in; -1 if there is none."""
    numbers = (batch_of(transaction, query) for transaction in _entries(look).values())
    return max((number for number in numbers if number is not None), default=-1)


def _entries(look: BranchLook) -> dict[int, Transaction | None]:
    entries = {} if look.mark is None else {look.mark.version: look.mark.transaction}
    return entries | dict(look.newer)


def batch_of(transaction: Transaction | None, query: str) -> int | None:
    """The last batch that is in with a version that the query committed; None for other versions."""
    if transaction is None or transaction.properties.get(QUERY) != query:
        return None
    number = transaction.properties.get(BATCH, "")
    return int(number) if number.isascii() and number.isdigit() else None


def _check_known(batch: Batch, look: BranchLook, since: int) -> None:
    """Raise Refused if a version that could hold the batch is gone or lacks a record of its maker."""
    versions = range(since + 1, look.newest + 1)
    unknown = [version for version in versions if look.newer.get(version) is None]
    if unknown:
        gone = "are gone" if len(unknown) > 1 else "is gone"
        raise _refused(
            batch,
            f"version {few([str(version) for version in unknown], 5)} {gone}, without the note that a cleanup of "
            "lance_spark leaves for streams, and may have held it",
        )


def _behind(batch: Batch, last: int) -> Refused:
    """The error for a batch below the last one, which comes from another checkpoint and has other rows.

    Spark retries only the last batch. A new checkpoint with an old ``query_id`` would miss all rows up to that batch.
    """
    return Refused(
        f"{_cannot(batch)}batch {last} of it is already in, and Spark only goes back to the last batch. So the "
        "checkpoint is new or an older copy, or another driver is ahead. Nothing was changed.",
        hint="A new checkpoint needs a new query_id: it reads the source again from the start. For an older copy, "
        f"delete the rows of batch {batch.number} and later; then {_resume(batch)}) lets it write them again.",
    )


def _cannot(batch: Batch) -> str:
    place = f"'{batch.branch or MAIN}' of {batch.uri}"
    return f"Batch {batch.number} of query {batch.query} cannot be committed to {place}: "


def _resume(batch: Batch) -> str:
    branch = "" if batch.branch is None else f", branch={batch.branch!r}"
    handle = f"LanceTable.for_path({batch.uri!r}{branch})"
    return f"{handle}.streams.resume({batch.query!r}, last_batch={batch.number - 1}"


def _refused(batch: Batch, why: str) -> Refused:
    call = _resume(batch)
    return Refused(
        f"{_cannot(batch)}{why}. Nothing was changed.",
        hint=f"Start over with an empty checkpoint, which reads the source again from the start. Or check the rows: "
        f"if those of batch {batch.number} are missing, {call}) lets the query continue with it; if they exist, "
        f"use the same with last_batch={batch.number}.",
    )
