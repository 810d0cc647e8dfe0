"""Any history of a branch that two queries write to: each batch is in once, whoever is killed, paused or cleans up."""

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

import lance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cleanup_datasets import clean
from support.local_datasets import make_dataset, numbers
from support.stream_queries import Killed, Query, kill

from lance_spark.actions.streams.sink import commit_stream, resume_stream
from lance_spark.errors import Refused
from lance_spark.store import stream_sink, write_commit
from lance_spark.store.uri import locate

FOREIGN = 1_000_000
OPERATIONS = (
    "batch", "batch", "batch", "empty", "killed before", "killed after", "paused", "append", "compact", "cleanup",
)  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.booleans()), min_size=4, max_size=14)


class Written:
    """A branch, and how far each of two queries has come by its checkpoint."""

    def __init__(self, directory, optimize_every):
        self.uri = f"{directory}/table.lance"
        make_dataset(self.uri, numbers(1, FOREIGN))
        options = {"branch": "ingest", "create_branch": "true", "optimize_every": str(optimize_every)}
        self.queries = [Query(self.uri, Path(directory, name), query_id=name, **options) for name in "ab"]
        self.next = [0, 0]
        self.planned = [None, None]
        self.expected = [FOREIGN]

    def step(self, kind, which):
        if kind in ("append", "compact", "cleanup"):
            getattr(self, kind)()
            return
        number = self.next[which]
        rows = numbers(0 if kind == "empty" else 3, 100_000 * which + 10 * number)
        rows = self.planned[which] = self.planned[which] or rows  # the same when a batch is tried again
        if kind.startswith("killed"):
            self.killed(which, number, rows, kind.endswith("before"))
        else:
            late = self.queries[which].write(rows) if kind == "paused" else None
            self.done(which, number, rows, late)

    def killed(self, which, number, rows, before):
        where, name = (write_commit, "commit_checked") if before else (stream_sink, "refs")
        with pytest.MonkeyPatch.context() as patch:
            if before:
                patch.setattr(where, name, kill)
            else:
                patch.setattr(stream_sink.refs, "move_tag", kill)
            try:
                self.queries[which].batch(number, rows)
            except (Killed, Refused):
                return
        self.note(which, rows)  # there was no tag to be moved

    def done(self, which, number, rows, late):
        query = self.queries[which]
        try:
            if late is None:
                query.batch(number, rows)
            else:
                self.raced(query, number, rows, late)
        except Refused as refused:
            if "gone" not in refused.message:
                raise
            there = rows.num_rows and rows["id"][0].as_py() in self.rows()
            resume_stream(locate(self.uri), "ingest", query.id, number if there else number - 1)
            query.batch(number, rows)
        self.note(which, rows)

    def raced(self, query, number, rows, late):
        """Another driver commits the batch while the first one is about to."""
        real = write_commit.commit_checked

        def slow(job, fragments):
            write_commit.commit_checked = real
            query.batch(number, rows)
            return real(job, fragments)

        write_commit.commit_checked = slow
        try:
            commit_stream(*late, number)
        finally:
            write_commit.commit_checked = real

    def note(self, which, rows):
        self.next[which] += 1
        self.planned[which] = None
        self.expected += rows["id"].to_pylist()

    @property
    def branch(self):
        return lance.dataset(self.uri).checkout_version(("ingest", None))

    def rows(self):
        return self.branch.to_table(columns=["id"])["id"].to_pylist()

    def append(self):
        if "ingest" in lance.dataset(self.uri).branches.list():
            self.expected.append(FOREIGN + len(self.expected))
            lance.write_dataset(numbers(1, self.expected[-1]), self.branch, mode="append")

    def compact(self):
        if "ingest" in lance.dataset(self.uri).branches.list():
            self.branch.optimize.compact_files()

    def cleanup(self):
        clean(self.uri, older_than=timedelta(0), commit_window=timedelta(0))


@given(steps=STEPS, optimize_every=st.sampled_from([1, 3, 100]))
@settings(max_examples=max(8, settings().max_examples // 10))
def test_each_batch_is_in_once(steps, optimize_every):
    directory = tempfile.mkdtemp()
    try:
        history = Written(directory, optimize_every)
        for step in [*steps, ("batch", False), ("batch", True)]:
            history.step(*step)
        assert sorted(history.rows()) == sorted(history.expected)
    finally:
        shutil.rmtree(directory)
