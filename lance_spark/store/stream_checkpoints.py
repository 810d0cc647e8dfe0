"""Reads the id of a query from its checkpoint, which may lie in another store than the dataset."""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.errors import LanceSparkError, NotFound
from lance_spark.store import files
from lance_spark.store.uri import check_absolute, locate
from lance_spark.streams.names import CHECKPOINT_FILE, parse_query_id


def read_query_id(checkpoint: str, storage: Mapping[str, str]) -> str:
    """The id that Spark gave the query of a checkpoint; ``storage`` are the storage options of the dataset.

    Raises NotFound, CorruptData, StorageFailure or InvalidOption, each with the way on: an id of one's own.
    """
    try:
        check_absolute(checkpoint)
        content = files.read(locate(checkpoint, storage), CHECKPOINT_FILE)
    except LanceSparkError as problem:
        raise type(problem)(problem.message, hint=_way_on(problem.hint)) from None
    if content is None:
        raise NotFound(f"There is no query's id in the checkpoint {checkpoint}.", hint=_way_on(None))
    return parse_query_id(content, checkpoint)


def _way_on(hint: str | None) -> str:
    own = (
        "The option is to name the query's own checkpoint, as writeStream has it. Where this process cannot read it, "
        "give the stream an id of your own, which stays the same as long as the checkpoint does: "
        "option('query_id', 'orders')."
    )
    return f"{hint} {own}" if hint else own
