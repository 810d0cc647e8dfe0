"""Procedures that make and delete tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lance_spark.actions import tags
from lance_spark.actions.procedures.procedure import REFS, TABLE, Context, Parameter, Procedure, Rows, pin_of
from lance_spark.refs.model import RefSpec
from lance_spark.refs.names import MAIN

_NAME = Parameter("name", "STRING", "the tag's name", required=True)


def _create(context: Context, given: Mapping[str, Any]) -> Rows:
    location = context.table(given["table"])
    pin = pin_of(location, given["ref"])
    tags.create_tag(location, given["name"], RefSpec(branch=pin.branch, version=pin.version))
    yield {"name": given["name"], "branch": pin.branch or MAIN, "version": pin.version}


def _drop(context: Context, given: Mapping[str, Any]) -> Rows:
    tags.delete_tag(context.table(given["table"]), given["name"], given["force"])
    yield {"name": given["name"]}


CREATE_TAG = Procedure(
    "create_tag",
    "Tag a version; a tag that is there is never moved.",
    (TABLE, _NAME, Parameter("ref", "STRING", f"what to tag: {REFS}", default=MAIN)),
    pa.schema([("name", pa.string()), ("branch", pa.string()), ("version", pa.int64())]),
    _create,
)
_FORCE = Parameter("force", "BOOLEAN", "whether to delete a tag that a clone, merge or stream needs", default=False)
DROP_TAG = Procedure("drop_tag", "Delete a tag.", (TABLE, _NAME, _FORCE), pa.schema([("name", pa.string())]), _drop)
