"""The verbs for other places with the same dataset: ``remote``, ``fetch``, ``pull``, ``push`` and ``relocate``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from lance_spark.cli.git_options import WORDS_OF_REMOTES, pushed_ref
from lance_spark.cli.output import confirm, exit_code, painted
from lance_spark.cli.program import VerbGroup, dry_run_option, options_of, verb, yes_option
from lance_spark.cli.session import FORGOTTEN, Session, find_remote, known_here
from lance_spark.core import workspace
from lance_spark.core.declared import typed_at
from lance_spark.core.ref_names import branch_or_none
from lance_spark.core.refs import MAIN
from lance_spark.core.workspace import RemoteEntry, check_known_remote, check_uri
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.merge.option_rules import PREFERENCE, MergeOptions
from lance_spark.storage.datasets import locate_typed
from lance_spark.storage.followers import check_own, following
from lance_spark.storage.refs import read_refs
from lance_spark.storage.spelling import found_as, same_on_disk
from lance_spark.workspace.workspace_files import change_workspace

if TYPE_CHECKING:
    from lance_spark.clones.base_rules import Relocation
    from lance_spark.remotes.fetch import Remote
    from lance_spark.remotes.report import Fetched


_STATES = {"new": "not fetched yet", "updated": "fetch brings it", "gone": "gone at the remote"}


@click.group("remote", cls=VerbGroup, words=WORDS_OF_REMOTES, invoke_without_command=True)
@click.option("-v", "--verbose", is_flag=True, help="With URIs.")
@click.pass_context
def remotes(context: click.Context, verbose: bool) -> None:
    """List, show, add, change or remove remotes.

    A remote is another place with the same dataset. Only `show` sends requests to it. Without a workspace, it lists the
    remotes that branches of the dataset follow.
    """
    if context.invoked_subcommand is not None:
        return
    session: Session = context.obj
    rows = _listed(session)
    text = session.output.table(("remote", "uri"), rows) if verbose and rows else "\n".join(name for name, _ in rows)
    session.output.show({"remotes": [{"name": name, "uri": uri} for name, uri in rows]}, text)


def _listed(session: Session) -> list[tuple[str, str]]:
    """Names and URIs, as in the workspace's file."""
    if session.has_workspace:
        return sorted((remote.name, remote.uri) for remote in session.workspace.workspace.remotes.values())
    return sorted(known_here(session).items())


@remotes.command("show")
@click.argument("name")
@click.pass_obj
def show(session: Session, name: str) -> None:
    """Show a remote's branches, and what was fetched of them."""
    from lance_spark.remotes.fetch import FetchOptions, fetch

    check_known_remote(known_here(session), name)
    fetched = fetch(session.location, find_remote(session, name), session.engine, FetchOptions(dry_run=True))
    header = ("branch", "newest", "fetched", "as", "")
    table = session.output.table(header, [_row(branch) for branch in fetched.branches], right=(1, 2))
    session.output.show(
        {"remote": name, "uri": fetched.uri, "branches": [_entry(branch) for branch in fetched.branches]},
        f"{name} ({fetched.uri}):\n{table}",
    )


@remotes.command("add")
@click.argument("name")
@click.argument("uri")
@dry_run_option
@click.pass_obj
def add(session: Session, name: str, uri: str, dry_run: bool) -> None:
    """Add a remote. The first one is usually called origin."""
    remote = _given_remote(session, name, uri)
    found = found_as(session.location, f"tree/{name}")
    if found is not None:
        raise same_on_disk("remote", name, found.removeprefix("tree/"))
    change_workspace(session.workspace.directory, partial(workspace.with_remote, remote=remote), dry_run)
    session.output.show(_data("add", remote, dry_run), f"Remote '{name}' {_is(dry_run)} {remote.uri}.")


@remotes.command("set-url")
@click.argument("name")
@click.argument("uri")
@dry_run_option
@click.pass_obj
def set_url(session: Session, name: str, uri: str, dry_run: bool) -> None:
    """Change the place of a remote.

    What was fetched is still read from the old place. If that has moved, lance-git relocate repairs it.
    """
    remote = _given_remote(session, name, uri)
    check_known_remote(session.workspace.workspace.remotes, name)
    old = locate_typed(session.workspace.remote_uri(name)).uri
    followers = _followers(session, name)
    change_workspace(session.workspace.directory, partial(workspace.with_remote_uri, remote=remote), dry_run)
    data = {**_data("set-url", remote, dry_run), "was": old}
    session.output.show(data, f"Remote '{name}' {_is(dry_run)} {remote.uri}.")
    if followers and old != remote.uri:
        session.output.note(
            f"What was fetched is still read from {old}. If that no longer exists:\n"
            f"  lance-git relocate --from {old} --to {remote.uri}"
        )


