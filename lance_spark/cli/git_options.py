"""Options of git that verbs of ``lance-git`` lack: why, and what to type instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lance_spark.core.ref_expressions import HEAD
from lance_spark.errors import InvalidOption

_DONE = "a merge is one commit or none, so nothing is ever in progress"
_NO_INDEX = "every write is a version at once, with nothing staged"
_NEVER_OVER = "a push never takes away what the remote has"
_PULL_FIRST = (
    "Bring what is there first: lance-git pull. To give up your own versions: lance-git pull --reset, which puts "
    "rows of yours that the remote lacks on a branch."
)
_WHICH = "which branches are merged is not listed by itself"
_MERGED = "lance-git diff main..NAME shows what main lacks; lance-git log --graph --all draws where it was merged."
_SIDE = "conflicts are told before anything is written, by rows and columns"
_SETTLE = "lance-git merge REF --dry-run lists the conflicts; -X ours or -X theirs says which side wins."
_NO_MESSAGE = "a tag is a name and nothing else"
_TAG = "lance-git tag NAME REF; --owner says whom to ask. Messages are of versions: lance-git merge -m TEXT."
_SHALLOW = "a clone copies no files to begin with; only metadata"
_STAT = "lance-git diff A..B --stat counts fragments and files; --rows compares rows."
_ALL = "lance-git fetch takes one remote"

OPTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "merge": {
        "--abort": (_DONE, "After a conflict nothing has changed. To undo a finished merge: lance-git revert REF."),
        "--continue": (_DONE, _SETTLE),
        "--quit": (_DONE, "After a conflict nothing has changed."),
        "--strategy-option": (_SIDE, _SETTLE),
        "-s": (_SIDE, _SETTLE),
        "--strategy": (_SIDE, _SETTLE),
        "--no-ff": ("a merge is one version of its own unless nothing else changed", "lance-git merge REF -m TEXT"),
        "--squash": ("a merge is always one version", "lance-git merge REF -m TEXT"),
        "--no-commit": ("nothing is staged", "lance-git merge REF --dry-run shows what would happen."),
    },
    "cherry-pick": {
        "--abort": (_DONE, "After a conflict nothing has changed."),
        "--continue": (_DONE, "lance-git cherry-pick REF -X theirs takes its values; -X ours keeps yours."),
        "--no-commit": ("nothing is staged", "lance-git cherry-pick REF --dry-run shows what would happen."),
        "-x": ("the new version names its source anyway", "lance-git show REF shows it."),
    },
    "revert": {
        "--abort": (_DONE, "After a conflict nothing has changed."),
        "--continue": (_DONE, "lance-git revert REF -X theirs takes its values; -X ours keeps yours."),
        "--no-commit": ("nothing is staged", "lance-git revert REF --dry-run shows what would happen."),
    },
    "push": {
        "--force-with-lease": (_NEVER_OVER, _PULL_FIRST),
        "--force": (_NEVER_OVER, _PULL_FIRST),
        "-f": (_NEVER_OVER, _PULL_FIRST),
        "--delete": ("branches are deleted where they are", "lance-git -C URI branch -d NAME, or tag -d NAME."),
        "-d": ("branches are deleted where they are", "lance-git -C URI branch -d NAME, or tag -d NAME."),
        "--all": ("a push sends one branch", "lance-git push REMOTE BRANCH, for each."),
        "--mirror": ("a push sends one branch", "lance-git clone --deep URI DIR copies a whole dataset."),
    },
    "pull": {
        "--rebase": ("existing versions never change", "lance-git pull merges; --ff-only refuses to."),
        "--force": (
            "a pull loses nothing",
            "lance-git pull --reset becomes what the remote has; own rows go on a branch.",
        ),
        "--tags": ("tags of a remote are not fetched", "lance-git -C URI tag lists them."),
        "--all": (_ALL, "lance-git pull REMOTE BRANCH"),
        "--abort": (_DONE, "After a conflict nothing has changed."),
    },
    "fetch": {
        "--all": (_ALL, "lance-git fetch REMOTE, for each of lance-git remote."),
        "--prune": ("a branch that is gone at the remote stays here", "lance-git remote show NAME shows which are."),
        "-p": ("a branch that is gone at the remote stays here", "lance-git remote show NAME shows which are."),
        "--tags": ("tags of a remote are not fetched", "lance-git -C URI tag lists them."),
        "--depth": (_SHALLOW, "lance-git fetch"),
    },
    "clone": {
        "--depth": (_SHALLOW, "lance-git clone URI DIR; --single-branch follows one branch."),
        "--bare": ("there is no working tree", "lance-git clone URI DIR"),
        "-b": ("a clone begins with a ref of the source", "lance-git clone --help shows where the REF goes."),
        "--branch": ("a clone begins with a ref of the source", "lance-git clone --help shows where the REF goes."),
    },
    "branch": {
        "--merged": (_WHICH, _MERGED),
        "--no-merged": (_WHICH, _MERGED),
        "--contains": ("branches are not searched by version", "lance-git log --graph --all draws them."),
        "--show-current": ("the list marks it", "lance-git branch; or lance-git status --json for programs."),
        "-M": ("no name is taken away from another branch", "lance-git branch -m [OLD] NEW"),
        "--force": ("a branch moves by commits only", "lance-git restore REF makes an older version the newest again."),
        "-f": ("a branch moves by commits only", "lance-git restore REF makes an older version the newest again."),
        "-u": ("a branch follows the one of its name at each remote", "lance-git status shows how far they are apart."),
        "--set-upstream-to": (
            "a branch follows the one of its name at each remote",
            "lance-git status shows how far they are apart.",
        ),
    },
    "checkout": {
        "-B": ("no branch is taken away", "lance-git checkout -b NAME REF, under another name."),
        "-f": (_NO_INDEX, "lance-git checkout NAME"),
        "--force": (_NO_INDEX, "lance-git checkout NAME"),
        "--detach": ("only a branch can be the current one", "lance-git checkout -b NAME REF"),
        "--track": ("a branch follows the one of its name at each remote", "lance-git checkout NAME"),
        "-t": ("a branch follows the one of its name at each remote", "lance-git checkout NAME"),
    },
    "tag": {
        "-m": (_NO_MESSAGE, _TAG),
        "--message": (_NO_MESSAGE, _TAG),
        "--annotate": (_NO_MESSAGE, _TAG),
        "-s": (_NO_MESSAGE, _TAG),
        "--contains": ("tags are not searched by version", "lance-git tag lists versions with them."),
        "--sort": ("tags are listed by name", "lance-git tag --json gives their times."),
    },
    "log": {
        "-p": ("versions differ by rows and files, not by lines", "lance-git log --stat; lance-git diff A..B --rows."),
        "--patch": (
            "versions differ by rows and files, not by lines",
            "lance-git log --stat; lance-git diff A..B --rows.",
        ),
        "--author": ("versions are not chosen by their author", "lance-git log --json"),
        "--since": ("versions are counted", "lance-git log -n 0 lists all, with their times."),
        "--decorate": ("branches and tags are always shown", "lance-git log"),
        "--follow": ("a dataset is one thing, not files", "lance-git log"),
        "--reverse": ("the newest is first", "lance-git log --json for programs."),
    },
    "diff": {
        "--cached": (_NO_INDEX, "lance-git diff A..B compares two refs."),
        "--staged": (_NO_INDEX, "lance-git diff A..B compares two refs."),
        "--name-only": ("rows have no file names", _STAT),
        "--name-status": ("rows have no file names", _STAT),
        "--numstat": ("rows have no lines", _STAT),
    },
    "status": {
        "-s": ("it is short", "lance-git status; --json for programs."),
        "--short": ("it is short", "lance-git status; --json for programs."),
        "--porcelain": ("programs read JSON", "lance-git status --json"),
    },
    "show": {"--stat": ("it shows files and rows anyway", "lance-git show REF")},
    "init": {"--bare": ("there is no working tree", "lance-git init DATASET DIR")},
    "gc": {
        "--prune": ("what may go is decided by age", "lance-git gc --unverified-age 7d shows what would go."),
        "--aggressive": ("small files are compacted in Spark", "LanceTable.for_path(uri).optimize()"),
        "--auto": ("it runs when it is called", "lance-catalog schedule writes what runs a maintenance every night."),
    },
}
"""By verb and option: the reason, which ends a sentence, and the hint."""

WORDS_OF_REMOTES: Mapping[str, tuple[str, str]] = {
    "get-url": ("the list shows them", "lance-git remote -v"),
    "ls": ("the list is the verb alone", "lance-git remote -v"),
    "list": ("the list is the verb alone", "lance-git remote -v"),
    "prune": ("a branch that is gone at the remote stays here", "lance-git remote show NAME shows which are."),
    "rename": (
        "branches NAME/main would lose what they have in common with yours",
        "lance-git remote add NEW URI: both names may have one URI.",
    ),
    "update": ("fetching is a verb of its own", "lance-git fetch REMOTE, for each of lance-git remote."),
}
"""Words of ``git remote`` that are no verbs of ``lance-git remote``."""


def pushed_ref(names: Sequence[str], remote: str) -> str | None:
    """The branch or tag of a push as git's users type it; None for the current branch. Raises InvalidOption."""
    if len(names) == 2 and names[0] == "tag":
        return f"tags/{names[1].removeprefix('tags/')}"
    if len(names) > 1:
        each = ", then ".join(f"lance-git push {remote} {name}" for name in names)
        raise InvalidOption("A push sends one branch or one tag.", hint=f"{each}.")
    ref = names[0] if names else None
    if ref is not None and ref.startswith("+"):
        raise InvalidOption(f"'{ref}' would overwrite the branch there: {_NEVER_OVER}.", hint=_PULL_FIRST)
    if ref is not None and ":" in ref:
        here, _, there = ref.partition(":")
        if not here:
            hint = f"lance-git -C URI branch -d {there}, or tag -d {there}, with the URI of {remote}."
            raise InvalidOption(f"'{ref}' deletes nothing: branches and tags are deleted where they are.", hint=hint)
        if here != there:
            hint = f"lance-git push {remote} {here}, or lance-git branch {there} {here} and push that."
            raise InvalidOption("A push goes to the branch of the same name.", hint=hint)
        ref = here
    return None if ref == HEAD else ref
