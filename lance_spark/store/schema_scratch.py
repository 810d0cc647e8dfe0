"""Schemas with the field ids that pylance gives: made by pylance itself, on a table without rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.manifest.contents import Contents

if TYPE_CHECKING:
    import lance
    from lance.schema import LanceSchema


def composed(start: LanceSchema, contents: Contents, alter: Callable[[lance.LanceDataset], None]) -> LanceSchema:
    """A schema after changes that ``alter`` makes to a dataset without rows, which has the columns of ``start``.

    Field ids of new columns are higher than any that files of the version have, also for columns that were dropped:
    else the old values would come back under the new name. So the dataset first gets as many columns as it takes.
    """
    import lance

    with tempfile.TemporaryDirectory() as directory:
        columns = lance.LanceOperation.Overwrite(start, [])
        lance.LanceDataset.commit(directory, columns)
        # A new dataset numbers fields by itself; a replaced one keeps the ids they have.
        scratch = lance.LanceDataset.commit(directory, columns, read_version=1)
        missing = highest_field_id(contents) - max((entry.id for entry in contents.fields), default=-1)
        spare = [f"__spare_{count}" for count in range(max(0, missing))]
        if spare:
            scratch.add_columns(pa.schema([pa.field(name, pa.int8()) for name in spare]))
        alter(scratch)
        if spare:
            scratch.drop_columns(spare)
        return lance.dataset(directory).lance_schema


def highest_field_id(contents: Contents) -> int:
    """The highest id of a field that a file of the version has; -1 where there is none."""
    return max((key for found in contents.fragments() for file in found.files for key in file.fields), default=-1)


def without_dead_files(fragment: dict[str, Any], live: Collection[int]) -> dict[str, Any]:
    """A fragment, as pylance's JSON, without the files of dropped columns, as pylance's own drop leaves it.

    It finds others corrupt.
    """
    in_use = [file for file in fragment["files"] if any(key in live for key in file["fields"])]
    return {**fragment, "files": in_use or fragment["files"][:1]}
