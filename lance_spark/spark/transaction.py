"""A transaction for pipelines: written to a temporary branch, published as one version or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lance_spark.actions.branches import create_branch_at, delete_branch
from lance_spark.actions.merge import MergeOptions, merge
from lance_spark.actions.remotes.naming import check_writable
from lance_spark.errors import Refused
from lance_spark.refs.model import RefSpec
from lance_spark.spark.engines import engine_of
from lance_spark.store.datasets import pin_latest

if TYPE_CHECKING:
    from lance_spark.spark.table import LanceTable

Audit = Callable[["LanceTable"], bool]
"""Looks at the table as it would be; False, or an exception, keeps it from being published."""


@contextmanager
def transaction(table: LanceTable, message: str | None = None, audit: Audit | None = None) -> Iterator[LanceTable]:
    """A handle on a temporary branch of the table's branch, merged when the block ends without an exception.

    Raises Refused for a handle that stands still at a tag or version or is on a branch that follows a remote's, and
    when the audit says no; Conflict when somebody else committed what cannot be combined. In every case but success
    the temporary branch is deleted.
    """
    if table.ref.tag is not None or table.ref.version is not None or table.ref.as_of is not None:
        raise Refused("A transaction needs a branch to publish to.", hint="Use checkout(branch=...), or no ref at all.")
    location, target = table.location, table.ref.branch
    check_writable(location, target)
    name = f"transaction-{uuid.uuid4().hex}"
    start = pin_latest(location, target)
    create_branch_at(location, name, start)
    written = type(table)(table.spark, location, RefSpec(branch=name))
    try:
        yield written
        if audit is not None and not audit(written):
            raise Refused("The audit refused what was written; nothing was published.")
        merge(location, pin_latest(location, name), target, MergeOptions(message=message), engine_of(table.spark))
    finally:
        delete_branch(location, name)
