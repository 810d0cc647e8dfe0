"""``lance-git merge``: merges another branch into the current one, as one version."""

from __future__ import annotations

from typing import Any

import click

from lance_spark.cli.program import options_of, verb
from lance_spark.cli.session import Session
from lance_spark.core.declared import typed_at
from lance_spark.merge.option_rules import MergeOptions


@verb("merge")
@click.argument("ref")
@options_of(MergeOptions)
@click.pass_obj
def command(session: Session, /, ref: str, **given: Any) -> int:
    """Merge another branch into the current one.

    The changes of REF since the last common version become one version: readers see the branch before or after. Only
    files that REF's own branch wrote are copied, so that branch can be deleted afterwards; not so with --reference.
    """
    from lance_spark.cli.output import report
    from lance_spark.merge.merge import merge

    options = typed_at("shell", MergeOptions, given)
    result = merge(session.location, session.resolve(ref), session.own_branch, options, session.engine)
    return report(session.output, result)
