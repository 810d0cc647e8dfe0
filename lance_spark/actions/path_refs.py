"""From a path with a ref in it, ``s3://bucket/flights.lance@exp``, to a dataset and a ref that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lance_spark.actions.target import dataset_at
from lance_spark.actions.typed_refs import Candidate, choose, find_spec
from lance_spark.errors import InvalidOption, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.metadata.names import METADATA_TABLES
from lance_spark.refs.model import RefSpec
from lance_spark.refs.typed import DEFAULT, TypedRef, split_refs
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
