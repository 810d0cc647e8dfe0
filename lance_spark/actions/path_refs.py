"""From a path with a ref in it, ``s3://bucket/flights.lance@exp``, to a dataset and a ref that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lance_spark.actions.target import NamedTable, Target, dataset_at
from lance_spark.actions.typed_refs import Candidate, choose, find_spec
from lance_spark.errors import InvalidOption, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.metadata.names import METADATA_TABLES
from lance_spark.refs.model import RefSpec
from lance_spark.refs.typed import DEFAULT, MARK, TypedRef, split_refs
from lance_spark.store.datasets import find_latest, open_latest
from lance_spark.store.uri import check_typed


@dataclass(frozen=True)
class PathRef:
    """A dataset at a ref."""

    location: DatasetLocation
    spec: RefSpec
    metadata_table: str | None = None


def read_path_name(
    parts: Sequence[str], storage_options: Mapping[str, str] | None = None, travel: TypedRef = DEFAULT
) -> PathRef:
    """What a name in SQL means whose first part is a path: the dataset, or one of its metadata tables.

    Raises NotFound for any other name, and as :func:`read_path`.
    """
    if len(parts) == 1:
        return read_path(parts[0], storage_options, travel)
    if len(parts) == 2 and parts[1].lower() in METADATA_TABLES:
        return replace(read_path(parts[0], storage_options, travel), metadata_table=parts[1].lower())
    raise NotFound(
        f"There is no table {'.'.join(parts)}.",
        hint="Write the path as one part, in backticks, and behind it, maybe, " + ", ".join(METADATA_TABLES) + ".",
    )


@dataclass(frozen=True)
class NamedPlace:
    """The dataset that the path of a read or write names, and the ref of that path; None for one without a ref."""

    location: DatasetLocation
    spec: RefSpec | None


def settle(target: Target, travel: TypedRef = DEFAULT) -> NamedPlace:
    """What the path of a target means. A path with ``@`` where there is no dataset yet is that of a new one.

    Raises as :func:`read_path`: NotFound for a ref that a dataset does not have; and InvalidOption for a second ref in
    the options.
    """
    place = target.place
    if isinstance(place, NamedTable):
        raise AssertionError("a table of a catalog has no path")
    if not target.typed:
        return NamedPlace(place, None)
    storage = place.storage_options
    named = next((key for key in target.options if key.lower() in ("branch", "tag")), None)
    if named is not None and find_latest(place, None) is not None:
        return NamedPlace(place, None)  # handles name the branch of whatever dataset they are at
    try:
        found = read_path(target.typed, storage, travel)
    except NotFound:
        if any(_is_dataset(path, storage) for path, _ in split_refs(target.typed)):
            raise
        return NamedPlace(place, None)
    if found.location == place:
        return NamedPlace(place, None)
    if named is not None:
        raise InvalidOption(
            f"'{target.typed}' names a ref behind its '{MARK}', and so does option '{named}'.",
            hint="Leave one of them out.",
        )
    return NamedPlace(found.location, found.spec)


def _is_dataset(path: str, storage_options: Mapping[str, str]) -> bool:
    try:
        return find_latest(dataset_at(path, storage_options), None) is not None
    except InvalidOption:
        return False


def read_path(text: str, storage_options: Mapping[str, str] | None = None, travel: TypedRef = DEFAULT) -> PathRef:
    """What a path or URI means: a dataset, or one at a ref behind an ``@``. Directories may have ``@`` in their names.

    Raises NotFound, InvalidOption, and Refused where a path means both a dataset and a ref of another one.
    """
    ways = tuple(split_refs(text))
    if not ways:
        location = dataset_at(text, storage_options)
        open_latest(location)
        return PathRef(location, find_spec(location, travel))
    check_typed(text)  # what follows takes an InvalidOption for one way to read the text that does not fit
    candidates = []
    for path, ref in ((text, DEFAULT), *ways):
        try:
            location = dataset_at(path, storage_options)
        except InvalidOption:
            continue
        if find_latest(location, None) is not None:
            candidates.append(Candidate(path, location, ref))
    if not candidates:
        raise NotFound(
            f"There is no Lance dataset at {text}.", hint="A ref may follow '@': s3://bucket/flights.lance@exp."
        )
    chosen, spec = choose(text, candidates, travel)
    return PathRef(chosen.location, spec)
