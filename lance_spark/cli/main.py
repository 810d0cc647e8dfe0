"""The entry point of ``lance-git``: its global options, and hints for words that it lacks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import click

from lance_spark.cli.completion import with_names
from lance_spark.cli.git_options import OPTIONS
from lance_spark.cli.output import exit_codes_text, put
from lance_spark.cli.program import Verbs, run, wanted_output
from lance_spark.cli.session import Session
from lance_spark.cli.verbs import GROUPS
from lance_spark.core.location import is_uri
from lance_spark.core.storage_options import storage_from
from lance_spark.core.workspace import check_uri
from lance_spark.errors import InvalidOption
from lance_spark.storage.datasets import locate_typed

# --- Words of git without a verb in ``lance-git``
# A dataset has no index and no uncommitted files: every write is a version at once. So ``commit``, the first word that
# many people type, has nothing to do. "Did you mean 'cherry-pick'?" would not help them.

_NO_INDEX = "every write is a version at once, with nothing to stage or commit"
_LOG = "lance-git log shows the versions, and lance-git tag NAME keeps one of them."
_REWRITES = "existing versions never change"
_ASIDE = "nothing is uncommitted, so nothing can be put aside"
_DROP = "To delete rows: DELETE FROM in Spark. To drop a table of a catalog: lance-catalog rm NAME."

WORDS: Mapping[str, tuple[str, str]] = {
    "commit": (_NO_INDEX, f"Write in Spark, or with lance-git import FILE. Then {_LOG}"),
    "add": (_NO_INDEX, f"Write in Spark, or with lance-git import FILE. Then {_LOG}"),
    "stage": (_NO_INDEX, _LOG),
    "stash": (_ASIDE, "To try something out: lance-git checkout -b NAME, and lance-git merge NAME later."),
    "rebase": (
        _REWRITES,
        "To get the changes of main: lance-git merge main. To get one version of it: lance-git cherry-pick REF.",
    ),
    "reset": (
        _REWRITES,
        "To make an older version the newest again: lance-git restore REF. To undo one: lance-git revert REF.",
    ),
    "rm": ("it does not delete rows or files", _DROP),
    "mv": (
        "it does not move files",
        "To rename a table of a catalog: lance-catalog rename OLD NEW.",
    ),
    "completion": (
        "the shell asks for it by itself",
        'eval "$(_LANCE_GIT_COMPLETE=bash_source lance-git)" in ~/.bashrc, zsh_source in ~/.zshrc.',
    ),
    "man": (
        "manual pages are written once",
        "pip install click-man && python -m lance_spark.cli.man ~/.local/share/man/man1, then man lance-git.",
    ),
    "blame": ("rows have no lines", "lance-git serve shows which branch and version changed a row."),
    "bisect": ("it searches no history", "lance-git log lists versions; lance-git diff A..B --rows compares two."),
    "grep": ("it reads no rows", "Read in Spark: spark.read.format('lance').load(...).where(...)."),
    "worktree": (
        "a branch is a directory of its own",
        "Go to DATASET/tree/BRANCH with cd, or make a second workspace: lance-git init DATASET DIR.",
    ),
    "prune": ("files that nothing needs are for gc", "lance-git gc lists what would be deleted; --execute deletes it."),
    "repack": ("small files are compacted in Python", "LanceTable.for_path(uri).optimize(), with or without Spark."),
    "vacuum": (
        "old versions and their files are for gc",
        "lance-git gc lists what would be deleted; --execute deletes it.",
    ),
    "optimize": ("small files are compacted in Python", "LanceTable.for_path(uri).optimize(), with or without Spark."),
    "maintain": (
        "it is a job",
        "python -m lance_spark.jobs.maintain DATASET, or ROOT of a catalog; in Python t.maintain().",
    ),
    "rev-parse": ("there are no hashes", "lance-git show REF shows the version of a ref."),
    "describe": ("there are no hashes", "lance-git show REF shows the version of a ref, and its tags."),
    "shortlog": ("it sorts no versions by author", f"LANCE_AUTHOR says who commits. {_LOG}"),
    "ls-files": ("files have no names to list", "lance-git show REF, or lance-git du for sizes."),
    "mergetool": (
        "conflicts are not edited",
        "lance-git merge lists what clashes; -X ours or -X theirs says which side wins.",
    ),
}
"""By git's word, or Delta's: why ``lance-git`` has no such verb, and what to type instead."""


# --- The entry point of ``lance-git``, with its global options

NAME = "lance-git"
_PARTLY = "gc, fsck: only part could be deleted or repaired"


class _Place(click.Path):
    """An existing directory, or the URI of a dataset."""

    def __init__(self) -> None:
        super().__init__(exists=True, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text unchanged; for a file URI, its path."""
        if not is_uri(value):
            return super().convert(value, param, ctx)
        check_uri(value)
        location = locate_typed(value)
        return super().convert(location.uri, param, ctx) if location.is_local else value


@click.group(
    NAME,
    cls=Verbs,
    package="lance_spark.cli.verbs",
    groups=GROUPS,
    words=WORDS,
    options=OPTIONS,
    prepare=partial(with_names, NAME),
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"\b\nA REF is a branch, a tag, branch@7, @7, main~2 or HEAD; heads/NAME and tags/NAME are explicit.\n\n"
    f"\b\nExit codes:\n{exit_codes_text(_PARTLY)}",
)
@click.option("-C", "place", type=_Place(), metavar="DIR|URI", help="Run in this directory, or on this dataset.")
@click.option("--dataset", metavar="URI", help="Work on this dataset, without a workspace.")
@click.option("--storage", multiple=True, metavar="KEY=VALUE", help="A storage option; never stored (repeatable).")
@click.option("--no-color", is_flag=True, help="Plain text even on a terminal (like NO_COLOR).")
@click.version_option(package_name="lance-spark", prog_name=NAME)
@click.pass_context
def cli(
    context: click.Context, /, place: str | None, dataset: str | None, storage: tuple[str, ...], **given: Any
) -> None:
    """Git's verbs for Lance datasets: branches, tags, versions.

    In or below a dataset's directory, lance-git works on that dataset; elsewhere, name one with -C. The current branch
    is then main or, in a branch's own directory tree/BRANCH, that branch.

    A workspace is a directory with .lance-git/config.toml, which names the dataset, the current branch and the remotes;
    init and clone create it. The nearest workspace or dataset applies, in this directory or above. If a directory has
    both, the workspace applies. Credentials come from the environment or --storage.
    """
    if place is not None and is_uri(place):
        if dataset is not None:
            raise InvalidOption("-C and --dataset both name a dataset.", hint="Leave one of them out.")
        dataset = place
    elif place is not None:
        os.chdir(place)
    context.obj = Session(wanted_output(context, given["no_color"]), dataset, storage_from(storage), place is not None)
    if context.invoked_subcommand is None:
        put(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    return run(cli, NAME, argv)
