"""A clone, a fetch or a push that fails at any step: nothing is broken, and the second call finishes it."""

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import lance
import pytest
from support import remote_datasets
from support.kinds import NIGHT
from support.merge_datasets import add, head

from lance_spark.refs.refs import delete_branch
from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.slow


class Stopped(BaseException):
    """Nobody handles it."""


class Places(NamedTuple):
    source: str
    local: str
    way: str

    @property
    def backup(self) -> str:
        return f"{self.source}-backup"


def cloned(places):
    remote_datasets.made_clone(places.source, places.local, places.way)


def fetch(places):
    remote_datasets.fetched(places.local, places.source)


def pull(places):
    remote_datasets.pulled(places.local, places.source)


def push(places):
    remote_datasets.pushed(places.local, places.source)


def push_branches(places):
    """The second one was made from the first one, which the remote does not have."""
    remote_datasets.pushed(places.local, places.source, "mine/too")
    remote_datasets.pushed(places.local, places.source, "mine")


def push_elsewhere(places):
    remote_datasets.pushed(places.local, places.backup, name="backup")


def grown(places):
    """The remote went on: rows, a column, a merge, new branches."""
    cloned(places)
    add(places.source, 200, 203)
    head(places.source).delete("id in (1, 201)")
    remote_datasets.merged(places.source, "exp")
    head(places.source).add_columns({"w": "id"})
    remote_datasets.branch_off(places.source, "new", "exp")
    add(places.source, 300, 302, "new")


def anew(places):
    """One branch of the remote was deleted and made anew."""
    cloned(places)
    for name in lance.dataset(places.source).tags.list():
        lance.dataset(places.source).tags.delete(name)
    delete_branch(locate(places.source), "exp/deep")
    remote_datasets.branch_off(places.source, "exp/deep")
    add(places.source, 400, 402, "exp/deep")


def changed(places):
    """The clone went on: rows, a column, a merge, an index."""
    cloned(places)
    add(places.local, 200, 203)
    head(places.local).update({"v": "-1"}, "id in (1, 201)")
    remote_datasets.merged(places.local, "origin/exp")
    head(places.local).add_columns({"w": "id"})
    head(places.local).delete("id in (2, 202)")
    head(places.local).create_scalar_index("w", "BTREE")


def branched(places):
    cloned(places)
    remote_datasets.branch_off(places.local, "mine")
    add(places.local, 200, 203, "mine")
    remote_datasets.branch_off(places.local, "mine/too", "mine")
    head(places.local, "mine/too").delete("id in (1, 202)")


class Story(NamedTuple):
    before: Callable[[Places], Any]
    action: Callable[[Places], Any]


STORIES = {
    "clone": Story(lambda _: None, cloned),
    "clone-shallow": Story(lambda _: None, cloned),
    "fetch": Story(grown, fetch),
    "fetch-anew": Story(anew, fetch),
    "pull": Story(grown, pull),
    "push": Story(changed, push),
    "push-branches": Story(branched, push_branches),
    "push-elsewhere": Story(changed, push_elsewhere),
}


EVERY = 1 if NIGHT else 29
"""Of so many steps one is tried."""


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("name", STORIES)
def test_a_second_call_finishes_what_failed_anywhere(tmp_path, monkeypatch, name):
    story, way = STORIES[name], "shallow" if name == "clone-shallow" else "planted"
    places = Places(str(tmp_path / "source.lance"), str(tmp_path / "local.lance"), way)
    remote_datasets.begun(places.source, stable=way == "planted")
    story.before(places)
    before = everything(places)
    saved = tmp_path.parent / f"{tmp_path.name}-saved"
    shutil.copytree(tmp_path, saved)
    story.action(places)
    after = everything(places)
    assert_done(places, name)

    for number in count(len(name) % EVERY, EVERY):
        shutil.rmtree(tmp_path)
        shutil.copytree(saved, tmp_path)
        if not fails_at(monkeypatch, number, lambda: story.action(places)):
            assert number > 6
            break
        assert_between(places, before, after)
        story.action(places)
        assert everything(places) == after, number
    story.action(places)
    assert everything(places) == after
    assert_done(places, name)


def fails_at(monkeypatch, number, action):
    """Whether there is a step of this number; the action ends there."""

    def stop(step):
        if step == number:
            raise Stopped

    with monkeypatch.context() as patched:
        remote_datasets.tell_steps(stop, patched.setattr)
        try:
            action()
        except Stopped:
            return True
    return False


def everything(places):
    """The rows of all branches of all datasets that there are."""
    found = {}
    for uri in (places.source, places.local, places.backup):
        if Path(uri).exists():
            for branch in (None, *lance.dataset(uri).branches.list()):
                found[uri, branch] = remote_datasets.read(uri, branch)
    return found


def assert_between(places, before, after):
    """One's own branches are as they were, as they will be, or on the way: a change of columns is a step by itself."""
    for uri in (places.source, places.local):
        if not [*Path(uri, "_versions").glob("*.manifest")]:
            continue  # a clone that died before its first version
        for branch in remote_datasets.own_branches(uri):
            if branch and branch.startswith(("origin/", "backup/")):
                continue  # it does not follow anything yet
            now, was, will = remote_datasets.read(uri, branch), before.get((uri, branch)), after.get((uri, branch))
            if was is None:
                assert not now or now in (will, before.get((uri, None)))  # it is being made
            else:
                assert keys(now) in (keys(was), keys(will), keys(was) | keys(will)) or keys(will) <= keys(now)


def keys(rows):
    return {row["id"] for row in rows or ()}


def assert_done(places, name):
    if name == "pull":
        remote_datasets.assert_same(places.local, "origin/main", places.source, None)
    else:
        remote_datasets.assert_follows(places.local, places.source)
    if name in ("clone", "clone-shallow", "pull", "push"):
        remote_datasets.assert_same(places.local, None, places.source, None)
    if name == "push-elsewhere":
        remote_datasets.assert_same(places.local, None, places.backup, None)
    remote_datasets.assert_all_sound(places.source, places.local)
