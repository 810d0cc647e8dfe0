"""The verbs. A new one is one file here, with a ``command`` in it, and one line below."""

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
"""Name of a verb, and the file of this package that has it; in the order of the help."""
