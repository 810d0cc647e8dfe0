"""The options of reads, writes and streams: text in, checked values out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from lance_spark.core.catalog_options import CATALOG_OPTIONS
from lance_spark.core.declared import by_key, declared, keyed_values, source_option
from lance_spark.core.isolation import STATEMENT, Statement, isolation_level, parse_statement
from lance_spark.core.options import check_known, folded, has_offset, to_bool, to_bytes, to_columns, to_int
from lance_spark.core.ref_names import branch_or_none, check_new_branch_name, check_tag_name
from lance_spark.core.refs import RefSpec
from lance_spark.errors import InvalidOption, Refused

BlobHandling = Literal["descriptions", "bytes"]

DEFAULT_SPLIT_SIZE = 128 * 2**20
"""Bytes per Spark partition: Spark's own ``maxPartitionBytes``."""


def _same(*words: str) -> dict[str, str]:
    return {word: word for word in words}


def _spellings(*kinds: type) -> tuple[str, ...]:
    return tuple(name for each in declared(*kinds) for name in (each.key, *each.spelling.aliases))


def _keys(*kinds: type) -> tuple[str, ...]:
    return tuple(each.key for each in declared(*kinds))


def _branch(_: str, name: str) -> str | None:
    return branch_or_none(name)


def _predicate(name: str, value: str) -> str:
    if not value.strip():
        raise InvalidOption(f"Option '{name}' is empty.", hint="Leave it out, or give a predicate such as id > 5.")
    if not _has_its_brackets(value):
        # pylance reads up to there and drops the rest; combined with other filters the rest would come back.
        raise InvalidOption(
            f"Option '{name}' is {value!r}, which closes a parenthesis that it did not open.",
            hint="Balance the parentheses; quote text as 'text'.",
        )
    return value


def _has_its_brackets(value: str) -> bool:
    """Whether each closed bracket was opened; brackets in quotes do not count."""
    depth = 0
    for token in re.findall(r"""'[^']*'|"[^"]*"|`[^`]*`|[()]""", value):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth < 0:
            return False
    return True


@dataclass(frozen=True)
class RefOptions:
    branch: str | None = source_option(None, "branch name; main if absent", parse=_branch)
    tag: str | None = source_option(None, "tag name; excludes `branch`, `version` and `asOf`")
    version: int | None = source_option(None, "version number on that branch", aliases=("versionAsOf",))
    as_of: datetime | None = source_option(
        None,
        "newest version of that branch committed at or before an ISO 8601 timestamp; without an offset, in the "
        "session's time zone",
        key="asOf",
        aliases=("timestampAsOf",),
    )


_MOMENTS = {"asof", "timestampasof"}


def local_moment(options: Mapping[str, str]) -> str | None:
    """The key of the option that names a moment without an offset from UTC; None if there is none."""
    return next((key for key in options if folded(key) in _MOMENTS and not has_offset(options[key])), None)


def refuse_local_moment(options: Mapping[str, str]) -> None:
    """Raise InvalidOption for a moment without an offset, where nobody knows the session's time zone."""
    key = local_moment(options)
    if key is not None:
        moment = options[key].strip()
        raise InvalidOption(
            f"Option '{key}' is {moment!r}, without an offset from UTC, and the plain data source does not know the "
            "session's time zone.",
            hint=f"Add the offset: {moment + ('' if len(moment) > len('2026-01-31') else 'T00:00:00')}Z for UTC, or "
            "+01:00 in place of the Z.",
        )


