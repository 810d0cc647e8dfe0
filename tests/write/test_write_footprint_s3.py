"""Writing to a branch touches nothing outside its directory, so a store may forbid everything else."""

from urllib.parse import quote

import pytest
from support.faulty_store import only_below
from support.s3_tables import objects, opened, prepare, rows, write

from lance_spark.core.refs import RefSpec
from lance_spark.errors import PermissionDenied
from lance_spark.refs.refs import create_branch, delete_branch
from lance_spark.storage.datasets import locate
from lance_spark.tables.write import give_up

pytestmark = pytest.mark.s3

BRANCHES = ["b", "exp/delays", "é-ü"]


@pytest.fixture
def witness(client, bucket):
    """What changed in the bucket since the last look: keys that are new, gone or have another content."""
    known: dict[str, str] = {}

    def changed() -> set[str]:
        nonlocal known
        before, known = known, objects(client, bucket)
        return {key.split("/table.lance/")[1] for key, _ in before.items() ^ known.items()}

    return changed


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("branch", BRANCHES)
def test_a_branch_write_changes_nothing_outside_the_branchs_directory(table, storage, witness, branch):
    write(table, storage, [1, 2])
    write(table, storage, [3])
    opened(table, storage).delete("id = 2")
    opened(table, storage).create_scalar_index("id", "BTREE")
    witness()
    create_branch(locate(table, storage), branch, RefSpec())
    assert {name for name in witness() if not name.startswith(f"tree/{branch}/")} == {
        f"_refs/branches/{quote(branch, safe='')}.json"
    }
    for overwrite in (False, True, False):
        write(table, storage, [9], overwrite, branch=branch)
        touched = witness()
        assert touched
        assert {name for name in touched if not name.startswith(f"tree/{branch}/")} == set()
    assert rows(table, storage, branch) == [9, 9]
    assert rows(table, storage) == [1, 3]


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("branch", BRANCHES)
def test_writing_below_the_branchs_directory_is_the_only_permission_a_branch_write_needs(
    table, storage, storage_through, faulty, witness, branch
):
    write(table, storage, [1, 2])
    create_branch(locate(table, storage), branch, RefSpec())
    faulty.rule = only_below(f"tree/{branch}/")
    write(table, storage_through, [3], branch=branch)
    write(table, storage_through, [4], True, branch=branch)
    write(table, storage_through, [5], branch=branch)
    witness()
    give_up(*prepare(table, storage_through, [6], branch=branch))
    assert witness() == set()
    assert rows(table, storage, branch) == [4, 5]
    assert rows(table, storage) == [1, 2]


def test_a_writer_that_may_write_one_branch_is_denied_all_others(table, storage, storage_through, faulty, witness):
    write(table, storage, [1])
    for branch in ("mine", "theirs"):
        create_branch(locate(table, storage), branch, RefSpec())
    faulty.rule = only_below("tree/mine/")
    witness()
    for options in ({}, {"branch": "theirs"}, {"branch": "new", "create_branch": "true"}):
        with pytest.raises(PermissionDenied, match="denied"):
            write(table, storage_through, [2], **options)
    with pytest.raises(PermissionDenied, match="denied"):
        delete_branch(locate(table, storage_through), "theirs")
    assert witness() == set()
    write(table, storage_through, [3], branch="mine")
    assert rows(table, storage, "mine") == [1, 3]


def test_creating_a_branch_needs_its_directory_and_its_ref_file_only(table, storage, storage_through, faulty):
    write(table, storage, [1])
    faulty.rule = only_below("tree/b/", "_refs/branches/b.json")
    write(table, storage_through, [2], branch="b", create_branch="true")
    assert rows(table, storage, "b") == [1, 2]


def test_a_failed_job_takes_its_new_branch_away_with_the_branchs_own_permissions(
    table, storage, storage_through, faulty, witness
):
    write(table, storage, [1])
    witness()
    faulty.rule = only_below("tree/b/", "_refs/branches/b.json")
    give_up(*prepare(table, storage_through, [2], branch="b", create_branch="true"))
    assert witness() == set()
