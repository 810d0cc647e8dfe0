"""The verbs that bring changes to a branch, or undo them: ``merge``, ``cherry-pick``, ``revert`` and ``restore``."""

from __future__ import annotations

from typing import Any

import click

from lance_spark.cli.output import confirm, report, version_json
from lance_spark.cli.program import dry_run_option, options_of, verb, yes_option
from lance_spark.cli.session import Session
from lance_spark.core.declared import typed_at
from lance_spark.core.refs import MAIN
from lance_spark.core.texts import counted
from lance_spark.errors import Refused
from lance_spark.merge.option_rules import PREFERENCE, MergeOptions
from lance_spark.storage.datasets import list_version_numbers


@verb("merge")
@click.argument("ref")
@options_of(MergeOptions)
@click.pass_obj
def merge(session: Session, /, ref: str, **given: Any) -> int:
    """Merge another branch into the current one.

    The changes of REF since the last common version become one version: readers see the branch before or after. Only
    files that REF's own branch wrote are copied, so that branch can be deleted afterwards; not so with --reference.
    """
    from lance_spark.merge.merge import merge

    options = typed_at("shell", MergeOptions, given)
    result = merge(session.location, session.resolve(ref), session.own_branch, options, session.engine)
    return report(session.output, result)


@verb("cherry-pick")
@click.argument("ref")
@options_of(MergeOptions, "message", "dry_run", "conflicts", "on", *PREFERENCE)
@click.pass_obj
def cherry_pick(session: Session, /, ref: str, **given: Any) -> int:
    """Apply the change of one version to the current branch.

    REF is a version, such as exp@7. The result is a new version of the current branch; nothing is removed from any
    history.
    """
    from lance_spark.merge.merge import cherry_pick

    options = typed_at("shell", MergeOptions, given)
    result = cherry_pick(session.location, session.resolve(ref), session.own_branch, session.engine, options)
    return report(session.output, result)


@verb("revert")
@click.argument("ref")
@options_of(MergeOptions, "message", "dry_run", "on", *PREFERENCE)
@click.pass_obj
def revert(session: Session, /, ref: str, **given: Any) -> int:
    """Undo the change of one version.

    REF is a version, such as exp@7. The result is a new version of the current branch; nothing is removed from any
    history.
    """
    from lance_spark.merge.merge import revert

    options = typed_at("shell", MergeOptions, given)
    result = revert(session.location, session.resolve(ref), session.own_branch, session.engine, options)
    return report(session.output, result)


@verb("restore")
@click.argument("ref")
@dry_run_option
@yes_option
@click.pass_obj
def restore(session: Session, ref: str, dry_run: bool, yes: bool) -> None:
    """Make an older version the newest one again.

    REF is a version of the current branch. The result is a new version, equal to REF. The versions in between stay in
    the history.
    """
    from lance_spark.merge.restore import restore_version

    pin = session.resolve(ref)
    current = session.own_branch or MAIN
    if (pin.branch or MAIN) != current:
        raise Refused(
            f"'{ref}' is {pin}, but the current branch is '{current}'.",
            hint=f"A restore stays on its branch. First: {session.how_to_switch(pin.branch or MAIN)}.",
        )
    covered = [version for version in list_version_numbers(session.location, pin.branch) if version > pin.version]
    if not covered:
        raise Refused(f"Version {pin} is already the newest of branch '{current}'.")
    what = f"what {counted(len(covered), 'later version')} changed is undone"
    made = None
    if not dry_run:
        confirm(f"Version {pin} will be made the newest of '{current}' again; {what}.", yes)
        made = restore_version(session.location, pin, session.engine)
    data = {
        "action": "restore",
        "version": version_json(pin),
        "made": None if made is None else version_json(made.version),
        "undone": covered,
        "indexes_lacking": [] if made is None else list(made.indexes_lacking),
        "dry_run": dry_run,
    }
    said = (
        f"Version {pin} would be made the newest again" if made is None else f"Version {pin} restored as {made.version}"
    )
    session.output.show(data, f"{said}; {what}.")
    if made is not None and made.indexes_lacking:
        names = ", ".join(made.indexes_lacking)
        session.output.note(f"Indexes that no longer cover all rows until they are optimized: {names}")
