"""The verbs of ``lance-git``. A new one is a file here with a ``command``, and a line below."""

from __future__ import annotations

VERBS = {
    "init": "init",
    "clone": "clone",
    "branch": "branch",
    "checkout": "checkout",
    "switch": "checkout",
    "tag": "tag",
    "log": "log",
    "reflog": "reflog",
    "show": "show",
    "status": "status",
    "diff": "diff",
    "merge": "merge",
    "cherry-pick": "cherry_pick",
    "revert": "revert",
    "restore": "restore",
    "remote": "remote",
    "fetch": "fetch",
    "pull": "pull",
    "push": "push",
    "relocate": "relocate",
    "gc": "gc",
    "expire-refs": "expire_refs",
    "du": "du",
    "fsck": "fsck",
}
"""File in this package by name of the verb, in the order of the help."""
