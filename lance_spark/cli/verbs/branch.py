"""``lance-git branch``: lists, creates, deletes and renames branches. One function for each of its modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any

import click

from lance_spark.cli.modes import Mode, chosen
from lance_spark.cli.output import age, confirm, stamp, version_json
from lance_spark.cli.program import dry_run_option, verb, yes_option
from lance_spark.cli.session import FORGOTTEN, Session, check_altered, note_both, settings_of, told
from lance_spark.core.records.tracking import Follows, read_follows
from lance_spark.core.ref_names import branch_or_none, check_branch_name, check_new_branch_name
from lance_spark.core.refs import MAIN, Branch, PinnedVersion
from lance_spark.core.texts import counted, readable
from lance_spark.errors import AlreadyExists, Refused
from lance_spark.refs import refs
from lance_spark.refs.reflog import find_restorable, restore_branch
from lance_spark.storage.commits import unchanged
from lance_spark.storage.datasets import list_version_numbers
from lance_spark.storage.followers import follower_refused
from lance_spark.storage.refs import read_refs
from lance_spark.workspace.workspace_files import set_branch


@dataclass(frozen=True)
class BranchArguments:
    """The arguments."""

    names: tuple[str, ...]
    settings: dict[str, Any]
    unset: tuple[str, ...]
    purge: bool
    remotes: bool
    everything: bool
    verbose: bool
    dry_run: bool
    yes: bool


def _create(session: Session, asked: BranchArguments) -> None:
    name, ref = (*asked.names, None)[:2]
    create(session, name or "", ref, asked.dry_run, asked.settings)


def create(
    session: Session, name: str, ref: str | None, dry_run: bool, settings: Mapping[str, Any] | None = None
) -> PinnedVersion:
    """Create a branch at a ref and report it; returns the version where it starts."""
    check_new_branch_name(name)
    refs.check_settings(settings or {})
    _check_no_remote(session, name)
    pin, discarded = session.resolve(ref), None
    try:
        if dry_run:
            refs.check_new(session.location, name)
        else:
            discarded = refs.make_branch(session.location, name, pin)
    except AlreadyExists as problem:
        if refs.find_branch(session.location, name) is None:
            raise
        raise AlreadyExists(problem.message, hint=f"lance-git switch {name} goes to it.") from None
    if settings and not dry_run:
        refs.alter_branch(session.location, name, settings)
    would = "would be created" if dry_run else "created"
    text, data = f"Branch '{name}' {would} at {pin}.", {"branch": name, "at": version_json(pin), "discarded": discarded}
    if discarded is not None:
        text += f" The deleted branch of that name, at {discarded}, can no longer be restored."
    session.did("create", dry_run, text, **data)
    note_both(session, name)
    return pin


def _restore(session: Session, asked: BranchArguments) -> None:
    (name,) = asked.names
    check_branch_name(name)
    pin = find_restorable(session.location, name) if asked.dry_run else restore_branch(session.location, name)
    said = f"Branch '{name}' {'would be' if asked.dry_run else 'was'} restored at {pin}."
    session.did("restore", asked.dry_run, said, branch=name, at=version_json(pin))


def _alter(session: Session, asked: BranchArguments) -> None:
    (name,) = asked.names
    check_altered(asked.settings, asked.unset)
    with unchanged():
        after = refs.alter_branch(session.location, branch_or_none(name), asked.settings, asked.unset, asked.dry_run)
    would = "would be" if asked.dry_run else "was"
    said = f"Branch '{name}' {would} altered{told(after)}."
    session.did("alter", asked.dry_run, said, branch=name, **after.as_record())


def _check_no_remote(session: Session, name: str) -> None:
    """Raise Refused for a name that a fetch would use for a branch that follows a remote's."""
    remote, slash, rest = name.partition("/")
    if slash and session.has_workspace and remote in session.workspace.workspace.remotes:
        raise Refused(
            f"'{name}' would look like branch '{rest}' of remote '{remote}', which only a fetch writes to.",
            hint="Choose another name.",
        )


def _list(session: Session, asked: BranchArguments) -> None:
    branches = refs.list_branches(session.location, asked.everything)
    current = session.branch or MAIN
    details = _details(session, branches) if asked.verbose else {}
    wanted = [branch for branch in branches if asked.everything or (read_follows(branch) is not None) == asked.remotes]
    pattern = (*asked.names, "*")[0]
    shown = [branch for branch in wanted if fnmatchcase(branch.name, pattern)]
    entries: list[dict[str, Any]] = []
    if (asked.everything or not asked.remotes) and fnmatchcase(MAIN, pattern):
        main = {"name": MAIN, "current": current == MAIN, "fork": None, "created_at": None, "follows": None}
        lifetime = refs.branch_lifetime(session.location, None)
        entries.append({**main, **lifetime.as_record(), **details.get(MAIN, {})})
    entries += [
        {
            "name": branch.name,
            "current": branch.name == current,
            "fork": version_json(_fork(branch)),
            "created_at": stamp(branch.created_at),
            "follows": _follows_json(read_follows(branch)),
            **branch.lifetime.as_record(),
            **details.get(branch.name, {}),
        }
        for branch in shown
    ]
    session.output.show(
        {"dataset": session.location.uri, "current": current, "branches": entries},
        _verbose_text(session, shown, entries) if asked.verbose else _short_text(session, entries),
    )
    if any(branch.name == current and read_follows(branch) is not None for branch in branches):
        leave = session.how_to_switch("NAME")
        session.output.note(f"The current branch '{current}' follows a remote's; {leave} leaves it.")
    if current not in {MAIN, *(branch.name for branch in branches)}:
        session.output.note(f"The current branch '{current}' does not exist; {session.how_to_switch()} leaves it.")


