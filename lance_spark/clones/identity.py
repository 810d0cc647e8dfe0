"""Who a clone is for its sources: an id of its own, by which tags and a record there are named.

They used to be named by a hash of the clone's path. A clone that was moved, and another one that was made at its former
place, or on another machine at the same path, then had the protection of one: what the second released, or moved on,
the first lost, with its files. Now a clone gets an id when it is made, or first fetches, and keeps it in a file of its
own. In another place it is taken for a copy, as nothing tells whether the original is still there: it gets a new id,
under which everything is protected that was before. The old protection stays until somebody forgets that clone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from lance_spark.core.location import DatasetLocation, is_within
from lance_spark.core.ref_files import TAGS
from lance_spark.errors import AlreadyExists, Conflict, NotFound, StorageFailure
from lance_spark.storage import files, refs
from lance_spark.storage.datasets import locate
from lance_spark.survey import clone_records
from lance_spark.survey.identity import CloneIdentity, new_identity, read_identity, write_identity


def own_name(location: DatasetLocation, source: DatasetLocation) -> str:
    """The name under which a source protects what a clone reads; the source knows it once this returns.

    Raises StorageFailure and PermissionDenied if one of the two cannot be written.
    """
    known = read_identity(location)
    if known is None or known.uri != location.uri:
        new, others = new_identity(location), () if known is None else known.sources
        if known is None:
            known = replace(new, before=clone_records.former_name(location))
        else:
            known = replace(new, before=known.name, former=(*known.former, known.uri))
        write_identity(location, known)
        for uri in others:
            with suppress(StorageFailure):  # the move is told as far as it can be
                known = _told(location, locate(uri, location.storage_options), known)
    return _told(location, source, known).name


def _told(location: DatasetLocation, source: DatasetLocation, known: CloneIdentity) -> CloneIdentity:
    """The identity, once the source knows it."""
    if source.uri not in known.sources:
        _register(location, source, known)
        known = replace(known, sources=(*known.sources, source.uri))
        write_identity(location, known)
    return known


def _register(location: DatasetLocation, source: DatasetLocation, known: CloneIdentity) -> None:
    """Let a source know a name as it knew the former one: by the same tags, and then by a record of the place."""
    names = [name for name in refs.list_ref_names(source, TAGS) if clone_records.is_of_clone(name, known.before)]
    for tag in refs.read_tags(source, names).values():
        with suppress(AlreadyExists, Conflict, NotFound):  # by an attempt that was killed; the version is gone
            refs.create_tag(source, known.name + tag.name.removeprefix(known.before), tag.target)
    if clone_records.is_recorded(source, known.before):
        clone_records.write_record(source, known.name, location)


def register_moved(location: DatasetLocation, old: str = "", new: str = "") -> Iterator[str]:
    """Let the sources of a clone that was moved or copied know its place; yields notes on those that could not.

    With ``old`` and ``new``, sources were moved between these places, and know the clone there from now on: otherwise
    the next move of the clone would be told to the former place only, where nobody keeps what it reads.
    """
    known = read_identity(location)
    sources = () if known is None else known.sources
    there = tuple(new + uri[len(old) :] for uri in sources if new and is_within(uri, old))
    moved = known is not None and known.uri != location.uri
    for uri in dict.fromkeys((*(sources if moved else ()), *there)):
        source = locate(uri, location.storage_options)
        try:
            if not files.list_names(source, "_versions"):
                yield f"{uri}, which this clone was made from, is gone."
                continue
            own_name(location, source)
        except StorageFailure as problem:
            yield (
                f"{uri} could not record that this clone is at {location.uri} now ({type(problem).__name__}): run this "
                "again, or fetch."
            )
