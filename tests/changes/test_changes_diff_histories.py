"""Any order of changes on two branches: a diff of any two versions says what a plain Python model says."""

import shutil
import tempfile
from collections import Counter

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.changes.diff import diff
from lance_spark.core.refs import PinnedVersion
from lance_spark.log.log import log
from lance_spark.storage.datasets import locate

KEY = {"lance-schema:unenforced-primary-key": "true"}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "delete", "update", "upsert", "compact", "restore", "overwrite", "index"]),
        st.booleans(),
        st.integers(0, 9),
    ),
    min_size=2,
    max_size=7,
)


class Table:
    """A dataset with main and, from the second version on, a branch; and the rows of each version."""

    def __init__(self, directory, key, stable):
        self.uri, self.key = f"{directory}/t.lance", key
        self.rows: dict[tuple[str | None, int], dict[int, str]] = {}
        self.next = 0
        lance.write_dataset(self.batch(6), self.uri, enable_stable_row_ids=stable)
        self.rows[None, 1] = self.made
        lance.dataset(self.uri).create_branch("b")
        self.rows["b", 1] = self.made

    def batch(self, count):
        ids = range(self.next, self.next + count)
        self.next += count
        self.made = {number: f"n{number % 2}" for number in ids}
        return self.table(self.made)

    def table(self, rows):
        schema = pa.schema([pa.field("id", pa.int64(), False, KEY if self.key else None), ("v", pa.string())])
        return pa.table({"id": list(rows), "v": list(rows.values())}, schema=schema)

    def root(self, branch):
        return self.uri if branch is None else f"{self.uri}/tree/{branch}"

    def head(self, branch):
        return max(version for name, version in self.rows if name == branch)

    def step(self, kind, on_branch, number):
        branch = "b" if on_branch else None
        root, before = self.root(branch), self.rows[branch, self.head(branch)]
        dataset, after = lance.dataset(root), dict(before)
        if kind in ("append", "overwrite"):
            lance.write_dataset(self.batch(1 + number % 3), root, mode=kind)
            after = {**(before if kind == "append" else {}), **self.made}
        elif kind == "delete":
            dataset.delete(f"id % 5 = {number % 5}")
            after = {key: value for key, value in before.items() if key % 5 != number % 5}
        elif kind == "update":
            dataset.update({"v": f"'u{number % 2}'"}, where=f"id % 4 = {number % 4}")
            after = {key: f"u{number % 2}" if key % 4 == number % 4 else value for key, value in before.items()}
        elif kind == "upsert":
            rows = dict.fromkeys(list(before)[:2], "up") | {self.next: "up"}
            self.next += 1
            insert = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            insert.execute(self.table(rows))
            after = {**before, **rows}
        elif kind == "compact":
            dataset.optimize.compact_files()
        elif kind == "index":
            dataset.create_scalar_index("id", "BTREE", replace=True)
        else:
            version = sorted(version for name, version in self.rows if name == branch)[number % len(self.of(branch))]
            if version == self.head(branch):
                return
            lance.dataset(root, version=version).restore()
            after = self.rows[branch, version]
        newest = lance.dataset(root).version
        for version in range(self.head(branch) + 1, newest):
            self.rows[branch, version] = before  # a compaction first reserves ids
        if newest > self.head(branch):
            self.rows[branch, newest] = after

    def of(self, branch):
        return [version for name, version in self.rows if name == branch]


def model(before, after):
    both = before.keys() & after.keys()
    return (
        len(after.keys() - before.keys()),
        len(before.keys() - after.keys()),
        sum(before[key] != after[key] for key in both),
    )


@pytest.mark.parametrize(("key", "stable"), [(False, False), (True, False), (False, True)])
@given(steps=STEPS, data=st.data())
@settings(max_examples=max(8, settings().max_examples // 4))
def test_a_diff_says_what_the_model_says(key, stable, steps, data):
    directory = tempfile.mkdtemp()
    try:
        table = Table(directory, key, stable)
        for step in steps:
            table.step(*step)
        places = sorted(table.rows, key=str)
        for _ in range(6):
            one, other = data.draw(st.sampled_from(places)), data.draw(st.sampled_from(places))
            check_diff(table, one, other, told=key or stable)
        check_log(table)
    finally:
        shutil.rmtree(directory)


def check_diff(table, one, other, told):
    """``told``: whether something tells which rows are the same."""
    location, (old, new) = locate(table.uri), (PinnedVersion(*one), PinnedVersion(*other))
    before, after = table.rows[one], table.rows[other]
    found, quick = diff(location, old, new, rows=True, limit=1000), diff(location, old, new)
    assert Counter(tuple(each.before.values()) for each in found.examples if each.before) == (
        Counter(before.items()) - Counter(after.items())
    )
    assert Counter(tuple(each.after.values()) for each in found.examples if each.after) == (
        Counter(after.items()) - Counter(before.items())
    )
    if told:
        assert (found.rows.added, found.rows.deleted, found.rows.changed) == model(before, after)
    for rows in (found.rows, quick.rows):
        assert (rows.before, rows.after) == (len(before), len(after))
        assert rows.after - rows.before == rows.added - rows.deleted
    assert quick.rows.added + (quick.rows.changed or 0) >= found.rows.added + (found.rows.changed or 0)


def check_log(table):
    for branch in (None, "b"):
        for entry in log(locate(table.uri), branch, stat=True):
            assert entry.total_rows == len(table.rows[entry.branch, entry.version])
            if entry.version > 1:
                previous = table.rows[entry.parents[0].branch, entry.parents[0].version]
                assert entry.stat.rows_added - entry.stat.rows_removed == entry.total_rows - len(previous)
