"""Lifetimes of branches and tags on real datasets: pylance keeps them, expiry and cleanup obey them."""

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pytest
from support.cleanup_datasets import clean
from support.local_datasets import contents, ids, make_dataset, numbers, write

from lance_spark import LanceTable
from lance_spark.core.lifetimes import Lifetime
from lance_spark.core.refs import RefSpec
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.maintenance import expiry
from lance_spark.maintenance import expiry_rules as rules
from lance_spark.maintenance.expiry import carry_out, plan_expiry
from lance_spark.refs.refs import create_branch, create_tag, find_branch, find_tag, move_tag, rename_branch
from lance_spark.storage import refs
from lance_spark.storage.datasets import locate

AT_ONCE = rules.ExpiryOptions(warn=timedelta(0))


@pytest.fixture
def table(uri):
    make_dataset(uri, numbers(3), numbers(2, 3))
    return LanceTable.for_path(uri)


def later(days):
    return datetime.now(timezone.utc) + timedelta(days=days)


def states(plan):
    return {entry.record.name: entry.state for entry in plan.entries}


def outcomes(report):
    return {outcome.name: outcome.outcome for outcome in report.outcomes}


def branches_of(uri):
    return set(lance.dataset(uri).branches.list())


def test_pylance_keeps_what_refs_say_whatever_it_does_to_them(table, uri):
    table.branches.create("exp", expire_after="30d", retain_versions=3, owner="ml", protected=False)
    table.tags.create("rc", expire_after=timedelta(days=5), owner="qa")
    dataset = lance.dataset(uri)
    dataset.tags.update("rc", 1)
    dataset.create_branch("child", ("exp", 2))
    dataset.branches.replace_metadata("exp", {**dataset.branches.list()["exp"]["metadata"], "theirs": "x"})
    lance.write_dataset(numbers(1, 9), f"{uri}/tree/exp", mode="append")
    dataset.cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    assert find_branch(table.location, "exp").lifetime == Lifetime(timedelta(days=30), 3, "ml", False)
    assert find_tag(table.location, "rc").lifetime == Lifetime(timedelta(days=5), None, "qa")
    assert find_branch(table.location, "child").lifetime == Lifetime()
    assert lance.dataset(uri).branches.list()["exp"]["metadata"]["theirs"] == "x"


def test_what_is_said_of_main_is_no_version_and_not_inherited(table, uri, tmp_path):
    before = lance.dataset(uri).version
    assert table.branches.alter("main", protected=True, owner="data") == Lifetime(owner="data", protected=True)
    assert lance.dataset(uri).version == before
    table.branches.create("exp")
    assert find_branch(table.location, "exp").lifetime == Lifetime()
    clone = table.clone(str(tmp_path / "clone"))
    assert clone.branches.alter("main", owner="x") == Lifetime(owner="x")
    clean(uri, older_than=timedelta(0))
    assert table.branches.alter("main", protected=False) == Lifetime(owner="data")
    with pytest.raises(Refused, match="cannot expire"):
        table.branches.alter("main", expire_after="1d")


def test_altering_what_is_not_there_or_cannot_be(table):
    table.tags.create("v1")
    with pytest.raises(NotFound, match="exp"):
        table.branches.alter("exp", owner="x")
    with pytest.raises(NotFound, match="v2"):
        table.tags.alter("v2", owner="x")
    with pytest.raises(InvalidOption):
        table.branches.create("exp", expire_after="never")
    with pytest.raises(InvalidOption):
        table.tags.create("v3", expire_after="0d")
    assert table.branches.list() == []
    assert [tag.name for tag in table.tags.list()] == ["v1"]


def test_a_renamed_branch_keeps_its_lifetime(table):
    table.branches.create("exp", expire_after="30d", owner="ml")
    rename_branch(table.location, "exp", "new")
    assert find_branch(table.location, "new").lifetime == Lifetime(timedelta(days=30), None, "ml")


