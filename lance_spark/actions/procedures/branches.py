"""Procedures that make and delete branches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lance_spark.actions import branches
from lance_spark.actions.procedures.procedure import REFS, TABLE, Context, Parameter, Procedure, Rows, spec_of
from lance_spark.refs.names import MAIN

_NAME = Parameter("name", "STRING", "the branch's name", required=True)


def _create(context: Context, given: Mapping[str, Any]) -> Rows:
    location = context.table(given["table"])
    made = branches.create_branch(location, given["name"], spec_of(location, given["from"]))
    yield {"name": made.name, "parent_branch": made.parent_branch or MAIN, "parent_version": made.parent_version}


def _drop(context: Context, given: Mapping[str, Any]) -> Rows:
    branches.delete_branch(context.table(given["table"]), given["name"])
    yield {"name": given["name"]}


CREATE_BRANCH = Procedure(
    "create_branch",
    "Make a branch.",
    (TABLE, _NAME, Parameter("from", "STRING", f"where it begins: {REFS}", default=MAIN)),
    pa.schema([("name", pa.string()), ("parent_branch", pa.string()), ("parent_version", pa.int64())]),
    _create,
)
DROP_BRANCH = Procedure(
    "drop_branch",
    "Delete a branch and its own files for good. Refused while another branch or a tag needs it.",
    (TABLE, _NAME),
    pa.schema([("name", pa.string())]),
    _drop,
)