@dataclass(frozen=True)
class ReadOptions:
    """A read's request; each field is checked on its own, none against a dataset."""

    ref: RefSpec = field(default_factory=RefSpec)
    columns: tuple[str, ...] | None = source_option(
        None,
        "comma-separated; nested fields with dots, unusual names in backticks; only these columns cross into Spark",
        parse=to_columns,
    )
    filter: str | None = source_option(
        None, "a Lance SQL predicate evaluated inside the scan, so that it uses scalar indexes", parse=_predicate
    )
    limit: int | None = source_option(None, "stop after this many rows", parse=to_int)
    with_row_id: bool = source_option(False, "whether to add `_rowid` (bigint)")
    with_row_address: bool = source_option(False, "whether to add `_rowaddr` (bigint)")
    batch_size: int | None = source_option(None, "rows per Arrow batch; by default chosen by bytes, at most 65,536")
    split_size: int = source_option(
        DEFAULT_SPLIT_SIZE,
        "bytes that one Spark partition should read, such as `64MiB`; less if cores would be idle",
        parse=to_bytes,
    )
    blob_handling: BlobHandling = source_option(
        "descriptions", "what blob columns give: `descriptions` or `bytes`", choices=_same("descriptions", "bytes")
    )


READ_OPTIONS = _keys(RefOptions, ReadOptions)
"""Every option of a read except ``path``, a catalog's options and ``storage.<key>``."""


def parse_read_options(options: Mapping[str, str]) -> ReadOptions:
    """Read options from text. Raises InvalidOption for unknown, malformed and contradictory ones."""
    refuse_changes(options)
    known = _spellings(RefOptions, ReadOptions)
    check_known(options, known, "reading", CATALOG_OPTIONS, STREAM_READ_OPTIONS)
    given, _ = by_key(declared(RefOptions, ReadOptions), options)
    return ReadOptions(ref=parse_ref(given), **keyed_values(declared(ReadOptions), given))


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
    return RefSpec(**keyed_values(declared(RefOptions), given))


# --- The options of a write

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
class NewBranchOptions:
    """The options that create a branch before the write."""

    create_branch: bool = source_option(
        False, "`true` creates the branch first, from the newest version of main, or from ..."
    )
    from_branch: str | None = source_option(
        None, "... the newest version of this branch, or its `from_version`", parse=_branch
    )
    from_version: int | None = source_option(
        None, "... this version of `from_branch` (main if you only give a version)"
    )
    from_tag: str | None = source_option(None, "... the version that a tag points at")


@dataclass(frozen=True)
class FileOptions:
    max_rows_per_file: int | None = source_option(None, "rows after which a new data file begins")
    max_bytes_per_file: int | None = source_option(
        None, "bytes after which a new data file begins, such as `1g`", parse=to_bytes
    )
    data_storage_version: str | None = source_option(
        None, "file format of a new dataset, such as `2.1`", choices=_same(*FILE_FORMATS)
    )


@dataclass(frozen=True)
class WriteOptions:
    """A write's request; each field is checked on its own, none against a dataset."""

    branch: str | None = source_option(None, "branch to write to; main if absent", parse=_branch)
    create_from: RefSpec | None = None
    """Starting point of the branch to create first; None if the branch must exist."""
    files: FileOptions = FileOptions()
    enable_stable_row_ids: bool | None = source_option(
        None, "`true`: rows of a new dataset keep their ids when it is compacted"
    )
    commit_message: str | None = source_option(None, "stored in the version's transaction")
    create_table: bool = source_option(
        False, "`true`: the table must not exist yet; other sources call this `errorifexists`"
    )
    overwrite_schema: bool = source_option(
        True,
        "`false`: an overwrite replaces the rows and keeps the dataset's columns and types",
        aliases=("overwriteSchema",),
    )
    merge_schema: bool = source_option(
        False,
        "`true`: an append [adds new columns and widens types](changing-columns.md#appending-rows-with-other-columns)",
        aliases=("mergeSchema",),
    )
    isolation_level: str | None = source_option(
        None,
        "`serializable`: rows that others commit since the write began, or since `validate_from_version`, are a "
        "`Conflict`; the table's property of that name is the default",
        parse=lambda _, value: isolation_level(value),
    )
    validate_from_version: int | None = source_option(
        None,
        "the version of the branch from which the DataFrame was read: what others committed since then counts as "
        "committed during the write",
    )
    partition_by: str | None = source_option(
        None,
        "of a new table: what [divides its fragments](layout.md), such as `days(ts), bucket(16, id)`",
        aliases=("partitionBy",),
    )
    cluster_by: str | None = source_option(
        None,
        "of a new table: the columns by which its rows are [sorted](layout.md), such as `carrier, origin`",
        aliases=("clusterBy",),
    )
    external_blob_mode: Literal["reference", "ingest"] = source_option(
        "reference",
        "what blob columns store of [URIs](blobs-elsewhere.md): `reference` the URIs, `ingest` the objects' bytes",
        aliases=("externalBlobMode",),
        choices=_same("reference", "ingest"),
    )
    partition_overwrite_mode: Literal["static", "dynamic"] = source_option(
        "static",
        "`dynamic`: an overwrite of a table with [partitions](layout.md) replaces only those of the new rows",
        aliases=("partitionOverwriteMode",),
        choices=_same("static", "dynamic"),
    )
    statement: Statement | None = None
    """What Spark's planner knows of the statement, if it tells."""
    replaces: str | None = None
    """The rows that the new ones replace, as a predicate in Lance's SQL, if Spark's planner tells."""


