"""A rename moves nothing: it is refused wherever it would lose something, also in the last moment."""

import shutil
from unittest.mock import patch

import lance
import pytest
from support.command_line import append, call, ids

from lance_spark.errors import Conflict, InvalidName, NotFound, Refused
from lance_spark.refs import refs
from lance_spark.refs.refs import check_rename, rename_branch
from lance_spark.storage.datasets import locate


def names(flights):
    return set(lance.dataset(str(flights)).branches.list())


def test_a_renamed_branch_is_written_to_and_read(flights):
    made = rename_branch(locate(str(flights)), "idle", "team/busy")
    assert (made.name, made.parent_branch, made.parent_version) == ("team/busy", None, 4)
    append(flights, "team/busy", 40)
    assert ids(flights, "team/busy") == [10, 20, 30, 40]
    assert ids(flights) == [10, 20, 30]


def test_what_others_need_keeps_its_name(flights):
    location = locate(str(flights))
    call(flights, "branch", "child", "idle")
    with pytest.raises(Refused, match="cannot be renamed: 'child' was created from it"):
        check_rename(location, "idle", "busy")
    call(flights, "branch", "-d", "child", "--yes")
    call(flights, "tag", "here", "idle")
    with pytest.raises(Refused, match="cannot be renamed: tag 'here' points at it"):
        check_rename(location, "idle", "busy")
    with pytest.raises(NotFound):
        check_rename(location, "idel", "busy")
    with pytest.raises(InvalidName):
        check_rename(location, "idle", "main/busy")
    assert names(flights) == {"exp", "idle", "both"}


def test_a_branch_whose_fork_version_is_gone_keeps_its_name(flights):
    append(flights, None, 40)
    for manifest in (flights / "_versions").glob(f"{2**64 - 1 - 4}.manifest"):
        manifest.unlink()
    with pytest.raises(Refused, match="main@4, from which it was created, was cleaned up"):
        check_rename(locate(str(flights)), "idle", "busy")


def test_somebody_who_writes_meanwhile_loses_nothing(flights, monkeypatch):
    real = refs.create_branch_at

    def late(location, name, pin):
        created = real(location, name, pin)
        append(flights, "idle", 99)
        return created

    monkeypatch.setattr(refs, "create_branch_at", late)
    with pytest.raises(Conflict, match="was changed during the rename and keeps its name"):
        rename_branch(locate(str(flights)), "idle", "busy")
    assert names(flights) == {"exp", "idle", "both"}
    assert ids(flights, "idle") == [10, 20, 30, 99]


def test_an_interrupted_rename_leaves_both_names_and_the_old_one_can_go(flights):
    with patch.object(refs, "drop_branch", side_effect=KeyboardInterrupt):
        assert call(flights, "branch", "-m", "idle", "busy").code == 130
    assert ids(flights, "idle") == ids(flights, "busy") == [10, 20, 30]
    done = call(flights, "branch", "-m", "idle", "busy")
    assert (done.code, "delete it first" in done.error) == (11, True)
    assert call(flights, "branch", "-d", "idle", "--yes").code == 0
    assert ids(flights, "busy") == [10, 20, 30]


def test_a_directory_that_was_left_behind_is_not_taken_over(flights):
    (flights / "tree" / "busy" / "_versions").mkdir(parents=True)
    shutil.copy(next((flights / "_versions").glob("*.manifest")), flights / "tree" / "busy" / "_versions")
    assert call(flights, "branch", "-m", "idle", "busy").code == 11
    assert names(flights) == {"exp", "idle", "both"}
