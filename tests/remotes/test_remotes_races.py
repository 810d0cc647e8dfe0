"""Pushes and fetches of several processes at once: no commit is lost, none comes twice."""

import lance
import pytest
from support.cleanup_datasets import NOW, clean, place
from support.merge_datasets import add, assert_sound, head, table
from support.processes import Job, Team
from support.remote_datasets import (
    assert_all_sound,
    assert_follows,
    assert_same,
    begun,
    fetched,
    ids_of,
    made_clone,
    pulled,
    pushed,
)

from lance_spark.errors import AlreadyExists, Conflict, Refused
from lance_spark.storage.datasets import locate, pin_latest

pytestmark = pytest.mark.slow

ROUNDS = 10
PATIENCE = 40
"""Tries until a push gets through."""


@pytest.fixture(scope="module")
def team():
    with Team(3) as made:
        yield made


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def source(tmp_path, request):
    return begun(str(tmp_path / "source.lance"), request.param)


@pytest.fixture
def locals_(tmp_path, source):
    found = [str(tmp_path / name) for name in ("one.lance", "two.lance")]
    for uri, way in zip(found, ("shallow", "planted"), strict=True):
        made_clone(source, uri, way)
    return found


def opened(local, *_):
    """What takes long at first."""
    pin_latest(locate(local), None)


def push_rows(_, local, source, start):
    """One row a round; after a refusal it is pulled, as a user would."""
    tries = 0
    for number in range(ROUNDS):
        add(local, start + number, start + number + 1)
        for _ in range(PATIENCE):
            tries += 1
            try:
                pushed(local, source)
                break
            except (Conflict, Refused):
                pulled(local, source)
        else:
            raise AssertionError("it never got through")
    return tries


def append_rows(_, source, start):
    for number in range(ROUNDS):
        lance.write_dataset(table(start + number, start + number + 1), source, mode="append")
    return ROUNDS


def compact_and_clean(_, source):
    for number in range(3):
        head(source).update({"v": str(-number)}, f"id = {20 + number}")
        # Not the files of interrupted writes: those of a push that is not committed yet look the same.
        clean(source, older_than=NOW, error_if_tagged_old_versions=False)
    return 0


def test_two_pushers_lose_nothing(team, source, locals_):
    before = ids_of(source)
    tries = team.run([Job(push_rows, (uri, source, 1000 * n), opened) for n, uri in enumerate(locals_, 1)])
    assert min(tries) >= ROUNDS
    assert ids_of(source) == sorted([*before, *range(1000, 1000 + ROUNDS), *range(2000, 2000 + ROUNDS)])
    for local in locals_:
        pulled(local, source)
        assert_same(local, None, source, None)
    assert_all_sound(source, *locals_)


def test_a_push_beside_a_writer_loses_nothing(team, source, locals_):
    before = ids_of(source)
    team.run(
        [
            Job(push_rows, (locals_[0], source, 1000), opened),
            Job(append_rows, (source, 2000), opened),
            Job(push_rows, (locals_[1], source, 3000), opened),
        ]
    )
    expected = [*before, *(start + number for start in (1000, 2000, 3000) for number in range(ROUNDS))]
    assert ids_of(source) == sorted(expected)
    for local in locals_:
        pulled(local, source)
        assert_same(local, None, source, None)


def test_pushes_beside_changes_and_cleanups_at_the_remote(team, source, locals_):
    before = ids_of(source)
    team.run([Job(push_rows, (locals_[0], source, 1000), opened), Job(compact_and_clean, (source,), opened)])
    assert ids_of(source) == sorted([*before, *range(1000, 1000 + ROUNDS)])
    for local in locals_:
        pulled(local, source)
        assert_same(local, None, source, None)


def fetch_it(_, local, source):
    found = []
    for _ in range(4):
        try:
            fetched(local, source)
        except (AlreadyExists, Conflict, Refused) as problem:
            found.append(type(problem).__name__)
    return found


def test_two_fetches_at_once_leave_what_a_third_one_mends(team, source, locals_):
    local = locals_[1]
    for number in range(4):
        add(source, 400 + number, 401 + number, "exp")
        head(source).delete(f"id = {20 + number}")
        team.run([Job(fetch_it, (local, source), opened), Job(fetch_it, (local, source), opened)])
        fetched(local, source)
        assert_follows(local, source)
    pulled(local, source)
    assert_same(local, None, source, None)


def push_once(_, local, source, branch):
    try:
        return pushed(local, source, branch).version
    except (Conflict, Refused) as problem:
        return type(problem).__name__


def test_of_two_that_push_one_branch_anew_one_gets_through(team, source, locals_):
    for number in range(4):
        name = f"new{number}"
        for start, local in zip((1000, 2000), locals_, strict=True):
            lance.dataset(local).create_branch(name)
            add(local, start, start + 2, name)
        outcomes = team.run([Job(push_once, (local, source, name), opened) for local in locals_])
        through = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert len(through) <= 1, outcomes
        found = set(ids_of(source, name)) - set(range(100))
        assert found in ({1000, 1001}, {2000, 2001}, set()), outcomes
        assert bool(found) == bool(through)
        for local in locals_:
            if not isinstance(outcomes[locals_.index(local)], int):
                pulled(local, source, name, name)
                pushed(local, source, name)
        assert set(ids_of(source, name)) - set(range(100)) == {1000, 1001, 2000, 2001}
        assert_sound(lance.dataset(place(source, name)))
