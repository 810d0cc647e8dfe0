"""A clone, a fetch or a push in a process that is killed at any moment: the second call ends well, nothing is lost."""

import os
import random
import shutil
from typing import NamedTuple

import pytest
from support.cleanup_datasets import age_all
from support.killed import Act
from support.kinds import NIGHT
from support.merge_datasets import clean_all
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
    steps, seconds = STORY.cost(request.param, places)
    return request.param, Told(places, before, everything(places), steps, seconds)


@pytest.fixture
def story(told):
    """With everything as it was in the beginning."""
    name, found = told
    root = os.path.dirname(found.places.source)
    shutil.rmtree(root)
    shutil.copytree(f"{root}-saved", root)
    return name, found


def act(name, places):
    STORIES[name].action(places)


STORY = Act(act, tell_steps)


@pytest.mark.when(day=0.035)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_second_call_finishes_what_was_killed(story, seed):
    name, found = story
    places, chance = found.places, random.Random(f"{name} {seed}")
    if seed % 2:
        STORY.killed_after(found.seconds * chance.random(), name, places)
    else:
        step = found.steps - 1 - seed if seed < 4 else chance.randrange(found.steps)
        STORY.killed_at_step(step, name, places)
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
