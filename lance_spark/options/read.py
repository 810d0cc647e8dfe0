"""The options of a read: what was typed, turned into what was meant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lance_spark.errors import InvalidOption
from lance_spark.options import text
from lance_spark.options.catalog import CATALOG_OPTIONS
from lance_spark.options.stream_read import STREAM_READ_OPTIONS, refuse_changes
from lance_spark.refs.model import RefSpec
from lance_spark.refs.names import branch_or_none, check_tag_name

BlobHandling = Literal["descriptions", "bytes"]

DEFAULT_SPLIT_SIZE = 128 * 2**20
"""Bytes a Spark partition should read: Spark's own ``maxPartitionBytes``."""

_ALIASES = {"versionAsOf": "version", "timestampAsOf": "asOf"}
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
"""Every option of a read except for ``path``, a catalog's and ``storage.<key>``."""


@dataclass(frozen=True)
class ReadOptions:
    """What a read asks for; all fields are checked on their own, none against a dataset."""

    ref: RefSpec = field(default_factory=RefSpec)
    columns: tuple[str, ...] | None = None
    """Column paths to read; None for all."""
    filter: str | None = None
    limit: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    batch_size: int | None = None
    """Rows per Arrow batch; None lets the reader choose by bytes."""
    split_size: int = DEFAULT_SPLIT_SIZE
    blob_handling: BlobHandling = "descriptions"


def parse_read_options(options: Mapping[str, str]) -> ReadOptions:
    """Read options from text. Raises InvalidOption for unknown, malformed and contradicting ones."""
    refuse_changes(options)
    text.check_known(options, [*READ_OPTIONS, *_ALIASES], "reading", CATALOG_OPTIONS, STREAM_READ_OPTIONS)
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
    """Options under their canonical names; refuses one value given under two names."""
    names = {name.lower(): name for name in READ_OPTIONS}
    names.update({alias.lower(): name for alias, name in _ALIASES.items()})
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
        # pylance reads up to there and forgets the rest; beside other filters the rest would come back.
        raise InvalidOption(
            f"Option 'filter' is {value!r}, which closes a bracket that it did not open.",
            hint="Put brackets in pairs; quote text as 'text'.",
        )
    return value


def _has_its_brackets(text: str) -> bool:
    """Whether each bracket that is closed was opened; those in quotes do not count."""
    depth = 0
    for token in re.findall(r"""'[^']*'|"[^"]*"|`[^`]*`|[()]""", text):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth < 0:
            return False
    return True


def _blob_handling(value: str) -> BlobHandling:
    word = text.to_choice("blob_handling", value, ("descriptions", "bytes"))
    return "bytes" if word == "bytes" else "descriptions"