def _follows_json(follows: Follows | None) -> dict[str, Any] | None:
    if follows is None:
        return None
    version = None if follows.newest is None else follows.newest.remote
    return {"remote": follows.remote, "branch": follows.branch or MAIN, "version": version}


def _details(session: Session, branches: list[Branch]) -> dict[str, dict[str, Any]]:
    own = refs.own_files(session.location, [branch.name for branch in branches])
    details: dict[str, dict[str, Any]] = {
        name: {
            "head": files.versions[-1] if files.versions else None,
            "versions": len(files.versions),
            "files": files.files,
            "own_bytes": files.bytes,
        }
        for name, files in own.items()
    }
    versions = list_version_numbers(session.location, None)
    return {MAIN: {"head": versions[-1], "versions": len(versions), "files": None, "own_bytes": None}, **details}


def _short_text(session: Session, entries: list[dict[str, Any]]) -> str:
    lines = (
        session.output.paint(f"* {entry['name']}", fg="green") if entry["current"] else f"  {entry['name']}"
        for entry in entries
    )
    return "\n".join(lines)


def _verbose_text(session: Session, branches: list[Branch], entries: list[dict[str, Any]]) -> str:
    created = {branch.name: (_origin(branch), age(branch.created_at)) for branch in branches}
    lifetimes = {branch.name: str(branch.lifetime) for branch in branches}
    lifetimes[MAIN] = str(refs.branch_lifetime(session.location, None))
    rows: list[tuple[str, ...]] = []
    for entry in entries:
        name, head = entry["name"], entry["head"]
        fork, made = created.get(name, ("", ""))
        size = "" if entry["own_bytes"] is None else readable(entry["own_bytes"])
        shown = "none" if head is None else str(head)
        rows.append(
            ("*" if entry["current"] else "", name, shown, fork, made, str(entry["versions"]), size, lifetimes[name])
        )
    header: tuple[str, ...] = ("", "branch", "newest", "made from", "made", "versions", "own size", "lifetime")
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    current = [row for row, entry in enumerate(entries) if entry["current"]]
    return session.output.table(header, rows, right=(2, 5, 6), bright=current) if rows else ""


def _origin(branch: Branch) -> str:
    """What a branch was created from, or what it follows."""
    follows = read_follows(branch)
    if follows is None:
        return str(_fork(branch))
    version = "" if follows.newest is None else f"@{follows.newest.remote}"
    return f"{follows.branch or MAIN}{version} of {follows.remote}"


def _fork(branch: Branch) -> PinnedVersion:
    return PinnedVersion(branch.parent_branch, branch.parent_version)


def _delete(session: Session, asked: BranchArguments) -> None:
    (name,) = asked.names
    if name == MAIN:
        raise Refused("Branch 'main' cannot be deleted: it is the dataset.", hint="Delete the dataset's directory.")
    check_branch_name(name)
    table = read_refs(session.location)
    refs.check_branch_to_delete(session.location, table, name, force=False)
    if session.branch == name:
        raise Refused(f"Branch '{name}' is the current branch.", hint=f"Leave it first: {session.how_to_switch()}.")
    branch = table.branches[name]
    follows = read_follows(branch)
    # A fetch creates a following branch again under the same name, so nothing needs to be restored.
    keeps = follows is None and not asked.purge
    own = refs.own_files(session.location, table.branches)[name]
    written = max(0, len(own.versions) - 1)
    origin = f"made from {_origin(branch)}" if follows is None else f"which follows {_origin(branch)}"
    what = (
        f"Branch '{name}', {origin}, with {counted(written, 'version')} of its own, "
        f"{counted(own.files, 'file')}, {readable(own.bytes)}"
    )
    if not asked.dry_run:
        after = f" {FORGOTTEN}" if follows is not None else " Its files stay for a week." if keeps else ""
        confirm(f"{what}, will be deleted.{after}", asked.yes)
        (refs.set_aside_branch if keeps else refs.delete_branch)(session.location, name)
    data = {"action": "delete", "branch": name, "versions": written, "files": own.files, "own_bytes": own.bytes}
    data["restorable"] = keeps
    session.output.show(
        {**data, "dry_run": asked.dry_run}, f"{what}, {'would be' if asked.dry_run else 'was'} deleted."
    )
    if keeps and not asked.dry_run:
        session.output.note(
            f"lance-git branch --restore {name} brings it back; expire-refs removes its files after a week."
        )
    if follows is not None:
        session.output.note(f"lance-git fetch {follows.remote} {follows.branch or MAIN} creates it again.")


