"""A clone, a fetch or a push in a process that is killed at any moment: the second call ends well, nothing is lost."""

import os
import random
import shutil
import signal
import threading
import time
from typing import NamedTuple

import pytest
from support.cleanup_datasets import age_all
from support.kinds import NIGHT
from support.merge_datasets import clean_all
from support.processes import PATIENCE, processes
from support.remote_datasets import assert_all_sound, begun, stores_of_their_own, tell_steps
from test_remotes_interrupted import STORIES, Places, assert_between, assert_done, everything

from lance_spark.errors import AlreadyExists

pytestmark = pytest.mark.slow

SEEDS = 40 if NIGHT else 3


class Told(NamedTuple):
    """A story that can be told again and again, and what comes of it."""

    places: Places
    before: dict
    after: dict
    steps: int
    seconds: float


@pytest.fixture(scope="module", params=STORIES)
def told(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("killed") / "places"
    root.mkdir()
    way = "shallow" if request.param == "clone-shallow" else "planted"
    places = Places(str(root / "source.lance"), str(root / "local.lance"), way)
    begun(places.source, stable=True)
    STORIES[request.param].before(places)
    before = everything(places)
    shutil.copytree(root, f"{root}-saved")
    found = processes().Array("d", 2)
    assert run_apart(measure, request.param, places, found) == 0
    return request.param, Told(places, before, everything(places), int(found[0]), found[1])


@pytest.fixture
def story(told):
    """With everything as it was in the beginning."""
    name, found = told
    root = os.path.dirname(found.places.source)
    shutil.rmtree(root)
    shutil.copytree(f"{root}-saved", root)
    return name, found


def run_apart(target, *given):
    process = processes().Process(target=target, args=given)
    process.start()
    process.join(PATIENCE)
    return process.exitcode


def measure(name, places, found):
    began, steps = time.monotonic(), []
    tell_steps(steps.append)
    STORIES[name].action(places)
    found[:] = len(steps), time.monotonic() - began


def killed_at_step(name, places, number):
    tell_steps(lambda step: die() if step == number else None)
    STORIES[name].action(places)


def killed_after(name, places, seconds):
    threading.Timer(seconds, die).start()
    STORIES[name].action(places)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.when(day=0.05)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_second_call_finishes_what_was_killed(story, seed):
    name, found = story
    places, chance = found.places, random.Random(f"{name} {seed}")
    if seed % 2:
        run_apart(killed_after, name, places, found.seconds * chance.random())
    else:
        step = found.steps - 1 - seed if seed < 4 else chance.randrange(found.steps)
        assert run_apart(killed_at_step, name, places, step) == -signal.SIGKILL
    assert_between(places, found.before, found.after)

    try:
        STORIES[name].action(places)
    except AlreadyExists:  # killed between the two files of a branch, which pylance writes: it says to wait a minute
        age_all(places.local, 1)
        age_all(places.source, 1)
        STORIES[name].action(places)
    assert everything(places) == found.after
    assert_done(places, name)
    with stores_of_their_own():
        for uri in (places.local, places.source):
            age_all(uri, 30)
            clean_all(uri)
    STORIES[name].action(places)
    assert everything(places) == found.after
    assert_all_sound(places.source, places.local)
