"""Procedures that bring changes from one branch to another one, or take them back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lance_spark.actions.merge import single_version
from lance_spark.actions.merge.merge import MergeOptions, merge
from lance_spark.actions.procedures.procedure import (
    DRY_RUN,
    MESSAGE,
    TABLE,
    Context,
    Parameter,
    Procedure,
    Rows,
    pin_of,
)
from lance_spark.actions.resolve import resolve
from lance_spark.merge.result import MergeResult
from lance_spark.refs.model import RefSpec
from lance_spark.refs.names import MAIN, branch_or_none

_COLUMNS = pa.schema(
    [
        ("action", pa.string()),
        ("into", pa.string()),
        ("source", pa.string()),
        ("base", pa.string()),
        ("version", pa.int64()),
        ("fast_forward", pa.bool_()),
        ("up_to_date", pa.bool_()),
        ("dry_run", pa.bool_()),
        ("rows_added", pa.int64()),
        ("rows_deleted", pa.int64()),
        ("fragments_changed", pa.int64()),
        ("columns_added", pa.list_(pa.string())),
        ("columns_dropped", pa.list_(pa.string())),
        ("conflicts", pa.list_(pa.string())),
        ("indexes_carried", pa.list_(pa.string())),
        ("indexes_missing", pa.list_(pa.string())),
        ("notes", pa.list_(pa.string())),
    ]
)
_INTO = Parameter("into", "STRING", "the branch that gets the changes", default=MAIN)


def _row(result: MergeResult) -> dict[str, Any]:
    found = {**result.as_record(), "conflicts": [str(conflict) for conflict in result.conflicts]}
    return {name: found[name] for name in _COLUMNS.names}


def _merge(context: Context, given: Mapping[str, Any]) -> Rows:
    location = context.table(given["table"])
    source = resolve(location, RefSpec(branch=branch_or_none(given["branch"])))
    options = MergeOptions(given["ff_only"], given["reference"], given["dry_run"], given["message"])
    yield _row(merge(location, source, branch_or_none(given["into"]), options, context.engine))


def _cherry_pick(context: Context, given: Mapping[str, Any]) -> Rows:
    location = context.table(given["table"])
    into, picked = branch_or_none(given["into"]), pin_of(location, given["ref"])
    done = single_version.cherry_pick(location, picked, into, context.engine, given["message"], given["dry_run"])
    yield _row(done)


def _revert(context: Context, given: Mapping[str, Any]) -> Rows:
    location, branch = context.table(given["table"]), branch_or_none(given["branch"])
    pin = resolve(location, RefSpec(branch=branch, version=given["version"]))
    yield _row(single_version.revert(location, pin, branch, context.engine, given["message"], given["dry_run"]))


MERGE_BRANCH = Procedure(
    "merge_branch",
    "Merge a branch into another one, as one version.",
    (
        TABLE,
        Parameter("branch", "STRING", "the branch to merge", required=True),
        _INTO,
        Parameter("ff_only", "BOOLEAN", "whether to refuse what is no fast-forward", default=False),
        Parameter("reference", "BOOLEAN", "whether to leave files where they are", default=False),
        MESSAGE,
        DRY_RUN,
    ),
    _COLUMNS,
    _merge,
)
CHERRY_PICK = Procedure(
    "cherry_pick",
    "Commit to a branch what one version of another one changed.",
    (TABLE, Parameter("ref", "STRING", "the version, such as 'exp@7'", required=True), _INTO, MESSAGE, DRY_RUN),
    _COLUMNS,
    _cherry_pick,
)
REVERT = Procedure(
    "revert",
    "Commit to a branch the opposite of what one of its versions changed.",
    (
        TABLE,
        Parameter("version", "BIGINT", "the version to take back", required=True),
        Parameter("branch", "STRING", "the branch it is on", default=MAIN),
        MESSAGE,
        DRY_RUN,
    ),
    _COLUMNS,
    _revert,
)
