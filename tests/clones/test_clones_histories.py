"""Random lives of sources, clones and clones of clones, which are moved, copied, deleted, cleaned and killed.

What a clone reads is never deleted while its record stands: after each step every clone has the rows that it began
with. A copy counts once it has told its source of itself.
"""

import os
import random
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import lance
import pyarrow as pa
import pytest
from support.branched_lakes import EVERYTHING, Mortal
from support.cleanup_datasets import RUNNER
from support.killed import Killed

from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.clones.clone import shallow_clone
from lance_spark.clones.relocate import relocate
from lance_spark.errors import AlreadyExists, Conflict, InvalidOption, NotFound, Refused
from lance_spark.refs import refs as ref_actions
from lance_spark.remotes.clone import clone as clone_following
from lance_spark.remotes.fetch import FetchOptions, Remote, fetch
from lance_spark.storage import refs
from lance_spark.storage.datasets import find_latest, locate, pin_latest
from lance_spark.survey.survey import recorded_clones

PLACES = tuple(f"p{number}" for number in range(9))


@dataclass
class World:
    """Datasets in a few places, so that each is used again."""

    root: str
    chance: random.Random
    keys: dict[str, list[int]] = field(default_factory=dict)
    """The rows of main, by place."""
    source: dict[str, str] = field(default_factory=dict)
    """Of a clone that follows, its source's place at that time; of another one, nothing."""
    depends: dict[str, set[str]] = field(default_factory=dict)
    """Places whose files a dataset reads; "" for one that can no longer be read at the place that it names."""
    told: set[str] = field(default_factory=set)
    """Clones whose sources know where they are."""
    next_key: int = 100

    def at(self, place):
        return locate(f"{self.root}/{place}")

    def free(self):
        return [place for place in PLACES if place not in self.keys]

    def pick(self, places):
        return self.chance.choice(sorted(places))

    def fresh(self):
        self.next_key += 1
        return self.next_key


def rows_of(location):
    return sorted(lance.dataset(location.uri).to_table()["k"].to_pylist())


def write(location, keys, mode):
    lance.write_dataset(pa.table({"k": pa.array(keys, pa.int64())}), location.uri, mode=mode)


def create(world):
    place = world.pick(world.free())
    write(world.at(place), [world.fresh()], "create")
    world.keys[place], world.depends[place] = [world.next_key], set()


def append(world):
    place = world.pick(world.keys)
    write(world.at(place), [world.fresh()], "append")
    world.keys[place] = [*world.keys[place], world.next_key]


def overwrite(world):
    place = world.pick(world.keys)
    write(world.at(place), [world.fresh()], "overwrite")
    world.keys[place] = [world.next_key]


def readable(world):
    """Datasets that can be a source: clones of a moved source cannot be read, and neither can their clones."""
    return [place for place in world.keys if "" not in world.depends[place]]


def clone(world):
    of, place = world.pick(readable(world)), world.pick(world.free())
    source, target = world.at(of), world.at(place)
    follows, dies = world.chance.random() < 0.5, world.chance.random() < 0.3
    with Mortal(world.root, world.chance.randrange(1, 25) if dies else 0).living():
        try:
            if follows:
                clone_following(Remote("origin", source), pin_latest(source, None), target, RUNNER)
            else:
                shallow_clone(source, pin_latest(source, None), target)
        except Killed:
            pass
    if find_latest(target, None) is None:
        shutil.rmtree(target.uri, ignore_errors=True)
        return
    if (dies and not follows) or (dies and not refs.list_ref_names(target, "_refs/branches")):
        follows = False
    world.keys[place] = list(world.keys[of])
    world.depends[place] = {of} | world.depends[of]
    world.told.add(place)
    if follows and not dies:
        world.source[place] = of


def users(world, place):
    return [other for other, needs in world.depends.items() if place in needs]


def move(world):
    """Of a dataset that nothing reads: its clones would have to be relocated."""
    place = world.pick([place for place in world.keys if not users(world, place)])
    new = world.pick(world.free())
    os.rename(world.at(place).uri, world.at(new).uri)
    _renamed(world, place, new)
    if world.chance.random() < 0.6:
        relocate(world.at(new))


def _renamed(world, place, new):
    world.keys[new], world.depends[new] = world.keys.pop(place), world.depends.pop(place)
    if place in world.source:
        world.source[new] = world.source.pop(place)
    if place in world.told:
        world.told.remove(place)
        world.told.add(new)


