"""The options of a stream into a branch: what was typed, turned into what was meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.errors import InvalidOption, Refused
from lance_spark.options import text

STREAM_WRITE_OPTIONS = ("query_id", "checkpointLocation", "queryName", "mode", "key", "optimize_every")
"""Every option of a stream that a write does not have. ``checkpointLocation`` and ``queryName`` are Spark's."""
_OWN = frozenset(name.lower() for name in STREAM_WRITE_OPTIONS)
NEW_BRANCH = ("create_branch", "from_branch", "from_tag", "from_version")


@dataclass(frozen=True)
class StreamOptions:
    """What a stream asks for, beside what a write does."""

    write: Mapping[str, str]
    """The options that are a write's."""
    query_id: str | None = None
    checkpoint: str | None = None
    optimize_every: int | None = None
    """After how many batches small fragments are compacted; None for never."""


def take_stream_options(options: Mapping[str, str]) -> StreamOptions:
    """A stream's own options, checked. Raises InvalidOption, and Refused for upserts, which need a session."""
    given = {key.lower(): value for key, value in options.items()}
    write = {key: value for key, value in options.items() if key.lower() not in _OWN}
    mode = given.get("mode", "append").strip().lower()
    if mode not in ("append", "upsert"):
        raise InvalidOption(
            f"Option 'mode' is '{given['mode']}', but it must be append or upsert.",
            hint="To replace all rows by each batch, leave it out and write with outputMode('complete').",
        )
    key = given.get("key")
    if "path" not in given:
        raise InvalidOption(
            "No dataset was named.",
            hint="Name it in start('s3://bucket/t.lance'), which takes toTable's place. toTable('lake.ns.t') is for "
            "tables of a catalog that the session has: lance_spark.register(spark, catalog='lake', root='s3://lake').",
        )
    if mode == "upsert":
        path = given["path"]
        raise Refused(
            "A sink's tasks have no Spark session, which an upsert is computed with.",
            hint="Let foreachBatch do it, exactly once as well: df.writeStream.option('checkpointLocation', c)."
            f"foreachBatch(lance_spark.upsert_batches({path!r}, key={key or 'id'!r}, checkpoint=c)).start().",
        )
    if key is not None:
        raise InvalidOption("Option 'key' is for upserts.", hint="Leave it out: a stream appends its rows.")
    if text.to_bool("create_table", given.get("create_table", "false")):
        raise InvalidOption(
            "A stream goes on with the table it began with, so option 'create_table' cannot hold when it is restarted.",
            hint="Leave create_table out: a stream makes a table that is not there.",
        )
    every = given.get("optimize_every")
    return StreamOptions(
        write=write,
        query_id=given.get("query_id"),
        checkpoint=given.get("checkpointlocation"),
        optimize_every=None if every is None else text.to_int("optimize_every", every, minimum=1),
    )