@remotes.command("remove")
@click.argument("name")
@dry_run_option
@yes_option
@click.pass_obj
def remove(session: Session, name: str, dry_run: bool, yes: bool) -> None:
    """Forget a remote, and the branches that follow it.

    The remote itself does not change, and your own branches still read its files. A following branch stays if one of
    your own branches was created from it.
    """
    from lance_spark.refs.refs import delete_branch

    check_known_remote(session.workspace.workspace.remotes, name)
    was = RemoteEntry(name, locate_typed(session.workspace.remote_uri(name)).uri)
    delete, keep = _plan_removal(session, name)
    if delete and not dry_run:
        what = f"Remote '{name}' ({was.uri}) will be removed, and {_branches(delete)} deleted."
        confirm(f"{what} {FORGOTTEN}", yes)
    if not dry_run:
        delete, keep = _plan_removal(session, name)  # refs may have changed while the question was open
        for branch in delete:
            delete_branch(session.location, branch)
        change_workspace(session.workspace.directory, partial(workspace.without_remote, name=name), dry_run)
    did = "would be" if dry_run else "was"
    lines = [f"Remote '{name}' {did} removed{f', with {_branches(delete)}' if delete else ''}."]
    lines += [f"  {branch} stays: {why}" for branch, why in keep.items()]
    data = {**_data("remove", was, dry_run), "deleted": delete, "kept": keep}
    session.output.show(data, "\n".join(lines))


remotes.add_command(remove, "rm")


def _given_remote(session: Session, name: str, uri: str) -> RemoteEntry:
    """The remote, with a path relative to the current directory rather than the workspace."""
    check_uri(uri)
    whole = locate_typed(uri).uri
    if whole == session.location.uri:
        raise InvalidOption(f"{whole} is this dataset itself.", hint="A remote is another place.")
    return RemoteEntry(name, whole)


def _followers(session: Session, remote: str) -> list[str]:
    """The branches that follow a remote's, children before parents, so that they can be deleted in order."""
    table = read_refs(session.location)
    names = [name for name, follows in following(table).items() if follows.remote == remote]
    depth = {}
    for name in names:
        parent, depth[name] = table.branches[name].parent_branch, 0
        while parent in table.branches:
            parent, depth[name] = table.branches[str(parent)].parent_branch, depth[name] + 1
    return sorted(names, key=lambda name: (-depth[name], -name.count("/"), name))


def _plan_removal(session: Session, remote: str) -> tuple[list[str], dict[str, str]]:
    """The branches to delete, and those that stay, with reasons."""
    from lance_spark.refs.ref_rules import check_delete_branch

    table = read_refs(session.location)
    delete, keep = [], {}
    for name in _followers(session, remote):
        try:
            check_delete_branch(table, name)
        except Refused as problem:
            keep[name] = problem.message.partition(": ")[2] or problem.message
            continue
        delete.append(name)
        left = {other: branch for other, branch in table.branches.items() if other != name}
        table = replace(table, branches=left)
    return delete, keep


def _entry(branch: Fetched) -> dict[str, Any]:
    return {
        "branch": branch.branch,
        "newest": branch.after,
        "fetched": branch.before,
        "into": branch.into,
        "state": branch.state,
    }


def _row(branch: Fetched) -> tuple[str, ...]:
    newest, fetched = ("" if version is None else str(version) for version in (branch.after, branch.before))
    return (
        branch.branch,
        newest,
        fetched,
        "" if branch.state == "new" else branch.into,
        _STATES.get(branch.state, branch.state),
    )


def _branches(names: list[str]) -> str:
    return f"branch {names[0]}" if len(names) == 1 else f"the branches {', '.join(sorted(names))}"


def _is(dry_run: bool) -> str:
    return "would be" if dry_run else "is"


