"""What is known of a branch or tag whose ref file is damaged, and the ref file that this makes. Pure.

What a damaged file still says counts if it is whole: a number that the end of the file cuts off may have more digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

_TEXT = r'"((?:[^"\\]|\\.)*)"'
_NUMBER = r"(\d+)\s*[,}\]]"


class Origin(NamedTuple):
    """The version that a branch was made from."""

    parent: str | None
    """None for main."""
    version: int


@dataclass(frozen=True)
class BranchEvidence:
    """What is known of a branch."""

    remains: bytes
    """What its ref file holds; empty if there is no file."""
    first: Origin | None = None
    """What the first version of the branch says it was copied from; None if that version was cleaned up."""
    first_ns: int = 0
    """Commit time of that version, nanoseconds since the epoch."""
    size: int = 0
    """Bytes of the manifest that it was made from, or of its own first one."""
    ancestors: tuple[tuple[int, str], ...] | None = ()
    """Version and identity of all branches that its parent descends from, and of the parent; None if not known."""
    identities: tuple[str, ...] = ()
    """Identities that branches made from this one, and merges of it, name."""


@dataclass(frozen=True)
class TagEvidence:
    """What is known of a tag."""

    remains: bytes
    versions: frozenset[tuple[str | None, int]]
    """The versions that are there, by branch and number."""


class RestoredRef(NamedTuple):
    """A ref file as it has been, as far as that is known."""

    content: str
    says: str
    """What it was made from, in words."""


def restored_branch(evidence: BranchEvidence, new_identity: str) -> RestoredRef | str:
    """The ref file of a branch; or, in words, why it cannot be made again.

    ``new_identity`` is what the branch gets if nothing ever named its own.
    """
    left = _loaded(evidence.remains)
    text = evidence.remains.decode("utf-8", "replace")
    origin = evidence.first or _origin(left, text)
    if origin is None:
        return "neither the file nor a first version of the branch says what it was made from"
    if evidence.ancestors is None:
        return f"the ref of '{origin.parent}', which it was made from, is not known either"
    own = _own_identity(left, text)
    identities = {own} if own else set(evidence.identities)
    if len(identities) > 1:
        return "branches and merges name it by different identities"
    identity = next(iter(identities), new_identity)
    content = {
        "parentBranch": origin.parent,
        "identifier": {"version_mapping": [*map(list, evidence.ancestors), [origin.version, identity]]},
        "parentVersion": origin.version,
        "createAt": _number(left, text, "createAt") or evidence.first_ns // 10**9,
        "manifestSize": _number(left, text, "manifestSize") or evidence.size,
        "metadata": left.get("metadata") or {},
    }
    told = "the branch's first version" if evidence.first else "what is left of the file"
    lost = "" if left else "; notes in its metadata, if there were any, are lost"
    return RestoredRef(json.dumps(content, indent=2), told + lost)


def restored_tag(evidence: TagEvidence, size: int) -> RestoredRef | str:
    """The ref file of a tag; or why it cannot be made again. ``size`` is that of the version's manifest, in bytes."""
    target = tagged(evidence.remains)
    if target is None:
        return "the file does not say any more which version it tags"
    if target not in evidence.versions:
        return f"it tags version {target[1]} of '{target[0] or 'main'}', which is not there"
    text = evidence.remains.decode("utf-8", "replace")
    content: dict[str, Any] = {"branch": target[0], "version": target[1]}
    for key in ("createdAt", "updatedAt"):
        found = re.search(rf'"{key}"\s*:\s*{_TEXT}', text)
        if found:
            content[key] = found[1]
    content |= {"manifestSize": _number({}, text, "manifestSize") or size, "metadata": {}}
    return RestoredRef(
        json.dumps(content, indent=2), "what is left of the file; its metadata, if there was any, is lost"
    )


def tagged(remains: bytes) -> tuple[str | None, int] | None:
    """The branch and version that a damaged ref file of a tag names; None if it does not name them wholly."""
    text = remains.decode("utf-8", "replace")
    branch, version = (
        re.search(rf'"branch"\s*:\s*(?:null|{_TEXT})\s*,', text),
        re.search(rf'"version"\s*:\s*{_NUMBER}', text),
    )
    return (branch[1], int(version[1])) if branch and version else None


def mapping(content: bytes) -> tuple[tuple[int, str], ...]:
    """Version and identity of every ancestor of a branch and of itself, from a sound ref file; empty for older ones."""
    return _mapping(_loaded(content))


def clone_uri(remains: bytes) -> str | None:
    """The URI that a damaged note of a clone names; None if it is cut off."""
    found = re.search(rf'"uri"\s*:\s*{_TEXT}', remains.decode("utf-8", "replace"))
    return str(json.loads(f'"{found[1]}"')) if found else None


def contradiction(said: Origin, first: Origin | None) -> str:
    """How a ref contradicts the first version of its branch; "" if it does not."""
    if first is None or said == first:
        return ""
    return f"it says {_name(said)}, and the first version was copied from {_name(first)}"


def _name(origin: Origin) -> str:
    return f"{origin.parent or 'main'}@{origin.version}"


def _loaded(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _origin(left: dict[str, Any], text: str) -> Origin | None:
    version = _number(left, text, "parentVersion")
    parent = re.search(rf'"parentBranch"\s*:\s*(?:null|{_TEXT})\s*,', text)
    return Origin(parent[1], version) if version and parent else None


def _number(left: dict[str, Any], text: str, key: str) -> int | None:
    if isinstance(left.get(key), int):
        return int(left[key])
    found = re.search(rf'"{key}"\s*:\s*{_NUMBER}', text)
    return int(found[1]) if found else None


def _own_identity(left: dict[str, Any], text: str) -> str:
    known = _mapping(left)
    if known:
        return known[-1][1]
    whole = re.search(r'"version_mapping"\s*:\s*\[(.*?\])\s*\]\s*\}', text, re.DOTALL)
    pairs: Sequence[str] = re.findall(rf"\[\s*\d+\s*,\s*{_TEXT}\s*\]", whole[1]) if whole else ()
    return pairs[-1] if pairs else ""


def _mapping(left: dict[str, Any]) -> tuple[tuple[int, str], ...]:
    try:
        return tuple((int(version), str(one)) for version, one in left["identifier"]["version_mapping"] if version)
    except (KeyError, TypeError, ValueError):
        return ()
