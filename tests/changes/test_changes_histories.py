"""Any history of two branches: a change feed, replayed onto the rows of one version, gives the rows of the other one.

pylance reads both versions. Where something tells rows apart, the feed also says of every single row what a comparison
of the two states says.
"""

import shutil
import tempfile
from contextlib import suppress

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.feeds import expected, feed, pairs_of, replace_column, replayed, state

from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, Refused
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.merge.restore import restore
from lance_spark.storage.datasets import locate, pin_latest

OPERATIONS = (
    "append", "delete", "update", "upsert", "same", "compact", "restore", "overwrite", "index", "add column",
    "replace column", "drop column", "merge",
)  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.booleans(), st.integers(0, 9)), min_size=2, max_size=9)


class History:
    """A dataset with main and a branch that begins with version 2; ``id`` is never used twice."""

    def __init__(self, directory, stable):
        self.uri = f"{directory}/t.lance"
        self.next = 0
        lance.write_dataset(self.batch(7), self.uri, max_rows_per_file=3, enable_stable_row_ids=stable)
        lance.write_dataset(self.batch(2), self.uri, mode="append")
        lance.dataset(self.uri).create_branch("b")

    def batch(self, count):
        ids = range(self.next, self.next + count)
        self.next += count
        return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([n % 3 for n in ids], pa.int64())})

    def root(self, branch):
        return self.uri if branch is None else f"{self.uri}/tree/{branch}"

    def versions(self, branch):
        first = 1 if branch is None else 2
        return range(first, lance.dataset(self.root(branch)).version + 1)

    def step(self, kind, on_branch, number):
        branch = "b" if on_branch else None
        dataset = lance.dataset(self.root(branch))
        if kind == "merge":
            self.merge(None if on_branch else "b", branch)
        elif kind == "restore":
            self.restore(branch, number)
        elif kind in ("add column", "drop column"):
            self.columns(kind, dataset, number)
        elif kind in ("replace column", "upsert"):
            self.values(kind, dataset, number)
        else:
            getattr(self, kind)(dataset, number)

    def append(self, dataset, number, mode="append"):
        rows = self.batch(1 + number % 3)
        kept = (
            rows.schema.names
            if mode == "overwrite"
            else [name for name in rows.schema.names if name in dataset.schema.names]
        )
        lance.write_dataset(rows.select(kept), dataset.uri, mode=mode)

    def overwrite(self, dataset, number):
        self.append(dataset, number, "overwrite")

    def delete(self, dataset, number):
        dataset.delete(f"id % 5 = {number % 5}")

    def update(self, dataset, number):
        dataset.update(
            {dataset.schema.names[-1]: f"{number % 3}"} if len(dataset.schema) > 1 else {"id": "id"},
            where=f"id % 4 = {number % 4}",
        )

    def same(self, dataset, number):
        dataset.update({"id": "id"}, where=f"id % 4 = {number % 4}")

    def compact(self, dataset, _number):
        dataset.optimize.compact_files()

    def index(self, dataset, _number):
        dataset.create_scalar_index("id", "BTREE", replace=True)

    def restore(self, branch, number):
        at = PinnedVersion(branch, list(self.versions(branch))[number % len(self.versions(branch))])
        if number % 2:
            lance.dataset(self.root(branch), version=at.version).restore()
        else:
            self.tried(lambda: restore(locate(self.uri), at, LocalRunner()))

    def columns(self, kind, dataset, number):
        """``v`` lies in one file with ``id``, ``w`` in files of its own."""
        column = "w" if number % 3 else "v"
        if kind == "drop column" and column in dataset.schema.names:
            dataset.drop_columns([column])
        elif kind == "add column" and column not in dataset.schema.names:
            values = {column: f"nullif(id % 3, {number % 3})"}
            dataset.add_columns(values if number % 2 else pa.field(column, pa.int64()))

    def values(self, kind, dataset, number):
        fragments = dataset.get_fragments()
        if "v" not in dataset.schema.names:
            return
        if kind == "upsert" and "w" not in dataset.schema.names:
            known = dataset.to_table(columns=["id"])["id"].to_pylist()[: 1 + number % 3]
            rows = {"id": [*known, self.next], "v": [number] * (len(known) + 1)}
            self.next += 1
            insert = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            insert.execute(pa.table(rows, schema=pa.schema([("id", pa.int64()), ("v", pa.int64())])))
        elif fragments:
            fragment = fragments[number % len(fragments)]
            rows = fragment.physical_rows
            replace_column(dataset.uri, fragment.fragment_id, "v", [(n + number) % 4 for n in range(rows)])

    def merge(self, source, into):
        location = locate(self.uri)
        self.tried(lambda: merge(location, pin_latest(location, source), into, MergeOptions(), LocalRunner()))

    def tried(self, call):
        """What is refused, as two merges that cannot be combined are, leaves everything as it was."""
        with suppress(Conflict, Refused):
            call()

    def places(self):
        return [PinnedVersion(branch, version) for branch in (None, "b") for version in self.versions(branch)]


@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
@given(steps=STEPS, data=st.data())
@settings(max_examples=max(6, settings().max_examples // 2))
def test_a_feed_replayed_onto_the_old_rows_gives_the_new_ones(stable, steps, data):
    directory = tempfile.mkdtemp()
    try:
        history = History(directory, stable)
        for step in steps:
            history.step(*step)
        places = st.sampled_from(history.places())
        for _ in range(5):
            check(history.uri, data.draw(places), data.draw(places), data.draw(st.sampled_from(OPTIONS)), stable)
        last = history.places()[-1]
        check(history.uri, PinnedVersion(None, 1), last, {"key": ("id",)}, stable)
    finally:
        shutil.rmtree(directory)


OPTIONS = (
    {},
    {"net": True},
    {"images": "none"},
    {"images": "none", "net": True},
    {"key": ("id",)},
    {"key": ("id",), "net": True},
    {"columns": ("id",)},
)


def check(uri, since, until, options, stable):
    found = feed(uri, str(since), str(until), **options)
    columns = (
        options.get("columns")
        or lance.dataset(
            uri if until.branch is None else f"{uri}/tree/{until.branch}", version=until.version
        ).schema.names
    )
    before, after = state(uri, since, columns), state(uri, until, columns)
    assert replayed(before, found, columns) == after
    if "key" in options:
        told = pairs_of(found)
        if options.get("net") or (since.branch == until.branch and abs(since.version - until.version) == 1):
            assert told == expected(before, after)
        assert told["delete", None] == 0
    if options.get("images") == "none":
        assert {row["_change_type"] for row in found} <= {"insert", "delete"}
    if before == after and options.get("net"):
        assert not found or (stable and "key" not in options)
