"""Everything at once on one dataset, on an object store; then an exact account of every row."""

import os

import pytest
from support.processes import Team
from support.storm import Place
from support.storm_checks import account, clean_up, run_storm
from support.storm_workers import WORKERS

pytestmark = pytest.mark.s3

SECONDS = 5
NIGHT = float(os.environ.get("EVERYTHING_AT_ONCE_SECONDS", "1800"))


@pytest.fixture(scope="module")
def team():
    with Team(len(WORKERS)) as made:
        yield made


@pytest.mark.slow
@pytest.mark.when(day=0)
@pytest.mark.parametrize("seconds", [SECONDS, NIGHT], ids=["short", "long"])
def test_every_row_is_accounted_for(table, storage, tmp_path, team, seconds):
    place = Place(table, storage, str(tmp_path / "notes"), seed=2, seconds=seconds, pause=0.1, margin=2.5)
    run_storm(place, team, stable=False)
    account(place)
    clean_up(place)
    account(place)
