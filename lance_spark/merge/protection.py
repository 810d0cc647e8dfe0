"""What may be committed to a protected branch. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark import hints
from lance_spark.errors import Refused
from lance_spark.merge.trace import ACTION, MERGE, RELOCATE, REORDERED
from lance_spark.refs.names import MAIN

_UPKEEP = frozenset({"CreateIndex", "Rewrite", "ReserveFragments", "UpdateBases"})
"""Operations of pylance after which every reader finds the same rows, columns and values. Compactions and indexes of a
protected branch are allowed: it is the one that many read, and forbidding its upkeep would only make it slow."""
_ALLOWED = frozenset({MERGE, RELOCATE})
"""Actions of ours that are allowed, whichever operation carries them."""


def may_commit(operation: object, properties: Mapping[str, str]) -> bool:
    """Whether a protected branch takes an operation of pylance with these transaction properties."""
    upkeep = type(operation).__name__ in _UPKEEP or properties.get(REORDERED) == "true"
    return upkeep or properties.get(ACTION) in _ALLOWED


def protected_refused(branch: str | None, what: str = "only merges write to it") -> Refused:
    """The error for whoever changes a protected branch."""
    name = branch or MAIN
    return Refused(
        f"Branch '{name}' is protected: {what}.",
        hint=hints.of(
            "Write to another branch and merge it. If the protection has to go: ", hints.unprotect_branch(name), "."
        ),
    )