REPLACES = "lance_spark.replaces"
"""Option by which Spark's planner tells that predicate."""
_WRITE = (WriteOptions, NewBranchOptions, FileOptions)
WRITE_OPTIONS = _keys(*_WRITE)
"""Every option of a write except ``path``, a catalog's options and ``storage.<key>``."""


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Write options from text. Raises InvalidOption, and Refused for writing to a tag or a version."""
    for key in options:
        if what := _IMMUTABLE.get(folded(key)):
            raise cannot_change(what)
    answer_replace_where(options)
    told, replaces = options.get(STATEMENT), options.get(REPLACES)
    options = {key: value for key, value in options.items() if key not in (STATEMENT, REPLACES)}
    check_known(options, _spellings(*_WRITE), "writing", CATALOG_OPTIONS, STREAM_WRITE_OPTIONS)
    given, _ = by_key(declared(*_WRITE), options)
    found = WriteOptions(
        statement=None if told is None else parse_statement(told),
        replaces=replaces,
        files=FileOptions(**keyed_values(declared(FileOptions), given)),
        **keyed_values(declared(WriteOptions), given),
    )
    if found.create_table and found.branch is not None:
        raise InvalidOption(
            f"Option 'create_table' makes a new table, which has no branch '{found.branch}'.",
            hint="Leave 'branch' out; or leave 'create_table' out, to write to an existing table.",
        )
    return replace(found, create_from=_create_from(given, found.branch))


def cannot_change(what: str) -> Refused:
    """The error for a write to something immutable: ``a tag``, ``a version``."""
    return Refused(
        f"Cannot write to {what}: versions and tags never change.",
        hint="Write to a branch made from it: option('branch', 'name'), option('create_branch', 'true') "
        "and option('from_tag', ...) or option('from_version', ...).",
    )


def answer_replace_where(options: Mapping[str, object]) -> None:
    """Raise InvalidOption for Delta's option, and name the replacement: deletion and append must be one commit."""
    for key, value in options.items():
        if folded(key) == "replacewhere":
            raise InvalidOption(
                f"A write does not take '{key}': Spark does not see the rows in the dataset.",
                hint=f"LanceTable.for_path(path).overwrite(df, where={value!r}) replaces those rows in one version.",
            )


def _create_from(given: Mapping[str, str], branch: str | None) -> RefSpec | None:
    new = NewBranchOptions(**keyed_values(declared(NewBranchOptions), given))
    sources = [name for name in ("from_branch", "from_tag", "from_version") if name in given]
    if not new.create_branch:
        if sources:
            raise InvalidOption(
                f"Option '{sources[0]}' says where a new branch starts, but no branch is created.",
                hint="Add option('create_branch', 'true').",
            )
        return None
    if branch is None:
        raise InvalidOption("Option 'create_branch' needs the new branch's name.", hint="Add option('branch', 'name').")
    check_new_branch_name(branch)
    if new.from_tag is not None:
        if len(sources) > 1:
            raise InvalidOption("Option 'from_tag' cannot be combined with 'from_branch' or 'from_version'.")
        check_tag_name(new.from_tag)
    return RefSpec(branch=new.from_branch, tag=new.from_tag, version=new.from_version)


