"""Streaming queries as a cleanup sees them, by their tags: what they have yet to read, or to learn. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lance_spark.cleanup.survey import Chain, Survey
from lance_spark.layout.names import STREAMS, last_noted
from lance_spark.refs.model import RefTable, Tag
from lance_spark.refs.names import READER_TAG, STREAM_TAG


def first_sink(tags: Iterable[Tag], branch: str | None) -> int | None:
    """The lowest version of a branch that a query committed last; None where no query writes.

    What comes after it, a query has yet to look at.
    """
    versions = (tag.version for tag in tags if tag.branch == branch and tag.name.startswith(STREAM_TAG))
    return min(versions, default=None)


def first_sinks(survey: Survey) -> dict[int, int]:
    """:func:`first_sink` by chain of the dataset, without chains to which no query writes."""
    tags = [tag for tag in survey.refs.tags.values() if tag.name.startswith(STREAM_TAG)]
    found = ((index, first_sink(tags, chain.branch)) for index, chain in survey.owned() if tags)
    return {index: version for index, version in found if version is not None}


def is_needed_note(local: str, sink: int | None) -> bool:
    """Whether a file, by its path in its chain, is a note that a query needs that is at that version."""
    directory, _, name = local.rpartition("/")
    last = last_noted(name) if directory == STREAMS else None
    return last is not None and sink is not None and last > sink


def going_after(chain: Chain, removed: Iterable[int], sink: int) -> Iterator[int]:
    """The versions of a chain that go, by position, and that come after a query's tag."""
    versions = (chain.versions[position].version for position in removed)
    return (version for version in versions if version > sink)


def first_unread(refs: RefTable, branch: str | None) -> int | None:
    """The version of a branch from which on a stream reads it; None where no stream does.

    A stream that reads a branch from before its fork comes along the branches it was made from. Its tag is on one of
    them then, and it has yet to read all of those in between.
    """
    readers = [tag for tag in refs.tags.values() if tag.name.startswith(READER_TAG)]
    on_it = [tag.version for tag in readers if tag.branch == branch]
    on_the_way = any(branch in _ahead_of(tag, refs) for tag in readers)
    return 0 if on_the_way else min(on_it, default=None)


def _ahead_of(tag: Tag, refs: RefTable) -> set[str | None]:
    """The branches that a stream comes to, by the name that its tag has; see ``streams.names.source_tag``."""
    ahead: set[str | None] = set()
    for name in refs.branches:
        if tag.name.endswith(f"-{name.replace('/', '.')}"):
            ahead |= _way(name, tag, refs)
    return ahead


def _way(name: str, tag: Tag, refs: RefTable) -> set[str]:
    """A branch and those it was made from, up to the version of another one at which the tag is; empty if it is not."""
    way: set[str] = set()
    at: str | None = name
    while at is not None and at in refs.branches and at not in way:
        way.add(at)
        fork = refs.branches[at]
        at = fork.parent_branch
        if at == tag.branch:
            return way if tag.version <= fork.parent_version else set()
    return set()
