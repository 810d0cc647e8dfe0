"""A catalog of three tables and a branch of it, whose rows a test holds in its hands."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import lance
import pyarrow as pa

from lance_spark.catalog import manifest_commits
from lance_spark.catalog.entry_rules import Entry, RowFilter, decode_metadata, encode_properties
from lance_spark.catalog.lake_rules import KEY
from lance_spark.catalog.name_rules import Catalog, Mode
from lance_spark.catalog.tables import declare_table
from lance_spark.lake.manifest_rules import BranchRows
from lance_spark.storage.datasets import locate
from support.catalogs import make_table
from support.cleanup_datasets import place
from support.local_datasets import numbers

TABLES = ("a", "b", "c")
OWN = "lake/etl-1a2b3c4d"
"""The branch of each table that the branch of the lake writes to."""


def main_rows(catalog: Catalog) -> tuple[Entry, ...]:
    return manifest_commits.read_rows(catalog.manifest, RowFilter(everything=True)).entries


def pinned(row: Entry, **pin: object) -> Entry:
    values = {**decode_metadata(row.metadata, row.object_id), KEY: json.dumps(pin)}
    return replace(row, metadata=encode_properties(values))


@dataclass
class Lake:
    """Tables a, b and c with the rows 0, 1, 2, and a branch of all of them."""

    catalog: Catalog
    base: list[Entry] = field(default_factory=list)
    rows: list[Entry] = field(default_factory=list)

    @classmethod
    def make(cls, directory: str, mode: Mode = "compatibility") -> Lake:
        catalog = Catalog(locate(directory), mode)
        for name in TABLES:
            make_table(catalog, name)
        return cls(catalog).fork()

    def fork(self) -> Lake:
        """The branch of the lake begins here."""
        self.base = [pinned(row, version=self.head(row.object_id).version) for row in main_rows(self.catalog)]
        self.rows = list(self.base)
        return self

    @property
    def branch(self) -> BranchRows:
        return BranchRows("etl", tuple(self.base), tuple(self.rows))

    def uri(self, name: str) -> str:
        """Where a table of the branch or of main is."""
        known = [row.location for row in (*self.rows, *main_rows(self.catalog)) if row.object_id == name]
        return f"{self.catalog.uri}/{known[0]}"

    def head(self, name: str, branch: str | None = None) -> lance.LanceDataset:
        return lance.dataset(place(self.uri(name), branch))

    def ids(self, name: str) -> list[int]:
        return sorted(self.head(name).to_table()["id"].to_pylist())

    def state(self) -> dict[str, list[int]]:
        """The tables of main with their rows."""
        return {row.object_id: self.ids(row.object_id) for row in main_rows(self.catalog) if row.is_table}

    def write(self, name: str, start: int, count: int = 1) -> None:
        """Append to a table on the branch of the lake."""
        row = next(row for row in self.rows if row.object_id == name)
        if OWN not in lance.dataset(self.uri(name)).branches.list():
            lance.dataset(self.uri(name)).create_branch(OWN)
            pin = pinned(row, version=self.head(name).version, branch=OWN)
            self.rows = [pin if each is row else each for each in self.rows]
        lance.write_dataset(numbers(count, start), place(self.uri(name), OWN), mode="append")

    def write_main(self, name: str, start: int, count: int = 1) -> None:
        lance.write_dataset(numbers(count, start), self.uri(name), mode="append")

    def create(self, name: str) -> None:
        """A new table, on the branch only."""
        place = f"0badcafe_{name}"
        lance.write_dataset(pa.table({"id": [9]}), f"{self.catalog.uri}/{place}")
        self.rows.append(pinned(Entry(name, "table", place), new=True))

    def create_main(self, name: str) -> None:
        make_table(self.catalog, name)

    def declare_main(self, name: str) -> None:
        declare_table(self.catalog, name)

    def rename(self, old: str, new: str) -> None:
        """On the branch only."""
        self.rows = [replace(row, object_id=new) if row.object_id == old else row for row in self.rows]
