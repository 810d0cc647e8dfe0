"""The options of reads, writes and streams: text in, checked values out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from lance_spark.core import options as text
from lance_spark.core.options import CATALOG_OPTIONS
from lance_spark.core.refs import RefSpec, branch_or_none, check_new_branch_name, check_tag_name
from lance_spark.errors import InvalidOption, Refused

BlobHandling = Literal["descriptions", "bytes"]

DEFAULT_SPLIT_SIZE = 128 * 2**20
"""Bytes per Spark partition: Spark's own ``maxPartitionBytes``."""

_READ_ALIASES = {"versionAsOf": "version", "timestampAsOf": "asOf"}
READ_OPTIONS = (
    "branch",
    "tag",
    "version",
    "asOf",
    "columns",
    "filter",
    "limit",
    "with_row_id",
    "with_row_address",
    "batch_size",
    "split_size",
    "blob_handling",
)
"""Every option of a read except ``path``, a catalog's options and ``storage.<key>``."""


@dataclass(frozen=True)
class ReadOptions:
    """A read's request; each field is checked on its own, none against a dataset."""

    ref: RefSpec = field(default_factory=RefSpec)
    columns: tuple[str, ...] | None = None
    """Column paths to read; None for all."""
    filter: str | None = None
    limit: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    batch_size: int | None = None
    """Rows per Arrow batch; if None, the reader chooses by bytes."""
    split_size: int = DEFAULT_SPLIT_SIZE
    blob_handling: BlobHandling = "descriptions"


def parse_read_options(options: Mapping[str, str]) -> ReadOptions:
    """Read options from text. Raises InvalidOption for unknown, malformed and contradictory ones."""
    refuse_changes(options)
    text.check_known(options, [*READ_OPTIONS, *_READ_ALIASES], "reading", CATALOG_OPTIONS, STREAM_READ_OPTIONS)
    given = _without_aliases(options)
    columns = given.get("columns")
    limit = given.get("limit")
    batch_size = given.get("batch_size")
    return ReadOptions(
        ref=parse_ref(given),
        columns=None if columns is None else text.to_columns("columns", columns),
        filter=_predicate(given.get("filter")),
        limit=None if limit is None else text.to_int("limit", limit),
        with_row_id=text.to_bool("with_row_id", given.get("with_row_id", "false")),
        with_row_address=text.to_bool("with_row_address", given.get("with_row_address", "false")),
        batch_size=None if batch_size is None else text.to_int("batch_size", batch_size, minimum=1),
        split_size=text.to_bytes("split_size", given.get("split_size", str(DEFAULT_SPLIT_SIZE))),
        blob_handling=_blob_handling(given.get("blob_handling", "descriptions")),
    )


def parse_ref(given: Mapping[str, str]) -> RefSpec:
    """The ref among the options ``branch``, ``tag``, ``version`` and ``asOf``; refuses two at once."""
    tag, version, as_of = given.get("tag"), given.get("version"), given.get("asOf")
    others = [name for name in ("branch", "version", "asOf") if name in given]
    if tag is not None and others:
        raise InvalidOption(
            f"Option 'tag' names one version of one branch; it cannot be combined with '{others[0]}'.",
            hint=f"Give either 'tag' or '{others[0]}'.",
        )
    if version is not None and as_of is not None:
        raise InvalidOption("Options 'version' and 'asOf' both choose a version.", hint="Give one of them.")
    if tag is not None:
        check_tag_name(tag)
    return RefSpec(
        branch=branch_or_none(given.get("branch")),
        tag=tag,
        version=None if version is None else text.to_int("version", version, minimum=1),
        as_of=None if as_of is None else text.to_moment("asOf", as_of),
    )


def _without_aliases(options: Mapping[str, str]) -> dict[str, str]:
    """Options under their canonical names; refuses a value given under two names."""
    names = {name.lower(): name for name in READ_OPTIONS}
    names.update({alias.lower(): name for alias, name in _READ_ALIASES.items()})
    given: dict[str, str] = {}
    for key, value in options.items():
        name = names[key.lower()]
        if name in given:
            raise InvalidOption(f"Option '{name}' is given twice, once as '{key}'.", hint=f"Give only '{name}'.")
        given[name] = value
    return given


