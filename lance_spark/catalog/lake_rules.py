"""Tags of a whole catalog, as values: names, and what a row of ``__manifest`` pins. Pure.

A tag of a lake is a branch of the table ``__manifest`` that nobody writes to. Its rows say which version each table had
when the tag was created. See docs/reference/lake-tags.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion, RefSpec, check_new_branch_name, check_new_tag_name, check_tag_name
from lance_spark.core.show import Card, Shown, counted, moment
from lance_spark.errors import CorruptData

KEY = "lance_spark.lake"
"""In a row's metadata: what the row pins. In the metadata of the table ``__manifest``: the tag that a branch is."""
TAGS = "tags/"
"""Prefix of the branches of ``__manifest`` that are tags of the lake."""
_ID = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, repr=False)
class LakeTag(Shown):
    """A tag of a whole catalog: one version of each table."""

    name: str
    id: str
    """Distinguishes it from an earlier one of the same name: 8 hexadecimal digits."""
    created_at: datetime
    """Time of creation, UTC, whole seconds."""
    tables: int = 0
    """How many tables it pins."""
    ready: bool = False
    """Whether it is complete. One that is not was, or is being, created or deleted; it can only be deleted."""

    @property
    def branch(self) -> str:
        """The branch of ``__manifest`` that it is."""
        return branch_of(self.name)

    @property
    def pin_tag(self) -> str:
        """The tag of each table that keeps the pinned version."""
        return f"lake-{self.name}-{self.id}"

    def finished(self, tables: int) -> LakeTag:
        """The complete tag."""
        return replace(self, tables=tables, ready=True)

    def encode(self) -> str:
        """The value of :data:`KEY` in the metadata of the table."""
        made = self.created_at.isoformat()
        return json.dumps(
            {"name": self.name, "id": self.id, "created": made, "tables": self.tables, "ready": self.ready}
        )

    def _card(self) -> Card:
        state = counted(self.tables, "table") if self.ready else "incomplete: delete it"
        created = moment(self.created_at)
        return Card(type(self).__name__, self.name, f"{state}, made {created}", (("made", created), ("pins", state)))


def branch_of(name: str) -> str:
    """The branch of ``__manifest`` that a tag of the lake is."""
    return TAGS + name


def check_new_lake_tag(name: str) -> None:
    """Raise InvalidName, with the broken rule, for a name that a new tag cannot have."""
    check_new_tag_name(name)
    check_new_branch_name(branch_of(name))


def check_lake_tag(name: str) -> None:
    """Raise InvalidName, with the broken rule, for a name that no tag can have."""
    check_tag_name(name)


def decode_tag(text: str | None, name: str) -> LakeTag | None:
    """The tag in the metadata of a branch of ``__manifest``; None if there is none yet. Raises CorruptData."""
    if text is None:
        return None
    with suppress(ValueError, KeyError, TypeError):
        found = json.loads(text)
        made = datetime.fromisoformat(found["created"]).astimezone(timezone.utc)
        tag = LakeTag(name, str(found["id"]), made, int(found["tables"]), found["ready"] is True)
        if found["name"] == name and _ID.fullmatch(tag.id):
            return tag
    raise CorruptData(f"The metadata of tag '{name}' of the lake cannot be read: {text[:100]!r}.")


@dataclass(frozen=True)
class ManifestAtTag(DatasetLocation):
    """Where the rows of a tag are. Whoever opens it checks that it is still this tag."""

    name: str = ""
    id: str = ""
    catalog: str = field(default="", repr=False)
    """The catalog's root, for errors."""


# --- What a row pins


@dataclass(frozen=True)
class Pin:
    """The version of a table that a row of a tag pins."""

    version: int

    @property
    def spec(self) -> RefSpec:
        """What a reader reads."""
        return RefSpec(version=self.version)

    def encode(self) -> str:
        """The value of :data:`KEY` in the row's metadata."""
        return json.dumps({"version": self.version})


def decode_pin(metadata: Mapping[str, Any], table: str) -> Pin | None:
    """What a row's metadata pins; None for a table that had no data. Raises CorruptData."""
    text = metadata.get(KEY)
    if text is None:
        return None
    with suppress(ValueError, KeyError, TypeError):
        version = int(json.loads(text)["version"])
        if version > 0:
            return Pin(version)
    raise CorruptData(f"The version that the row of table '{table}' pins cannot be read: {str(text)[:100]!r}.")


def tag_file(target: PinnedVersion, size: int, now: datetime) -> bytes:
    """The ref file of a tag of a table, with the fields that pylance writes; ``size`` is that of the manifest, bytes.

    Not through pylance, which sends several requests for each: a lake has thousands of tables.
    """
    stamp = now.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    content: dict[str, object] = {
        "branch": target.branch,
        "version": target.version,
        "createdAt": stamp,
        "updatedAt": stamp,
        "manifestSize": size,
        "metadata": {},
    }
    return json.dumps(content, indent=2).encode()
