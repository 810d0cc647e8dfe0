"""Transactions: everything that is written to a temporary branch becomes one version of its target, or nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import Engine
from lance_spark.errors import Conflict, Refused
from lance_spark.merge.hint_rules import hint_for
from lance_spark.merge.merge import merge
from lance_spark.merge.option_rules import MergeOptions, check_audit
from lance_spark.refs.refs import create_branch_at, delete_branch
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.followers import check_mergeable


@contextmanager
def transaction(
    location: DatasetLocation,
    target: RefSpec,
    engine: Engine,
    audit: Callable[[RefSpec], bool] | None = None,
    options: MergeOptions | None = None,
) -> Iterator[RefSpec]:
    """A temporary branch of the target branch, merged into it when the block ends without an exception.

    ``audit`` receives the temporary branch. If it returns False or raises, nothing is published. Raises Refused for a
    target that is a tag, a version or a branch that follows a remote's, and for a failed audit. Raises Conflict if a
    concurrent commit cannot be combined with this one. Only success publishes; the temporary branch is always deleted.
    """
    options = options or MergeOptions()
    if target.tag is not None or target.version is not None or target.as_of is not None:
        raise Refused("A transaction needs a branch to publish to.", hint="Use checkout(branch=...), or no ref at all.")
    check_mergeable(location, target.branch)
    name = f"transaction-{uuid.uuid4().hex}"
    create_branch_at(location, name, pin_latest(location, target.branch))
    try:
        yield RefSpec(branch=name)
        if audit is not None:
            check_audit(audit(RefSpec(branch=name)))
            options = replace(options, audited=True)
        try:
            merge(location, pin_latest(location, name), target.branch, options, engine)
        except Conflict as problem:
            if problem.conflicts:
                again = hint_for(problem.conflicts, hints.transaction, options.preferred, options.on)
                problem.hint = hints.of(
                    "What the block wrote is gone. Run the block again: it begins with what the branch has now. ", again
                )
            raise
    finally:
        delete_branch(location, name)
