"""The tables that are looked after, made once per size below benchmarks/data/, and fresh copies of them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments

from benchmarks.data import HOME

SMALL_ROWS = 1_000
"""Rows of a small fragment: some 100 kB."""
FLOATS = 10
VECTOR = 64
LARGE_ROWS = 50_000
"""Rows of a fragment that is indexed."""
_CARRIERS = pa.array(["9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"])
_WORDS = pa.array([f"{a}{b}{c}{d}" for a in "bdfgklmnprst" for b in "aeiou" for c in "lmnrst" for d in "aeiou"])
_FIRST_DAY = np.datetime64("2013-01-01")
_LINKS = 30_000
"""Names that one file gets; file systems have a limit of 65,000."""


@dataclass(frozen=True)
class Kept:
    """A dataset on disk, of which every round gets a copy."""

    home_path: Path
    rows: int

    @property
    def home(self) -> str:
        return str(self.home_path)

    @property
    def pristine(self) -> str:
        """What is never written to."""
        return str(self.home_path / "pristine.lance")

    @property
    def place(self) -> Path:
        """Where it was made, and where its copies are: branches name their parent's files by this path."""
        return self.home_path / "table.lance"

    @contextmanager
    def copy(self) -> Iterator[str]:
        """A copy that may be written to; it is gone afterwards. Its files are hard links: files are never changed."""
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.pristine, self.place, copy_function=os.link)
        try:
            yield str(self.place)
        finally:
            shutil.rmtree(self.place)

    def check(self, uri: str) -> None:
        """Raise AssertionError unless pylance reads each row once."""
        dataset = lance.dataset(uri)
        dataset.validate()
        ids = dataset.to_table(["id"])["id"].to_numpy()
        if len(ids) != self.rows or int(ids.sum()) != self.rows * (self.rows - 1) // 2:
            raise AssertionError(f"the table has {len(ids)} rows, not {self.rows}, or others")


def small_fragments(fragments: int) -> Kept:
    """Many small fragments, in each of them every day and carrier."""
    rows = fragments * SMALL_ROWS
    return _kept(f"upkeep-small-{fragments}", rows, lambda uri: _write(uri, rows, SMALL_ROWS, _flights))


def documents(rows: int) -> Kept:
    """Large fragments with keys, texts and vectors."""
    return _kept(f"upkeep-documents-{rows}", rows, lambda uri: _write(uri, rows, LARGE_ROWS, _documents))


def numbers(fragments: int) -> Kept:
    """Small fragments with integers, which can be given a wider type."""
    rows = fragments * SMALL_ROWS
    return _kept(f"upkeep-numbers-{fragments}", rows, lambda uri: _write(uri, rows, SMALL_ROWS, _numbers))


def branches(count: int) -> Kept:
    """A table with so many branches, each of them with a fragment of its own."""
    return _kept(f"upkeep-branches-{count}", SMALL_ROWS, lambda uri: _branch(uri, count))


def files(count: int) -> Kept:
    """One version with so many data files: a few files under many names."""
    return _kept(f"upkeep-files-{count}", count * 10, lambda uri: _many_files(uri, count))


def _kept(name: str, rows: int, make: Callable[[str], None]) -> Kept:
    kept = Kept(HOME / name, rows)
    if not Path(kept.pristine).exists():
        print(f"making {kept.home_path.relative_to(HOME.parent)} ...", flush=True)
        shutil.rmtree(kept.place, ignore_errors=True)
        kept.home_path.mkdir(parents=True, exist_ok=True)
        make(str(kept.place))
        kept.place.rename(kept.pristine)
    return kept


def _write(uri: str, rows: int, per_file: int, make: Callable[[int, int], pa.Table]) -> None:
    # One call for all files of the same size would write them one after the other as well, but keep them in memory.
    starts = range(0, rows, per_file)
    fragments = [each for start in starts for each in write_fragments(make(start, min(per_file, rows - start)), uri)]
    lance.LanceDataset.commit(uri, lance.LanceOperation.Overwrite(make(0, 1).schema, fragments))


def _flights(start: int, count: int) -> pa.Table:
    random = np.random.default_rng(start)
    days = _FIRST_DAY + random.integers(0, 365, count)
    columns = {
        "id": pa.array(np.arange(start, start + count)),
        "day": pa.array(days, pa.date32()),
        "carrier": _CARRIERS.take(pa.array(random.integers(0, len(_CARRIERS), count))),
    }
    return pa.table({**columns, **{f"x{number}": random.random(count) for number in range(FLOATS)}})


def _numbers(start: int, count: int) -> pa.Table:
    values = np.random.default_rng(start).integers(0, 1_000_000, count, dtype=np.int32)
    return pa.table({"id": pa.array(np.arange(start, start + count)), "number": values})


def _documents(start: int, count: int) -> pa.Table:
    random = np.random.default_rng(start)
    words = _WORDS.take(pa.array((random.zipf(1.3, count * 10) - 1) % len(_WORDS))).to_pylist()
    vectors = random.random(count * VECTOR, dtype=np.float32)
    return pa.table(
        {
            "id": pa.array(np.arange(start, start + count)),
            "text": [" ".join(words[first : first + 10]) for first in range(0, count * 10, 10)],
            "emb": pa.FixedSizeListArray.from_arrays(pa.array(vectors), VECTOR),
        }
    )


def _branch(uri: str, count: int) -> None:
    dataset = lance.write_dataset(_flights(0, SMALL_ROWS), uri)
    for number in range(count):
        branch = dataset.create_branch(f"branch-{number:04}")
        lance.write_dataset(_flights(number, 10), branch.uri, mode="append")


def _many_files(uri: str, count: int) -> None:
    table = pa.table({"id": pa.array(range(10), pa.int64())})
    described: list[FragmentMetadata] = []
    source = path = text = ""
    for number in range(count):
        if number % _LINKS == 0:
            (fragment,) = write_fragments(table, uri)
            described.append(fragment)
            path = fragment.files[0].path
            source = f"{uri}/data/{path}"
            text = json.dumps(fragment.to_json())
            continue
        name = f"{number:024b}{os.urandom(13).hex()}.lance"
        os.link(source, f"{uri}/data/{name}")
        described.append(FragmentMetadata.from_json(text.replace(path, name)))
    lance.LanceDataset.commit(uri, lance.LanceOperation.Overwrite(table.schema, described))