# --- The options of a stream into a branch

NEW_BRANCH = frozenset(map(folded, _keys(NewBranchOptions)))
"""Options that create a branch, :func:`folded`."""


@dataclass(frozen=True)
class StreamOptions:
    """A stream's request, beyond that of a write."""

    write: Mapping[str, str] = field(default_factory=dict)
    query_id: str | None = source_option(
        None,
        "your own id in place of the checkpoint's, for a checkpoint that the driver's Python cannot read; use another "
        "one for each checkpoint",
    )
    checkpoint: str | None = source_option(
        None,
        "where Spark keeps the query's progress; its file `metadata` contains the query's id",
        key="checkpointLocation",
    )
    optimize_every: int | None = source_option(
        None,
        "after this number of batches, compact the small fragments at the end of the branch, before the next batch, "
        "at most 1 GiB of them; not in `complete` mode, where each batch replaces them",
    )


_ANSWERED = ("queryName", "mode", "key")
"""Options of a stream that change nothing: Spark's own, and those of an upsert, which is refused."""
STREAM_WRITE_OPTIONS = (*_keys(StreamOptions), *_ANSWERED)
"""Every option of a stream that a write does not have."""


def take_stream_options(options: Mapping[str, str]) -> StreamOptions:
    """A stream's own options, checked. Raises InvalidOption, and Refused for upserts, which need a session."""
    given = {folded(key): value for key, value in options.items()}
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
            f"foreachBatch(LanceTable.for_path({path!r}).streams.upsert(key={key or 'id'!r}, checkpoint=c)).start().",
        )
    if key is not None:
        raise InvalidOption("Option 'key' is for upserts.", hint="Leave it out: a stream appends its rows.")
    if to_bool("create_table", given.get("createtable", "false")):
        raise InvalidOption(
            "A stream continues with its table, so it could not restart with option 'create_table'.",
            hint="Leave create_table out: a stream creates a missing table.",
        )
    own, rest = by_key(declared(StreamOptions), options)
    answered = {folded(name) for name in _ANSWERED}
    write = {name: value for name, value in rest.items() if folded(name) not in answered}
    return StreamOptions(write, **keyed_values(declared(StreamOptions), own))


# --- The options of a stream that reads

LATEST = "latest"
"""As ``starting_version``: only later commits."""


def _version(name: str, value: str) -> int | str:
    word = value.strip()
    if word.lower() == LATEST:
        return LATEST
    try:
        int(word)
    except ValueError:
        return word
    return to_int(name, word, minimum=1)


