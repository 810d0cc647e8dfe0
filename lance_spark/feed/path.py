"""The way from one version to another: back to the last one that both have in common, and on from there.

A branch is a line below its fork, so each version is at the end of one line of spans. Merges are versions like others:
the way never leaves the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark import hints
from lance_spark.errors import Refused
from lance_spark.merge.steps import VersionSpan
from lance_spark.refs.model import Branch, PinnedVersion


@dataclass(frozen=True)
class FeedPath:
    """The way."""

    common: PinnedVersion
    back: tuple[VersionSpan, ...]
    """Versions of the begin that the common one does not have, oldest first."""
    forward: tuple[VersionSpan, ...]
    """Versions that lead from the common one to the end, oldest first."""


def line_of(pin: PinnedVersion, branches: Mapping[str, Branch]) -> tuple[VersionSpan, ...]:
    """All versions that lead to one, oldest first. The first version of a branch is the one it was made from."""
    spans = []
    while True:
        entry = None if pin.branch is None else branches.get(pin.branch)
        fork = None if entry is None else entry.fork
        begin = 0 if fork is None else fork.version
        if pin.version > begin:
            spans.append(VersionSpan(pin.branch, begin, pin.version))
        if fork is None:
            return tuple(reversed(spans))
        pin = PinnedVersion(fork.branch, min(fork.version, pin.version))


def path_between(since: PinnedVersion, until: PinnedVersion, branches: Mapping[str, Branch]) -> FeedPath:
    """The way from one version to another. Raises Refused for two that have nothing in common."""
    common: PinnedVersion | None = None
    ours, theirs = line_of(since, branches), line_of(until, branches)
    for mine, other in zip(ours, theirs, strict=False):
        if mine.branch != other.branch:
            break
        common = PinnedVersion(mine.branch, min(mine.until, other.until))
        if mine.until != other.until:
            break
    if common is None:
        raise Refused(
            f"{since} and {until} have no common version, so none leads to the other one.",
            hint=hints.of(hints.DIFF, " compares two versions whatever led to them."),
        )
    return FeedPath(common, _after(ours, common), _after(theirs, common))


def at_or_before(pin: PinnedVersion, branches: Mapping[str, Branch]) -> PinnedVersion:
    """The version of that number on the line of a branch: numbers below its fork are its parent's."""
    while pin.branch is not None and pin.branch in branches:
        fork = branches[pin.branch].fork
        if fork is None or pin.version >= fork.version:
            break
        pin = PinnedVersion(fork.branch, pin.version)
    return pin


def _after(line: tuple[VersionSpan, ...], common: PinnedVersion) -> tuple[VersionSpan, ...]:
    place = next(at for at, span in enumerate(line) if span.branch == common.branch)
    rest = [line[place]._replace(after=common.version), *line[place + 1 :]]
    return tuple(span for span in rest if span.after < span.until)
