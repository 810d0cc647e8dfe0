"""The verbs of ``lance-git``. A new one is a function in a file here, and a line below."""

from __future__ import annotations

GROUPS = {
    "Start a working area": {
        "init": "init.command",
        "clone": "clone.command",
        "import": "importing.command",
    },
    "Examine the history and state": {
        "status": "history.status",
        "log": "history.log",
        "show": "history.show",
        "diff": "history.diff",
        "reflog": "history.reflog",
        "serve": "history.serve",
    },
    "Grow and mark the history": {
        "branch": "branch.command",
        "checkout": "checkout.command",
        "switch": "checkout.command",
        "tag": "tag.command",
        "merge": "merge.merge",
        "cherry-pick": "merge.cherry_pick",
        "revert": "merge.revert",
        "restore": "merge.restore",
    },
    "Collaborate with other places": {
        "remote": "remote.remotes",
        "fetch": "remote.fetch",
        "pull": "remote.pull",
        "push": "remote.push",
    },
    "Keep a dataset in order": {
        "du": "upkeep.du",
        "gc": "upkeep.gc",
        "expire-refs": "upkeep.expire_refs",
        "fsck": "upkeep.fsck",
        "config": "config.command",
        "relocate": "remote.relocate",
    },
}
"""File in this package and function in it, by group and name of the verb, in the order of the help."""
VERBS = frozenset(name for group in GROUPS.values() for name in group)