def _data(action: str, remote: RemoteEntry, dry_run: bool) -> dict[str, Any]:
    return {"action": action, "remote": remote.name, "uri": remote.uri, "dry_run": dry_run}


@verb("fetch")
@click.argument("remote", required=False)
@click.argument("branches", metavar="[BRANCH]...", nargs=-1)
@click.option(
    "--allow-unrelated-histories", "unrelated", is_flag=True, help="Also if another dataset took the remote's place."
)
@dry_run_option
@click.pass_obj
def fetch(session: Session, remote: str | None, branches: tuple[str, ...], unrelated: bool, dry_run: bool) -> None:
    """Update the branches that follow a remote.

    REMOTE/BRANCH follows the branch BRANCH of REMOTE. Only metadata is copied; files stay where they are. None of your
    own branches change. REMOTE is by default origin, or the only one. Without BRANCH, fetches all its branches.
    """
    from lance_spark.remotes.fetch import FetchOptions, fetch

    chosen = [branch_or_none(branch) for branch in branches] or None
    options = FetchOptions(chosen, dry_run=dry_run, allow_unrelated_histories=unrelated)
    result = fetch(session.location, find_remote(session, remote), session.engine, options)
    session.output.show(result.as_record(), painted(session.output, result.lines()))


@verb("pull")
@click.argument("remote", required=False)
@click.argument("branch", required=False)
@click.option(
    "--reset", is_flag=True, help="Become what the remote's branch is; own rows that it lacks are put on a new branch."
)
@options_of(MergeOptions, "ff_only", "message", "dry_run", "conflicts", "on", *PREFERENCE)
@click.pass_obj
def pull(session: Session, /, remote: str | None, branch: str | None, reset: bool, **given: Any) -> int:
    """Fetch a remote's branch and merge it into the current one.

    REMOTE is by default origin, or the only one; BRANCH is by default the one with the current branch's name. Files
    stay where they are. With --dry-run it fetches, and only shows what the merge would do.
    """
    from lance_spark.remotes.pull import pull
    from lance_spark.remotes.reset import check_reset
    from lance_spark.remotes.reset import reset as reset_to_remote

    into, source = session.own_branch, find_remote(session, remote)
    theirs = into if branch is None else branch_or_none(branch)
    options = typed_at("shell", MergeOptions, given)
    try:
        if reset:
            check_reset(options.ff_only, options.message)
            result = reset_to_remote(session.location, source, theirs, into, session.engine, options.dry_run)
        else:
            result = pull(session.location, source, theirs, into, session.engine, options)
    except NotFound:
        if branch is None and into is not None:
            _check_counterpart(source, into)
        raise
    result = replace(result, merged=result.merged.said("shell"))
    session.output.show(result.as_record(), painted(session.output, result.lines()))
    return exit_code(result.merged)


def _check_counterpart(remote: Remote, branch: str) -> None:
    """Raise NotFound with a hint if the remote has other branches but none of this name."""
    if branch not in read_refs(remote.location).branches:
        raise NotFound(
            f"{remote.name} has no branch '{branch}'.",
            hint=f"Name one, as in lance-git pull {remote.name} main; lance-git push creates '{branch}' there.",
        )


@verb("push")
@click.argument("remote", required=False)
@click.argument("names", metavar="[BRANCH|TAG]", nargs=-1)
@click.option("-m", "message", help="Message of the new version; by default that of the branch's newest.")
@click.option("--tags", "all_tags", is_flag=True, help="Then all tags whose rows the remote has, too.")
@click.option("-u", "--set-upstream", is_flag=True, hidden=True, help="As every push does.")
@dry_run_option
@click.pass_obj
def push(session: Session, /, remote: str | None, names: tuple[str, ...], dry_run: bool, **given: Any) -> int:
    """Send a branch or a tag to a remote.

    REMOTE is by default origin, or the only one; BRANCH is by default the current one. The branch's versions become one
    version there, and files that the remote lacks are copied. Refused if the remote has versions that the branch lacks:
    pull first. A missing branch or dataset is created at the remote. With --dry-run it fetches, and only shows what
    would be pushed. A TAG, also tags/NAME, is put on the version there that has the same rows; none is moved.
    """
    from lance_spark.remotes.push import PushOptions, push

    ref = pushed_ref(names, remote or "REMOTE")
    tag = None if ref is None else _tag_of(session, ref)
    if tag is not None:
        return _push_tag(session, find_remote(session, remote), tag, given["message"], dry_run)
    pushed = session.branch if ref is None else branch_or_none(ref.removeprefix("heads/"))
    check_own(session.location, pushed)
    place = find_remote(session, remote)
    result = push(session.location, place, pushed, session.engine, PushOptions(given["message"], dry_run))
    tags = _push_tags(session, place, dry_run) if given["all_tags"] else None
    data = result.as_record() if tags is None else {**result.as_record(), "tags": tags[0]}
    told = [] if tags is None else tags[1]
    session.output.show(data, "\n".join([painted(session.output, result.lines(alone=not told)), *told]))
    return 0 if result.replayed is None else exit_code(result.replayed)


