"""Blobs in objects elsewhere in a training loop: workers of a DataLoader read them whole, in part, and as files.

With torch installed, its DataLoader is the real one; else a stand-in that starts the same processes.
"""

import lance
import pytest
from support import torch_stand_in
from support.referring import Files, made_objects, mixed, refer, whole

from lance_spark import LanceTable

with torch_stand_in.installed():
    from lance_spark.training.torch import Batching, FrozenBatches

pytestmark = pytest.mark.when(spark="newest", day=0)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    base = tmp_path_factory.mktemp("elsewhere")
    blobs, values = mixed(made_objects(base / "objects").as_uri())
    uri = str(base / "t.lance")
    refer(uri, blobs)
    table = LanceTable.for_path(uri)
    table.frozen.create("s", seed=3)
    return table, dict(enumerate(values))


def loaded(table, columns, convert, workers):
    batches = FrozenBatches(table.location.uri, "s", Batching(3, convert=convert), columns=columns)
    found = {}
    for batch in batches.loader(workers):
        found |= batch
    return found


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_open_files(made, workers):
    table, values = made
    found = loaded(table, ["_rowid", "id"], Files(table.blobs("payload")), workers)
    wanted = {row: None if value is None else [value[-2:], value] for row, value in values.items()}
    assert {row: value and [*value] for row, value in found.items()} == wanted  # torch makes lists of tuples


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_read_whole_blobs(made, workers):
    table, values = made
    assert loaded(table, ["id", "payload"], whole, workers) == values
    assert lance.dataset(table.location.uri).count_rows() == len(values)
