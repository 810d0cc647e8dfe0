"""The verbs of ``lance-catalog``. A new one is a function in a file here, and a line below."""

from __future__ import annotations

GROUPS = {
    "Look at the catalog": {
        "ls": "listing.ls",
        "tree": "listing.tree",
        "describe": "listing.describe",
        "status": "branch.status",
        "serve": "listing.serve",
    },
    "Change namespaces and tables": {
        "create": "changing.create",
        "alter": "changing.alter",
        "rename": "changing.rename",
        "rm": "changing.rm",
    },
    "Register existing tables": {
        "register": "changing.register",
        "deregister": "changing.deregister",
        "migrate": "changing.migrate",
    },
    "Branch the whole catalog, and keep states of it": {
        "branch": "branch.branch",
        "checkout": "branch.checkout",
        "switch": "branch.checkout",
        "diff": "publishing.diff",
        "merge": "publishing.merge",
        "log": "publishing.log",
        "recover": "publishing.recover",
        "tag": "tag.tag",
        "reflog": "publishing.reflog",
    },
    "Keep the catalog in order": {
        "du": "listing.du",
        "doctor": "doctor.doctor",
        "fsck": "doctor.fsck",
        "schedule": "schedule.schedule",
    },
    "Use the catalog in other programs": {
        "jar": "jar.jar",
    },
}
"""File in this package and function in it, by group and name of the verb, in the order of the help."""
