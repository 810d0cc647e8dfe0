"""What a nightly job asks for each branch is looked up once: many branches are not searched for each of them."""

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from support.cleanup_surveys import NOW, ROOT, chain, fork, survey

from lance_spark.cleanup.reference_rules import MARKS
from lance_spark.cleanup.retention_rules import CleanupPolicy, RunClock, judge
from lance_spark.cleanup.sweep_rules import newly_live
from lance_spark.core.records.tracking import MergeNote, Node, with_note
from lance_spark.core.refs import RefTable
from lance_spark.disk_usage.holder_rules import Costs, Portion, _needed, holders_of

pytestmark = pytest.mark.pure

FEW, MANY = 4, 40


class Searched(dict):
    """Counts how often all of its values are gone through."""

    searches = 0

    def values(self):
        self.searches += 1
        return super().values()

    def __iter__(self):
        self.searches += 1
        return super().__iter__()


def many(count):
    """Branches of main and of one another, merged into main, with tags that users and streams have on them."""
    names = [f"b{number}" for number in range(count)]
    branches = [
        replace(
            fork(name, 2, names[at - 1] if at % 3 == 2 else None),
            identity=f"{at:032x}",
            metadata=with_note({}, MergeNote("", 2, Node(f"{at:032x}", 3))),
        )
        for at, name in enumerate(names)
    ]
    tags = [(f"reader-{name}", name, 2) for name in names[:2]] + [(f"v-{name}", name, 3) for name in names]
    seen = survey(
        chain(None, (1, 2, 3)),
        *(chain(name, (2, 3, 4)) for name in names),
        branches=branches,
        tags=tags,
        repositories=(ROOT,),
    )
    return replace(seen, refs=RefTable(Searched(seen.refs.branches), Searched(seen.refs.tags)))


def searches(count, work):
    seen = many(count)
    work(seen)
    return seen.refs.branches.searches, seen.refs.tags.searches


def judged(seen):
    return judge(seen, CleanupPolicy(older_than=timedelta(0), error_if_tagged_old_versions=False), RunClock(NOW), {})


def costs(seen):
    holders = holders_of(seen)
    everyone = frozenset(range(len(holders.all)))
    return Costs(seen, holders, [Portion("data", 0, everyone, False, 1, 1)]).refs()


def lived(seen):
    return newly_live(seen, seen, judged(seen))


@pytest.mark.parametrize("work", [judged, lived, costs], ids=["judge", "what became live", "costs"])
def test_refs_are_gone_through_as_often_for_many_branches_as_for_few(work):
    assert searches(MANY, work) == searches(FEW, work)


def test_each_branch_is_told_what_it_would_be_alone():
    """The verdicts and the costs: what is looked up at once is right for each of them."""
    seen = many(5)
    main, *branches = [verdict.kept for verdict in judged(seen)]
    assert main == (False, True, True)  # the fork of them all, which also took them in
    read = [(True, True, True)] * 2  # streams read two branches from their first version on
    assert branches == [*read, *[(False, True, True)] * 3]
    assert [each.obstacle != "" for each in costs(seen) if each.kind == "branch" and each.ref != "main"] == [True] * 5


def test_a_file_that_all_branches_need_does_not_take_a_set_for_each_of_them(monkeypatch):
    """It took 7 GB with ten thousand branches."""
    made = []

    class Counted(frozenset):
        def __new__(cls, *given):
            made.append(given)
            return super().__new__(cls, *given)

    monkeypatch.setattr("lance_spark.disk_usage.holder_rules.frozenset", Counted, raising=False)
    holders = holders_of(many(MANY))
    keys = ("data/a", "data/b")
    rows = [{"chain": at, "key": key, "local": key, "first": 0, "last": 0} for at in range(MANY) for key in keys]
    before = len(made)
    found = _needed(pa.Table.from_pylist(rows, MARKS), holders)
    assert found["data/a"] == found["data/b"]
    assert len(found["data/a"]) >= MANY
    assert len(made) - before == MANY + 1  # one for each span, and one for both files
