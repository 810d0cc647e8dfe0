"""``lance-catalog branch`` and ``checkout``: branches of the whole lake. One function for each mode of ``branch``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.modes import Mode, chosen
from lance_spark.cli.output import age, confirm, stamp
from lance_spark.cli.program import dry_run_option, verb, yes_option
from lance_spark.core.refs import MAIN
from lance_spark.core.texts import counted
from lance_spark.errors import InvalidOption

if TYPE_CHECKING:
    from lance_spark.catalog.lake_rules import LakeRef
    from lance_spark.core.lifetimes import BranchSettings

_MANY = 1_000_000


@dataclass(frozen=True)
class LakeBranchArguments:
    """The arguments."""

    names: tuple[str, ...]
    purge: bool
    settings: BranchSettings
    unset: tuple[str, ...]
    dry_run: bool
    yes: bool


def _list(session: CatalogSession, asked: LakeBranchArguments) -> None:
    from lance_spark.catalog.lake import list_refs
    from lance_spark.catalog.lake_rules import BRANCH

    pattern, current = (*asked.names, "*")[0], _current(session)
    branches = [each for each in list_refs(session.lake, BRANCH) if fnmatchcase(each.name, pattern)]
    rows = [
        ("*" if each.name == current else "", each.name, _tables(each), age(each.created_at), str(each.lifetime))
        for each in branches
    ]
    text = session.output.table(("", "name", "tables", "made", "settings"), rows) if rows else ""
    session.show({"branches": [_json(each, current) for each in branches]}, text)


def _current(session: CatalogSession) -> str:
    return MAIN if session.remembered is None else session.remembered.branch


def _tables(branch: LakeRef) -> str:
    return f"{branch.tables:,}" if branch.ready else "incomplete"


def _json(branch: LakeRef, current: str) -> dict[str, Any]:
    return {
        "name": branch.name,
        "tables": branch.tables,
        "created_at": stamp(branch.created_at),
        "ready": branch.ready,
        "current": branch.name == current,
        **branch.lifetime.as_record(),
    }


def _create(session: CatalogSession, asked: LakeBranchArguments) -> None:
    from lance_spark.catalog.lake import check_may_create
    from lance_spark.catalog.lake_rules import BRANCH
    from lance_spark.lake.branches import create_branch
    from lance_spark.refs.refs import check_settings

    name, *tables = asked.names
    which = "every table" if not tables else ", ".join(tables)
    if asked.dry_run:
        check_settings(asked.settings)
        check_may_create(session.lake, BRANCH, name)
        said = f"Branch '{name}' would be created from the newest version of {which}."
        session.did("create", True, said, name=name, tables=None, created_at=None)
        return
    made = create_branch(session.lake, name, session.engine, tables or None, asked.settings)
    said = f"Branch '{name}' was created from the newest version of {counted(made.tables, 'table')}."
    session.did("create", False, said, name=name, tables=made.tables, created_at=stamp(made.created_at))
    session.output.note(f"{session.typed} checkout {name} lets the verbs in this directory act there.")


def _delete(session: CatalogSession, asked: LakeBranchArguments) -> None:
    from lance_spark.catalog.lake import find_to_delete
    from lance_spark.catalog.lake_rules import BRANCH
    from lance_spark.lake.branches import delete_branch

    (name,) = asked.names
    found = find_to_delete(session.lake, BRANCH, name)
    ready = found is not None and found.ready
    tables = found.tables if found is not None and ready else None
    which = f"Branch '{name}'" + (", which is incomplete," if tables is None else f" of {counted(tables, 'table')}")
    if not asked.dry_run:
        files = "at once" if asked.purge else "it can be restored for a week"
        lost = f"changes that were not merged are lost ({files})"
        confirm(f"{which} will be deleted: {lost}.", asked.yes)
        delete_branch(session.lake, name, session.engine, asked.purge)
    said = f"{which} {'would be' if asked.dry_run else 'was'} deleted."
    session.did("delete", asked.dry_run, said, name=name, tables=tables, was_ready=ready)
    if name == _current(session):
        session.output.note(f"It is checked out here: {session.typed} checkout main.")


def _restore(session: CatalogSession, asked: LakeBranchArguments) -> None:
    from lance_spark.catalog.lake_rules import BRANCH

    restore(session, BRANCH, asked.names[0], asked.dry_run)


def restore(session: CatalogSession, kind: str, name: str, dry_run: bool) -> None:
    """Restore a branch or tag of the lake, and say so."""
    from lance_spark.lake.deleted import restore_ref

    found = restore_ref(session.lake, kind, name, dry_run)
    which = f"{kind.capitalize()} '{name}' of {counted(found.tables, 'table')}"
    said = f"{which} {'would be' if dry_run else 'was'} restored."
    session.did("restore", dry_run, said, name=name, tables=found.tables)


def _alter(session: CatalogSession, asked: LakeBranchArguments) -> None:
    from lance_spark.cli.session import check_altered, told
    from lance_spark.lake.branches import alter_branch

    (name,) = asked.names
    check_altered(asked.settings, asked.unset)
    after = alter_branch(session.lake, name, asked.settings, asked.unset, asked.dry_run)
    said = f"Branch '{name}' {'would be' if asked.dry_run else 'was'} altered{told(after)}."
    session.did("alter", asked.dry_run, said, name=name, **after.as_record())


_SETTINGS = ("expire_after", "owner", "protected")
MODES = (
    Mode("[--list [PATTERN]]", "to list branches", _list, flags=("listing",), names=(0, 1)),
    Mode("NAME [TABLE]...", "to create a branch", _create, names=(1, _MANY), options=_SETTINGS),
    Mode("-d NAME", "to delete a branch", _delete, flags=("delete",), options=("purge",)),
    Mode("--restore NAME", "to restore a branch", _restore, flags=("restore",)),
    Mode("--alter NAME", "to alter a branch", _alter, flags=("alter",), options=(*_SETTINGS, "unset")),
)


@verb("branch", modes=MODES, sections={"What to do": ("listing", "delete", "restore", "alter")})
@click.argument("names", nargs=-1)
@click.option("-l", "--list", "listing", is_flag=True, help="List, also with a PATTERN such as 'etl/*'.")
@click.option("-d", "--delete", is_flag=True, help="Delete a branch, with its changes.")
@click.option("--restore", is_flag=True, help="Restore a branch that was deleted within the last week.")
@click.option("--alter", is_flag=True, help="Change the settings of a branch.")
@click.option("--purge", is_flag=True, help="Delete the files of its changes at once, for good.")
@click.option("--expire-after", metavar="SPAN", help="How long after its last change it may be deleted, such as 30d.")
@click.option("--owner", metavar="TEXT", help="The person to ask about it.")
@click.option("--protected/--no-protected", default=None, help="Allow no deletion.")
@click.option("--unset", multiple=True, metavar="SETTING", help="With --alter: expire_after or owner.")
@dry_run_option
@yes_option
@click.pass_context
def branch(  # noqa: PLR0913 - the options of the verb
    context: click.Context,
    /,
    names: tuple[str, ...],
    purge: bool,
    expire_after: str | None,
    owner: str | None,
    protected: bool | None,
    unset: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    **_: bool,
) -> None:
    """List, create, alter or delete branches of the whole catalog.

    A new branch NAME begins with the newest version of every table, or of TABLEs and namespaces; it copies nothing, and
    every cleanup keeps those versions. checkout NAME, or --branch NAME of a verb, acts there; merge NAME brings its
    changes to main.
    """
    given: dict[str, Any] = {"expire_after": expire_after, "owner": owner, "protected": protected}
    settings: Any = {key: value for key, value in given.items() if value is not None}
    chosen(context, MODES, names).run(context.obj, LakeBranchArguments(names, purge, settings, unset, dry_run, yes))


@verb("checkout")
@click.argument("name", metavar="BRANCH", required=False)
@click.option("-b", "-c", "--create", "new", metavar="NAME", help="Create the branch first, of every table.")
@click.pass_obj
def checkout(session: CatalogSession, name: str | None, new: str | None) -> None:
    """Make a branch of the whole catalog the current one here.

    Remembers the catalog and BRANCH in .lance-catalog of this directory: ls, tree, describe, create, alter, rename and
    rm act there from now on, in this directory and below. BRANCH main returns to main.
    """
    from lance_spark.catalog.lake import at_ref
    from lance_spark.cli.catalog.checkout import Checkout, write_checkout
    from lance_spark.lake.branches import create_branch

    if (name is None) == (new is None):
        raise InvalidOption("Name one branch.", hint=f"{session.typed} checkout BRANCH, or checkout -b NAME.")
    catalog, chosen = session.lake, name or new or MAIN
    if new is not None:
        create_branch(catalog, new, session.engine, None, {})
    elif chosen != MAIN:
        at_ref(catalog, "branch", chosen)
    write_checkout(os.curdir, Checkout(catalog.uri, chosen))
    where = "Main" if chosen == MAIN else f"Branch '{chosen}'"
    made = " was created, and" if new is not None else ""
    data = {"action": "checkout", "name": chosen, "created": new is not None}
    session.show(data, f"{where} of {catalog.uri}{made} is checked out here.")


@verb("status")
@click.pass_obj
def status(session: CatalogSession) -> None:
    """Show the branch that is checked out here.

    Also which catalog that is, and how many changes of the branch main lacks.
    """
    from lance_spark.lake.diff import diff

    current = _current(session)
    data: dict[str, Any] = {"branch": current, "changes": None}
    if current == MAIN:
        place = "checked out" if session.remembered is not None else "named"
        lines = [f"On main of {session.lake.uri}, which is {place} here."]
    else:
        changes = diff(session.lake, current).changes
        data["changes"] = len(changes)
        lines = [f"On branch '{current}' of {session.lake.uri}: {counted(len(changes), 'change')} that main lacks."]
        if changes:
            lines.append(f"  {session.typed} diff {current}    shows them")
            lines.append(f"  {session.typed} merge {current}   publishes them")
    session.show(data, "\n".join(lines))
