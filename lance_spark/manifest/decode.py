"""Decodes one manifest file on its own."""

from __future__ import annotations

from typing import Any

from lance_spark.errors import CorruptData
from lance_spark.manifest.file_paths import fragment_files, index_directories, transaction_file
from lance_spark.manifest.flags import check_flags
from lance_spark.manifest.framing import Span, manifest_span, section_span
from lance_spark.manifest.messages import parse, text
from lance_spark.manifest.model import BasePath, ManifestHead, NamedFile

__all__ = ["check_flags", "decode_head", "head_and_others", "head_of", "named_files"]

_NANOSECONDS = 1_000_000_000


def decode_head(content: bytes) -> ManifestHead:
    """What a manifest says about its version; flags are not checked, and fragments are not read.

    Raises CorruptData for bytes that are no manifest.
    """
    span = manifest_span(content)
    return head_of(parse("Head", content[span.start : span.end]))


def named_files(content: bytes) -> frozenset[NamedFile]:
    """Every file and index directory that a manifest names. Blobs beside a data file belong to it and are not named.

    Raises CorruptData for bytes that are no manifest, Refused for a version that ``check_flags`` refuses.
    """
    span = manifest_span(content)
    message = content[span.start : span.end]
    head, others = head_and_others(content, span, message)
    return frozenset(others + fragment_files(message, head.bases))


def head_and_others(content: bytes, span: Span, message: bytes) -> tuple[ManifestHead, list[NamedFile]]:
    """The head, and what a manifest names apart from the files of fragments: its transaction and its indexes.

    ``span`` is where the manifest message lies in the file. ``message`` is that message, with or without its
    fragments. Raises CorruptData, and Refused as ``check_flags`` does.
    """
    parsed = parse("Head", message)
    head = head_of(parsed)
    check_flags(head)
    others = [transaction_file(head.transaction_file)] if head.transaction_file else []
    if parsed.HasField("index_section"):
        section = section_span(content, parsed.index_section, span)
        others += index_directories(content[section.start : section.end], head.bases)
    return head, others


def head_of(parsed: Any) -> ManifestHead:
    """The head from a parsed ``Head``. Raises CorruptData if it has no version number."""
    if not parsed.version:
        raise CorruptData("The manifest is damaged: it has no version number.")
    return ManifestHead(
        version=parsed.version,
        timestamp_ns=parsed.timestamp.seconds * _NANOSECONDS + parsed.timestamp.nanos,
        reader_flags=parsed.reader_flags,
        writer_flags=parsed.writer_flags,
        branch=text(parsed.branch) or None,
        transaction_file=text(parsed.transaction_file) or None,
        has_fragment_tree=parsed.HasField("fragment_tree"),
        bases={base.id: BasePath(text(base.path), base.is_dataset_root) for base in parsed.base_paths},
    )
