"""Branches and tags of a whole catalog, as values: names, and what a row of ``__manifest`` pins. Pure.

A branch of a lake is a branch of the table ``__manifest``; so is a tag, which nobody writes to. Its rows say which
version each table had when it was created, and which branch of the table has its changes. See
docs/reference/catalog-branches.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, ClassVar

from lance_spark.core.lifetimes import Lifetime
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.stored_json import decode_json
from lance_spark.core.ref_names import (
    LAKE_BRANCH,
    LAKE_TAGS,
    check_branch_name,
    check_new_branch_name,
    check_new_tag_name,
    check_tag_name,
)
from lance_spark.core.show import Card, Shown
from lance_spark.core.texts import counted, moment
from lance_spark.errors import CorruptData, InvalidName

KEY = "lance_spark.lake"
"""In a row's metadata: what the row pins. In the metadata of the table ``__manifest``: the ref that a branch is."""
TAGS = LAKE_TAGS
"""Prefix of the branches of ``__manifest`` that are tags of the lake."""
BRANCH, TAG, PUBLISHED = "branch", "tag", "published"
_ID = re.compile(r"[0-9a-f]{8}")
_AUDIT = re.compile(r"publish-[0-9a-f]{8}")


@dataclass(frozen=True, repr=False)
class LakeRef(Shown):
    """A branch or a tag of a whole catalog: one version of each table."""

    kind: ClassVar[str]
    """``branch``, ``tag`` or ``published``."""

    name: str
    id: str
    """Distinguishes it from an earlier one of the same name: 8 hexadecimal digits."""
    created_at: datetime
    """Time of creation, UTC, whole seconds."""
    tables: int = 0
    """How many tables it pinned when it was created."""
    ready: bool = False
    """Whether it is complete. One that is not was, or is being, created or deleted; it can only be deleted."""
    temporary: bool = False
    """Whether a job made it for itself: it is not listed, and nobody else changes it."""
    base: int = 0
    """Of one that was complete and is being deleted: the version of its rows from which its changes count."""
    lifetime: Lifetime = field(default=Lifetime(), compare=False)
    """When a branch expires, who is responsible for it, and whether it is protected."""

    @property
    def called(self) -> str:
        return f"{self.kind} '{self.name}'"

    @property
    def typed(self) -> str:
        return f"{self.kind}={self.name!r}"

    @property
    def option(self) -> dict[str, str]:
        """The option of a read or write that names it."""
        return {f"catalog_{self.kind}": self.name}

    @property
    def branch(self) -> str:
        return branch_of(self.kind, self.name)

    @property
    def pin_tag(self) -> str:
        """The tag of each table that keeps the pinned version."""
        return pin_tag_of(self.name, self.id)

    @property
    def table_branch(self) -> str:
        """The branch of each table that has the changes made on this branch of the lake."""
        return f"{LAKE_BRANCH}{self.name}-{self.id}"

    def encode(self) -> str:
        """The value of :data:`KEY` in the metadata of the table."""
        made = self.created_at.isoformat()
        values = {"name": self.name, "id": self.id, "created": made, "tables": self.tables, "ready": self.ready}
        extra: dict[str, object] = {"temporary": True} if self.temporary else {}
        return json.dumps({**values, **extra, **({"base": self.base} if self.base else {})})

    def _card(self) -> Card:
        state = counted(self.tables, "table") if self.ready else "incomplete: delete it"
        created = moment(self.created_at)
        facts = (("made", created), ("pins", state), ("settings", str(self.lifetime)))
        return Card(type(self).__name__, self.name, f"{state}, made {created}", facts)


class LakeTag(LakeRef):
    """A tag of a whole catalog: one version of each table."""

    kind = TAG


class LakeBranch(LakeRef):
    """A branch of a whole catalog: it begins with one version of each table, and has changes of its own."""

    kind = BRANCH


@dataclass(frozen=True, repr=False)
class LakePublished(LakeRef):
    """Main of the whole catalog, without the publishes after the last one that was complete when this was taken."""

    kind = PUBLISHED
    sequence: int = 0
    """The sequence number of that publish; 0 before the first one."""

    @property
    def called(self) -> str:
        return f"publish {self.sequence}" if self.sequence else "the time before the first publish"

    @property
    def typed(self) -> str:
        return "published=True"

    @property
    def option(self) -> dict[str, str]:
        """The option of a read that names it."""
        return {"catalog_published": "true"}


def ref_class(kind: str) -> type[LakeRef]:
    return LakeTag if kind == TAG else LakeBranch


def branch_of(kind: str, name: str) -> str:
    """The branch of ``__manifest`` that a ref of the lake is."""
    return TAGS + name if kind == TAG else name


