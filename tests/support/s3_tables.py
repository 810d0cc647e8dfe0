"""Writes through the actions as Spark's writer does, and what pylance and the store itself say afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import lance
import pyarrow as pa

from lance_spark.actions.read import pin_read, plan_read, read_schema
from lance_spark.actions.write import begin, finish, plan_write
from lance_spark.store.scanning import read_batches
from lance_spark.store.writing import write_rows
from lance_spark.write.plan import WriteJob

IDS = pa.schema([("id", pa.int64())])


def given(uri: str, storage: Mapping[str, str], **options: str) -> dict[str, str]:
    """The options as Spark hands them to the data source."""
    return {"path": uri, **{f"storage.{key}": value for key, value in storage.items()}, **options}


def prepare(
    uri: str, storage: Mapping[str, str], ids: Sequence[int], overwrite: bool = False, **options: str
) -> tuple[WriteJob, list[str]]:
    """A write job of one task, up to its commit."""
    job = begin(plan_write(given(uri, storage, **options), IDS, overwrite))
    return job, write_rows(job, [pa.record_batch({"id": pa.array(ids, pa.int64())})])


def write(
    uri: str, storage: Mapping[str, str], ids: Sequence[int], overwrite: bool = False, **options: str
) -> int | None:
    return finish(*prepare(uri, storage, ids, overwrite, **options))


def read(uri: str, storage: Mapping[str, str], **options: str) -> list[int]:
    """The rows as Spark's reader gets them, sorted."""
    pinned = pin_read(given(uri, storage, **options))
    plan = plan_read(pinned, read_schema(pinned), 2)
    batches = (batch for part in plan.partitions for batch in read_batches(plan.scan, part))
    return sorted(row for batch in batches for row in batch["id"].to_pylist())


def opened(
    uri: str, storage: Mapping[str, str], branch: str | None = None, version: int | None = None
) -> lance.LanceDataset:
    dataset = lance.dataset(uri, storage_options=storage)
    return dataset if (branch, version) == (None, None) else dataset.checkout_version((branch, version))


def rows(uri: str, storage: Mapping[str, str], branch: str | None = None, version: int | None = None) -> list[int]:
    """The rows as pylance alone reads them, sorted."""
    return sorted(opened(uri, storage, branch, version).to_table()["id"].to_pylist())


def objects(client: Any, bucket: str) -> dict[str, str]:
    """Key and ETag of everything in a bucket."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {entry["Key"]: entry["ETag"] for page in pages for entry in page.get("Contents", [])}
