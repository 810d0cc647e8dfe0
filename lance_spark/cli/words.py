"""Words of git that mean nothing to ``lance-git``: what they would be here, and what to type instead.

A dataset has no index and no files that wait for a commit: every write is a version at once. So the first word that
many people type, ``commit``, has nothing to do. "Did you mean 'cherry-pick'?" would not tell them.
"""

from __future__ import annotations

from collections.abc import Mapping

_NO_INDEX = "every write is a version at once, with nothing to stage or to commit"
_LOG = "lance-git log shows the versions, and lance-git tag NAME keeps one of them."
_REWRITES = "versions that are there never change"
_ASIDE = "nothing is left uncommitted that could be put aside"
_DROP = "To delete rows: DELETE FROM in Spark. For a whole table of a catalog: lance-catalog rm NAME."

WORDS: Mapping[str, tuple[str, str]] = {
    "commit": (_NO_INDEX, f"Write in Spark: df.write.format('lance').mode('append').save(...). Then {_LOG}"),
    "add": (_NO_INDEX, f"Write in Spark: df.write.format('lance').mode('append').save(...). Then {_LOG}"),
    "stage": (_NO_INDEX, _LOG),
    "stash": (_ASIDE, "To try something on the side: lance-git checkout -b NAME, and lance-git merge NAME later."),
    "rebase": (
        _REWRITES,
        "To have what main has by now: lance-git merge main. One version of it: lance-git cherry-pick REF.",
    ),
    "reset": (
        _REWRITES,
        "To make an older version the newest again: lance-git restore REF. To take one back: lance-git revert REF.",
    ),
    "rm": ("it does not delete rows or files", _DROP),
    "mv": (
        "it does not move files",
        "To rename a table of a catalog: lance-catalog rename OLD NEW.",
    ),
    "blame": ("rows have no lines", "lance-git log --stat says what each version added and removed."),
    "bisect": ("it searches no history", "lance-git log lists versions; lance-git diff A..B --rows compares two."),
    "grep": ("it reads no rows", "Read in Spark: spark.read.format('lance').load(...).where(...)."),
    "config": ("settings are in a file", "Edit .lance-git/config.toml; remotes: lance-git remote."),
    "worktree": (
        "a branch is a directory of its own",
        "Go to DATASET/tree/BRANCH with cd, or make a second workspace: lance-git init DATASET DIR.",
    ),
    "prune": ("files that nothing needs are for gc", "lance-git gc says what would go; --execute deletes it."),
    "repack": ("small files are joined in Spark", "LanceTable.for_path(spark, uri).optimize()"),
    "rev-parse": ("there are no hashes", "lance-git show REF says which version a ref is."),
    "describe": ("there are no hashes", "lance-git show REF says which version a ref is, and its tags."),
    "shortlog": ("versions have no authors", _LOG),
    "ls-files": ("files have no names to list", "lance-git show REF, or lance-git du for sizes."),
    "mergetool": (
        "conflicts are not edited",
        "lance-git merge says what clashes: settle it on one side, and merge again.",
    ),
}
"""By the word of git: why there is no such verb, and what to type instead."""
