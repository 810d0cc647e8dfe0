"""The options of a write: what was typed, turned into what was meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.errors import InvalidOption, Refused
from lance_spark.options import text
from lance_spark.options.catalog import CATALOG_OPTIONS
from lance_spark.options.stream import STREAM_WRITE_OPTIONS
from lance_spark.refs.model import RefSpec
from lance_spark.refs.names import branch_or_none, check_new_branch_name, check_tag_name

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
"""Every option of a write except for ``path``, a catalog's and ``storage.<key>``."""

_ALIASES = {"mergeSchema": "merge_schema", "overwriteSchema": "overwrite_schema"}
"""What Delta's users type."""

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
    """How data files are written."""

    max_rows_per_file: int | None = None
    max_bytes_per_file: int | None = None
    data_storage_version: str | None = None


@dataclass(frozen=True)
class WriteOptions:
    """What a write asks for; all fields are checked on their own, none against a dataset."""

    branch: str | None = None
    """Branch to write to; None for main."""
    create_from: RefSpec | None = None
    """Where to create the branch from first; None when it must exist."""
    files: FileOptions = FileOptions()
    enable_stable_row_ids: bool | None = None
    commit_message: str | None = None
    create_table: bool = False
    """Whether there must be nothing yet: Spark refuses the save mode that says so."""
    overwrite_schema: bool = True
    """Whether an overwrite takes the DataFrame's columns for the dataset's, or only replaces its rows."""
    merge_schema: bool = False
    """Whether an append adds the DataFrame's new columns to the dataset's, and widens types where nothing is lost."""


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Write options from text. Raises InvalidOption, and Refused for writing to a tag or a version."""
    for key in options:
        if what := _IMMUTABLE.get(key.lower()):
            raise cannot_change(what)
    _answer_replace_where(options)
    text.check_known(options, [*WRITE_OPTIONS, *_ALIASES], "writing", CATALOG_OPTIONS, STREAM_WRITE_OPTIONS)
    given = _without_aliases(options)
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
    """What to raise for a write to what never changes: ``a tag``, ``a version``."""
    return Refused(
        f"Cannot write to {what}: versions and tags never change.",
        hint="Write to a branch made from it: option('branch', 'name'), option('create_branch', 'true') "
        "and option('from_tag', ...) or option('from_version', ...).",
    )


def _answer_replace_where(options: Mapping[str, str]) -> None:
    """Raise InvalidOption for Delta's option, with what does the same: deletion and append have to be one commit."""
    for key, value in options.items():
        if key.lower() in ("replacewhere", "replace_where"):
            raise InvalidOption(
                "Option 'replaceWhere' is not one of a write by Spark, which cannot see the rows that are there.",
                hint="LanceTable.for_path(spark, path)"
                f".write(df, mode='overwrite', replace_where={value!r}) replaces those rows in one version.",
            )


def _without_aliases(options: Mapping[str, str]) -> dict[str, str]:
    """Options by their names in lower case; refuses one value given under two names."""
    names = {alias.lower(): name for alias, name in _ALIASES.items()}
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
            hint="Leave 'branch' out; or leave 'create_table' out, to write to a table that is there.",
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
