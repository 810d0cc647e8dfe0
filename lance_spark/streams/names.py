"""The names that a streaming query has in a dataset, and where its own id comes from. Pure."""

from __future__ import annotations

import json

from lance_spark.errors import CorruptData, InvalidOption
from lance_spark.refs.names import READER_TAG, STREAM_TAG, check_new_tag_name

QUERY, BATCH = "lance_spark.stream.query", "lance_spark.stream.batch"
"""Properties of a version: the query that committed it, and the number of the last batch that is in."""
TAKEN_BACK = "lance_spark.stream.taken_back"
"""Property of a version that took another one's rows back: the number of that version."""
CHECKPOINT_FILE = "metadata"
"""The file of a checkpoint in which Spark keeps the query's id: the same over restarts, another per checkpoint."""


def sink_tag(query: str) -> str:
    """The tag at the last version that a query committed. Raises InvalidOption for an id that no tag can have."""
    return _tag(STREAM_TAG, query)


def source_tag(query: str, branch: str | None) -> str:
    """The tag at the first version that a query still has to read of a branch. Raises InvalidOption as sink_tag.

    A query may read several branches of one dataset. With one tag for all of them, each would take it from the others,
    and a cleanup what these have yet to read.
    """
    tag = _tag(READER_TAG, query)
    return tag if branch is None else f"{tag}-{branch.replace('/', '.')}"


def parse_query_id(content: bytes, checkpoint: str) -> str:
    """The query's id from a checkpoint's file ``metadata``. Raises CorruptData."""
    try:
        query = json.loads(content)["id"]
    except (ValueError, KeyError, TypeError):
        query = None
    if not isinstance(query, str) or not query:
        raise CorruptData(
            f"The file '{CHECKPOINT_FILE}' of the checkpoint {checkpoint} holds no query id.",
            hint="Is it a checkpoint of Spark's? If only Spark can read it, give the stream an id of your own: "
            "option('query_id', 'orders'), which stays the same as long as the checkpoint does.",
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
            hint="Letters, digits, '.', '-' and '_' can be in it.",
        ) from None
    return prefix + query
