"""Any history of two branches: who follows ``changes=true`` has the table in the end, whatever happened on the way.

Cleanups that respect the stream's tag are part of the history, and restarts, and batches that are run twice. A stream
of appended rows gives each row of an append, of an insert and of a merge once.
"""

import shutil
import tempfile
from collections import Counter
from datetime import timedelta

import lance
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.cleanup_datasets import clean
from support.feeds import replayed, state
from support.stream_sources import Query, ids
from test_changes_histories import History

from lance_spark.core.refs import PinnedVersion

OPERATIONS = (
    "append", "delete", "update", "upsert", "same", "compact", "restore", "overwrite", "index", "merge",
    "replace column", "cleanup", "read", "read", "restart", "twice",
)  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.booleans(), st.integers(0, 9)), min_size=3, max_size=12)
LIMITS = st.sampled_from(
    [{}, {"max_files_per_trigger": 1}, {"max_versions_per_trigger": 1}, {"max_bytes_per_trigger": 1}]
)
COLUMNS = ["id", "v"]


class Followed(History):
    """The history, and a stream of each branch with a tag of its own."""

    def __init__(self, directory, stable, **options):
        super().__init__(directory, stable)
        self.queries = {
            branch: Query(self.uri, branch=branch or "main", query_id=branch or "main", **options)
            for branch in (None, "b")
        }
        for query in self.queries.values():
            self.read(query)

    def step(self, kind, on_branch, number):
        query = self.queries["b" if on_branch else None]
        if kind == "cleanup":
            clean(self.uri, older_than=timedelta(0), commit_window=timedelta(0))
        elif kind == "restart":
            query.restart()
        elif kind == "twice":
            again = sorted(map(repr, query.batches[-1]))
            assert sorted(map(repr, query.restart().run())) == again
        elif kind == "read":
            self.read(query)
        else:
            super().step(kind, on_branch, number)

    def read(self, query):
        """As Spark does: a batch is committed once there is a next one, and not run again from then on."""
        if query.plan():
            if len(query.planned) > 1:
                query.commit(-2)
            query.run()

    def restore(self, branch, number):
        versions = [each["version"] for each in lance.dataset(self.root(branch)).versions()]
        lance.dataset(self.root(branch), version=versions[number % len(versions)]).restore()


@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
@given(steps=STEPS, limits=LIMITS, options=st.sampled_from([{}, {"key": "id"}, {"images": "none"}]))
@settings(max_examples=max(6, settings().max_examples // 3))
def test_who_follows_the_changes_has_the_table(stable, steps, limits, options):
    directory = tempfile.mkdtemp()
    try:
        history = Followed(directory, stable, changes="true", **limits, **options)
        for step in steps:
            history.step(*step)
        for branch, query in history.queries.items():
            if "v" not in lance.dataset(history.root(branch)).schema.names:
                continue
            query.drain()
            at = PinnedVersion(branch, lance.dataset(history.root(branch)).version)
            assert replayed(Counter(), query.rows, COLUMNS) == state(history.uri, at, COLUMNS)
    finally:
        shutil.rmtree(directory)


APPENDING = (
    "append", "append", "insert", "index", "read", "restart", "cleanup", "twice", "merge", "compact", "publish",
    "publish",
)  # fmt: skip
APPENDS = st.lists(st.tuples(st.sampled_from(APPENDING), st.booleans(), st.integers(0, 9)), min_size=4, max_size=14)


BOTH_COMPACTED = [
    ("append", False, 0), ("compact", False, 0), ("publish", False, 0), ("merge", True, 0), ("merge", False, 0),
]  # fmt: skip
"""A fragment of main stays, with one row: the others come back to main as the branch compacted them."""


class Appended(Followed):
    """A history in which rows only come. A branch is often compacted right before it is merged."""

    def step(self, kind, on_branch, number):
        if kind == "publish":
            super().step("compact", not on_branch, number)
            super().step("merge", on_branch, number)
        else:
            super().step(kind, on_branch, number)

    def insert(self, dataset, number):
        rows = self.batch(1 + number % 4)
        dataset.merge_insert("id").when_not_matched_insert_all().execute(pa.table(rows))


@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
@given(steps=APPENDS, limits=LIMITS, options=st.sampled_from([{}, {"filter": "v < 2"}]))
@example(steps=BOTH_COMPACTED, limits={}, options={})
@settings(max_examples=max(6, settings().max_examples // 4))
def test_a_stream_of_appended_rows_gives_each_row_once(stable, steps, limits, options):
    directory = tempfile.mkdtemp()
    try:
        history = Appended(directory, stable, **limits, **options)
        for step in steps:
            history.step(*step)
        for branch, query in history.queries.items():
            query.drain()
            expected = lance.dataset(history.root(branch)).to_table(columns=["id"], **options)["id"].to_pylist()
            assert ids(query.rows) == sorted(expected)
    finally:
        shutil.rmtree(directory)
