"""Datasets for the tests of remotes: a remote, clones of it made in any way, and what must hold in all of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lance

from lance_spark.clones import clone as clones
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import LanceSparkError
from lance_spark.merge import replay_commits
from lance_spark.merge.merge import merge
from lance_spark.merge.option_rules import MergeOptions
from lance_spark.merge.report import MergeResult
from lance_spark.refs.refs import create_branch_at
from lance_spark.remotes.clone import CloneResult, clone
from lance_spark.remotes.fetch import FetchOptions, Remote, fetch
from lance_spark.remotes.fetch_rules import CloneOptions
from lance_spark.remotes.pull import pull
from lance_spark.remotes.push import PushOptions, push
from lance_spark.remotes.report import FetchResult, PullResult, PushResult
from lance_spark.storage import copying, refs
from lance_spark.storage.datasets import locate, pin_latest, pin_version
from lance_spark.survey import clone_records
from support.cleanup_datasets import place
from support.local_datasets import contents
from support.merge_datasets import Rows, add, assert_sound, head, rows, table

WAYS = ("shallow", "planted", "deep")
"""How a clone comes about: by pylance, as between two stores, or with copies of the data."""


@contextmanager
def stores_of_their_own() -> Iterator[None]:
    """Every directory counts as a store, so that nothing is cloned by pylance."""
    with patch.object(DatasetLocation, "store", property(lambda self: self.uri)):
        yield


def origin(uri: str, name: str = "origin") -> Remote:
    return Remote(name, locate(uri))


def made_clone(
    source: str, target: str, way: str = "shallow", pin: PinnedVersion | None = None, **options: Any
) -> CloneResult:
    """Clone main, or the version that ``pin`` names."""
    there = locate(source)
    version = pin_latest(there, None) if pin is None else pin_version(there, pin.branch, pin.version)
    given = CloneOptions(deep=way == "deep", **options)
    if way != "planted":
        return clone(origin(source), version, locate(target), LocalRunner(), given)
    with stores_of_their_own():
        return clone(origin(source), version, locate(target), LocalRunner(), given)


class Prepared:
    """A remote and its clone, made once, and put back to where they were before each test: they name their places."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def cloned(self, way: str, stable: bool) -> Path:
        """The directory with ``source.lance`` as :func:`begun`, and ``local.lance``."""
        root = self._directory / f"{way}-{stable}"
        saved = Path(f"{root}.saved")
        shutil.rmtree(root, ignore_errors=True)
        if not saved.exists():
            made_clone(begun(f"{root}/source.lance", stable), f"{root}/local.lance", way)
            shutil.copytree(root, saved)
        else:
            shutil.copytree(saved, root)
        return root


def fetched(local: str, source: str, name: str = "origin", **options: Any) -> FetchResult:
    return fetch(locate(local), origin(source, name), LocalRunner(), FetchOptions(**options))


def pulled(local: str, source: str, branch: str | None = None, into: str | None = None, **options: Any) -> PullResult:
    return pull(locate(local), origin(source), branch, into, LocalRunner(), MergeOptions(**options))


def pushed(local: str, source: str, branch: str | None = None, name: str = "origin", **options: Any) -> PushResult:
    return push(locate(local), origin(source, name), branch, LocalRunner(), PushOptions(**options))


def merged(local: str, source: str | None, into: str | None = None, **options: Any) -> MergeResult:
    location = locate(local)
    return merge(location, pin_latest(location, source), into, MergeOptions(**options), LocalRunner())


def branch_off(uri: str, name: str, source: str | None = None) -> None:
    create_branch_at(locate(uri), name, pin_latest(locate(uri), source))


def begun(uri: str, stable: bool = False, **arguments: Any) -> str:
    """30 rows in three fragments, two of them deleted; 'exp' has three rows more, 'exp/deep' one less than that."""
    for start in (0, 10, 20):
        mode = "append" if start else "create"
        lance.write_dataset(table(start, start + 10), uri, mode=mode, enable_stable_row_ids=stable, **arguments)
    lance.dataset(uri).delete("id = 4")
    branch_off(uri, "exp")
    add(uri, 100, 103, "exp")
    branch_off(uri, "exp/deep", "exp")
    head(uri, "exp/deep").delete("id = 101")
    lance.dataset(uri).delete("id = 15")
    return uri


def read(uri: str, branch: str | None = None, version: int | None = None) -> Rows:
    """The rows as pylance reads them from scratch."""
    return rows(lance.dataset(place(uri, branch), version=version))


def ids_of(uri: str, branch: str | None = None) -> list[int]:
    return [row["id"] for row in read(uri, branch)]


def own_branches(uri: str) -> list[str | None]:
    """Main and all branches that do not follow a remote."""
    branches = lance.dataset(uri).branches.list()
    return [None, *sorted(name for name, entry in branches.items() if "lance_spark.follows" not in entry["metadata"])]


def assert_follows(local: str, source: str, name: str = "origin") -> None:
    """Every branch of the remote is, row by row and column by column, on the branch that follows it."""
    for branch in own_branches(source):
        here, there = head(local, f"{name}/{branch or 'main'}"), head(source, branch)
        assert here.schema == there.schema
        assert rows(here) == rows(there)
        assert_sound(here)


def assert_same(local: str, ours: str | None, source: str, theirs: str | None) -> None:
    """Two branches of two datasets have the same columns and rows, and both are sound."""
    here, there = head(local, ours), head(source, theirs)
    assert here.schema == there.schema
    assert rows(here) == rows(there)
    for dataset in (here, there):
        assert_sound(dataset)


def assert_all_sound(*uris: str) -> None:
    for uri in uris:
        for branch in (None, *lance.dataset(uri).branches.list()):
            assert_sound(head(uri, branch))


def refused(error: type[LanceSparkError], action: Any, *untouched: str) -> str:
    """What an action was refused with; nothing in the datasets may have changed but the following branches."""
    before = [snapshot(uri) for uri in untouched]
    try:
        action()
    except error as problem:
        assert [snapshot(uri) for uri in untouched] == before
        return str(problem)
    raise AssertionError("it was not refused")


def snapshot(uri: str) -> dict[str, str]:
    """Hashes of all files that make up the user's branches and tags; none of a dataset that is not there."""
    if not Path(uri).exists():
        return {}
    own = ("tree/origin/", "_refs/branches/origin%2F", "data/", "_deletions/")
    protecting = "_refs/tags/clone-"
    return {path: content for path, content in contents(uri).items() if not path.startswith((*own, protecting))}


def tell_steps(listener: Callable[[int], object], patch_with: Callable[[Any, str, Any], object] = setattr) -> None:
    """Count the moments before and after whatever changes something in a store."""
    moments = iter(range(10**6))

    def counted(real: Any) -> Any:
        def stepping(*given: Any, **named: Any) -> Any:
            listener(next(moments))
            done = real(*given, **named)
            listener(next(moments))
            return done

        return stepping

    for module, names in STEPS.items():
        for name in names:
            patch_with(module, name, counted(getattr(module, name)))


STEPS = {
    clones: ("_copy_shallow", "_copy_deep"),
    clone_records: ("write_record", "delete_record"),
    replay_commits: ("_create", "truncate", "populate", "add_bases", "commit", "_commit"),
    copying: ("copy_file",),
    refs: ("create_branch", "replace_metadata"),
    refs.TagWriter: ("create", "move", "delete"),
}
