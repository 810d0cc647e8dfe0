"""The streaming queries that write to a dataset, as a cleanup sees them: by their tags. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lance_spark.cleanup.retention import Verdict
from lance_spark.cleanup.survey import Chain, Survey
from lance_spark.layout.names import STREAMS, last_noted
from lance_spark.refs.model import Tag
from lance_spark.refs.names import STREAM_TAG


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


def going_after(chain: Chain, verdict: Verdict, sink: int) -> Iterator[int]:
    """The versions of a chain that go and that come after a query's tag."""
    versions = (chain.files[position].version for position in verdict.removed if position < len(chain.versions))
    return (version for version in versions if version > sink)
