"""Commits on S3 by many processes, by killed ones, and with answers that get lost: each row is there once."""

import signal
from multiprocessing.connection import wait

import pytest
from support.processes import PATIENCE, Job, Team, processes
from support.s3_tables import objects, opened, prepare, rows, write, write_each

from lance_spark.core.refs import RefSpec
from lance_spark.errors import Conflict, StorageFailure
from lance_spark.refs.refs import create_branch
from lance_spark.storage.datasets import locate
from lance_spark.tables.write import finish

pytestmark = pytest.mark.s3

WRITERS, APPENDS = 8, 3


def files_of(client, bucket, *parts):
    return [key for key in objects(client, bucket) if all(part in key for part in parts)]


@pytest.mark.when(day=0)  # by day on a local disk; what S3 adds, its conditional writes, is below
def test_eight_processes_appending_to_one_branch_lose_and_double_nothing(
    table, bucket, client, storage, storage_through
):
    write(table, storage, [-1])
    create_branch(locate(table, storage), "exp/delays", RefSpec())
    with Team(WRITERS) as team:
        work = [(table, storage_through, list(range(first, WRITERS * APPENDS, WRITERS))) for first in range(WRITERS)]
        team.run([Job(write_each, (*given, {"branch": "exp/delays"})) for given in work])
    assert rows(table, storage, "exp/delays") == [-1, *range(WRITERS * APPENDS)]
    assert rows(table, storage) == [-1]
    branch = opened(table, storage, "exp/delays")
    assert [entry["version"] for entry in branch.versions()] == list(range(1, WRITERS * APPENDS + 2))
    counts = [branch.checkout_version(("exp/delays", entry["version"])).count_rows() for entry in branch.versions()]
    assert counts == list(range(1, WRITERS * APPENDS + 2))
    assert len(files_of(client, bucket, "/tree/exp/delays/data/")) == WRITERS * APPENDS


@pytest.mark.parametrize("moment", ["/data/", "/_transactions/", "/_versions/"])
def test_a_writer_killed_in_the_middle_of_a_commit_leaves_every_version_readable(
    table, storage, faulty, storage_through, moment
):
    write(table, storage, [-1])
    create_branch(locate(table, storage), "b", RefSpec())
    given = (table, storage_through, [0, 1, 2, 3], {"branch": "b"})
    process = processes().Process(target=write_each, args=given, daemon=True)
    met = []

    def kill_at_the_third(request):
        if request.method == "PUT" and moment in request.key:
            met.append(request)
            if len(met) == 3:
                process.kill()
                wait([process.sentinel], PATIENCE)
                return "lost" if moment == "/_versions/" else "503 SlowDown"
        return None

    faulty.rule = kill_at_the_third
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL
    committed = [-1, 0, 1, 2] if moment == "/_versions/" else [-1, 0, 1]
    for version in range(1, len(committed) + 1):
        assert rows(table, storage, "b", version) == committed[:version]
    assert rows(table, storage, "b") == committed
    write(table, storage, [9], branch="b")
    assert rows(table, storage, "b") == [*committed, 9]
    assert rows(table, storage) == [-1]


@pytest.mark.parametrize("fate", ["lost", "late 500", "late 503", "409 ConditionalRequestConflict"])
@pytest.mark.parametrize(("options", "overwrite"), [({}, False), ({"branch": "b"}, False), ({"branch": "b"}, True)])
def test_a_commit_whose_first_answer_gets_lost_happens_once(
    table, storage, faulty, storage_through, fate, options, overwrite
):
    write(table, storage, [1])
    create_branch(locate(table, storage), "b", RefSpec())
    job = prepare(table, storage_through, [2], overwrite, **options)
    fates = iter([fate])
    faulty.rule = lambda request: (
        next(fates, None) if request.method == "PUT" and "/_versions/" in request.key else None
    )
    assert finish(*job) == 2
    assert rows(table, storage, **options) == ([2] if overwrite else [1, 2])
    assert [entry["version"] for entry in opened(table, storage, **options).versions()] == [1, 2]


@pytest.mark.parametrize("options", [{}, {"branch": "b"}], ids=["main", "branch"])
def test_a_job_that_cannot_know_whether_it_committed_fails_and_keeps_its_files(
    table, storage, faulty, storage_through, options
):
    write(table, storage, [1])
    create_branch(locate(table, storage), "b", RefSpec())
    job = prepare(table, {**storage_through, "client_max_retries": "0"}, [2], **options)
    gone = []

    def break_down_at_the_manifest(request):
        if request.method == "PUT" and "/_versions/" in request.key:
            gone.append(request)
            return "late 500"
        return "500 InternalError" if gone else None

    faulty.rule = break_down_at_the_manifest
    with pytest.raises(StorageFailure):
        finish(*job)
    assert rows(table, storage, **options) == [1, 2]


@pytest.mark.parametrize("options", [{}, {"branch": "b"}], ids=["main", "branch"])
def test_a_job_whose_file_a_cleanup_deleted_is_a_conflict(table, storage, bucket, client, options):
    write(table, storage, [1])
    create_branch(locate(table, storage), "b", RefSpec())
    before = {*files_of(client, bucket, "/data/")}
    job = prepare(table, storage, [2], **options)
    (mine,) = {*files_of(client, bucket, "/data/")} - before
    client.delete_object(Bucket=bucket, Key=mine)
    with pytest.raises(Conflict, match=r"1 file that this job wrote .* 1 is gone"):
        finish(*job)
    assert rows(table, storage, **options) == [1]


@pytest.mark.parametrize("answer", ["403 AccessDenied", "503 SlowDown"])
def test_a_job_commits_if_the_store_does_not_tell_whether_its_file_is_there(
    table, storage, faulty, storage_through, answer
):
    write(table, storage, [1])
    job = prepare(table, storage_through, [2])
    asked = []

    def silent(request):
        if request.method != "HEAD" or "/data/" not in request.key:
            return None
        asked.append(request)
        return answer

    faulty.rule = silent
    assert finish(*job) == 2
    assert rows(table, storage) == [1, 2]
    assert asked


def test_a_new_dataset_whose_first_answer_gets_lost_is_there_once(table, storage, faulty, storage_through):
    job = prepare(table, storage_through, [1])
    fates = iter(["lost"])
    faulty.rule = lambda request: (
        next(fates, None) if request.method == "PUT" and "/_versions/" in request.key else None
    )
    assert finish(*job) == 1
    assert rows(table, storage) == [1]
