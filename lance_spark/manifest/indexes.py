"""Every index of a version, as completely as it takes to register it again."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from pyroaring import BitMap

from lance_spark.errors import CorruptData
from lance_spark.manifest.framing import manifest_span, section_span
from lance_spark.manifest.messages import NO_BASE, parse, text

_EXTERNAL_DETAILS = "details.binpb"
"""File to which pylance moves the content of a long fragment reuse index; the manifest does not list this file."""


class IndexRecord(NamedTuple):
    """One segment of an index."""

    name: str
    uuid: str
    fields: tuple[int, ...]
    """Ids of the columns it is on."""
    dataset_version: int
    fragments: frozenset[int] | None
    """Ids of the fragments whose rows it knows; None where an old writer did not say."""
    details: tuple[str, bytes] | None
    """Kind of the index and its parameters, as protobuf has them: type and message."""
    index_version: int
    created_at: int | None
    """Milliseconds since the epoch; None where the writer did not say."""
    base_id: int | None
    files: tuple[tuple[str, int], ...] = ()
    """Path in the directory of the segment, and bytes. Empty where an old writer did not list them."""
    covering_fields: tuple[int, ...] = ()

    @property
    def is_internal(self) -> bool:
        """Whether pylance made it for itself."""
        return self.name.startswith("__")

    @property
    def needed(self) -> tuple[tuple[str, int], ...]:
        """Files that the index needs, with bytes, 0 for unknown; an empty path stands for any file.

        The content of a fragment reuse index is in the manifest unless it is long.
        """
        if self.files or not self.is_internal:
            return self.files or (("", 0),)
        return ((_EXTERNAL_DETAILS, 0),) if self.details and _EXTERNAL_DETAILS.encode() in self.details[1] else ()


def decode_indexes(content: bytes) -> tuple[IndexRecord, ...]:
    """The indexes of a manifest file. Raises CorruptData for bytes that are no manifest."""
    span = manifest_span(content)
    whole = parse("Head", content[span.start : span.end])
    if not whole.HasField("index_section"):
        return ()
    section = section_span(content, whole.index_section, span)
    return tuple(_record(index) for index in parse("IndexRecords", content[section.start : section.end]).indices)


def _record(index: Any) -> IndexRecord:
    if len(index.uuid.uuid) != 16:
        raise CorruptData("The manifest is damaged: an index has no id.")
    details = index.index_details if index.HasField("index_details") else None
    return IndexRecord(
        name=text(index.name),
        uuid=str(UUID(bytes=index.uuid.uuid)),
        fields=tuple(index.fields),
        dataset_version=index.dataset_version,
        fragments=frozenset(BitMap.deserialize(index.fragment_bitmap)) if index.HasField("fragment_bitmap") else None,
        details=None if details is None else (text(details.type_url), bytes(details.value)),
        index_version=index.index_version,
        created_at=index.created_at if index.HasField("created_at") else None,
        base_id=None if index.base_id == NO_BASE else index.base_id,
        files=tuple((text(file.path), file.size_bytes) for file in index.files),
        covering_fields=tuple(index.covering_fields),
    )
