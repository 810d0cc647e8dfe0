"""Branches that follow a remote's are a fetch's alone, whoever calls; and what they have in common with one's own."""

from __future__ import annotations

import pyarrow as pa
import pytest
from merge_datasets import add
from remote_datasets import begun, fetched, ids_of, made_clone, merged, pulled, refused, snapshot

from lance_spark.actions.picking import cherry_pick, revert
from lance_spark.actions.restore import restore
from lance_spark.actions.write import plan_write
from lance_spark.errors import Refused
from lance_spark.store.datasets import pin_latest, pin_version
from lance_spark.store.uri import locate


@pytest.fixture
def source(tmp_path):
    return begun(str(tmp_path / "source.lance"))


@pytest.fixture
def mine(tmp_path, source):
    uri = str(tmp_path / "mine.lance")
    made_clone(source, uri)
    return uri


def test_only_a_fetch_writes_to_one(mine, source):
    add(source, 200, 203, "exp")
    fetched(mine, source)
    here, follower = locate(mine), "origin/exp"
    at = pin_latest(here, follower)
    before = snapshot(mine), ids_of(mine, follower)
    writes = (
        lambda: merged(mine, None, follower),
        lambda: pulled(mine, source, None, follower),
        lambda: cherry_pick(here, pin_latest(here, "origin/main"), follower),
        lambda: revert(here, at, follower),
        lambda: restore(here, pin_version(here, follower, at.version - 1)),
        lambda: plan_write({"path": mine, "branch": follower}, pa.schema([("id", pa.int64())]), overwrite=False),
    )
    for write in writes:
        assert "'origin/exp' follows 'exp' of origin: nothing but a fetch" in refused(Refused, write)
    assert (snapshot(mine), ids_of(mine, follower)) == before