_CHANGES = {
    folded(name): name for name in ("changes", "readChangeFeed", "readChangeData", "endingVersion", "endingTimestamp")
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

    starting_version: int | str | None = source_option(
        None,
        "the stream begins with what this version of the branch changed, or with a tag, `branch@7` or `latest`; "
        "without it with all rows of the newest version",
        aliases=("startingVersion",),
        parse=_version,
    )
    starting_timestamp: datetime | None = source_option(
        None, "the stream begins with the commits after that moment", aliases=("startingTimestamp",)
    )
    max_files: int | None = source_option(
        None,
        "a batch reads at most this number of fragments",
        key="max_files_per_trigger",
        aliases=("maxFilesPerTrigger",),
    )
    max_bytes: int | None = source_option(
        None,
        "a batch reads at most this number of bytes, such as `512m`, by the sizes of data files",
        key="max_bytes_per_trigger",
        aliases=("maxBytesPerTrigger",),
        parse=to_bytes,
    )
    max_versions: int | None = source_option(
        None,
        "a batch reads at most the changes of this number of versions; those without rows for the stream do not count",
        key="max_versions_per_trigger",
        aliases=("maxVersionsPerTrigger",),
    )
    changes: bool = source_option(
        False, "`true`: the stream is a change feed", aliases=("readChangeFeed", "readChangeData")
    )
    images: str = source_option(
        "update", "of a change feed: which images of changed rows it has", choices=_same("update", "post", "none")
    )
    key: tuple[str, ...] = source_option((), "of a change feed: columns that identify a row", parse=to_columns)
    skip_change_commits: bool = source_option(
        False,
        "`true` leaves out commits that change rows, which are an error otherwise",
        aliases=("skipChangeCommits",),
    )
    fail_on_data_loss: bool = source_option(
        True, "`false` goes on with what is left of versions that are gone", aliases=("failOnDataLoss",)
    )
    query_id: str | None = source_option(
        None, "your own name for the query; a tag of that name keeps what it has to read"
    )
    checkpoint: str | None = source_option(
        None,
        "the query's checkpoint, which contains its id; give it here as well as to `writeStream`",
        key="checkpointLocation",
        aliases=("checkpoint_location",),
    )


STREAM_READ_OPTIONS = _keys(StreamReadOptions)
"""Every option of a stream that a read does not have."""


def split_stream_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options that only streams have, under their names, and all others. Raises InvalidOption for a duplicate."""
    return by_key(declared(StreamReadOptions), options)


def refuse_changes(options: Mapping[str, str]) -> None:
    """Raise InvalidOption, naming the right call, for a batch read of changes, as Delta has it."""
    given = {folded(key): value for key, value in options.items()}
    asked = next((key for key in given if key in _CHANGES), None)
    if asked is None or given[asked].strip().lower() == "false":
        return
    first = given.get("startingversion", "").strip()
    moment = given.get("startingtimestamp")
    # Delta's starting version is the first one included; here it is the last one excluded.
    since = str(max(1, int(first) - 1)) if first.isdecimal() else "since" if moment is None else _moment(moment)
    last = given.get("endingtimestamp")
    until = given.get("endingversion") if last is None else _moment(last)
    span = since if until is None else f"{since}, {until}"
    raise InvalidOption(
        f"Option '{_CHANGES[asked]}' does not apply to a read, which covers one version.",
        hint=f"LanceTable.for_path(path).changes({span}) is a DataFrame of what changed after that version; "
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
    found = StreamReadOptions(**keyed_values(declared(StreamReadOptions), own))
    for name in rest:
        _check_rest(name, found.changes)
    if "starting_version" in own and "starting_timestamp" in own:
        raise InvalidOption(
            "Options 'starting_version' and 'starting_timestamp' both choose where to begin.", hint="Give one of them."
        )
    if found.changes and found.skip_change_commits:
        raise InvalidOption(
            "Options 'changes' and 'skip_change_commits' contradict each other.", hint="Give one of them."
        )
    for name in ("images", "key"):
        if name in own and not found.changes:
            raise InvalidOption(f"Option '{name}' is only for the change feed.", hint="Add option('changes', 'true').")
    return found


def refuse_travel(options: Iterable[str]) -> None:
    """Raise InvalidOption for an option that names one version, among those of a stream."""
    for name in options:
        _check_rest(name, False)


def _check_rest(name: str, changes: bool) -> None:
    if folded(name) in _NOT_IN_STREAMS:
        raise InvalidOption(
            f"Option '{name}' reads one version, but a stream continues.",
            hint=f"Choose where it begins: option('{_NOT_IN_STREAMS[folded(name)]}', ...).",
        )
    if folded(name) == "limit":
        raise InvalidOption("Option 'limit' is not for streams.", hint="max_files_per_trigger limits a batch.")
    if changes and folded(name) in ("filter", "withrowid", "withrowaddress", "blobhandling"):
        raise InvalidOption(
            f"Option '{name}' cannot be combined with 'changes'.",
            hint="Filter the stream with where(...): a change may move a row into or out of what a filter keeps."
            if name == "filter"
            else "Leave it out.",
        )
