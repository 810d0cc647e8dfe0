"""The options that only a stream has which reads: what was typed, turned into what was meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lance_spark.errors import InvalidOption
from lance_spark.options import text

LATEST = "latest"
"""As ``starting_version``: what is committed from now on."""
_ALIASES = {
    "startingVersion": "starting_version",
    "startingTimestamp": "starting_timestamp",
    "maxFilesPerTrigger": "max_files_per_trigger",
    "maxBytesPerTrigger": "max_bytes_per_trigger",
    "maxVersionsPerTrigger": "max_versions_per_trigger",
    "skipChangeCommits": "skip_change_commits",
    "failOnDataLoss": "fail_on_data_loss",
    "checkpoint_location": "checkpointLocation",
    "readChangeFeed": "changes",
    "readChangeData": "changes",
}
STREAM_READ_OPTIONS = (
    "starting_version",
    "starting_timestamp",
    "max_files_per_trigger",
    "max_bytes_per_trigger",
    "max_versions_per_trigger",
    "changes",
    "images",
    "key",
    "skip_change_commits",
    "fail_on_data_loss",
    "query_id",
    "checkpointLocation",
)
"""Every option of a stream that a read does not have."""
_CHANGES = {
    name.lower(): name for name in ("changes", "readChangeFeed", "readChangeData", "endingVersion", "endingTimestamp")
}
"""Options that ask for changes, by their names in lower case."""
_NOT_IN_STREAMS = {
    "tag": "starting_version",
    "version": "starting_version",
    "versionasof": "starting_version",
    "asof": "starting_timestamp",
    "timestampasof": "starting_timestamp",
}


@dataclass(frozen=True)
class StreamReadOptions:
    """What a stream asks for beside what a read does."""

    starting_version: int | str | None = None
    """A version of the branch, a ref, or ``latest``; None for a snapshot of the newest version first."""
    starting_timestamp: datetime | None = None
    max_files: int | None = None
    max_bytes: int | None = None
    max_versions: int | None = None
    changes: bool = False
    """Whether the stream is a change feed."""
    images: str = "update"
    key: tuple[str, ...] = ()
    skip_change_commits: bool = False
    fail_on_data_loss: bool = True
    query_id: str | None = None
    checkpoint: str | None = None
    """Where the query's checkpoint is, for its id."""


def split_stream_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options that only streams have, under their names, and all others. Raises InvalidOption for one twice."""
    names = {name.lower(): name for name in STREAM_READ_OPTIONS}
    names.update({alias.lower(): name for alias, name in _ALIASES.items()})
    own: dict[str, str] = {}
    rest: dict[str, str] = {}
    for key, value in options.items():
        name = names.get(key.lower())
        if name is None:
            rest[key] = value
        elif name in own:
            raise InvalidOption(f"Option '{name}' is given twice, once as '{key}'.", hint=f"Give only '{name}'.")
        else:
            own[name] = value
    return own, rest


def refuse_changes(options: Mapping[str, str]) -> None:
    """Raise InvalidOption, with the call that does it, for a read of changes that is no stream, as Delta has it."""
    given = {key.lower(): value for key, value in options.items()}
    asked = next((key for key in given if key in _CHANGES), None)
    if asked is None or given[asked].strip().lower() == "false":
        return
    first = (given.get("startingversion") or given.get("starting_version") or "").strip()
    moment = given.get("startingtimestamp") or given.get("starting_timestamp")
    # Delta's first version is the first whose changes are wanted; here it is the last one before them.
    since = str(max(1, int(first) - 1)) if first.isdecimal() else "since" if moment is None else _moment(moment)
    last = given.get("endingtimestamp")
    until = given.get("endingversion") if last is None else _moment(last)
    span = since if until is None else f"{since}, {until}"
    raise InvalidOption(
        f"Option '{_CHANGES[asked]}' is not for a read, which is of one version.",
        hint=f"LanceTable.for_path(spark, path).changes({span}) is a DataFrame of what changed after that version; "
        "spark.readStream with option('changes', 'true') follows the changes.",
    )


def _moment(text: str) -> str:
    return f"datetime.fromisoformat({text!r})"


def refuse_stream_options(options: Mapping[str, str]) -> None:
    """Raise InvalidOption for an option of a stream in a read that is none."""
    refuse_changes(options)
    own, _ = split_stream_options(options)
    for name in own:
        raise InvalidOption(f"Option '{name}' is for streams.", hint="Read with spark.readStream, or leave it out.")


def parse_stream_options(own: Mapping[str, str], rest: Mapping[str, str]) -> StreamReadOptions:
    """Parse what :func:`split_stream_options` gave. Raises InvalidOption for what cannot be."""
    changes = text.to_bool("changes", own.get("changes", "false"))
    for name in rest:
        _check_rest(name.lower(), changes)
    if "starting_version" in own and "starting_timestamp" in own:
        raise InvalidOption(
            "Options 'starting_version' and 'starting_timestamp' both say where to begin.", hint="Give one of them."
        )
    skip = text.to_bool("skip_change_commits", own.get("skip_change_commits", "false"))
    if changes and skip:
        raise InvalidOption(
            "Options 'changes' and 'skip_change_commits' contradict each other.", hint="Give one of them."
        )
    for name in ("images", "key"):
        if name in own and not changes:
            raise InvalidOption(f"Option '{name}' is for the change feed.", hint="Add option('changes', 'true').")
    moment = own.get("starting_timestamp")
    return StreamReadOptions(
        starting_version=_version(own.get("starting_version")),
        starting_timestamp=None if moment is None else text.to_moment("starting_timestamp", moment),
        max_files=_number(own, "max_files_per_trigger"),
        max_bytes=text.to_bytes("max_bytes_per_trigger", own["max_bytes_per_trigger"])
        if "max_bytes_per_trigger" in own
        else None,
        max_versions=_number(own, "max_versions_per_trigger"),
        changes=changes,
        images=text.to_choice("images", own.get("images", "update"), ("update", "post", "none")),
        key=text.to_columns("key", own["key"]) if "key" in own else (),
        skip_change_commits=skip,
        fail_on_data_loss=text.to_bool("fail_on_data_loss", own.get("fail_on_data_loss", "true")),
        query_id=own.get("query_id"),
        checkpoint=own.get("checkpointLocation"),
    )


def _check_rest(name: str, changes: bool) -> None:
    if name in _NOT_IN_STREAMS:
        raise InvalidOption(
            f"Option '{name}' reads one version, and a stream goes on.",
            hint=f"Say where it begins: option('{_NOT_IN_STREAMS[name]}', ...).",
        )
    if name == "limit":
        raise InvalidOption("Option 'limit' is not for streams.", hint="max_files_per_trigger limits a batch.")
    if changes and name in ("filter", "with_row_id", "with_row_address", "blob_handling"):
        raise InvalidOption(
            f"Option '{name}' does not go with 'changes'.",
            hint="Filter the stream with where(...): a change may move a row into or out of what a filter keeps."
            if name == "filter"
            else "Leave it out.",
        )


def _number(own: Mapping[str, str], name: str) -> int | None:
    return text.to_int(name, own[name], minimum=1) if name in own else None


def _version(value: str | None) -> int | str | None:
    if value is None:
        return None
    word = value.strip()
    if word.lower() == LATEST:
        return LATEST
    try:
        int(word)
    except ValueError:
        return word
    return text.to_int("starting_version", word, minimum=1)