def pin_tag_of(name: str, id: str) -> str:
    """The tag of each table that keeps what a ref of the lake pins."""
    return f"lake-{name.replace('/', '.')}-{id}"


def name_of(kind: str, branch: str) -> str | None:
    """The ref of that kind that a branch of ``__manifest`` is; None if it is one of the other kind."""
    if branch.startswith(TAGS) != (kind == TAG):
        return None
    return branch.removeprefix(TAGS)


def audit_name(publish_id: str) -> str:
    """The temporary branch of the lake on which an audit looks at a publish."""
    return f"publish-{publish_id}"


def is_audit_name(name: str) -> bool:
    """Whether a branch of the lake is one of those."""
    return _AUDIT.fullmatch(name) is not None


def check_new_ref(kind: str, name: str) -> None:
    """Raise InvalidName, with the broken rule, for a name that a new ref of the lake cannot have."""
    if kind == TAG:
        check_new_tag_name(name)
    elif name.startswith(TAGS):
        raise InvalidName(f"'{name}' is not a valid name of a branch of the lake: '{TAGS}' belongs to its tags.")
    elif is_audit_name(name):
        raise InvalidName(f"'{name}' is not a valid name of a branch of the lake: audits use names like it.")
    check_new_branch_name(branch_of(kind, name))
    check_new_branch_name(f"{LAKE_BRANCH}{name}-00000000")


def check_ref(kind: str, name: str) -> None:
    """Raise InvalidName, with the broken rule, for a name that no ref of the lake can have."""
    (check_tag_name if kind == TAG else check_branch_name)(name)


def decode_ref(kind: str, text: str | None, name: str) -> LakeRef | None:
    """The ref in the metadata of a branch of ``__manifest``; None if there is none yet. Raises CorruptData."""
    if text is None:
        return None
    with suppress(ValueError, KeyError, TypeError, OverflowError):
        found = decode_json(text)
        made = datetime.fromisoformat(found["created"]).astimezone(timezone.utc)
        state = (found["ready"] is True, found.get("temporary") is True, int(found.get("base", 0)))
        ref = ref_class(kind)(name, str(found["id"]), made, int(found["tables"]), *state)
        if found["name"] == name and _ID.fullmatch(ref.id):
            return ref
    raise CorruptData(f"The metadata of {kind} '{name}' of the lake cannot be read: {text[:100]!r}.")


@dataclass(frozen=True)
class ManifestAtRef(DatasetLocation):
    """Where the rows of a ref are. Whoever opens it checks that it is still this ref."""

    kind: str = TAG
    name: str = ""
    id: str = ""
    why_frozen: str = ""
    """Why nobody may change them; empty for a branch."""
    catalog: str = field(default="", repr=False)
    """The catalog's root, for errors."""


@dataclass(frozen=True)
class ManifestAtPublish(DatasetLocation):
    """``__manifest``, of which a reader sees the version before the next publish."""

    reader: LakePublished = field(kw_only=True)


def why_frozen(ref: LakeRef, has_rows: bool) -> str:
    """Why the rows of a ref cannot be changed; empty if they can."""
    if ref.kind == TAG or ref.temporary:
        return f"the catalog is read at {ref.kind} '{ref.name}', which never changes"
    return "" if has_rows else f"in a catalog of directories (V1), branch '{ref.name}' has no tables of its own"


# --- What a row pins


@dataclass(frozen=True)
class Pin:
    """What a row of a branch or tag of the lake says about its table. In a tag it has only the version."""

    version: int = 0
    """Main's version that it pins; 0 for a table that had no data, or that the branch of the lake created."""
    branch: str | None = None
    """The table's branch that has the changes; None if there are none."""
    new: bool = False
    """Whether the branch of the lake created the table: its first rows are on its main, which no one else sees."""

    @property
    def has_data(self) -> bool:
        """Whether there is something to read, as far as the row tells."""
        return bool(self.version or self.branch or self.new)

    def encode(self) -> str:
        """The value of :data:`KEY` in the row's metadata."""
        extra = {"branch": self.branch} if self.branch is not None else {}
        return json.dumps({"version": self.version, **extra, **({"new": True} if self.new else {})})


def decode_pin(metadata: Mapping[str, Any], table: str) -> Pin | None:
    """What a row's metadata pins; None for a table that the ref does not cover. Raises CorruptData."""
    text = metadata.get(KEY)
    if text is None:
        return None
    with suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError):
        found = decode_json(text)
        pin = Pin(int(found.get("version", 0)), found.get("branch"), found.get("new") is True)
        if found and pin.version >= 0 and isinstance(pin.branch, str | None):
            return pin
    raise CorruptData(f"What the row of table '{table}' pins cannot be read: {str(text)[:100]!r}.")