def test_refs_are_warned_of_and_then_go(table, uri):
    table.branches.create("exp", expire_after="30d")
    table.branches.create("child", branch="exp", expire_after="30d")
    table.tags.create("rc", branch="exp", expire_after="30d")
    table.branches.create("stays")
    before = contents(uri)
    location = table.location
    first = plan_expiry(location, later(40))
    assert states(first) == {"child": rules.WARN, "exp": rules.WARN, "rc": rules.WARN, "stays": "kept"}
    assert contents(uri) == before
    assert outcomes(carry_out(location, first, later(40))) == {"child": rules.TOLD, "exp": rules.TOLD, "rc": rules.TOLD}
    assert carry_out(location, plan_expiry(location, later(46)), later(46)).outcomes == ()
    last = rules.from_document(json.loads(plan_expiry(location, later(48)).to_json()))
    report = carry_out(location, last, later(48))
    assert report.complete
    assert [outcome.name for outcome in report.of(rules.DELETED)] == ["rc", "child", "exp"]
    assert branches_of(uri) == {"stays"}
    assert lance.dataset(uri).tags.list() == {}
    assert not os.path.exists(f"{uri}/tree/exp")
    assert ids(uri) == [0, 1, 2, 3, 4]


def test_the_verb_of_the_table_changes_nothing_unless_told(table):
    table.branches.create("exp", expire_after="1s")
    assert states(table.expire_refs(warn="1d"))["exp"] == rules.WARN
    assert outcomes(table.expire_refs(warn="1d").apply()) == {"exp": rules.TOLD}
    assert states(table.expire_refs(warn="1d"))["exp"] == "warned of"


def test_a_new_commit_gives_a_branch_another_end(table, uri):
    table.branches.create("exp", expire_after="30d")
    location = table.location
    carry_out(location, plan_expiry(location, later(40)), later(40))
    assert states(plan_expiry(location, later(48)))["exp"] == rules.EXPIRED
    write(uri, numbers(1, 100), branch="exp")
    (entry,) = plan_expiry(location, later(48)).entries
    assert entry.state == rules.WARN
    assert "1 of its versions are not in main" in entry.why


@pytest.mark.parametrize("merged_into", ["main", "parent"])
def test_a_branch_goes_once_its_changes_are_elsewhere(table, uri, merged_into):
    table.branches.create("parent")
    table.branches.create("exp", branch="parent", expire_after="1d")
    write(uri, numbers(1, 100), branch="exp")
    plan = plan_expiry(table.location, later(2), AT_ONCE)
    assert states(plan)["exp"] == rules.UNMERGED
    assert carry_out(table.location, plan, later(2)).outcomes == ()
    table.branches.merge("exp", into=merged_into)
    assert outcomes(carry_out(table.location, plan_expiry(table.location, later(2), AT_ONCE), later(2))) == {
        "exp": rules.DELETED
    }
    assert 100 in ids(uri, branch=merged_into)


def test_force_takes_unmerged_changes_with_it(table, uri):
    table.branches.create("exp", expire_after="1d")
    write(uri, numbers(1, 100), branch="exp")
    forced = plan_expiry(table.location, later(2), rules.ExpiryOptions(timedelta(0), force=True))
    assert outcomes(carry_out(table.location, forced, later(2))) == {"exp": rules.DELETED}
    assert branches_of(uri) == set()


def test_a_branch_whose_own_history_was_cleaned_up_is_not_taken_for_merged(table, uri):
    """Its newest version only adds an index; what it changed before is gone from the history, not from the rows."""
    table.branches.create("exp", expire_after="1d")
    write(uri, numbers(1, 100), branch="exp")
    lance.dataset(f"{uri}/tree/exp").create_scalar_index("id", "BTREE")
    assert states(plan_expiry(table.location, later(2), AT_ONCE))["exp"] == rules.UNMERGED
    for manifest in sorted(Path(f"{uri}/tree/exp/_versions").glob("*.manifest"))[1:]:  # names count downwards
        manifest.unlink()
    assert 100 in ids(uri, branch="exp")
    (entry,) = plan_expiry(table.location, later(2), AT_ONCE).entries
    assert entry.state == rules.UNMERGED
    assert "cleaned up" in entry.why


def test_what_something_needs_stays_and_is_named(table, uri, tmp_path):
    table.branches.create("cloned", expire_after="1d")
    table.checkout(branch="cloned").clone(str(tmp_path / "clone"))
    table.branches.create("guarded", expire_after="1d", protected=True)
    table.branches.create("forked", expire_after="1d")
    table.branches.create("child", branch="forked")
    plan = plan_expiry(table.location, later(2), AT_ONCE)
    assert plan.expired == ()
    assert {entry.record.name: bool(entry.why) for entry in plan.entries if entry.record.name == "forked"}["forked"]
    assert states(plan) | {"child": "kept"} == {
        **{tag.name: "kept" for tag in table.tags.list(all=True)},
        "cloned": "needed",
        "guarded": "protected",
        "forked": "needed",
        "child": "kept",
    }
    assert carry_out(table.location, plan, later(2)).outcomes == ()


