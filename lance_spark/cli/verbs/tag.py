"""``lance-git tag``: lists, creates, moves and deletes tags. One function for each of its modes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any

import click

from lance_spark.cli.modes import Mode, chosen
from lance_spark.cli.output import age, confirm, stamp, version_json
from lance_spark.cli.program import dry_run_option, verb, yes_option
from lance_spark.cli.session import Session, check_altered, note_both, settings_of, told
from lance_spark.core.lifetimes import TAG_SETTINGS
from lance_spark.core.ref_names import check_new_tag_name, check_tag_name, is_own_tag
from lance_spark.core.refs import MAIN, PinnedVersion, RefSpec, Tag
from lance_spark.errors import AlreadyExists, Conflict, InvalidOption
from lance_spark.refs import refs
from lance_spark.refs.reflog import find_former, restore_tag
from lance_spark.storage.commits import unchanged
from lance_spark.storage.resolving import resolve_expression


@dataclass(frozen=True)
class TagArguments:
    """The arguments."""

    names: tuple[str, ...]
    force: bool
    old: str | None
    settings: dict[str, Any]
    unset: tuple[str, ...]
    show_all: bool
    dry_run: bool
    yes: bool


def _list(session: Session, asked: TagArguments) -> None:
    pattern = (*asked.names, "*")[0]
    tags = [tag for tag in refs.list_tags(session.location, asked.show_all) if fnmatchcase(tag.name, pattern)]
    entries = [
        {
            "name": tag.name,
            **version_json(tag.target),
            "created_at": stamp(tag.created_at),
            **{key: value for key, value in tag.lifetime.as_record().items() if key in TAG_SETTINGS},
        }
        for tag in tags
    ]
    header, rows = ("tag", "version", "made", "lifetime"), [_row(tag) for tag in tags]
    shown = len(header) if any(row[-1] for row in rows) else len(header) - 1
    text = session.output.table(header[:shown], [row[:shown] for row in rows]) if rows else ""
    session.output.show({"dataset": session.location.uri, "tags": entries}, text)


def _row(tag: Tag) -> tuple[str, ...]:
    return tag.name, str(tag.target), age(tag.created_at) if tag.created_at else "", str(tag.lifetime)


def _restore(session: Session, asked: TagArguments) -> None:
    (name,) = asked.names
    check_tag_name(name)
    pin = find_former(session.location, name) if asked.dry_run else restore_tag(session.location, name)
    said = f"Tag '{name}' {'would be' if asked.dry_run else 'was'} put back on {pin}."
    session.did("restore", asked.dry_run, said, tag=name, at=version_json(pin))


def _alter(session: Session, asked: TagArguments) -> None:
    (name,) = asked.names
    check_altered(asked.settings, asked.unset)
    check_tag_name(name)
    with unchanged():
        after = refs.alter_tag(session.location, name, asked.settings, asked.unset, asked.dry_run)
    told_of = {key: value for key, value in after.as_record().items() if key in TAG_SETTINGS}
    said = f"Tag '{name}' {'would be' if asked.dry_run else 'was'} altered{told(after)}."
    session.did("alter", asked.dry_run, said, tag=name, **told_of)


def _put(session: Session, asked: TagArguments) -> None:
    name, ref = (*asked.names, None)[:2]
    name = name or ""
    if asked.old is not None and not asked.force:
        raise InvalidOption("--old needs -f NAME.", hint="lance-git tag -f NAME REF --old main@5")
    check_new_tag_name(name)
    refs.check_settings(asked.settings, tag=True)
    pin = session.resolve(ref)
    before = refs.find_tag(session.location, name)
    if before is not None:
        _move(session, asked, before.target, pin)
        return
    if asked.old is not None:
        raise Conflict(f"Tag '{name}' does not exist, so it is not at {asked.old}.", hint="Leave --old out.")
    if not asked.dry_run:
        refs.create_tag_at(session.location, name, pin)
        if asked.settings:
            refs.alter_tag(session.location, name, asked.settings)
    said = f"Tag '{name}' {'would be' if asked.dry_run else 'was'} put on {pin}."
    session.did("create", asked.dry_run, said, tag=name, at=version_json(pin), was=None)
    note_both(session, name)


def _move(session: Session, asked: TagArguments, was: PinnedVersion, pin: PinnedVersion) -> None:
    name = asked.names[0]
    if not asked.force:
        raise AlreadyExists(f"Tag '{name}' already exists, at {was}.", hint=f"Move it: lance-git tag -f {name} {pin}.")
    if asked.old is not None:
        stated = resolve_expression(session.location, asked.old, session.branch)
        if stated.reference != was.reference:
            raise Conflict(f"Tag '{name}' is at {was}, not at {asked.old}; it was not moved.", hint="Check the tag.")
    stays = was.reference == pin.reference
    if not asked.dry_run:
        confirm(f"Tag '{name}' will be moved from {was} to {pin}.", stays or asked.yes or asked.old is not None)
        refs.move_tag(session.location, name, _spec(pin))
        if asked.settings:
            refs.alter_tag(session.location, name, asked.settings)
    session.did(
        "move",
        asked.dry_run,
        f"Tag '{name}' is already at {pin}."
        if stays
        else f"Tag '{name}' {'would be' if asked.dry_run else 'was'} moved from {was} to {pin}.",
        tag=name,
        at=version_json(pin),
        was=version_json(was),
    )
    if not asked.dry_run and not stays:
        session.output.note(f"lance-git tag --restore {name} puts it back.")


def _delete(session: Session, asked: TagArguments) -> None:
    (name,) = asked.names
    check_tag_name(name)
    gone = refs.gone_clone(session.location, name) if asked.force else None
    if gone is not None:
        if not asked.dry_run:
            confirm(f"The clone at {gone} will be forgotten; if it was moved, it loses what it reads here.", asked.yes)
            refs.delete_tag(session.location, name, force=True)
        said = f"The clone at {gone} {'would be' if asked.dry_run else 'was'} forgotten: no tag keeps versions for it."
        session.did("delete", asked.dry_run, said, tag=name, was=None)
        return
    table = refs.check_tag_to_delete(session.location, name, asked.force)
    was = table.tags[name].target
    if not asked.dry_run:
        confirm(f"Tag '{name}' at {was} will be deleted; cleanups may remove that version after a week.", asked.yes)
        refs.delete_tag(session.location, name, asked.force)
    said = f"Tag '{name}' {'would be' if asked.dry_run else 'was'} deleted; it was at {was}."
    session.did("delete", asked.dry_run, said, tag=name, was=version_json(was))
    if not asked.dry_run and not is_own_tag(name):
        session.output.note(f"lance-git tag --restore {name} brings it back.")


def _spec(pin: PinnedVersion) -> RefSpec:
    return RefSpec(branch=None if pin.branch in (None, MAIN) else pin.branch, version=pin.version)


_SETTINGS = ("expire_after", "owner")
MODES = (
    Mode("[-a] [--list [PATTERN]]", "to list tags", _list, flags=("listing",), names=(0, 1), options=("show_all",)),
    Mode(
        "[-f [--old REF]] NAME [REF] [SETTINGS]",
        "to create or move a tag",
        _put,
        names=(1, 2),
        options=("force", "old", *_SETTINGS),
    ),
    Mode("-d NAME [-f]", "to delete a tag", _delete, flags=("delete",), options=("force",)),
    Mode("--restore NAME", "to restore a tag", _restore, flags=("restore",)),
    Mode(
        "--alter NAME [SETTINGS] [--unset SETTING]",
        "to alter a tag",
        _alter,
        flags=("alter",),
        options=(*_SETTINGS, "unset"),
    ),
)
SECTIONS = {
    "What to do": ("listing", "force", "old", "delete", "restore", "alter"),
    "Settings of a new tag, or with --alter": (*_SETTINGS, "unset"),
}


@verb("tag", modes=MODES, sections=SECTIONS)
@click.argument("names", nargs=-1)
@click.option("-l", "--list", "listing", is_flag=True, help="List, also with a PATTERN such as 'v1*'.")
@click.option("-d", "--delete", is_flag=True, help="Delete a tag.")
@click.option("-f", "--force", is_flag=True, help="Move an existing tag; with -d, delete even one in use.")
@click.option("--old", metavar="REF", help="With -f: the tag's current version. Then no confirmation is needed.")
@click.option("--restore", is_flag=True, help="Undo the last -f or -d of a tag.")
@click.option("--alter", is_flag=True, help="Change a tag's settings.")
@click.option(
    "--expire-after", metavar="SPAN", help="Time until expire-refs takes it, from its last move, such as 30d."
)
@click.option("--owner", metavar="TEXT", help="The person to ask about it.")
@click.option("--unset", multiple=True, metavar="SETTING", help="With --alter: expire_after or owner (repeatable).")
@click.option("-a", "--all", "show_all", is_flag=True, help="Also list those of clones, merges, streams, sets, lakes.")
@dry_run_option
@yes_option
@click.pass_context
def command(context: click.Context, /, names: tuple[str, ...], **given: Any) -> None:
    """List, create, move or delete tags.

    A new tag NAME points at REF, by default the newest version of the current branch. Tagged versions survive every
    cleanup.
    """
    settings = settings_of(given, tag=True)
    plain = {each.name: given[each.name] for each in fields(TagArguments) if each.name in given}
    chosen(context, MODES, names).run(context.obj, TagArguments(names, settings=settings, **plain))
