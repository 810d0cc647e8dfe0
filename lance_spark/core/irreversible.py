"""Verbs and options that cannot be undone: no hint about a near name ever proposes one of them. Pure.

Who types ``branch --merged`` wants to look. "Did you mean --purge?" would delete files for good.
"""

from __future__ import annotations

from collections.abc import Iterable

FOREVER = frozenset(
    {
        # verbs of the shell, procedures of SQL, and words of git and Delta that lead to them
        "clean", "cleanup", "deregister", "drop", "expire-refs", "expire_refs", "gc", "prune", "purge", "remove",
        "reset", "rm", "unfreeze", "vacuum",
        # options
        "-D", "-f", "-y", "at_once", "delete_unverified", "drop_fork_versions", "execute", "force", "on_tagged", "yes",
    }
)  # fmt: skip
"""Names without dashes in front; short options with theirs."""


def is_forever(name: str) -> bool:
    """Whether a verb, an option or a parameter may do what cannot be undone."""
    plain = name.lstrip("-")
    return name in FOREVER or (len(plain) > 1 and not {plain, plain.replace("-", "_")}.isdisjoint(FOREVER))


def proposable(names: Iterable[str]) -> list[str]:
    """The names that a hint about a near name may propose."""
    return [name for name in names if not is_forever(name)]
