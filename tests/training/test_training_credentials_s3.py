"""Keys that expire in a training loop: each spawned worker renews its own. Without torch, a stand-in spawns them."""

import operator
import os
import pickle
import time

import lance
import pyarrow as pa
import pytest
from support import torch_stand_in, vending
from support.s3_tables import storage_options

from lance_spark import LanceTable

with torch_stand_in.installed():
    from lance_spark.training.torch import Batching, FrozenBatches

pytestmark = [pytest.mark.s3, pytest.mark.when(spark="newest", day=0)]


def test_spawned_workers_renew_their_own_keys(faulty, moto, table, monkeypatch):
    monkeypatch.setenv("VENDING_ENDPOINT", faulty.endpoint)
    keys = set()

    def rule(request):
        keys.add(request.access_key)
        return vending.still_good(request)

    lance.write_dataset(pa.table({"id": range(96)}), table, max_rows_per_file=8, storage_options=storage_options(moto))
    faulty.rule = rule
    options = {"token_provider": vending.WITHOUT_GATE}
    LanceTable.for_path(table, options).frozen.create("s", seed=3)
    batching = Batching(4, convert=operator.itemgetter("id"))
    batches = FrozenBatches(table, "s", batching, storage_options=options)
    assert b"very-secret" not in pickle.dumps(batches)
    keys.clear()
    found = []
    for batch in batches.loader(2):
        time.sleep(0.3)  # which takes longer than a key is good
        found += batch.to_pylist()
    assert sorted(found) == list(range(96))
    by_process = {}
    for key in keys:
        by_process.setdefault(key.partition("UNTIL")[0], set()).add(key)
    workers = [used for process, used in by_process.items() if process != f"AKIA{os.getpid()}"]
    assert len(workers) == 2
    assert all(len(used) > 1 for used in workers)
