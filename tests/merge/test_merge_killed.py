"""A merge that is killed at any moment: readers see it whole or not at all, and a second try ends well."""

import os
import random
import shutil
from dataclasses import dataclass
from typing import NamedTuple

import lance
import pyarrow as pa
import pytest
from support.cleanup_datasets import NOW, age_all, clean, orphans, place
from support.killed import Act
from support.merge_datasets import add, assert_sound, error_of, exp, head, rows, run

from lance_spark.errors import Refused
from lance_spark.merge import replay_commits
from lance_spark.refs.refs import delete_branch
from lance_spark.storage import copying, refs
from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.slow

FILES = 6
"""Of the branch."""


class Way(NamedTuple):
    """A merge into a branch."""

    into: str | None
    reference: bool = False


WAYS = {"main": Way(None), "branch": Way("dev"), "reference": Way(None, reference=True)}


@dataclass(frozen=True)
class Original:
    """A dataset that is set up again for every kill, and what a merge makes of it."""

    uri: str
    before: list[dict]
    after: list[dict]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Main and 'dev' went on while 'exp' appended, updated, deleted and got an index."""
    uri = str(tmp_path_factory.mktemp("killed") / "table.lance")
    add_wide(uri, 0)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    for name in ("exp", "dev"):
        lance.dataset(uri).create_branch(name)
    for number in range(FILES):
        add_wide(exp(uri).uri, 10 * number + 100)
    exp(uri).update({"v": "-1"}, "id in (3, 105)")
    exp(uri).delete("id in (4, 115)")
    exp(uri).create_scalar_index("v", "BTREE")
    for branch in (None, "dev"):
        head(uri, branch).update({"v": "-2"}, "id = 7")
        head(uri, branch).delete("id = 8")
    shutil.copytree(uri, f"{uri}.saved")
    expected = {row["id"]: row for row in rows(exp(uri))} | {7: {**rows(head(uri))[7], "v": -2}}
    del expected[8]
    return Original(uri, rows(head(uri)), [expected[key] for key in sorted(expected)])


def add_wide(place, start):
    """Ten rows of 3 KB each."""
    wide = pa.table(
        {
            "id": pa.array(range(start, start + 10), pa.int64()),
            "v": pa.array([10 * n for n in range(start, start + 10)], pa.int64()),
            "text": [random.Random(f"{start} {n}").randbytes(1_500).hex() for n in range(10)],
        }
    )
    lance.write_dataset(wide, place, mode="append" if start else "create")


@pytest.fixture
def busy(original):
    """The dataset as it was, at the place that its branches name."""
    shutil.rmtree(original.uri)
    shutil.copytree(f"{original.uri}.saved", original.uri)
    return original


@pytest.fixture(scope="module")
def costs(original):
    """By way: how many steps, and how many seconds, a merge takes that nobody disturbs."""
    found = {}
    for name, way in WAYS.items():
        found[name] = MERGE.cost(original.uri, way)
        shutil.rmtree(original.uri)
        shutil.copytree(f"{original.uri}.saved", original.uri)
    return found


def merge_it(uri, way):
    return run(uri, "exp", way.into, reference=way.reference)


def tell_steps(listener):
    """Count, in this process, the moments before and after whatever changes something on the disk."""
    moments = iter(range(10**6))

    def counted(real):
        def stepping(*given, **named):
            listener(next(moments))
            done = real(*given, **named)
            listener(next(moments))
            return done

        return stepping

    for module, name in (
        (os, "replace"),
        (copying, "copy_file"),
        (replay_commits, "add_bases"),
        (replay_commits, "commit"),
        (refs, "create_tag"),
        (refs, "replace_metadata"),
    ):
        setattr(module, name, counted(getattr(module, name)))


MERGE = Act(merge_it, tell_steps)


@pytest.mark.when(day=0.15)
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("seed", range(6))
def test_a_killed_merge_happened_or_did_not_and_a_second_try_ends_well(busy, costs, name, seed):
    way, (steps, seconds), chance, uri = WAYS[name], costs[name], random.Random(f"{name} {seed}"), busy.uri
    of_exp, version = rows(exp(uri)), head(uri, way.into).version
    if seed % 2:
        MERGE.killed_after(seconds * chance.random(), uri, way)
    else:
        # The last steps are the commit, and what is noted down about it.
        step = steps - 1 - seed if seed < 4 else chance.randrange(steps)
        MERGE.killed_at_step(step, uri, way)

    merged = rows(head(uri, way.into)) != busy.before
    assert rows(head(uri, way.into)) == (busy.after if merged else busy.before)
    assert rows(exp(uri)) == of_exp
    assert rows(lance.dataset(place(uri, way.into), version=version)) == busy.before

    again = merge_it(uri, way)
    assert again.up_to_date == merged
    assert rows(head(uri, way.into)) == busy.after
    assert_sound(head(uri, way.into))
    assert merge_it(uri, way).up_to_date
    clean_up_after(uri, way)
    assert rows(head(uri, way.into)) == busy.after
    assert_sound(head(uri, way.into))
    add(uri, 1000, 1003, way.into)
    assert rows(head(uri, way.into))[-3:] == [{"id": n, "v": 10 * n, "text": None} for n in range(1000, 1003)]


def clean_up_after(uri, way):
    """Without its branch, main has files that no version names only as long as they may be of a running merge."""
    if way.reference:
        with pytest.raises(Refused):
            delete_branch(locate(uri), "exp")
    else:
        delete_branch(locate(uri), "exp")
    left = orphans(uri)
    clean(uri, older_than=NOW, error_if_tagged_old_versions=False)
    assert {path for path in left if "/data/" in f"/{path}"} <= orphans(uri)
    age_all(uri, 30)
    clean(uri, older_than=NOW, error_if_tagged_old_versions=False)
    assert orphans(uri) == set()


def test_a_copy_that_was_cut_short_is_not_taken_for_a_whole_one(busy, costs):
    """A store that shows a file while it is being written: half of it is there, under its name."""
    uri = busy.uri
    MERGE.killed_at_step(costs["main"][0] // 2, uri, WAYS["main"])
    copied = sorted(path for path in orphans(uri) if path.startswith("data/") and path.endswith(".lance"))
    assert copied
    with open(f"{uri}/{copied[0]}", "r+b") as file:
        file.truncate(1000)
    assert error_of(uri) is None
    assert rows(head(uri)) == busy.after
