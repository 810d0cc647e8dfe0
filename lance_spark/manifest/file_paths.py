"""The names of the files of a version, as the specification lays them out below a root."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from lance_spark.errors import CorruptData
from lance_spark.layout.names import deletion_path, stored_name, transaction_path
from lance_spark.manifest.messages import NO_BASE, parse, text
from lance_spark.manifest.model import BasePath, NamedFile

_UUID_BYTES = 16

Bases = Mapping[int, BasePath]


def fragment_files(content: bytes, bases: Bases) -> list[NamedFile]:
    """Data, overlay, row id and deletion files of all fragments in (a part of) a manifest message.

    A file comes once for each time it is named. Raises CorruptData for a file without a name, in an unknown base,
    or of an unknown type.
    """
    fragments = parse("Files", content).fragments
    named = _data_files(fragments.files, bases)
    named += _data_files((overlay.data_file for overlay in fragments.overlays), bases)
    for external in (fragments.row_ids, fragments.updated_at_versions, fragments.created_at_versions):
        named += [NamedFile(None, _named(file.path)) for file in external]
    if fragments.deletion_files:
        named += _deletion_files(content, bases)
    return named


def transaction_file(name: str) -> NamedFile:
    """The file of a version's transaction."""
    return NamedFile(None, transaction_path(None, name))


def index_directories(section: bytes, bases: Bases) -> list[NamedFile]:
    """Directories of all indexes in an index section. Raises CorruptData for a wrong id or an unknown base."""
    places = _places(bases, "_indices/")
    named = []
    for index in parse("IndexSection", section).indices:
        identifier = index.uuid.uuid
        if len(identifier) != _UUID_BYTES:
            raise CorruptData(f"The manifest is damaged: an index is identified by {len(identifier)} bytes, not 16.")
        base, prefix = _place(places, index.base_id)
        named.append(NamedFile(base, f"{prefix}{UUID(bytes=identifier)}"))
    return named


def _data_files(files: Iterable[Any], bases: Bases) -> list[NamedFile]:
    places = _places(bases, "data/")
    named = []
    for file in files:
        base, prefix = _place(places, file.base_id)
        named.append(NamedFile(base, prefix + stored_name(_named(file.path))))
    return named


def _deletion_files(content: bytes, bases: Bases) -> list[NamedFile]:
    # A base without a "_deletions" directory has no place for these files; pylance refuses such a manifest as well.
    places = _places({key: base for key, base in bases.items() if base.is_dataset_root}, "")
    named = []
    for fragment in parse("Deletions", content).fragments:
        if not fragment.HasField("deletion_file"):
            continue
        file = fragment.deletion_file
        path = deletion_path(fragment.id, file.read_version, file.id, file.file_type)
        named.append(NamedFile(_place(places, file.base_id)[0], path))
    return named


def _places(bases: Bases, directory: str) -> dict[int, tuple[BasePath | None, str]]:
    """Base and directory below it, by base id."""
    places: dict[int, tuple[BasePath | None, str]] = {NO_BASE: (None, directory)}
    for key, base in bases.items():
        places[key] = (base, directory if base.is_dataset_root else "")
    return places


def _place(places: Mapping[int, tuple[BasePath | None, str]], base_id: int) -> tuple[BasePath | None, str]:
    try:
        return places[base_id]
    except KeyError:
        raise CorruptData(f"The manifest is damaged: a file is in base {base_id}, where no file can be.") from None


def _named(path: str | bytes) -> str:
    if not path:
        raise CorruptData("The manifest is damaged: a file in it has no name.")
    return text(path)
