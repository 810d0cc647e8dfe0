"""Branches that follow a remote's are a fetch's alone, whoever calls; and what they have in common with one's own."""

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.merge_datasets import add, head
from support.remote_datasets import (
    assert_all_sound,
    begun,
    branch_off,
    fetched,
    ids_of,
    made_clone,
    merged,
    own_branches,
    pulled,
    pushed,
    read,
    refused,
    snapshot,
)

from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Refused
from lance_spark.merge.merge import cherry_pick, revert
from lance_spark.merge.restore import restore
from lance_spark.refs.refs import delete_branch
from lance_spark.storage.datasets import locate, pin_latest, pin_version
from lance_spark.tables.write import plan_write
from lance_spark.workspace.status import status


@pytest.fixture
def source(tmp_path):
    return begun(str(tmp_path / "source.lance"))


@pytest.fixture
def mine(tmp_path, source):
    uri = str(tmp_path / "mine.lance")
    made_clone(source, uri)
    return uri


def test_only_a_fetch_writes_to_one(mine, source):
    add(source, 200, 203, "exp")
    fetched(mine, source)
    here, follower = locate(mine), "origin/exp"
    at = pin_latest(here, follower)
    before = snapshot(mine), ids_of(mine, follower)
    writes = (
        lambda: merged(mine, None, follower),
        lambda: pulled(mine, source, None, follower),
        lambda: cherry_pick(here, pin_latest(here, "origin/main"), follower, LocalRunner()),
        lambda: revert(here, at, follower, LocalRunner()),
        lambda: restore(here, pin_version(here, follower, at.version - 1), LocalRunner()),
        lambda: plan_write({"path": mine, "branch": follower}, pa.schema([("id", pa.int64())]), overwrite=False),
    )
    for write in writes:
        assert "'origin/exp' follows 'exp' of origin: only a fetch" in refused(Refused, write)
    assert (snapshot(mine), ids_of(mine, follower)) == before


def test_one_that_was_deleted_and_fetched_anew_says_what_is_lost_and_how_to_go_on(mine, source):
    add(source, 200, 203)
    pulled(mine, source)
    add(mine, 300, 301)
    delete_branch(locate(mine), "origin/main")
    add(source, 400, 401)
    assert fetched(mine, source).of(None).state == "new"
    assert [found.related for found in status(locate(mine), None).remotes] == [False]
    for verb in (pulled, pushed):
        said = refused(Refused, lambda verb=verb: verb(mine, source), mine, source)
        assert "no common version. If 'origin/main' was deleted and fetched again" in said
        assert "t.branches.create('NAME', branch='origin/main')" in said
    branch_off(mine, "again", "origin/main")
    picked = cherry_pick(locate(mine), pin_latest(locate(mine), None), "again", LocalRunner())
    assert picked.summary.rows_added == 1
    assert pushed(mine, source, "again").version is not None
    assert ids_of(source, "again") == sorted([*ids_of(source), 300])


@pytest.mark.parametrize("branch", [None, "exp"])
def test_a_deep_clone_needs_nothing_of_its_source(source, tmp_path, branch):
    head(source).optimize.compact_files()  # the branches read files that main has not any more
    branch_off(source, "late")
    head(source, "late").delete("id = 7")
    add(source, 300, 303, "late")
    lance.dataset(source).delete("id = 8")
    copy, wanted = str(tmp_path / "copy.lance"), {name: read(source, name) for name in own_branches(source)}
    made = made_clone(source, copy, "deep", pin_latest(locate(source), branch))
    assert (made.deep, made.notes) == (True, ())
    assert not [name for name in lance.dataset(source).tags.list() if name.startswith("clone-")]
    sizes = {path.name: path.stat().st_size for path in Path(source).rglob("*.lance") if path.is_file()}
    shutil.move(source, f"{source}.away")
    assert {name: read(copy, f"origin/{name or 'main'}") for name in wanted} == wanted
    assert read(copy, branch) == wanted[branch]
    assert_all_sound(copy)
    copied = [path.name for path in Path(copy).rglob("*.lance") if path.is_file()]
    newest = {file.path for fragment in head(copy).get_fragments() for file in fragment.data_files()}
    assert sizes.keys() >= {*copied} >= newest
    assert [name for name in copied if name in newest] == sorted(newest)  # once, although branches have them, too
    shutil.move(f"{source}.away", source)
    add(source, 400, 401, branch)
    pulled(copy, source, branch, branch)
    assert read(copy, branch) == read(source, branch)


def test_a_clone_of_a_clone_takes_turns_on_branches_made_from_following_ones(mine, source, tmp_path):
    second = str(tmp_path / "second.lance")
    add(source, 200, 201)
    fetched(mine, source)
    for name, first in (("main", 500), ("exp", 510)):
        branch_off(mine, f"from-{name}", f"origin/{name}")
        add(mine, first, first + 2, f"from-{name}")
    made_clone(mine, second)
    for branch in ("from-main", "from-exp"):
        branch_off(second, branch, f"origin/{branch}")
        add(second, 600, 601, branch)
        pushed(second, mine, branch)
        add(mine, 700, 701, branch)
        assert pulled(second, mine, branch, branch).merged.fast_forward
        assert read(second, branch) == read(mine, branch)
    merged(second, "from-main")
    assert ids_of(second) == ids_of(second, "from-main")
    assert "no common version" in refused(Refused, lambda: merged(second, "from-exp"), second)
    assert_all_sound(mine, second)
