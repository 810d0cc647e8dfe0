"""A new dataset, with the columns of a file or of another table; or one that is there, as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.errors import AlreadyExists, Refused, SchemaMismatch
from lance_spark.scan.pylance import column_names
from lance_spark.storage.commits import create_dataset
from lance_spark.storage.datasets import find_latest, locate_typed
from lance_spark.storage.resolving import dataset_around, dataset_at
from lance_spark.storage.schema_files import read_schema_of
from lance_spark.write.rules import check_names


@dataclass(frozen=True)
class InitPlan:
    """The steps that make a dataset exist."""

    columns: tuple[str, ...]
    """Names of the columns that the dataset has, or would have."""
    create: pa.Schema | None
    """The columns of the dataset to create; None if one exists, which stays as it is."""


def init_location(uri: str, storage_options: Mapping[str, str]) -> DatasetLocation:
    """The place of the dataset, existing or not. Raises Refused for a place inside another dataset's directory.

    ``init .`` in ``flights.lance/data`` is a mistake: it would put a second dataset among the first one's files.
    """
    location = locate_typed(uri, storage_options)
    around = dataset_around(location.uri) if location.is_local else None
    if around is not None and around.uri != location.uri:
        raise Refused(
            f"{location.uri} is inside the dataset {around.uri}.",
            hint=f"For that dataset: lance-git init {around.uri}. Create a new one elsewhere.",
        )
    return dataset_at(uri, storage_options)


def plan_init(location: DatasetLocation, source: DatasetLocation | None) -> InitPlan:
    """The plan of an init. A new dataset has the columns of the source, or none without a source.

    Raises AlreadyExists for a source if the dataset exists, and what :func:`read_schema_of` raises.
    """
    pin = find_latest(location, None)
    if pin is not None and source is not None:
        raise AlreadyExists(
            f"A dataset with its own columns already exists at {location.uri}.",
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
    """Create the dataset without rows, unless it exists. Raises AlreadyExists if another process was first."""
    if plan.create is not None:
        create_dataset(location, plan.create)
