"""Frozen sets in training loops: torch datasets in the set's order, on ranks and workers, and resumed."""

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from unittest.mock import patch
from xml.etree import ElementTree

import lance
import numpy as np
import pyarrow as pa
import pytest
from support import torch_stand_in
from support.local_datasets import make_dataset

from lance_spark import LanceTable
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.training.reading import open_split

with torch_stand_in.installed():
    from lance_spark.training.torch import Batching, FrozenBatches, FrozenRows

needs_torch = pytest.mark.skipif(not torch_stand_in.HAS_TORCH, reason="tensors need torch itself")
COLUMNS = ["id", "vector", "word"]


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    uri = str(tmp_path_factory.mktemp("training") / "t.lance")
    ids = list(range(100))
    rows = {
        "id": ids,
        "vector": pa.array([[n, 0.5] for n in ids], pa.list_(pa.float32(), 2)),
        "word": [f"w{n}" for n in ids],
        "part": pa.array([None if n == 3 else n for n in ids], pa.int32()),
        "share": [None if n == 3 else n / 2 for n in ids],
        "small": pa.array([n % 200 for n in ids], pa.uint16()),
        "flag": [n % 2 == 0 for n in ids],
        "large": pa.array([2**63 + n for n in ids], pa.uint64()),
    }
    make_dataset(uri, pa.table(rows), max_rows_per_file=30)
    LanceTable.for_path(uri).frozen.create("s", split={"train": 0.8, "val": 0.2}, seed=7)
    LanceTable.for_path(uri).frozen.create("other", split={"train": 0.8, "val": 0.2}, seed=8)
    return uri


def order_of(uri, split="train"):
    table = LanceTable.for_path(uri)
    return pa.Table.from_batches(table.frozen.batches("s", split, ["id"]))["id"].to_pylist()


def stream(uri, batch_size=7, split="train", columns=("id",), name="s", **settings):
    return FrozenBatches(uri, name, Batching(batch_size, **settings), split=split, columns=columns)


def as_lists(rows):
    return rows.to_pydict()


def ids(batches):
    return [np.asarray(batch["id"]).tolist() for batch in batches]


def flat(batches):
    return [each for batch in ids(batches) for each in batch]


def test_batches_are_in_the_order_of_the_set(uri):
    batches = stream(uri)
    found = ids(batches)
    assert [each for batch in found for each in batch] == order_of(uri)
    assert len(found) == len(batches)
    assert {len(batch) for batch in found[:-1]} == {7}
    assert flat(stream(uri, split="val")) == order_of(uri, "val")
    assert flat(stream(uri, split=None)) == order_of(uri) + order_of(uri, "val")


def test_rows_by_position_are_the_same_rows(uri):
    rows = FrozenRows(uri, "s", "val", columns=COLUMNS)
    assert [int(row["id"]) for row in rows] == order_of(uri, "val")
    three = rows.__getitems__([4, 0, 2])
    assert [int(row["id"]) for row in three] == [order_of(uri, "val")[each] for each in (4, 0, 2)]
    assert np.asarray(three[0]["vector"]).tolist() == [three[0]["id"], 0.5]
    assert three[0]["word"] == f"w{int(three[0]['id'])}"
    with pytest.raises(IndexError):
        rows[len(rows)]
    with pytest.raises(NotFound, match="Position 99"):
        open_split(uri, "s", "val").read([99])


def test_what_columns_become(uri):
    batch = next(iter(stream(uri, 100, split=None, columns=None, convert=without_part)))
    assert np.asarray(batch["vector"]).shape == (len(batch["word"]), 2)
    kinds = {name: np.asarray(batch[name]).dtype.kind for name in ("id", "share", "small", "flag")}
    assert kinds == {"id": "i", "share": "f", "small": "i", "flag": "b"}
    at = np.asarray(batch["id"]).tolist().index(3)
    assert np.isnan(np.asarray(batch["share"])[at])
    with pytest.raises(Refused, match="'part' has missing values"):
        list(stream(uri, 100, split=None, columns=["part"]))
    with pytest.raises(Refused, match="Column 'large' has 9223372036854775"):
        list(stream(uri, 100, split=None, columns="large"))


