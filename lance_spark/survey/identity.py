"""Who a clone is for the datasets that it reads files of: what its file says."""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass

from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.stored_json import UNREADABLE, decode_json, read_as
from lance_spark.errors import CorruptData
from lance_spark.storage import files
from lance_spark.storage.small_files import write_below

CLONE_FILE = "_refs/lance_spark/clone.json"


@dataclass(frozen=True)
class CloneIdentity:
    name: str
    """``clone-`` and 16 hexadecimal digits: the name of its record and the beginning of its tags at a source."""
    uri: str
    """Where it was when it got this name."""
    before: str = ""
    """The name that it, or what it is a copy of, had before."""
    sources: tuple[str, ...] = ()
    """URIs of the datasets that know this name."""
    former: tuple[str, ...] = ()
    """Where it was before, under other names: what its versions still name there was its own."""


def new_identity(location: DatasetLocation) -> CloneIdentity:
    """One that nothing else has."""
    return CloneIdentity(f"clone-{secrets.token_hex(8)}", location.uri)


def read_identity(location: DatasetLocation) -> CloneIdentity | None:
    """The identity of a clone; None if it has none. Raises CorruptData."""
    content = files.read(location, CLONE_FILE)
    if content is None:
        return None
    with suppress(*UNREADABLE):
        return read_as(CloneIdentity, decode_json(content), lenient=True)
    raise CorruptData(
        f"{CLONE_FILE} of {location.uri} cannot be read: {content[:100]!r}.",
        hint="Remove it: the next fetch protects again what this dataset reads elsewhere.",
    )


def write_identity(location: DatasetLocation, identity: CloneIdentity) -> None:
    write_below(location, CLONE_FILE, json.dumps(asdict(identity)).encode())
