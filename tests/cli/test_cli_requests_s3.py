"""How many requests each verb of lance-git sends to S3: a person waits for each of them, and each is paid for."""

from collections import Counter
from itertools import count

import lance
import pyarrow as pa
import pytest

from lance_spark.cli.main import main
from lance_spark.storage import datasets, others

pytestmark = pytest.mark.s3

OTHERS = ("a", "b", "c")
"""Branches that a verb has nothing to do with."""
BRANCHES = len(OTHERS) + 1


NUMBERS = count()


def append(uri, storage, branch="main"):
    where = uri if branch == "main" else f"{uri}/tree/{branch}"
    rows = pa.table({"id": pa.array([next(NUMBERS)], pa.int64())})
    return lance.write_dataset(rows, where, mode="append", storage_options=storage)


@pytest.fixture
def flights(table, storage):
    """Main with three versions, and branches from the last one; ``exp`` has two versions of its own."""
    for _ in range(3):
        dataset = append(table, storage)
    for name in (*OTHERS, "exp"):
        dataset.create_branch(name, storage_options=storage)
    append(table, storage, "exp")
    append(table, storage, "exp")
    return table


@pytest.fixture
def asked(flights, faulty, storage, storage_through, tmp_path, monkeypatch, capsys):
    """Runs a verb as a process of its own would, and returns its requests by method."""

    def run(*arguments, through=storage_through):
        monkeypatch.chdir(tmp_path)  # -C goes elsewhere
        datasets._open.clear()
        others.forget()
        faulty.seen.clear()
        code = main([part for pair in through.items() for part in ("--storage", "=".join(pair))] + [*arguments])
        assert code == 0, capsys.readouterr().err
        return Counter("LIST" if each.listing else each.method for each in faulty.seen)

    run("init", flights, "work", through=storage)
    return run


@pytest.fixture
def cloned(asked, flights, storage):
    """Like ``asked``, in a clone."""
    asked("clone", flights, "clone", through=storage)
    return lambda *arguments: asked("-C", "clone", *arguments)


def test_a_status_reads_the_branch_and_its_versions_and_no_other_branch(asked, storage):
    asked("-C", "work", "switch", "exp", through=storage)
    # The ref; the refs' names, the versions of both; what each of its own versions did.
    assert asked("-C", "work", "status") == {"LIST": 3, "GET": 1 + 2}


def test_a_branch(asked):
    # Before: 17. Whether the table is another writer's, by the two directories above. pylance: versions, manifest;
    # directory, manifest again, three files, and whether the version is there. Whether a tag has the name, too: two.
    assert asked("-C", "work", "branch", "new") == {"LIST": 5, "GET": 5, "HEAD": 3, "PUT": 3}


def test_a_tag_reads_no_other_ref(asked, flights, storage):
    for number in range(3):
        lance.dataset(flights, storage_options=storage).tags.create(f"v{number}", 1)
    # Before: 19 and more with each ref. The newest version, whether the name is free and the table is another writer's;
    # pylance's two looks, and the tag; whether a branch has its name.
    assert asked("-C", "work", "tag", "new") == {"LIST": 3, "GET": 3, "HEAD": 2, "PUT": 1}
    assert asked("-C", "work", "tag") == {"LIST": 2, "GET": 1 + 4}
    assert asked("-C", "work", "tag", "-d", "v1", "--yes").total() == 12


def test_a_merge(asked, flights, storage):
    # Two files are copied. A merge into main needs the notes on all branches only if main has new versions.
    first = asked("-C", "work", "merge", "exp")
    assert first.total() <= 30, first
    append(flights, storage, "exp")
    append(flights, storage)
    second = asked("-C", "work", "merge", "exp")
    assert second.total() <= first.total() + len(OTHERS) + 2, second


def test_a_fetch(cloned, flights, storage):
    # The branches and their versions, and whether tags still protect what was fetched. Main has no identity, so its
    # version that was fetched last is read.
    assert cloned("fetch") == {"LIST": 3 + BRANCHES, "GET": BRANCHES + 1}
    append(flights, storage)
    append(flights, storage, "exp")
    # Of each branch that moved: two versions, pylance's manifest, a tag, a last look. The rest deletes three tags.
    moved = cloned("fetch")
    assert moved.total() <= 2 + 2 * BRANCHES + 2 * 2 + 2 * 2 + 2 * 4 + 1 + 10, moved


def test_a_push_of_one_file(cloned):
    append("clone", {})
    # Before: 52. The version fetched last, the look right before the commit, the protection, its tag, the new version;
    # whether a commit is allowed, also by a catalog of others; file, transaction, manifest, tag.
    assert cloned("push") == {"GET": 4, "POST": 1, "DELETE": 1, "PUT": 4, "LIST": 6, "HEAD": 2}


def test_no_verb_of_one_branch_asks_more_for_having_many(cloned, flights, storage):
    for number in range(20):
        lance.dataset(flights, storage_options=storage).create_branch(f"more{number}", storage_options=storage)
    append("clone", {})
    assert cloned("push").total() == 18