def without_part(rows):
    from lance_spark.training.torch import to_tensors

    return to_tensors(rows.drop_columns(["part", "large"]))


def test_ranks_share_an_epoch(uri):
    shards = [flat(stream(uri, 4, rank=rank, world_size=3)) for rank in range(3)]
    assert sorted(each for shard in shards for each in shard) == sorted(order_of(uri))
    assert shards[1][:4] == order_of(uri)[1:12:3]
    dropped = [ids(stream(uri, 4, rank=rank, world_size=3, drop_last=True)) for rank in range(3)]
    assert len({len(shard) for shard in dropped}) == 1


@pytest.mark.parametrize("stop", [1, 3, 11])
def test_a_loop_that_was_stopped_goes_on_where_it_was(uri, stop):
    whole, loader = stream(uri, reshuffle=True), stream(uri, reshuffle=True).loader()
    expected = [ids(whole), ids(whole), ids(whole)]
    first = ids(loader)
    rest = iter(loader)
    begun = ids(next(rest) for _ in range(stop))
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = stream(uri, reshuffle=True).loader()
    resumed.load_state_dict(state)
    assert [first, begun + ids(resumed), ids(resumed)] == expected
    assert sorted(flat(whole)) == sorted(order_of(uri))


def test_after_the_last_batch_the_next_epoch_begins(uri):
    batches = stream(uri)
    for _ in batches:
        state = batches.state_dict()
    assert (state["epoch"], state["position"]) == (1, 0)
    batches.set_epoch(5)
    assert batches.state_dict()["epoch"] == 5


def test_ranks_may_be_others_after_a_pause(uri):
    two = [stream(uri, 4, rank=rank, world_size=2) for rank in range(2)]
    seen = [each for shard in two for each in ids([next(iter(shard))])[0]]
    state = two[0].state_dict()
    assert state["position"] == 8
    one = stream(uri, 8)
    one.load_state_dict(state)
    assert sorted(seen + flat(one)) == sorted(order_of(uri))
    with pytest.raises(Refused, match="No batch begins at position 8"):
        stream(uri, 5).load_state_dict(state)
    with pytest.raises(Refused, match="whose plan or split"):
        stream(uri, 8, name="other").load_state_dict({**state, "set": "other"})


def test_an_empty_split_has_no_batches(uri):
    LanceTable.for_path(uri).frozen.create("tiny", filter="id = 1", split={"train": 0.5, "val": 0.5}, by="word")
    sizes = {
        split: sum(1 for _ in FrozenBatches(uri, "tiny", Batching(4), split, "id").loader())
        for split in ("train", "val")
    }
    assert sorted(sizes.values()) == [0, 1]


def test_without_torch_the_error_says_how_to_get_it():
    with patch.dict(sys.modules, {"torch": None}):
        del sys.modules["lance_spark.training.torch"]
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'lance-spark\[torch\]'"):
            import_module("lance_spark.training.torch")


def test_calls_that_cannot_be_meant_are_refused_with_what_to_do(uri):
    for call, words in (
        (lambda: FrozenBatches(uri, "s", 32), r"Expected a Batching, got 32(.|\n)*Batching\(256\)"),
        (lambda: stream(uri).loader(shuffle=True), r"'shuffle' is not a setting(.|\n)*reshuffle="),
        (lambda: stream(uri).loader(batch_size=8), "'batch_size' is not a setting"),
        (lambda: stream(uri).load_state_dict({"model": 1}), r"not the state of a frozen set(.|\n)*state_dict\(\)"),
        (lambda: stream(uri).load_state_dict(None), "not the state of a frozen set"),
    ):
        with pytest.raises(InvalidOption, match=words):
            call()
    with pytest.raises(NotFound, match="There is no Lance dataset"):
        FrozenRows(uri + "x", "s")
    with pytest.raises(TypeError):
        FrozenRows(uri, "s")[1.5]


