"""Commits new rows together with the new columns that they bring."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.columns.pylance import apply_steps, changed_fragments, preorder
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.format.contents import Contents
from lance_spark.format.evolution import Evolution
from lance_spark.storage.commits import commit_on, fragments_from
from lance_spark.storage.copying import composed
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated

if TYPE_CHECKING:
    from lance.schema import LanceSchema

Json = dict[str, Any]


def commit_evolved(
    location: DatasetLocation,
    pin: PinnedVersion,
    contents: Contents,
    plan: Evolution,
    cast_files: Mapping[int, str],
    rows: EvolvedRows,
) -> PinnedVersion:
    """Commit rows, and the columns of ``plan``, as one version that follows ``pin``.

    ``cast_files`` is the same as for ``commit_columns``. Any commit since ``pin`` raises Conflict; then nothing was
    committed.
    """
    import lance

    dataset = open_pinned(location, pin)
    with translated(location, "adding rows and columns"):
        schema = dataset.lance_schema
        if plan.steps:
            schema = composed(schema, contents, lambda scratch: apply_steps(scratch, plan.steps))
        new = [*rows.numbered(schema, contents.max_fragment_id + 1)]
        known = changed_fragments(dataset, schema, plan, cast_files)
        operation = lance.LanceOperation.Merge(
            [*known, *fragments_from(new)], schema, preserves_nullability=plan.only_adds
        )
    return commit_on(location, pin, operation, rows.properties)


class EvolvedRows:
    """Fragments that tasks wrote as if for a new table, with pylance's field numbers from 0."""

    def __init__(self, schema: pa.Schema, fragments: Sequence[str], properties: Mapping[str, str]) -> None:
        """``schema`` is that of the rows; ``fragments`` are pylance's JSON."""
        self.schema = schema
        self.fragments = fragments
        self.properties = properties

    def numbered(self, schema: LanceSchema, first: int) -> Iterator[Json]:
        """The fragments with ids from ``first`` on, and with the table's field ids."""
        columns = {column.name(): preorder(column) for column in schema.fields()}
        ids = dict(zip(count(), [key for name in self.schema.names for key in columns[name]]))
        for place, text in enumerate(self.fragments):
            fragment: Json = json.loads(text)
            files = [{**file, "fields": [ids[key] for key in file["fields"]]} for file in fragment["files"]]
            yield {**fragment, "id": first + place, "files": files}
