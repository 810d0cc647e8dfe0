"""Functions that several libraries patch: each takes its own patch back, in any order, and none takes another's."""

from itertools import permutations

import pytest

from lance_spark.session.patches import Patches

pytestmark = pytest.mark.pure


class Other:
    """Patches and restores as libraries do: it saves what it finds, and puts that back."""

    def __init__(self, owner):
        self._owner = owner

    def install(self):
        self._found = found = self._owner.sql

        def theirs(spark, text):
            return ["other", *found(spark, text)]

        self._owner.sql = theirs

    def remove(self):
        self._owner.sql = self._found


class Copy:
    """A copy of this package: while it is in use, it adds its name to each answer, once."""

    def __init__(self, owner, name):
        self._patches, self._in_use = Patches(), False

        @self._patches.of(owner, "sql")
        def ours(original, /, spark, text):
            answer = original(spark, text)
            return [name, *answer] if self._in_use and name not in answer else answer

    def install(self):
        self._in_use = True
        self._patches.install()

    def remove(self):
        self._in_use = False
        self._patches.remove()


@pytest.fixture
def owner():
    class Session:
        def sql(self, text):
            return [text]

    return Session


def answer(owner):
    return owner().sql("q")


@pytest.mark.parametrize("removed", list(permutations(("first", "second", "other"))), ids="-".join)
@pytest.mark.parametrize("installed", list(permutations(("first", "second", "other"))), ids="-".join)
def test_two_copies_and_another_patcher_come_and_go_in_any_order(owner, installed, removed):
    spark_own = owner.sql
    patchers = {"first": Copy(owner, "first"), "second": Copy(owner, "second"), "other": Other(owner)}
    there = set()
    for name in installed:
        patchers[name].install()
        there.add(name)
        assert set(answer(owner)) == {"q", *there}
    for name in removed:
        patchers[name].remove()
        there.remove(name)
        found = set(answer(owner))
        assert found <= {"q", *there, "other"}
        # Whoever puts back what it had found takes away what was patched after it. That is all that may be missing.
        after = set(installed[installed.index("other") :]) if "other" in removed[: removed.index(name) + 1] else set()
        assert there - found <= after
    if removed == installed[::-1]:
        assert owner.sql is spark_own


def test_a_patch_that_another_took_away_comes_back_with_the_next_session(owner):
    other, ours = Other(owner), Copy(owner, "ours")
    other.install()
    ours.install()
    other.remove()
    assert answer(owner) == ["q"]
    ours.install()
    assert answer(owner) == ["ours", "q"]


def test_another_patch_over_ours_stays_when_ours_goes_and_comes_back(owner):
    other, ours = Other(owner), Copy(owner, "ours")
    ours.install()
    other.install()
    ours.remove()
    assert answer(owner) == ["other", "q"]
    ours.install()
    assert sorted(answer(owner)) == ["other", "ours", "q"]
    ours.remove()
    assert answer(owner) == ["other", "q"]


def test_many_sessions_leave_one_patch(owner):
    spark_own, ours = owner.sql, Copy(owner, "ours")
    for _ in range(3):
        for _ in range(3):
            ours.install()
        patched = owner.sql
        ours.remove()
        assert owner.sql is spark_own
    ours.install()
    assert owner.sql is patched


def test_options_of_any_name_reach_the_function(owner):
    owner.save = lambda _, **options: options
    patches = Patches()

    @patches.of(owner, "save")
    def ours(original, /, self, **options):
        return original(self, **options)

    patches.install()
    assert owner().save(original=1, name=2) == {"original": 1, "name": 2}