def test_a_split_of_another_process_is_refused_and_one_that_was_pickled_reads(uri):
    split = replace(open_split(uri, "s", "train", ["id"]), process=os.getppid())
    assert pickle.loads(pickle.dumps(split)).read([0])["id"].to_pylist() == order_of(uri)[:1]
    with pytest.raises(Refused, match="forked after it opened Lance"):
        split.read([0])


@pytest.mark.when(day=0)  # a process of its own: the one above is as good unless os.fork is
def test_a_split_that_crossed_a_fork_is_refused(uri):
    code = (
        "import os, sys, warnings; warnings.simplefilter('ignore')\n"
        "from lance_spark.training.reading import open_split\n"
        "split = open_split(sys.argv[1], 's', 'train', ['id'])\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    try:\n        split.read([0])\n"
        "    except Exception as error:\n        print(type(error).__name__, error, flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code, uri],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert "Refused This process was forked after it opened Lance" in done.stdout
    assert "multiprocessing_context='spawn'" in done.stdout


def test_the_rows_of_a_set_stay_while_a_loop_runs(uri):
    loader = iter(stream(uri).loader())
    first = ids([next(loader)])[0]
    lance.dataset(uri).delete("id < 50")
    try:
        assert first + flat(loader) == order_of(uri)
    finally:
        lance.dataset(uri).restore()


def test_workers_that_are_spawned_change_nothing(uri):
    """Two processes that unpickle the dataset: their batches in turn, and the state of what the loop got."""
    alone, loader = ids(stream(uri, reshuffle=True)), stream(uri, reshuffle=True).loader(2)
    turns = iter(loader)
    begun = ids(next(turns) for _ in range(3))
    state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (0, 21)
    turns.close()  # what workers made beyond that is lost, and is not in the state
    resumed = stream(uri, reshuffle=True).loader()
    resumed.load_state_dict(state)
    assert begun + ids(resumed) == alone


def test_a_function_that_workers_cannot_import_is_refused(uri, monkeypatch):
    def local(rows):
        return rows

    for convert in (local, lambda rows: rows):
        with pytest.raises(InvalidOption, match="Workers cannot import convert="):
            stream(uri, convert=convert).loader(2)
        assert ids(stream(uri, convert=as_lists).loader(0))
    monkeypatch.setattr(sys.modules["__main__"], "as_lists", as_lists, raising=False)
    monkeypatch.setattr(as_lists, "__module__", "__main__")
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    with pytest.raises(InvalidOption, match="it is not a function of a file"):
        stream(uri, convert=as_lists).loader(2)
    with pytest.raises(InvalidOption, match="it is not a function of a file"):
        pickle.dumps(stream(uri, convert=as_lists))  # as any DataLoader sends it to a spawned worker
    with pytest.raises(InvalidOption, match=r"Workers cannot import convert=functools\.partial"):
        stream(uri, convert=partial(as_lists)).loader(2)
    with pytest.raises(InvalidOption, match="Workers cannot import collate_fn=as_lists"):
        stream(uri).loader(2, collate_fn=as_lists)


WRONG = [
    (lambda uri: FrozenBatches(uri, "v1"), "FrozenBatches needs 'batching'"),
    (lambda uri: FrozenBatches(uri, "v1", batch_size=32), r"Batching\(256\), split='train'"),
    (lambda _: Batching(32, shuffle=True), r"Batching\(256, reshuffle=True\)"),
    (lambda uri: stream(uri, convert=3), "convert=3 is no function"),
    (lambda uri: stream(uri)[0], r"next\(iter\(batches\)\)"),
    (lambda uri: next(stream(uri)), r"next\(iter\(batches\)\)"),
    (lambda uri: stream(uri).to_pandas(), r"t\.frozen\.batches\('v1'\)"),
    (lambda uri: FrozenRows(uri, "s")["id"], "a row by its position, not by 'id'"),
    (lambda uri: FrozenRows(uri), "FrozenRows needs 'name'"),
]


@pytest.mark.parametrize(("call", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_wrong_call_is_told_what_to_type(uri, call, said):
    with pytest.raises(InvalidOption, match=said):
        call(uri)


def test_a_loader_that_makes_batches_of_batches_is_told_so(uri):
    with torch_stand_in.installed():
        from torch.utils.data import DataLoader

    batches = stream(uri, 10, convert=lambda rows: rows.to_pydict())
    with pytest.raises(InvalidOption, match="the DataLoader makes batches of them once more") as refused:
        next(iter(DataLoader(batches, batch_size=4)))
    assert "batch_size=None" in refused.value.hint
    assert flat(DataLoader(stream(uri, 10), batch_size=None)) == order_of(uri)


@pytest.mark.when(day=0)  # seconds for each process; by day two of them, once
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_change_nothing_in_any_epoch_and_number(uri, workers):
    alone, loader = stream(uri, reshuffle=True), stream(uri, reshuffle=True).loader(workers)
    expected = [ids(alone), ids(alone)]
    assert ids(loader) == expected[0]
    rest = iter(loader)
    begun = ids(next(rest) for _ in range(2))
    state = loader.state_dict()
    del rest
    resumed = stream(uri, reshuffle=True).loader(workers + 1)
    resumed.load_state_dict(state)
    assert begun + ids(resumed) == expected[1]
    assert resumed.state_dict()["epoch"] == 2


@pytest.mark.when(day=0)
def test_ranks_with_workers_share_an_epoch(uri):
    shards = [flat(stream(uri, 4, rank=rank, world_size=2).loader(2)) for rank in range(2)]
    assert shards == [flat(stream(uri, 4, rank=rank, world_size=2)) for rank in range(2)]
    assert sorted(shards[0] + shards[1]) == sorted(order_of(uri))


@pytest.mark.when(day=0)
def test_workers_of_a_plain_loader_have_to_be_spawned(uri):
    with torch_stand_in.installed():
        from torch.utils.data import DataLoader

    rows = FrozenRows(uri, "s", "val", columns=["id", "vector"])
    spawned = DataLoader(rows, batch_size=4, num_workers=2, multiprocessing_context="spawn")
    assert flat(spawned) == order_of(uri, "val")
    for forked in (
        DataLoader(rows, batch_size=4, num_workers=1, multiprocessing_context="fork"),
        DataLoader(stream(uri), batch_size=None, num_workers=1, multiprocessing_context="fork"),
        stream(uri).loader(1, multiprocessing_context="fork"),
    ):
        with pytest.raises(Refused, match="multiprocessing_context='spawn'"):
            list(forked)
    assert flat(DataLoader(stream(uri), batch_size=None, num_workers=2, multiprocessing_context="spawn")) == order_of(
        uri
    )


@pytest.mark.when(day=0)
@needs_torch
def test_tensors_are_those_of_torch(uri):
    import torch

    batch = next(iter(stream(uri, 5, columns=["id", "vector", "flag", "share"]).loader(1)))
    kinds = {name: (value.dtype, tuple(value.shape)) for name, value in batch.items()}
    assert kinds == {
        "id": (torch.int64, (5,)),
        "vector": (torch.float32, (5, 2)),
        "flag": (torch.bool, (5,)),
        "share": (torch.float64, (5,)),
    }


def test_a_split_shows_itself_in_one_line_and_in_notebooks(uri):
    batches = stream(uri, 7)
    rows, count = len(order_of(uri)), len(batches)
    line = f"<FrozenBatches s, split train: {rows} rows, {count} of 7 rows, at epoch 0, position 0>"
    assert repr(batches) == line
    next(iter(batches.loader()))
    assert "epoch 0, position 7" in str(batches)
    cells = [cell.text for cell in ElementTree.fromstring(batches._repr_html_()).iter("td")]
    assert {"rows", str(rows), "batches", "at"} <= set(cells)
    assert "rank" in stream(uri, 7, rank=1, world_size=2)._repr_html_()