def move_source(world):
    """Its clones are told where it is now, before anything else happens."""
    place = world.pick([place for place in readable(world) if users(world, place)])
    new, clones = world.pick(world.free()), users(world, place)
    former = world.at(place).uri
    os.rename(former, world.at(new).uri)
    _renamed(world, place, new)
    relocate(world.at(new))
    for clone in clones:
        world.depends[clone] = {new if each == place else each for each in world.depends[clone]}
        world.source.pop(clone, None)  # its remote has the former place
        with suppress(NotFound):  # it reads from a clone in between only
            relocate(world.at(clone), former, world.at(new).uri)


def clone_into_another(world):
    """Refused, and nothing of what is there is touched."""
    of, place = world.pick(readable(world)), world.pick(world.keys)
    before = rows_of(world.at(place))
    with pytest.raises((AlreadyExists, InvalidOption)):
        shallow_clone(world.at(of), pin_latest(world.at(of), None), world.at(place))
    assert rows_of(world.at(place)) == before


def copy(world):
    place = world.pick([place for place in world.keys if world.depends[place]])
    new = world.pick(world.free())
    shutil.copytree(world.at(place).uri, world.at(new).uri)
    relocate(world.at(new))
    world.keys[new], world.depends[new] = list(world.keys[place]), set(world.depends[place])
    world.told.add(new)
    if place in world.source:
        world.source[new] = world.source[place]


def delete(world):
    place = world.pick([place for place in world.keys if not users(world, place)])
    shutil.rmtree(world.at(place).uri)
    world.keys.pop(place), world.depends.pop(place)
    world.source.pop(place, None)
    world.told.discard(place)


def forget(world):
    """Somebody types what a cleanup says of clones that are gone. The moved ones have told their sources before."""
    for place in list(world.keys):
        if world.depends[place]:
            relocate(world.at(place))
    place = world.pick(world.keys)
    for name in recorded_clones(world.at(place)):
        if ref_actions.gone_clone(world.at(place), name) is not None:
            ref_actions.delete_tag(world.at(place), name, force=True)


def pull(world):
    place = world.pick(world.source)
    of = world.source[place]
    if of not in world.keys or of not in world.depends[place]:
        return
    with Mortal(world.root, world.chance.choice([0, world.chance.randrange(1, 5)])).living():
        try:
            fetch(world.at(place), Remote("origin", world.at(of)), RUNNER, FetchOptions())
        except (Killed, Conflict, NotFound, Refused, AlreadyExists):
            return


def clean(world):
    location = world.at(world.pick(world.keys))
    with Mortal(world.root, world.chance.choice([0, 0, world.chance.randrange(1, 12)])).living():
        try:
            plan_cleanup(location, EVERYTHING, RUNNER, time.time_ns() + 10**9).apply()
        except (Killed, Refused, Conflict):
            return


def clean_by_pylance(world):
    """It knows no clones, only tags; and only branches of the dataset itself."""
    place = world.pick(world.keys)
    dataset = lance.dataset(world.at(place).uri)
    dataset.cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)


STEPS = {
    create: 2,
    append: 3,
    overwrite: 3,
    clone: 5,
    move: 4,
    move_source: 2,
    clone_into_another: 1,
    copy: 2,
    delete: 4,
    forget: 1,
    pull: 4,
    clean: 6,
    clean_by_pylance: 3,
}
DELETES = (clean, clean_by_pylance, forget, delete, move, move_source)


def check(world, history):
    for place, keys in world.keys.items():
        dataset = lance.dataset(world.at(place).uri)
        assert sorted(dataset.to_table()["k"].to_pylist()) == sorted(keys), (place, history[-40:])
        for branch in dataset.branches.list():
            assert dataset.checkout_version((branch, None)).to_table().num_rows, (place, branch, history[-40:])


@pytest.mark.when(day={"seed": [1]})
@pytest.mark.parametrize("seed", range(1, 22))
def test_what_a_clone_reads_stays(tmp_path, seed):
    world, history = World(str(tmp_path), random.Random(seed)), []
    while len(history) < (500 if seed > 1 else 100):
        step = world.chance.choices(list(STEPS), list(STEPS.values()))[0]
        try:
            step(world)
        except IndexError:  # nothing to choose from
            continue
        history.append((step.__name__, sorted(world.keys)))
        if step in DELETES:
            check(world, history)
    check(world, history)
    assert len({name for name, _ in history}) > 7
