"""The verbs of ``lance-git``. A new one is a function in a file here, and a line below."""

from __future__ import annotations

VERBS = {
    "init": "init.command",
    "clone": "clone.command",
    "branch": "branch.command",
    "checkout": "checkout.command",
    "switch": "checkout.command",
    "tag": "tag.command",
    "log": "history.log",
    "reflog": "history.reflog",
    "show": "history.show",
    "status": "history.status",
    "diff": "history.diff",
    "merge": "merge.merge",
    "cherry-pick": "merge.cherry_pick",
    "revert": "merge.revert",
    "restore": "merge.restore",
    "remote": "remote.remotes",
    "fetch": "remote.fetch",
    "pull": "remote.pull",
    "push": "remote.push",
    "relocate": "remote.relocate",
    "gc": "upkeep.gc",
    "expire-refs": "upkeep.expire_refs",
    "du": "upkeep.du",
    "fsck": "upkeep.fsck",
}
"""File in this package and function in it, by name of the verb, in the order of the help."""
