"""Readers of complete publishes whose requests fall between those of publishers, in every order that there is.

A reader looks up the last complete publish, then the newest version of a table, then lists the later publishes, then
reads their files. Each of these may come before or after any change of a publisher. So the lake is copied before each
change of which a reader could see something, and each look of a reader goes to a copy of its own.
"""

import shutil
from itertools import combinations_with_replacement
from unittest.mock import patch

import lance
import pytest
from support.branched_lakes import Mortal
from support.lakes import Lake

from lance_spark.catalog import journal as journals
from lance_spark.catalog import manifest_commits
from lance_spark.catalog.name_rules import MANIFEST, Catalog
from lance_spark.catalog.published import at_published, version_seen
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict
from lance_spark.lake import publish as publishing
from lance_spark.storage import files
from lance_spark.storage.datasets import find_latest, locate

ENGINE = LocalRunner()
ROWS = (10, 20)
"""What each of two publishes adds to table ``a``; it also creates a table of that name."""


class Copies(Mortal):
    """A process of which every state of the lake is kept."""

    def __init__(self, root):
        super().__init__(root)
        self.known, self.catalogs = [], []

    def step(self):
        catalog = Catalog(locate(self.root))
        heads = [find_latest(where(catalog, path), None) for path in ("a.lance", MANIFEST)]
        names = files.list_names(catalog.manifest, journals.DIRECTORY)
        now = heads, sorted(name for name in names if name.endswith(".json"))
        if now not in self.known:
            copy = f"{self.root}.{len(self.known)}"
            shutil.copytree(self.root, copy)
            self.known.append(now)
            self.catalogs.append(Catalog(locate(copy)))


def where(catalog, path):
    return catalog.manifest if path == MANIFEST else catalog.at(path)


def publish(lake, row, clash):
    """A publish; main writes to the table meanwhile, and perhaps creates the same one as the branch."""
    write_journal = journals.write_journal

    def interfered(*given):
        done = write_journal(*given)
        lake.write_main("a", 50 + row)
        if clash:
            lake.declare_main(f"new{row}")
        return done

    lake.write("a", row)
    lake.write("c", row)
    lake.create(f"new{row}")
    with patch.object(journals, "write_journal", interfered):
        try:
            publishing.publish(lake.catalog, lambda: lake.branch, ENGINE)
        except Conflict:
            assert clash
            lake.rows.pop()
        else:
            lake.base = [*lake.rows]  # as after a merge of a branch of the lake


def published_in(last, path, version):
    """The numbers of the publishes of which a version of a table has something."""
    if path == MANIFEST:
        places = {entry.location for entry in manifest_commits.rows_at(last.manifest, version).entries}
        return {row for row in ROWS if f"0badcafe_new{row}" in places}
    return {*ROWS} & {*lance.dataset(last.at(path).uri, version=version).to_table()["id"].to_pylist()}


@pytest.mark.when(day={"path": ["a.lance"]})
@pytest.mark.parametrize("path", ["a.lance", MANIFEST])
@pytest.mark.parametrize("taken_back", [(True, False), (False, True), (True, True), (False, False)], ids=str)
def test_in_every_order_a_reader_sees_the_last_complete_publish(tmp_path, path, taken_back):
    lake = Lake.make(f"{tmp_path}/lake")
    copies = Copies(lake.catalog.uri)
    expected = [set()]
    with copies.living():
        for row, clash in zip(ROWS, taken_back, strict=True):
            publish(lake, row, clash)
            merged = {row} if path == MANIFEST else {*ROWS[: ROWS.index(row) + 1]}
            expected.append(expected[-1] | ({*()} if clash else merged))
        copies.step()
    last = copies.catalogs[-1]
    readers = [at_published(catalog).ref for catalog in copies.catalogs]
    heads = [find_latest(where(catalog, path), None).version for catalog in copies.catalogs]
    has = {version: published_in(last, path, version) for version in range(heads[0], heads[-1] + 1)}
    assert {reader.sequence for reader in readers} == {0, 1, 2}
    orders, wrong = 0, []
    for first, second, third in combinations_with_replacement(range(len(readers)), 3):
        manifest = copies.catalogs[third].manifest
        seen = version_seen(manifest, readers[first], path, where(last, path), heads[second])
        orders += 1
        if has[seen] != expected[readers[first].sequence]:
            wrong.append((first, second, third, seen, has[seen]))
    assert not wrong
    assert orders > 100
