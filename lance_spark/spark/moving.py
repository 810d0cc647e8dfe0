"""Whether a handle on a table follows a branch, and so can be written to."""

from __future__ import annotations

from lance_spark.errors import Refused
from lance_spark.refs.model import RefSpec


def moving_branch(ref: RefSpec, what: str) -> str | None:
    """The branch, None for main. Raises Refused for a handle that stands still; ``what`` could not be done then."""
    if (ref.tag, ref.version, ref.as_of) != (None, None, None):
        raise Refused(
            f"This handle stands at a tag or version: there is nothing to {what}.",
            hint="Use the handle of a branch: checkout(branch=...).",
        )
    return ref.branch