def _rename(session: Session, asked: BranchArguments) -> None:
    old, new = asked.names if len(asked.names) > 1 else (session.branch or MAIN, asked.names[0])
    _check_no_remote(session, new)
    branch = None if old == MAIN else refs.find_branch(session.location, old)
    follows = None if branch is None else read_follows(branch)
    if follows is not None:
        raise follower_refused(follows, "its name shows which")
    if asked.dry_run:
        refs.check_rename(session.location, old, new)
    else:
        refs.rename_branch(session.location, old, new)
        if session.branch == old and session.has_workspace:
            set_branch(session.workspace.directory, new)
    said = f"Branch '{old}' {'would be' if asked.dry_run else 'was'} renamed to '{new}'."
    session.did("rename", asked.dry_run, said, branch=old, to=new)
    if session.branch == old and not session.has_workspace:
        session.output.note(f"Its directory was also renamed: cd {session.location.branch_uri(new)}")


_SETTINGS = ("expire_after", "retain_versions", "protected", "owner")
MODES = (
    Mode(
        "[-r | -a] [-v] [--list [PATTERN]]",
        "to list branches",
        _list,
        flags=("listing",),
        names=(0, 1),
        options=("remotes", "everything", "verbose"),
    ),
    Mode("NAME [REF] [SETTINGS]", "to create a branch", _create, names=(1, 2), options=_SETTINGS),
    Mode("(-d | -D) NAME [--purge]", "to delete a branch", _delete, flags=("delete", "at_once"), options=("purge",)),
    Mode("-m [OLD] NEW", "to rename a branch", _rename, flags=("move",), names=(1, 2)),
    Mode("--restore NAME", "to restore a branch", _restore, flags=("restore",)),
    Mode(
        "--alter NAME [SETTINGS] [--unset SETTING]",
        "to alter a branch",
        _alter,
        flags=("alter",),
        options=(*_SETTINGS, "unset"),
    ),
)
SECTIONS = {
    "What to do": ("listing", "delete", "at_once", "purge", "move", "restore", "alter"),
    "What to list": ("remotes", "everything", "verbose"),
    "Settings of a new branch, or with --alter": (*_SETTINGS, "unset"),
}


@verb("branch", modes=MODES, sections=SECTIONS)
@click.argument("names", nargs=-1)
@click.option("-l", "--list", "listing", is_flag=True, help="List, also with a PATTERN such as 'exp/*'.")
@click.option("-d", "--delete", is_flag=True, help="Delete a branch that nothing else needs.")
@click.option("-D", "at_once", is_flag=True, help="The same without asking: -d --yes.")
@click.option("--purge", is_flag=True, help="With -d: remove its files at once; it cannot be restored then.")
@click.option("-m", "--move", is_flag=True, help="Rename a branch without versions of its own.")
@click.option("--restore", is_flag=True, help="Bring back a branch that was deleted with -d.")
@click.option("--alter", is_flag=True, help="Change the settings of a branch.")
@click.option("-r", "--remotes", is_flag=True, help="Those that follow a remote's.")
@click.option(
    "-a", "--all", "everything", is_flag=True, help="All, with those that follow a remote's and plans of frozen sets."
)
@click.option("-v", "--verbose", is_flag=True, help="With newest version, fork point, age and own bytes.")
@click.option(
    "--expire-after", metavar="SPAN", help="Time until expire-refs takes it, from its last commit, such as 30d."
)
@click.option(
    "--retain-versions", type=click.IntRange(min=1), metavar="N", help="How many versions every cleanup keeps."
)
@click.option("--protected/--no-protected", default=None, help="Allow only merges, and no deletion.")
@click.option("--owner", metavar="TEXT", help="The person to ask about it.")
@click.option("--unset", multiple=True, metavar="SETTING", help="With --alter: expire_after, retain_versions or owner.")
@dry_run_option
@yes_option
@click.pass_context
def command(context: click.Context, /, names: tuple[str, ...], at_once: bool, **given: Any) -> None:
    """List, create, delete or rename branches.

    A new branch NAME starts at REF, by default the newest version of the current branch. No data is copied. Without
    OLD, -m renames the current branch. Branches like origin/main follow a remote's; only a fetch writes to them, and
    they are listed only with -r or -a.
    """
    settings = settings_of(given)
    given["yes"] |= at_once
    plain = {each.name: given[each.name] for each in fields(BranchArguments) if each.name in given}
    chosen(context, MODES, names).run(context.obj, BranchArguments(names, settings=settings, **plain))
