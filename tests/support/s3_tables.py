"""Writes through the actions as Spark's writer does, and what pylance and the store itself say afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import lance
import pyarrow as pa

from lance_spark.scan.fragment_reads import read_batches
from lance_spark.scan.read import plan_read, read_schema
from lance_spark.tables.read import pin_read
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows
from lance_spark.write.plan_rules import WriteJob

IDS = pa.schema([("id", pa.int64())])


def storage_options(endpoint: str) -> dict[str, str]:
    """Storage options that reach the store at an endpoint."""
    return {
        "aws_access_key_id": "AKIDTEST",
        "aws_secret_access_key": "hush-hush",
        "aws_region": "us-east-1",
        "aws_endpoint": endpoint,
        "allow_http": "true",
    }


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


def write_each(uri: str, storage: Mapping[str, str], ids: Sequence[int], options: Mapping[str, str]) -> None:
    """One append per id, in a process of its own."""
    for number in ids:
        write(uri, storage, [number], False, **options)


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
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 1000})
    return {entry["Key"]: entry["ETag"] for page in pages for entry in page.get("Contents", [])}


class Kept:
    """A bucket as it was at one moment, to be put back before each test.

    Datasets that take long to make are made once for a file of tests. They stay in their bucket: a branch names the
    place of its dataset.
    """

    def __init__(self, client: Any, bucket: str) -> None:
        self._client, self._bucket = client, bucket
        self._etags = objects(client, bucket)
        self._contents = {key: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in self._etags}

    def put_back(self) -> None:
        """Undo whatever was changed, added and removed since."""
        now = objects(self._client, self._bucket)
        added = [{"Key": key} for key in now.keys() - self._etags.keys()]
        for first in range(0, len(added), 1000):
            self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": added[first : first + 1000]})
        for key, etag in self._etags.items():
            if now.get(key) != etag:
                self._client.put_object(Bucket=self._bucket, Key=key, Body=self._contents[key])
