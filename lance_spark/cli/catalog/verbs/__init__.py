"""The verbs of ``lance-catalog``. A new one is a file here with a ``command``, and a line below."""

from __future__ import annotations

VERBS = {
    "ls": "ls",
    "tree": "tree",
    "describe": "describe",
    "create": "create",
    "alter": "alter",
    "rename": "rename",
    "rm": "rm",
    "register": "register",
    "deregister": "deregister",
    "migrate": "migrate",
    "doctor": "doctor",
    "fsck": "fsck",
    "du": "du",
}
"""File in this package by name of the verb, in the order of the help."""