def _tag_of(session: Session, ref: str) -> str | None:
    """The name of the tag that a word means; None for a branch. Raises Refused if it is both."""
    table = read_refs(session.location)
    kind, _, name = ref.partition("/")
    if kind == "tags" and name and ref not in table.branches:
        return name
    if ref not in table.tags or ref == MAIN:
        return None
    if ref in table.branches:
        raise Refused(f"'{ref}' is both a branch and a tag.", hint=f"Write heads/{ref} or tags/{ref}.")
    return ref


def _push_tag(session: Session, remote: Remote, tag: str, message: str | None, dry_run: bool) -> int:
    from lance_spark.remotes.tags import push_tag

    if message is not None:
        raise InvalidOption("-m is for branches: a tag has no message.", hint="Leave it out.")
    done = push_tag(session.location, remote, tag, session.engine, dry_run)
    session.output.show(done.as_record(), painted(session.output, done.lines()))
    return 0


def _push_tags(session: Session, remote: Remote, dry_run: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Push each tag whose rows the remote has; returns the results for JSON, and lines, also about those that stay."""
    from lance_spark.errors import AlreadyExists
    from lance_spark.refs.refs import find_tag, list_tags
    from lance_spark.remotes.tags import push_tag

    records, lines = [], []
    for tag in list_tags(session.location):
        try:
            done = push_tag(session.location, remote, tag.name, session.engine, dry_run)
        except (Refused, AlreadyExists, NotFound) as problem:
            if isinstance(problem, Refused) and find_tag(remote.location, tag.name) is not None:
                continue  # it was pushed when its version was the newest
            records.append({"tag": tag.name, "created": False, "why": problem.message})
            lines.append(f"Tag '{tag.name}' was not pushed: {problem.message}")
            continue
        records.append(done.as_record())
        lines += [painted(session.output, done.lines())] if done.created else []
    return records, lines


_NOT_FOUND, _NO_ANSWER = 10, 20


@verb("relocate")
@click.option("--from", "old", metavar="URI", help="The former place of the files; found by default.")
@click.option("--to", "new", metavar="URI", help="Their current place, if not in this dataset.")
@dry_run_option
@yes_option
@click.pass_obj
def relocate(session: Session, old: str | None, new: str | None, dry_run: bool, yes: bool) -> int:
    """Repair branches after a move or a copy.

    A branch names the files of its parent by their absolute place. After a move of the dataset, the branch breaks;
    after a copy, it reads from the original. This verb checks the base paths of main and every branch. If every file of
    a base path is here, it makes a version that reads the files from here. A clone whose source was moved needs
    --from OLD --to NEW.
    """
    from lance_spark.clones.relocate import relocate

    relocation = relocate(session.location, old, new, dry_run=True)
    if relocation.branches and not dry_run:
        names = ", ".join(branch.branch or MAIN for branch in relocation.branches)
        details = painted(session.output, relocation.base_lines())
        confirm(f"{names}: the files will be read from {_targets(relocation)}.", yes, details)
    if not dry_run:
        relocation = relocate(session.location, old, new)
    session.output.show(relocation.as_record(), painted(session.output, relocation.lines()))
    return _exit_code(relocation)


def _targets(relocation: Relocation) -> str:
    return ", ".join(sorted({base.target.uri for base in relocation.repaired if base.target is not None}))


def _exit_code(relocation: Relocation) -> int:
    states = {base.state for base in relocation.problems}
    if not states:
        return 0
    return _NO_ANSWER if "unreachable" in states else _NOT_FOUND
