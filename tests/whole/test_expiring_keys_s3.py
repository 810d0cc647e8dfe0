"""Every verb with keys that expire, are revoked, or are handed out by nobody: its full effect, or an honest error."""

import random
import threading

import pytest
from support import vending
from support.s3_tables import Kept, objects, storage_options
from support.store_verbs import VERBS, State, World, after, attempt, check_again, look, make

from lance_spark.storage import services

pytestmark = [pytest.mark.s3, pytest.mark.when(spark="newest")]

BUCKET = "expiring-keys"
ROOT = f"s3://{BUCKET}"
HONEST = {"StorageFailure", "PermissionDenied", "Conflict"}
EARLY = 30
"""A verb's first requests, of which one is the moment of the accident."""


def seconds(gate, _):
    """Shorter than most verbs take."""
    gate.seconds = 4.0


def few_requests(gate, seed):
    """Each key is refused after some requests, so that all that a verb does is renewed in its middle."""
    gate.only(seed.randint(3, 12))


def revoked_once(gate, seed):
    moment, done = seed.randrange(1, EARLY), threading.Event()

    def revoke():
        if not done.is_set():
            done.set()
            gate.revoke()

    gate.at(moment, revoke)


def revoked_for_good(gate, seed):
    gate.at(seed.randrange(1, EARLY), gate.revoke)


def nobody(gate, seed):
    def leave():
        gate.away = True
        gate.revoke()

    gate.at(seed.randrange(1, EARLY), leave)


def clock_behind(gate, _):
    """The store refuses keys after 2 seconds, and whoever gets them believes in an hour."""
    gate.seconds, gate.ahead = 2.0, 3600.0


def clock_ahead(gate, _):
    gate.seconds, gate.ahead = 3600.0, -3900.0


def away_for_a_moment(gate, seed):
    done = threading.Event()

    def leave():
        if not done.is_set():
            done.set()
            gate.away = True
            gate.revoke()
            threading.Timer(1.0, setattr, (gate, "away", False)).start()

    gate.at(seed.randrange(1, EARLY), leave)


ACCIDENTS = {
    "seconds": seconds,
    "few requests": few_requests,
    "revoked once": revoked_once,
    "revoked for good": revoked_for_good,
    "nobody": nobody,
    "clock behind": clock_behind,
    "clock ahead": clock_ahead,
    "away for a moment": away_for_a_moment,
}
HARMLESS = {"clock ahead"}
"""With keys of seconds, a request that a slow machine sends late is refused; of a PUT nobody repeats it."""
BY_DAY = {("append", "few requests")}
CELLS = [(verb, accident) for verb in VERBS for accident in ACCIDENTS]


@pytest.fixture(scope="module")
def kept(moto, client) -> Kept:
    client.create_bucket(Bucket=BUCKET)
    make(World(ROOT, storage_options(moto)))
    return Kept(client, BUCKET)


@pytest.fixture(scope="module")
def states() -> dict[tuple[str, ...], State]:
    """What there is at some places, before any verb."""
    return {}


@pytest.mark.when(day=1.0)
@pytest.mark.filterwarnings("ignore::lance_spark.errors.LanceSparkWarning")
@pytest.mark.parametrize(
    ("verb", "accident"),
    [pytest.param(*cell, marks=[] if cell in BY_DAY else pytest.mark.when(day=0)) for cell in CELLS],
)
def test_a_verb_outlives_its_keys_or_says_so(client, moto, kept, states, gate, monkeypatch, verb, accident):
    monkeypatch.setattr(services, "PATIENCE", 0.5 if accident == "nobody" else 20.0)
    kept.put_back()
    world, places = World(ROOT, storage_options(moto)), VERBS[verb].at
    before = states.get(places) or states.setdefault(places, look(world, places))
    there = objects(client, BUCKET)
    ACCIDENTS[accident](gate, random.Random(f"{verb} {accident}"))
    kind, told = attempt(None, World(ROOT, {"token_provider": vending.PROVIDER}), verb)
    gate.store.heal()
    gate.away = False
    now, wanted = objects(client, BUCKET), after(before, verb)
    assert elsewhere(now, places) == elsewhere(there, places)
    found = before if now == there else look(world, places)
    assert kind != "foreign", told
    assert "very-secret" not in str(told)
    assert "token-of-" not in str(told)
    if kind == "ok":
        assert found == wanted
        return
    assert accident not in HARMLESS, told
    assert kind in HONEST or "if the store's answer to it was lost" in told, told
    if not VERBS[verb].in_steps:
        assert found in (before, wanted)
    check_again(world, verb, wanted, found == wanted)


def elsewhere(there: dict[str, str], places: tuple[str, ...]) -> dict[str, str]:
    """The objects that are not at these places."""
    return {key: etag for key, etag in there.items() if key.partition("/")[0] not in places}
