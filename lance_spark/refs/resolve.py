"""Choosing a version, and naming the nearest ones if there is none."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from datetime import datetime

from lance_spark.errors import NotFound
from lance_spark.refs.model import VersionInfo
from lance_spark.refs.names import MAIN, may_be_meant


def newest_at(versions: Sequence[VersionInfo], moment: datetime, branch: str | None) -> int:
    """Number of the newest version committed at or before the moment.

    The highest number wins, not the latest timestamp: writers' clocks differ, the chain of numbers does not.
    Raises NotFound when every version is younger.
    """
    candidates = [info.version for info in versions if info.timestamp <= moment]
    if not candidates:
        oldest = min((info.timestamp for info in versions), default=None)
        raise NotFound(
            f"Branch '{branch or MAIN}' has no version at or before {moment.isoformat()}.",
            hint=f"Its oldest version is from {oldest.isoformat()}." if oldest else None,
        )
    return max(candidates)


def missing(kind: str, name: str, known: Iterable[str]) -> NotFound:
    """A NotFound for a branch or tag that suggests the nearest known names."""
    names = may_be_meant(name, known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        hint = "Did you mean " + " or ".join(f"'{match}'" for match in near) + "?"
    elif names:
        shown = ", ".join(f"'{match}'" for match in names[:5])
        hint = f"The dataset has {shown}{' and more' if len(names) > 5 else ''}."
    else:
        hint = f"The dataset has no {kind} yet."
    return NotFound(f"There is no {kind} '{name}'.", hint=hint)


def missing_version(version: int, branch: str | None, known: Sequence[int]) -> NotFound:
    """A NotFound for a version number that suggests the nearest existing ones."""
    near = sorted(sorted(known, key=lambda other: (abs(other - version), other))[:3])
    hint = f"Nearest versions: {', '.join(map(str, near))}." if near else None
    return NotFound(f"Branch '{branch or MAIN}' has no version {version}.", hint=hint)
