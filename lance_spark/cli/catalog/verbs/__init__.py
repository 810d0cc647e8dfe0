"""The verbs of ``lance-catalog``. A new one is a function in a file here, and a line below."""

from __future__ import annotations

VERBS = {
    "ls": "listing.ls",
    "tree": "listing.tree",
    "describe": "listing.describe",
    "create": "changing.create",
    "alter": "changing.alter",
    "rename": "changing.rename",
    "rm": "changing.rm",
    "register": "changing.register",
    "deregister": "changing.deregister",
    "migrate": "changing.migrate",
    "doctor": "doctor.doctor",
    "fsck": "doctor.fsck",
    "du": "listing.du",
}
"""File in this package and function in it, by name of the verb, in the order of the help."""