def _predicate(value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise InvalidOption("Option 'filter' is empty.", hint="Leave it out, or give a predicate such as id > 5.")
    if value is not None and not _has_its_brackets(value):
        # pylance reads up to there and drops the rest; combined with other filters the rest would come back.
        raise InvalidOption(
            f"Option 'filter' is {value!r}, which closes a parenthesis that it did not open.",
            hint="Balance the parentheses; quote text as 'text'.",
        )
    return value


def _has_its_brackets(text: str) -> bool:
    """Whether each closed bracket was opened; brackets in quotes do not count."""
    depth = 0
    for token in re.findall(r"""'[^']*'|"[^"]*"|`[^`]*`|[()]""", text):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth < 0:
            return False
    return True


def _blob_handling(value: str) -> BlobHandling:
    word = text.to_choice("blob_handling", value, ("descriptions", "bytes"))
    return "bytes" if word == "bytes" else "descriptions"


# --- The options of a write

WRITE_OPTIONS = (
    "branch",
    "create_table",
    "create_branch",
    "from_branch",
    "from_tag",
    "from_version",
    "max_rows_per_file",
    "max_bytes_per_file",
    "data_storage_version",
    "enable_stable_row_ids",
    "commit_message",
    "overwrite_schema",
    "merge_schema",
)
"""Every option of a write except ``path``, a catalog's options and ``storage.<key>``."""

_WRITE_ALIASES = {"mergeSchema": "merge_schema", "overwriteSchema": "overwrite_schema"}
"""Delta's spellings of options."""

FILE_FORMATS = ("0.1", "2.0", "2.1", "2.2", "2.3", "legacy", "stable", "next")
"""File formats that pylance writes, and its names for the oldest, the recommended and the newest."""

_IMMUTABLE = {
    "tag": "a tag",
    "version": "a version",
    "versionasof": "a version",
    "asof": "a past moment",
    "timestampasof": "a past moment",
}


@dataclass(frozen=True)
class FileOptions:
    """Settings of new data files."""

    max_rows_per_file: int | None = None
    max_bytes_per_file: int | None = None
    data_storage_version: str | None = None


@dataclass(frozen=True)
class WriteOptions:
    """A write's request; each field is checked on its own, none against a dataset."""

    branch: str | None = None
    """Branch to write to; None for main."""
    create_from: RefSpec | None = None
    """Starting point of the branch to create first; None if the branch must exist."""
    files: FileOptions = FileOptions()
    enable_stable_row_ids: bool | None = None
    commit_message: str | None = None
    create_table: bool = False
    """Whether the dataset must not exist yet: Spark rejects the save mode for that."""
    overwrite_schema: bool = True
    """Whether an overwrite replaces the dataset's columns by the DataFrame's, or only its rows."""
    merge_schema: bool = False
    """Whether an append adds the DataFrame's new columns to the dataset's, and widens types without loss."""


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Write options from text. Raises InvalidOption, and Refused for writing to a tag or a version."""
    for key in options:
        if what := _IMMUTABLE.get(key.lower()):
            raise cannot_change(what)
    _answer_replace_where(options)
    text.check_known(options, [*WRITE_OPTIONS, *_WRITE_ALIASES], "writing", CATALOG_OPTIONS, STREAM_WRITE_OPTIONS)
    given = _without_write_aliases(options)
    stable = given.get("enable_stable_row_ids")
    branch = branch_or_none(given.get("branch"))
    return WriteOptions(
        branch=branch,
        create_from=_create_from(given, branch),
        files=_file_options(given),
        enable_stable_row_ids=None if stable is None else text.to_bool("enable_stable_row_ids", stable),
        commit_message=given.get("commit_message"),
        create_table=_create_table(given, branch),
        overwrite_schema=text.to_bool("overwrite_schema", given.get("overwrite_schema", "true")),
        merge_schema=text.to_bool("merge_schema", given.get("merge_schema", "false")),
    )


def cannot_change(what: str) -> Refused:
    """The error for a write to something immutable: ``a tag``, ``a version``."""
    return Refused(
        f"Cannot write to {what}: versions and tags never change.",
        hint="Write to a branch made from it: option('branch', 'name'), option('create_branch', 'true') "
        "and option('from_tag', ...) or option('from_version', ...).",
    )


def _answer_replace_where(options: Mapping[str, str]) -> None:
    """Raise InvalidOption for Delta's option, and name the replacement: deletion and append must be one commit."""
    for key, value in options.items():
        if key.lower() in ("replacewhere", "replace_where"):
            raise InvalidOption(
                "Spark cannot write with option 'replaceWhere': it does not see the rows in the dataset.",
                hint="LanceTable.for_path(spark, path)"
                f".write(df, mode='overwrite', replace_where={value!r}) replaces those rows in one version.",
            )


def _without_write_aliases(options: Mapping[str, str]) -> dict[str, str]:
    """Options under their lower-case names; refuses a value given under two names."""
    names = {alias.lower(): name for alias, name in _WRITE_ALIASES.items()}
    given: dict[str, str] = {}
    for key, value in options.items():
        name = names.get(key.lower(), key.lower())
        if name in given:
            raise InvalidOption(f"Option '{name}' is given twice, once as '{key}'.", hint=f"Give only '{name}'.")
        given[name] = value
    return given


def _create_table(given: Mapping[str, str], branch: str | None) -> bool:
    create = text.to_bool("create_table", given.get("create_table", "false"))
    if create and branch is not None:
        raise InvalidOption(
            f"Option 'create_table' makes a new table, which has no branch '{branch}'.",
            hint="Leave 'branch' out; or leave 'create_table' out, to write to an existing table.",
        )
    return create


def _create_from(given: Mapping[str, str], branch: str | None) -> RefSpec | None:
    create = text.to_bool("create_branch", given.get("create_branch", "false"))
    sources = [name for name in ("from_branch", "from_tag", "from_version") if name in given]
    if not create:
        if sources:
            raise InvalidOption(
                f"Option '{sources[0]}' says where a new branch starts, but no branch is created.",
                hint="Add option('create_branch', 'true').",
            )
        return None
    if branch is None:
        raise InvalidOption("Option 'create_branch' needs the new branch's name.", hint="Add option('branch', 'name').")
    check_new_branch_name(branch)
    tag, version = given.get("from_tag"), given.get("from_version")
    if tag is not None and len(sources) > 1:
        raise InvalidOption("Option 'from_tag' cannot be combined with 'from_branch' or 'from_version'.")
    if tag is not None:
        check_tag_name(tag)
    return RefSpec(
        branch=branch_or_none(given.get("from_branch")),
        tag=tag,
        version=None if version is None else text.to_int("from_version", version, minimum=1),
    )


def _file_options(given: Mapping[str, str]) -> FileOptions:
    rows, size = given.get("max_rows_per_file"), given.get("max_bytes_per_file")
    version = given.get("data_storage_version")
    return FileOptions(
        max_rows_per_file=None if rows is None else text.to_int("max_rows_per_file", rows, minimum=1),
        max_bytes_per_file=None if size is None else text.to_bytes("max_bytes_per_file", size),
        data_storage_version=None if version is None else text.to_choice("data_storage_version", version, FILE_FORMATS),
    )


# --- The options of a stream into a branch

STREAM_WRITE_OPTIONS = ("query_id", "checkpointLocation", "queryName", "mode", "key", "optimize_every")
"""Every option of a stream that a write does not have. ``checkpointLocation`` and ``queryName`` are Spark's."""
_OWN = frozenset(name.lower() for name in STREAM_WRITE_OPTIONS)
NEW_BRANCH = ("create_branch", "from_branch", "from_tag", "from_version")


@dataclass(frozen=True)
class StreamOptions:
    """A stream's request, beyond that of a write."""

    write: Mapping[str, str]
    """The options of the write."""
    query_id: str | None = None
    checkpoint: str | None = None
    optimize_every: int | None = None
    """Number of batches after which small fragments are compacted; None for never."""


def take_stream_options(options: Mapping[str, str]) -> StreamOptions:
    """A stream's own options, checked. Raises InvalidOption, and Refused for upserts, which need a session."""
    given = {key.lower(): value for key, value in options.items()}
    write = {key: value for key, value in options.items() if key.lower() not in _OWN}
    mode = given.get("mode", "append").strip().lower()
    if mode not in ("append", "upsert"):
        raise InvalidOption(
            f"Option 'mode' is '{given['mode']}', but it must be append or upsert.",
            hint="To replace all rows with each batch, leave it out and write with outputMode('complete').",
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
            "An upsert needs a Spark session, and a sink's tasks have none.",
            hint="Use foreachBatch, also exactly once: df.writeStream.option('checkpointLocation', c)."
            f"foreachBatch(lance_spark.upsert_batches({path!r}, key={key or 'id'!r}, checkpoint=c)).start().",
        )
    if key is not None:
        raise InvalidOption("Option 'key' is for upserts.", hint="Leave it out: a stream appends its rows.")
    if text.to_bool("create_table", given.get("create_table", "false")):
        raise InvalidOption(
            "A stream continues with its table, so it could not restart with option 'create_table'.",
            hint="Leave create_table out: a stream creates a missing table.",
        )
    every = given.get("optimize_every")
    return StreamOptions(
        write=write,
        query_id=given.get("query_id"),
        checkpoint=given.get("checkpointlocation"),
        optimize_every=None if every is None else text.to_int("optimize_every", every, minimum=1),
    )


# --- The options of a stream that reads

LATEST = "latest"
"""As ``starting_version``: only later commits."""
_STREAM_ALIASES = {
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
    """A stream's request, beyond that of a read."""

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
    """The query's checkpoint, which holds its id."""


def split_stream_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options that only streams have, under their names, and all others. Raises InvalidOption for a duplicate."""
    names = {name.lower(): name for name in STREAM_READ_OPTIONS}
    names.update({alias.lower(): name for alias, name in _STREAM_ALIASES.items()})
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
    """Raise InvalidOption, naming the right call, for a batch read of changes, as Delta has it."""
    given = {key.lower(): value for key, value in options.items()}
    asked = next((key for key in given if key in _CHANGES), None)
    if asked is None or given[asked].strip().lower() == "false":
        return
    first = (given.get("startingversion") or given.get("starting_version") or "").strip()
    moment = given.get("startingtimestamp") or given.get("starting_timestamp")
    # Delta's starting version is the first one included; here it is the last one excluded.
    since = str(max(1, int(first) - 1)) if first.isdecimal() else "since" if moment is None else _moment(moment)
    last = given.get("endingtimestamp")
    until = given.get("endingversion") if last is None else _moment(last)
    span = since if until is None else f"{since}, {until}"
    raise InvalidOption(
        f"Option '{_CHANGES[asked]}' does not apply to a read, which covers one version.",
        hint=f"LanceTable.for_path(spark, path).changes({span}) is a DataFrame of what changed after that version; "
        "spark.readStream with option('changes', 'true') follows the changes.",
    )


def _moment(text: str) -> str:
    return f"datetime.fromisoformat({text!r})"


def refuse_stream_options(options: Mapping[str, str]) -> None:
    """Raise InvalidOption for a stream's option in a batch read."""
    refuse_changes(options)
    own, _ = split_stream_options(options)
    for name in own:
        raise InvalidOption(f"Option '{name}' is for streams.", hint="Read with spark.readStream, or leave it out.")


def parse_stream_options(own: Mapping[str, str], rest: Mapping[str, str]) -> StreamReadOptions:
    """Parse the result of :func:`split_stream_options`. Raises InvalidOption for invalid values."""
    changes = text.to_bool("changes", own.get("changes", "false"))
    for name in rest:
        _check_rest(name.lower(), changes)
    if "starting_version" in own and "starting_timestamp" in own:
        raise InvalidOption(
            "Options 'starting_version' and 'starting_timestamp' both choose where to begin.", hint="Give one of them."
        )
    skip = text.to_bool("skip_change_commits", own.get("skip_change_commits", "false"))
    if changes and skip:
        raise InvalidOption(
            "Options 'changes' and 'skip_change_commits' contradict each other.", hint="Give one of them."
        )
    for name in ("images", "key"):
        if name in own and not changes:
            raise InvalidOption(f"Option '{name}' is only for the change feed.", hint="Add option('changes', 'true').")
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
            f"Option '{name}' reads one version, but a stream continues.",
            hint=f"Choose where it begins: option('{_NOT_IN_STREAMS[name]}', ...).",
        )
    if name == "limit":
        raise InvalidOption("Option 'limit' is not for streams.", hint="max_files_per_trigger limits a batch.")
    if changes and name in ("filter", "with_row_id", "with_row_address", "blob_handling"):
        raise InvalidOption(
            f"Option '{name}' cannot be combined with 'changes'.",
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
