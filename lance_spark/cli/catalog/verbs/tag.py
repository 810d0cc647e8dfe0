"""``lance-catalog tag``: lists, creates and deletes tags of the whole lake. One function for each of its modes."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.modes import Mode, chosen
from lance_spark.cli.output import age, confirm, stamp
from lance_spark.cli.program import dry_run_option, verb, yes_option
from lance_spark.core.texts import counted

if TYPE_CHECKING:
    from lance_spark.catalog.lake_rules import LakeRef


@dataclass(frozen=True)
class LakeTagArguments:
    """The arguments."""

    names: tuple[str, ...]
    dry_run: bool
    yes: bool


def _list(session: CatalogSession, asked: LakeTagArguments) -> None:
    from lance_spark.catalog.lake import list_refs
    from lance_spark.catalog.lake_rules import TAG

    pattern = (*asked.names, "*")[0]
    tags = [tag for tag in list_refs(session.lake, TAG) if fnmatchcase(tag.name, pattern)]
    rows = [(tag.name, f"{tag.tables:,}" if tag.ready else "incomplete", age(tag.created_at)) for tag in tags]
    text = session.output.table(("name", "tables", "made"), rows) if rows else ""
    session.show({"tags": [_json(tag) for tag in tags]}, text)


def _json(tag: LakeRef) -> dict[str, Any]:
    return {"name": tag.name, "tables": tag.tables, "created_at": stamp(tag.created_at), "ready": tag.ready}


def _create(session: CatalogSession, asked: LakeTagArguments) -> None:
    from lance_spark.catalog.lake import check_may_create
    from lance_spark.catalog.lake_rules import TAG
    from lance_spark.lake.branches import create_tag

    (name,) = asked.names
    if asked.dry_run:
        check_may_create(session.lake, TAG, name)
        said = f"Tag '{name}' would be put on the newest version of every table."
        session.did("create", True, said, name=name, tables=None, created_at=None)
        return
    tag = create_tag(session.lake, name, session.engine)
    said = f"Tag '{name}' was put on the newest version of {counted(tag.tables, 'table')}."
    session.did("create", False, said, name=name, tables=tag.tables, created_at=stamp(tag.created_at))
    session.output.note(f"{session.typed} ls -r --tag {name} shows them.")


def _delete(session: CatalogSession, asked: LakeTagArguments) -> None:
    from lance_spark.catalog.lake import delete_ref, find_to_delete
    from lance_spark.catalog.lake_rules import TAG

    (name,) = asked.names
    tag = find_to_delete(session.lake, TAG, name)
    ready = tag is not None and tag.ready
    tables = tag.tables if tag is not None and ready else None
    which = f"Tag '{name}'" + (", which is incomplete," if tables is None else f" of {counted(tables, 'table')}")
    if not asked.dry_run:
        kept = "cleanups may then remove the versions that only it keeps"
        confirm(f"{which} will be deleted: {kept}.", asked.yes)
        delete_ref(session.lake, TAG, name)
    said = f"{which} {'would be' if asked.dry_run else 'was'} deleted."
    session.did("delete", asked.dry_run, said, name=name, tables=tables, was_ready=ready)


def _restore(session: CatalogSession, asked: LakeTagArguments) -> None:
    from lance_spark.catalog.lake_rules import TAG
    from lance_spark.cli.catalog.verbs.branch import restore

    restore(session, TAG, asked.names[0], asked.dry_run)


MODES = (
    Mode("[--list [PATTERN]]", "to list tags", _list, flags=("listing",), names=(0, 1)),
    Mode("NAME", "to create a tag", _create),
    Mode("-d NAME", "to delete a tag", _delete, flags=("delete",)),
    Mode("--restore NAME", "to restore a tag", _restore, flags=("restore",)),
)


@verb("tag", modes=MODES, sections={"What to do": ("listing", "delete", "restore")})
@click.argument("names", nargs=-1)
@click.option("-l", "--list", "listing", is_flag=True, help="List, also with a PATTERN such as '2026-*'.")
@click.option("-d", "--delete", is_flag=True, help="Delete a tag.")
@click.option("--restore", is_flag=True, help="Restore a tag that was deleted within the last week.")
@dry_run_option
@yes_option
@click.pass_context
def tag(context: click.Context, /, names: tuple[str, ...], dry_run: bool, yes: bool, **_: bool) -> None:
    """List, create or delete tags of the whole catalog.

    A new tag NAME pins the newest version of every table; every cleanup keeps those versions. ls, tree and describe
    show the catalog at a tag with --tag NAME.
    """
    chosen(context, MODES, names).run(context.obj, LakeTagArguments(names, dry_run, yes))
