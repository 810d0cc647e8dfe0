"""Publishers that are killed, writers, cleanups, tags and helpers at once on one lake; then an exact account."""

import os

import pytest
from support.lake_race import WORKERS
from support.lake_race_checks import account, run_race
from support.processes import Team
from support.storm import Place

pytestmark = pytest.mark.slow

SECONDS = 3
SEEDS = int(os.environ.get("LAKE_RACES", "20"))
"""Of the night."""


@pytest.fixture(scope="module")
def team():
    with Team(len(WORKERS)) as made:
        yield made


@pytest.mark.when(day=0)  # by day, tests/whole/test_everything_at_once.py races
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_row_and_every_publish_is_accounted_for(tmp_path, team, seed):
    seconds = 3 * SECONDS if seed else SECONDS
    place = Place(f"{tmp_path}/lake", {}, str(tmp_path / "notes"), seed=seed, seconds=seconds, pause=0.1)
    run_race(place, team, longest=0.5)
    account(place)
