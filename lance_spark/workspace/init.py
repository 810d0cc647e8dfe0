"""A new dataset, with the columns of a file or of another table; or one that is there, as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.errors import AlreadyExists, Refused, SchemaMismatch
from lance_spark.scan.lance import column_names
from lance_spark.storage.commits import create_dataset
from lance_spark.storage.datasets import find_latest, locate_typed
from lance_spark.storage.resolving import dataset_around, dataset_at
from lance_spark.storage.schema_files import read_schema_of
from lance_spark.write.rules import check_names


@dataclass(frozen=True)
class InitPlan:
    """What has to be done for a dataset to be there."""

    columns: tuple[str, ...]
    """Names of the columns that the dataset has, or would have."""
    create: pa.Schema | None
    """The columns of the dataset to make; None where there is one, which stays as it is."""


def init_location(uri: str, storage_options: Mapping[str, str]) -> DatasetLocation:
    """Where the dataset is, or is to be. Raises Refused for a place inside another dataset's directory.

    Whoever is in ``flights.lance/data`` and says ``init .`` does not want a second dataset among the first one's files.
    """
    location = locate_typed(uri, storage_options)
    around = dataset_around(location.uri) if location.is_local else None
    if around is not None and around.uri != location.uri:
        raise Refused(
            f"{location.uri} is inside the dataset {around.uri}.",
            hint=f"For that dataset: lance-git init {around.uri}. A new one has to be elsewhere.",
        )
    return dataset_at(uri, storage_options)


def plan_init(location: DatasetLocation, source: DatasetLocation | None) -> InitPlan:
    """What there is to do. A new dataset has the columns of the source; without one it has none.

    Raises AlreadyExists for a source where there is a dataset, and what :func:`read_schema_of` raises.
    """
    pin = find_latest(location, None)
    if pin is not None and source is not None:
        raise AlreadyExists(
            f"There is a dataset at {location.uri} already, with columns of its own.",
            hint="Leave --from out for a workspace, or choose another place for a new dataset.",
        )
    if pin is not None:
        return InitPlan(column_names(location, pin), None)
    schema = pa.schema([]) if source is None else _columns_of(source)
    return InitPlan(tuple(schema.names), schema)


def _columns_of(source: DatasetLocation) -> pa.Schema:
    schema = read_schema_of(source)
    try:
        check_names(schema, new=True)
    except SchemaMismatch as problem:
        raise SchemaMismatch(f"{source.uri}: {problem.message}", hint="Rename or drop the column there.") from None
    return schema


def init_dataset(location: DatasetLocation, plan: InitPlan) -> None:
    """Create the dataset, without rows, unless it is there. Raises AlreadyExists where it came in between."""
    if plan.create is not None:
        create_dataset(location, plan.create)