def test_what_changed_since_the_plan_stays(table, uri):
    location = table.location
    for name in ("written", "altered", "tagged", "forked", "guarded", "made-again"):
        table.branches.create(name, expire_after="1d")
    for name in ("moved", "gone"):
        table.tags.create(name, expire_after="1d")
    plan = plan_expiry(location, later(2), AT_ONCE)
    assert len(plan.expired) == 8
    write(uri, numbers(1, 100), branch="written")
    table.branches.alter("altered", expire_after="60d")
    create_tag(location, "new", RefSpec(branch="tagged"))
    create_branch(location, "new-child", RefSpec(branch="forked"))
    table.branches.alter("guarded", protected=True)
    table.branches.delete("made-again")
    table.branches.create("made-again", expire_after="1d")
    move_tag(location, "moved", RefSpec(version=1))
    table.tags.delete("gone")
    report = carry_out(location, plan, later(2))
    assert set(outcomes(report).values()) == {rules.STAYED}
    assert all(outcome.why for outcome in report.outcomes)
    assert branches_of(uri) == {"written", "altered", "tagged", "forked", "guarded", "made-again", "new-child"}


@pytest.mark.parametrize("racing", ["commit", "tag", "child"])
def test_whoever_comes_while_a_branch_is_deleted_saves_it(table, uri, monkeypatch, racing):
    """The last look is taken once the ref file is gone: until then a commit, a tag or a branch may come."""
    location = table.location
    table.branches.create("exp", expire_after="1d")
    plan = plan_expiry(location, later(2), AT_ONCE)
    drop = expiry.drop_branch

    def slow(location, name, check):
        if racing == "commit":
            lance.write_dataset(numbers(1, 100), f"{uri}/tree/exp", mode="append")
        elif racing == "tag":
            lance.dataset(uri).tags.create("late", ("exp", None))
        else:
            lance.dataset(uri).create_branch("late", ("exp", None))
        drop(location, name, check)

    monkeypatch.setattr(expiry, "drop_branch", slow)
    assert outcomes(carry_out(location, plan, later(2))) == {"exp": rules.STAYED}
    assert "exp" in branches_of(uri)
    assert ids(uri, branch="exp")[-1] == (100 if racing == "commit" else 4)


def test_a_plan_is_for_its_dataset_only(table, tmp_path):
    other = str(tmp_path / "other.lance")
    make_dataset(other)
    with pytest.raises(InvalidOption, match="other"):
        carry_out(locate(other), plan_expiry(table.location, later(1)), later(1))


def test_cleanup_keeps_as_many_versions_as_a_branch_asks_for(table, uri):
    table.branches.create("exp", retain_versions=3)
    table.branches.create("plain")
    table.branches.alter("main", retain_versions=2)
    for number in range(5):
        for branch in (None, "exp", "plain"):
            write(uri, numbers(1, 100 + number), **({"branch": branch} if branch else {}))
    clean(uri, older_than=timedelta(0))
    versions = {
        branch: [entry["version"] for entry in lance.dataset(f"{uri}/tree/{branch}").versions()]
        for branch in ("exp", "plain")
    }
    assert versions == {"exp": [5, 6, 7], "plain": [7]}
    # Version 2 is what the branches were made from.
    assert [entry["version"] for entry in lance.dataset(uri).versions()] == [2, 6, 7]
    assert ids(uri, branch="exp", version=5) == [0, 1, 2, 3, 4, 100, 101, 102]


def test_what_another_tool_wrote_and_nobody_understands_keeps_everything(table, uri):
    table.branches.create("exp", expire_after="1d")
    metadata = {"lance_spark.expire_after": "soon", "lance_spark.retain_versions": "few"}
    refs.replace_metadata(table.location, "exp", metadata)
    write(uri, numbers(1, 100), branch="exp")
    clean(uri, older_than=timedelta(0))
    assert len(lance.dataset(f"{uri}/tree/exp").versions()) == 2
    (entry,) = plan_expiry(table.location, later(1000), rules.ExpiryOptions(timedelta(0), force=True)).entries
    assert entry.state == "not known"
