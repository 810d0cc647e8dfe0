"""A transaction for pipelines: written to a temporary branch, published as one version or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lance_spark.actions.branches import create_branch_at, delete_branch
from lance_spark.actions.merge.merge import MergeOptions, merge
from lance_spark.actions.sync.write_guards import check_mergeable
from lance_spark.errors import Refused
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import RefSpec
from lance_spark.runner.interface import Engine
from lance_spark.store.datasets import pin_latest


@contextmanager
def transaction(
    location: DatasetLocation,
    target: RefSpec,
    engine: Engine,
    message: str | None = None,
    audit: Callable[[RefSpec], bool] | None = None,
) -> Iterator[RefSpec]:
    """A temporary branch of the target branch, merged into it when the block ends without an exception.

    ``audit`` is given the temporary branch; False, or an exception, keeps it from being published. Raises Refused for a
    target that stands still at a tag or version, or is a branch that follows a remote's, and when the audit says no;
    Conflict when another process committed what cannot be combined with it. In every case but success nothing is
    published, and in every case the temporary branch is deleted.
    """
    if target.tag is not None or target.version is not None or target.as_of is not None:
        raise Refused("A transaction needs a branch to publish to.", hint="Use checkout(branch=...), or no ref at all.")
    check_mergeable(location, target.branch)
    name = f"transaction-{uuid.uuid4().hex}"
    create_branch_at(location, name, pin_latest(location, target.branch))
    try:
        yield RefSpec(branch=name)
        if audit is not None and not audit(RefSpec(branch=name)):
            raise Refused("The audit refused what was written; nothing was published.")
        merge(location, pin_latest(location, name), target.branch, MergeOptions(message=message), engine)
    finally:
        delete_branch(location, name)
