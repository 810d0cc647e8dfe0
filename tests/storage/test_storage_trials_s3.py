"""Every verb with keys that a store refuses, now and then or for good: its full effect, or an error that says so."""

from __future__ import annotations

import random

import pytest
from support import vending
from support.s3_tables import Kept, storage_options
from support.store_verbs import VERBS, World, after, attempt, check_again, look, make, patience

from lance_spark.storage import services

pytestmark = [pytest.mark.s3, pytest.mark.when(spark="newest", day=0)]
BUCKET = "trials"
ROOT = f"s3://{BUCKET}"
SECRETS = ("very-secret-", "token-of-")


@pytest.fixture(scope="module")
def kept(moto, client) -> Kept:
    client.create_bucket(Bucket=BUCKET)
    make(World(ROOT, storage_options(moto)))
    return Kept(client, BUCKET)


def once(event):
    """Only the first time."""
    left = [event]
    return lambda: left and left.pop()()


def moment(chance: random.Random) -> int:
    return int(2 ** chance.uniform(0, 5.5))


def catalog_is_away(gate, chance):
    def event():
        gate.away = True
        gate.revoke()

    gate.at(moment(chance), once(event))


TRIALS = {
    "of seven requests": lambda gate, _: gate.only(7),
    "of thirty requests": lambda gate, _: gate.only(30),
    "revoked once": lambda gate, chance: gate.at(moment(chance), once(gate.revoke)),
    "revoked for good": lambda gate, chance: gate.at(moment(chance), gate.revoke),
    "revoked, and nobody hands out": catalog_is_away,
}
CELLS = [(verb, trial) for verb in VERBS for trial in TRIALS]


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(services, "PATIENCE", 0.0)
    patience()


@pytest.mark.parametrize(("verb", "trial"), CELLS)
def test_a_verb_whose_keys_are_refused_ends_whole_or_says_so(moto, kept, gate, hurried, verb, trial):
    kept.put_back()
    world, places = World(ROOT, storage_options(moto)), VERBS[verb].at
    before = look(world, places)
    TRIALS[trial](gate, random.Random(f"{verb} {trial}"))
    kind, told = attempt(None, World(ROOT, {"token_provider": vending.PROVIDER}), verb)
    gate.store.heal()
    gate.away = False
    found, wanted = look(world, places), after(before, verb)
    assert kind in ("ok", "PermissionDenied", "StorageFailure"), told
    if kind == "ok":
        assert found == wanted
        return
    assert "refused before their time" in told or "The provider of storage options" in told
    assert not any(secret in told for secret in SECRETS)
    if not VERBS[verb].in_steps:
        assert found in (before, wanted)
    check_again(world, verb, wanted, found == wanted)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_outlives_its_keys(moto, kept, gate, hurried, verb):
    kept.put_back()
    world, places = World(ROOT, storage_options(moto)), VERBS[verb].at
    before = look(world, places)
    gate.seconds = 4.0  # on a busy machine, a client for a new key takes its time
    gate.slowly(0.4)
    kind, told = attempt(None, World(ROOT, {"token_provider": vending.PROVIDER}), verb)
    gate.store.heal()
    assert kind == "ok", told
    assert look(world, places) == after(before, verb)
