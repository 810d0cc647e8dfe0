"""Every verb on a store that fails in every way: its full effect or none, or an error that says what is so."""

import random
from collections.abc import Iterator

import pytest
from support.processes import Job, Team
from support.s3_tables import Kept, objects, storage_options
from support.store_faults import FAULTS
from support.store_verbs import VERBS, State, World, after, attempt, check_again, look, make, patience, rival

pytestmark = [pytest.mark.s3, pytest.mark.when(newest=0.5)]

BUCKET = "store-from-hell"
ROOT = f"s3://{BUCKET}"
HONEST = {"StorageFailure", "PermissionDenied", "Conflict"}
"""Errors that a fault of the store may end with: it did not answer, refused, or made us meet our own commit."""
STALE = {"listings frozen", "listings late"}
BY_DAY = {
    ("create a namespace", "failing", 0),
    ("read", "time-outs", 0),
    ("read", "slow bytes", 0),
    ("search", "torn answers", 0),
    ("merge rows", "first answers lost", 0),
    ("append", "first answers 500", 0),
    ("delete rows", "out", 0),
    ("create a tag", "out after a write", 0),
    ("append", "gone after a write", 0),
    ("freeze a set", "denied", 0),
    ("cleanup", "a day ahead", 0),
    ("optimize", "a day behind", 0),
    ("create a tag", "clock refused", 0),
    ("overwrite", "listings frozen", 0),
    ("create a tag", "listings late", 0),
}
"""Each fault once, on verbs of every kind, where the clients do not wait long before they try again."""


@pytest.fixture(scope="module")
def kept(moto, client) -> Kept:
    client.create_bucket(Bucket=BUCKET)
    make(World(ROOT, storage_options(moto)))
    return Kept(client, BUCKET)


@pytest.fixture(scope="module")
def states() -> dict[tuple[str, ...], State]:
    """What there is at some places, before any verb."""
    return {}


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    """A verb that does not end is killed with its process, and fails the test.

    Later than elsewhere: pylance repeats the commit of a compaction for half a minute, with pauses that double; the
    last one may take minutes.
    """
    with Team(1, patience=600) as team:
        yield team


CELLS = [(verb, fault, seed) for verb in VERBS for fault in FAULTS for seed in range(3)]


@pytest.mark.when(day=1.0)
@pytest.mark.parametrize(
    ("verb", "fault", "seed"),
    [pytest.param(*cell, marks=[] if cell in BY_DAY else pytest.mark.when(day=0)) for cell in CELLS],
)
def test_a_verb_ends_with_its_full_effect_or_an_error(client, moto, kept, states, faulty, team, verb, fault, seed):
    kept.put_back()
    world, places = World(ROOT, storage_options(moto)), VERBS[verb].at
    if fault in STALE:
        faulty.freeze_listings(client, BUCKET)
    if fault == "listings late":
        rival(world)
        before = look(world, places)
    else:
        before = states.get(places) or states.setdefault(places, look(world, places))
    there = objects(client, BUCKET)
    FAULTS[fault](faulty, random.Random(f"{verb} {fault} {seed}"))
    far = World(ROOT, storage_options(faulty.endpoint) | {"client_max_retries": "3"})
    ((kind, told),) = team.run([Job(attempt, (far, verb), patience)])
    faulty.heal()
    now, wanted = objects(client, BUCKET), after(before, verb)
    assert elsewhere(now, places) == elsewhere(there, places)
    found = before if now == there else look(world, places)
    assert kind != "foreign", told
    if kind == "ok":
        assert found == wanted
        assert told is None or fault in STALE or told == attempt(None, world, verb)[1]
        return
    if fault not in STALE:
        assert kind in HONEST or "if the store's answer to it was lost" in told, told
    if not VERBS[verb].in_steps:
        assert found in (before, wanted)
    check_again(world, verb, wanted, found == wanted)


def elsewhere(there: dict[str, str], places: tuple[str, ...]) -> dict[str, str]:
    """The objects that are not at these places."""
    return {key: etag for key, etag in there.items() if key.partition("/")[0] not in places}
