"""Publishers that are killed, writers, cleanups, tags and helpers at once on one lake on S3; then an exact account."""

import pytest
from support.lake_race import WORKERS
from support.lake_race_checks import account, run_race
from support.processes import Team
from support.storm import Place

pytestmark = [pytest.mark.s3, pytest.mark.slow]


@pytest.mark.when(day=0)
@pytest.mark.parametrize("seed", range(3))
def test_every_row_and_every_publish_is_accounted_for(bucket, storage, tmp_path, seed):
    place = Place(f"s3://{bucket}/lake", storage, str(tmp_path / "notes"), seed=seed, seconds=20, pause=0.5, margin=3)
    with Team(len(WORKERS)) as team:
        run_race(place, team, longest=3.0)
    account(place)
