"""Writers in processes of their own: racing for one dataset, and killed at the worst moment."""

import threading
import time
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.local_datasets import contents, ids, make_dataset, numbers, write, written_since
from support.processes import PATIENCE, processes

from lance_spark.core.refs import RefSpec
from lance_spark.errors import AlreadyExists, LanceSparkError
from lance_spark.refs.refs import create_branch, list_branches
from lance_spark.storage.datasets import locate
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.int64())])


def write_job(end, options, start, count, pause_in_stream):
    """A job that stops, and says so, before it commits or in the middle of its rows."""

    def ready():
        end.send("ready")
        end.recv()

    def batches():
        for first in range(start, start + count):
            yield pa.record_batch([pa.array([first], pa.int64())], schema=SCHEMA)
            if pause_in_stream and first == start + count // 2:
                ready()

    job = begin(plan_write(options, SCHEMA, overwrite=False))
    fragments = write_rows(job, batches())
    if not pause_in_stream:
        ready()
    try:
        end.send(("committed", finish(job, fragments)))
    except LanceSparkError as error:
        end.send((type(error).__name__, error.message))


class Writer:
    """A job in a process of its own."""

    def __init__(self, start, count, pause_in_stream=False, **options):
        context = processes()
        self.end, theirs = context.Pipe()
        self.process = context.Process(target=write_job, args=(theirs, options, start, count, pause_in_stream))
        self.process.start()
        theirs.close()

    def wait_until_ready(self):
        assert self.received() == "ready"

    def go(self):
        self.end.send(None)

    def outcome(self):
        return self.received()

    def received(self):
        assert self.end.poll(PATIENCE)
        return self.end.recv()

    def kill(self):
        self.process.kill()
        self.process.join(PATIENCE)


@pytest.fixture
def start_writers():
    started = []

    def start(*writers):
        started.extend(writers)
        for writer in writers:
            writer.wait_until_ready()
        return writers

    yield start
    for writer in started:
        writer.kill()


def test_of_six_processes_creating_one_dataset_one_wins_and_the_others_leave_no_file(uri, start_writers):
    writers = start_writers(*(Writer(number * 10, 3, path=uri) for number in range(6)))
    assert not Path(uri, "_versions").exists()
    for writer in writers:
        writer.go()
    outcomes = [writer.outcome() for writer in writers]
    winners = [number for number, (kind, _) in enumerate(outcomes) if kind == "committed"]
    assert len(winners) == 1, outcomes
    assert sorted(kind for kind, _ in outcomes) == ["Conflict"] * 5 + ["committed"]
    assert lance.dataset(uri).version == 1
    assert ids(uri) == lance.dataset(uri).to_table()["id"].to_pylist() == [winners[0] * 10 + n for n in range(3)]
    used = {file.path for fragment in lance.dataset(uri).get_fragments() for file in fragment.data_files()}
    assert {path.name for path in Path(uri, "data").iterdir()} == used


def test_of_processes_appending_to_one_branch_nothing_is_lost(uri, start_writers):
    make_dataset(uri)
    create_branch(locate(uri), "dev", RefSpec())
    writers = start_writers(*(Writer(number * 10 + 10, 3, path=uri, branch="dev") for number in range(3)))
    for writer in writers:
        writer.go()
    assert sorted(writer.outcome() for writer in writers) == [("committed", version) for version in (2, 3, 4)]
    assert sorted(ids(uri, branch="dev")) == [0, 1, 2, *(n * 10 + 10 + m for n in range(3) for m in range(3))]


def test_of_jobs_creating_one_branch_at_once_one_wins_and_the_others_are_told_why(tmp_path):
    together = threading.Barrier(4)
    outcomes = []

    def create(uri):
        together.wait()
        try:
            create_branch(locate(uri), "new", RefSpec())
            outcomes.append("created")
        except AlreadyExists:
            outcomes.append("told")

    for attempt in range(10):
        uri = str(tmp_path / f"{attempt}.lance")
        make_dataset(uri)
        threads = [threading.Thread(target=create, args=(uri,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ids(uri, branch="new") == lance.dataset(uri).checkout_version(("new", None)).to_table()["id"].to_pylist()
    assert sorted(outcomes) == ["created"] * 10 + ["told"] * 30


@pytest.mark.parametrize(
    ("moment", "branch"),
    [
        ("before the commit", None),
        ("before the commit", "made by the job"),
        ("while rows are written", None),
        ("while rows are written", "dev"),
    ],
)
def test_a_killed_writer_leaves_every_version_as_it_was(uri, start_writers, moment, branch):
    make_dataset(uri, numbers(3), numbers(2, 3))
    create_branch(locate(uri), "dev", RefSpec(version=1))
    write(uri, numbers(1, 50), branch="dev")
    before = contents(uri)
    expected = {"main@1": [0, 1, 2], "main@2": [0, 1, 2, 3, 4], "dev@1": [0, 1, 2], "dev@2": [0, 1, 2, 50]}
    options = {None: {}, "dev": {"branch": "dev"}, "made by the job": {"branch": "new", "create_branch": "true"}}[
        branch
    ]

    (writer,) = start_writers(Writer(1000, 20, moment == "while rows are written", path=uri, **options))
    time.sleep(0.05)  # the file being written gets its first bytes on another thread
    writer.kill()

    for name, rows in expected.items():
        on, version = name.split("@")
        assert ids(uri, branch=on, version=version) == rows
        theirs = lance.dataset(uri).checkout_version((on, int(version)))
        assert theirs.to_table()["id"].to_pylist() == rows
    changed = written_since(before, uri)
    assert not changed & before.keys()
    if branch == "made by the job":
        assert {found.name for found in list_branches(locate(uri))} == {"dev", "new"}
        assert ids(uri, branch="new") == [0, 1, 2, 3, 4]
    else:
        assert {Path(path).parent.name for path in changed} == {"data"}
        write(uri, numbers(1, 9), **options)
        assert ids(uri, **options)[-1] == 9
