"""Which engine gets the work: threads up to a border, the other one beyond; it is not even asked for before."""

import threading
from dataclasses import fields, replace

import pyarrow as pa
import pytest
from support.cleanup_surveys import DAY, NOW, chain, manifest, survey

from lance_spark.cleanup.cleanup import about_rows, work_of_sums, work_of_survey
from lance_spark.cleanup.retention_rules import CleanupPolicy, RunClock
from lance_spark.cleanup.sweep_rules import SUMS
from lance_spark.engine.local import LITTLE, AutoEngine, LocalRunner, Work

pytestmark = pytest.mark.pure

SIZES = [field.name for field in fields(Work)]
DEFAULT = CleanupPolicy()


@pytest.mark.parametrize("size", SIZES)
def test_each_size_alone_makes_work_too_much_for_threads(size):
    most = getattr(LITTLE, size)
    assert Work(**{size: most}).is_little
    assert not Work(**{size: most + 1}).is_little
    assert not replace(LITTLE, **{size: most + 1}).is_little


def test_no_work_and_the_most_of_everything_are_little():
    assert Work().is_little
    assert LITTLE.is_little


class Named:
    """An engine that only says who it is."""

    def __init__(self, name):
        self.name = name

    def for_work(self, operation, work):
        return self.name, operation, work


@pytest.mark.parametrize("size", SIZES)
def test_the_large_engine_is_asked_for_when_there_is_work_for_it(size):
    asked = []
    engine = AutoEngine(Named("threads"), lambda: asked.append(1) or Named("cluster"))
    little, much = LITTLE, replace(LITTLE, **{size: getattr(LITTLE, size) + 1})
    assert engine.for_work("merge", little) == ("threads", "merge", little)
    assert asked == []
    assert engine.for_work("merge", much) == ("cluster", "merge", much)
    assert asked == [1]


def test_threads_are_the_same_for_all_work_but_rewrites():
    threads = LocalRunner(3)
    assert threads.for_work("cleanup", replace(LITTLE, files=10**9, rewrites=0)) is threads
    assert (threads.name, threads.parallelism) == ("local", 3)
    together = threads.for_work("optimize", Work(rewrites=2))
    assert (together.name, together.parallelism) == ("local", 3)


def test_rewrites_run_side_by_side_from_the_first_on():
    """pylance's threads keep no lock of Python's: one after the other, a core was idle."""
    meeting, schema = threading.Barrier(2, timeout=20), pa.schema([("n", pa.int64())])

    def meet(item):
        meeting.wait()
        yield pa.record_batch([pa.array([item])], ["n"])

    runner = LocalRunner(2).for_work("optimize", Work(rewrites=2))
    assert runner.flat_map("rewrite", [1, 2], meet, schema)["n"].to_pylist() == [1, 2]


OLD, YOUNG = NOW - 100 * DAY, NOW - 2 * DAY


@pytest.mark.parametrize(
    ("policy", "modified", "read"),
    [
        pytest.param(DEFAULT, [OLD] * 5, 1, id="old versions go unread: only the newest is read"),
        pytest.param(DEFAULT, [OLD, OLD, YOUNG, YOUNG, YOUNG], 3, id="young ones stay, and are read"),
        pytest.param(CleanupPolicy(retain_versions=4), [OLD] * 5, 4, id="retained ones are read"),
        pytest.param(CleanupPolicy(before_version=2), [OLD] * 5, 4, id="those after a number are read"),
        pytest.param(CleanupPolicy(before_version=5), [YOUNG] * 5, 5, id="young ones that go may name young files"),
        pytest.param(
            CleanupPolicy(before_version=5, delete_unverified=True), [YOUNG] * 5, 1, id="files go without a proof"
        ),
    ],
)
def test_a_cleanup_counts_the_manifests_that_it_will_read(policy, modified, read):
    versions = [manifest(number, when, size=10) for number, when in enumerate(modified, start=1)]
    seen = survey(chain(versions=versions))
    work = work_of_survey(seen, policy, RunClock(NOW))
    assert (work.manifests, work.manifest_bytes) == (read, 10 * read)
    assert work.files == about_rows(seen) > 0


def test_clones_are_read_whole():
    seen = survey(chain(versions=(1, 2)), chain(versions=(1, 2, 3), repository=1))
    assert work_of_survey(seen, DEFAULT, RunClock(NOW)).manifests == 1 + 3


def test_a_tag_that_forbids_the_cleanup_is_for_the_plan_to_tell():
    seen = survey(chain(versions=(1, 2, 3)), tags=[("keep", None, 1)])
    assert work_of_survey(seen, DEFAULT, RunClock(NOW)).manifests == 2


def test_large_manifests_name_many_files():
    small, large = (survey(chain(versions=[manifest(1, size=size)])) for size in (1_000, 100_000_000))
    assert about_rows(small) < 100
    assert about_rows(large) > LITTLE.files


def test_a_stored_plan_is_as_much_work_as_files_go():
    row = dict.fromkeys(SUMS.names)
    files = {"delete": 7, "keep": 100, "missing": 50}
    sums = pa.Table.from_pylist([{**row, "action": action, "files": count} for action, count in files.items()], SUMS)
    assert work_of_sums(sums) == Work(files=7)
