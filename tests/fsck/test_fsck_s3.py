"""A check, a repair and its undo on an object store: branches with a slash, faults, objects byte by byte."""

import time

import lance
import pytest
from support.s3_tables import opened, rows, storage_options, write

from lance_spark.engine.local import LocalRunner
from lance_spark.errors import StorageFailure
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions
from lance_spark.fsck.repair import fsck_and_repair
from lance_spark.fsck.undo import undo
from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.s3


def check(table, storage, execute=False):
    options, repair = FsckOptions(deep=True), RepairOptions(dry_run=not execute)
    return fsck_and_repair(locate(table, storage), options, repair, LocalRunner(4), time.time_ns())


def contents(client, bucket):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
    return {key: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}


def broken(client, bucket, table, storage):
    """A ref that is half, an old manifest that is empty, and data that is gone; all of it of a branch or of main."""
    for first in (0, 10, 20):
        write(table, storage, range(first, first + 4))
    opened(table, storage).create_branch("exp/b", storage_options=storage)
    write(table, storage, [30], branch="exp/b")
    opened(table, storage).tags.create("kept", ("exp/b", None))
    assert check(table, storage).findings == ()
    keys = sorted(contents(client, bucket))
    (ref,) = (key for key in keys if "_refs/branches/" in key)
    manifest = next(key for key in keys if key.endswith(f"{2**64 - 2}.manifest"))
    (data,) = (key for key in keys if "tree/exp/b/data/" in key)
    client.put_object(Bucket=bucket, Key=ref, Body=b'{"parentBranch": nu')
    client.put_object(Bucket=bucket, Key=manifest, Body=b"")
    client.delete_object(Bucket=bucket, Key=data)


def test_a_repair_and_its_undo(client, bucket, table, storage):
    broken(client, bucket, table, storage)
    before = contents(client, bucket)
    done = check(table, storage, execute=True).repaired
    assert done.complete, done
    assert sorted(opened(table, storage).branches.list()) == ["exp/b", "repair/exp/b-4"]
    assert rows(table, storage, "repair/exp/b-4") == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]
    assert {finding.code for finding in check(table, storage).findings} == {"data-missing"}
    undo(locate(table, storage), done.record)
    assert contents(client, bucket) == before


def test_a_store_that_fails_in_the_middle(client, bucket, table, storage, faulty):
    broken(client, bucket, table, storage)
    before = contents(client, bucket)
    through = storage_options(faulty.endpoint)
    faulty.rule = lambda request: "error AccessDenied" if request.method == "DELETE" else None
    with pytest.raises(StorageFailure, match="stopped at step"):
        check(table, through, execute=True)
    faulty.rule = lambda _: None
    undo(locate(table, storage), "last")
    assert contents(client, bucket) == before
    assert lance.dataset(table, storage_options=storage).count_rows() == 12
