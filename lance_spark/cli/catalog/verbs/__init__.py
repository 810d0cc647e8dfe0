"""The verbs. A new one is one file here, with a ``command`` in it, and one line below."""

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
"""Name of a verb, and the file of this package that has it; in the order of the help."""
