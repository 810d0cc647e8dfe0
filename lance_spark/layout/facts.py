"""Files of facts beside a dataset: one for each commit that brings some, later joined into few."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from lance_spark.core.layout import FACTS
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import LanceSparkError
from lance_spark.format.manifest import column_places
from lance_spark.layout.fact_rules import Bounds, as_json, decoded, encoded, taken, together
from lance_spark.layout.layout_rules import TableLayout
from lance_spark.storage import files
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated
from lance_spark.storage.small_files import write_below

_MOST_FILES = 32
"""Files beyond which a commit joins them."""
_LARGE = 10_000
"""Data files in a file of facts that is joined no more."""
_KEPT = 8
Content = TypeVar("Content")


class FactFiles(Generic[Content]):
    """The files with one ending in the directory of facts. What they say is kept: a file never changes."""

    def __init__(self, ending: str, decode: Callable[[bytes], Content]) -> None:
        self._ending, self._decode = ending, decode
        self._lock = threading.Lock()
        self._known: dict[DatasetLocation, dict[str, Content]] = {}

    def read(self, location: DatasetLocation) -> dict[str, Content]:
        """The content of each file, by its name. Raises StorageFailure."""
        names = [name for name in files.list_names(location, FACTS) if name.endswith(self._ending)]
        with self._lock:
            known = dict(self._known.get(location, {}))
        new = [name for name in names if name not in known]
        contents = files.read_many(location, [f"{FACTS}/{name}" for name in new]) if new else []
        known |= {
            name: self._decode(content) for name, content in zip(new, contents, strict=True) if content is not None
        }
        known = {name: known[name] for name in names if name in known}
        with self._lock:
            self._known.pop(location, None)
            self._known[location] = known
            while len(self._known) > _KEPT:
                self._known.pop(next(iter(self._known)))
        return known

    def write(self, location: DatasetLocation, content: bytes) -> None:
        """Write one more file. Raises StorageFailure and others."""
        write_below(location, f"{FACTS}/{uuid.uuid4().hex}{self._ending}", content)

    def delete(self, location: DatasetLocation, names: Iterable[str]) -> None:
        files.delete(location, [f"{FACTS}/{name}" for name in names])


_FACTS = FactFiles(".json", decoded)


def recorded(location: DatasetLocation, fragments: Sequence[str]) -> list[str]:
    """The fragments, pylance's JSON, without the facts that tasks sent along, which are written beside the dataset.

    Call it before the commit: facts about files that no version names do no harm, while missing ones cost speed. A
    failure to write them costs speed, too, and is no error.
    """
    plain, facts = taken(fragments)
    if facts:
        write_facts(location, facts)
    return plain


def write_facts(location: DatasetLocation, facts: Mapping[str, Any]) -> None:
    """Write facts, in the form of :func:`lance_spark.layout.fact_rules.encoded`."""
    with suppress(LanceSparkError):
        _FACTS.write(location, encoded(facts))
        _join(location)


def _join(location: DatasetLocation) -> None:
    """Join small files of facts. Each is deleted only after the one that has its facts is there."""
    read = _FACTS.read(location)
    small = {name: found for name, found in read.items() if found and len(found) < _LARGE}
    if len(small) <= _MOST_FILES:
        return
    joined = {
        file: {str(place): as_json(bounds) for place, bounds in columns.items()}
        for file, columns in together(small.values()).items()
    }
    _FACTS.write(location, encoded(joined))
    _FACTS.delete(location, small)


def fragment_bounds(
    location: DatasetLocation, pin: PinnedVersion, columns: Sequence[str]
) -> dict[int, dict[str, Bounds]]:
    """What is known of columns of each fragment of a version, in the order of its fragments.

    Nothing, if the facts cannot be read.
    """
    dataset = open_pinned(location, pin)
    with translated(location, "reading fragments"):
        ids = {field.name(): field.id() for field in dataset.lance_schema.fields()}
        message = dataset._ds.serialized_manifest()
    by_id = {ids[name]: name for name in columns if name in ids}
    facts: dict[str, Mapping[int, Bounds]] = {}
    with suppress(LanceSparkError):
        facts = together(_FACTS.read(location).values())
    known: dict[int, dict[str, Bounds]] = {}
    for fragment, places in column_places(message, by_id.keys()):
        bounds: dict[str, Bounds] = {}
        for field, (path, place) in places.items():
            fact = facts.get(path, {}).get(place)
            if fact is not None:
                bounds[by_id[field]] = fact
        known[fragment] = bounds
    return known


def layout_bounds(location: DatasetLocation, pin: PinnedVersion, layout: TableLayout) -> dict[int, dict[str, Bounds]]:
    """The same for the columns of a layout."""
    return fragment_bounds(location, pin, layout.columns)
