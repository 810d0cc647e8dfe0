"""Any history of a branch that two queries write to: each batch is in once, whoever is killed, paused or cleans up."""

import shutil
import tempfile
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import lance
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cleanup_datasets import clean, plan
from support.killed import Killed, kill
from support.local_datasets import make_dataset, numbers
from support.stream_queries import Query

from lance_spark.cleanup import cleanup
from lance_spark.streams import query_records
from lance_spark.streams.sink import commit_stream
from lance_spark.write import data_files as write_commit

FOREIGN = 1_000_000
OPERATIONS = (
    "batch", "batch", "batch", "empty", "killed before", "killed after", "paused", "paused and killed", "append",
    "append", "compact", "cleanup", "cleanup", "cleanup killed",
)  # fmt: skip
POLICY = {"older_than": timedelta(0), "commit_window": timedelta(0)}
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
        self.twice = set()
        self.compacts_never = optimize_every == 100

    def step(self, kind, which):
        if kind in ("append", "compact", "cleanup", "cleanup killed"):
            getattr(self, kind.replace(" ", "_"))()
            return
        number = self.next[which]
        rows = numbers(0 if kind == "empty" else 3, 100_000 * which + 10 * number)
        rows = self.planned[which] = self.planned[which] or rows  # the same when a batch is tried again
        if kind.startswith("killed"):
            self.killed(which, number, rows, kind.endswith("before"))
        elif kind == "paused and killed":
            both = self.both_killed if self.compacts_never else partial(self.killed, before=False)
            both(which, number, rows)
        else:
            late = self.queries[which].write(rows) if kind == "paused" else None
            self.done(which, number, rows, late)

    def killed(self, which, number, rows, before):
        where, name = (write_commit, "commit_checked") if before else (query_records, "refs")
        with pytest.MonkeyPatch.context() as patch:
            if before:
                patch.setattr(where, name, kill)
            else:
                patch.setattr(query_records.refs, "move_tag", kill)
            try:
                self.queries[which].batch(number, rows)
            except Killed:
                return
        self.note(which, rows)  # there was no tag to be moved

    def both_killed(self, which, number, rows):
        """Two drivers commit the batch, and are killed before either looks again.

        Rows that were compacted since cannot be taken back: the query is refused then, and nobody compacts here.
        """
        self.twice.add(which)
        query, real = self.queries[which], write_commit.commit_checked
        late = query.write(rows)

        def slow(job, fragments):
            write_commit.commit_checked = real
            self.killed(which, number, rows, before=False)
            real(job, fragments)
            raise Killed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(write_commit, "commit_checked", slow)
            with suppress(Killed):
                commit_stream(*late, number)
            if self.next[which] == number and write_commit.commit_checked is slow:
                self.note(which, rows)  # an empty one, or one that was in

    def done(self, which, number, rows, late):
        query = self.queries[which]
        if late is None:
            query.batch(number, rows)
        else:
            self.raced(query, number, rows, late)
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
        self.twice.discard(which)
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
        if not self.twice and "ingest" in lance.dataset(self.uri).branches.list():
            self.branch.optimize.compact_files()

    def cleanup(self):
        clean(self.uri, **POLICY)

    def cleanup_killed(self):
        made = plan(self.uri, **POLICY)
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            patch.setattr(cleanup.CleanupPlan, "_delete", kill)
            made.apply()


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
