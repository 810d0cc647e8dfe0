"""Versions that stay because a branch asks for it, or because a tag or a branch may be restored."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from support.cleanup_surveys import DAY, NOW, chain, fork, survey

from lance_spark.cleanup.plan_rules import _read_survey, _survey
from lance_spark.cleanup.retention_rules import CleanupPolicy, RunClock, judge
from lance_spark.cleanup.sweep_rules import newly_live
from lance_spark.core.lifetimes import RETAIN_VERSIONS, read_lifetime
from lance_spark.core.records.reflog import BRANCH, DELETED, DONE, FORGOTTEN, TAG, RefChange, TagState
from lance_spark.core.refs import PinnedVersion

pytestmark = pytest.mark.pure

CLOCK = RunClock(NOW)
EVERYTHING = CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(0))
NUMBERS = (1, 2, 3, 4, 5)


def kept(seen, policy=EVERYTHING):
    verdicts = judge(seen, policy, CLOCK, {})
    return {
        each.name: [file.version for file, stays in zip(each.files, verdict.kept, strict=True) if stays]
        for each, verdict in zip(seen.chains, verdicts, strict=True)
    }


def asking(text):
    """A dataset whose main and branch ``a`` ask for so many versions."""
    branch = replace(fork("a", 99), metadata={RETAIN_VERSIONS: text})
    seen = survey(chain(versions=NUMBERS), chain("a", NUMBERS), chain("b", NUMBERS), branches=[branch, fork("b", 99)])
    return replace(seen, refs=replace(seen.refs, main=read_lifetime({RETAIN_VERSIONS: text})))


@pytest.mark.parametrize(
    ("text", "policy", "expected"),
    [
        ("3", EVERYTHING, [3, 4, 5]),
        ("3", replace(EVERYTHING, retain_versions=2), [3, 4, 5]),
        ("3", replace(EVERYTHING, retain_versions=4), [2, 3, 4, 5]),
        ("1", EVERYTHING, [5]),
        ("99", EVERYTHING, [1, 2, 3, 4, 5]),
        ("not a number", EVERYTHING, [1, 2, 3, 4, 5]),
    ],
)
def test_a_policy_never_removes_more_than_the_branch_allows(text, policy, expected):
    found = kept(asking(text), policy)
    assert found["main"] == found["a"] == expected
    assert len(found["b"]) == (policy.retain_versions or 1)


def test_a_branch_that_asks_for_more_since_the_plan_is_heard():
    before, after = asking("1"), asking("3")
    verdicts = judge(before, EVERYTHING, CLOCK, {})
    spans = {after.chains[span.chain].name: span.positions for span in newly_live(before, after, verdicts)}
    assert spans == {"main": (2, 3), "a": (2, 3)}


def change(days, *, tag=None, branch=None, state=DONE):
    when = datetime.fromtimestamp((NOW - days * DAY) / 1e9, timezone.utc)
    if branch is None:
        return RefChange("1", when, TAG, "v1", DELETED, TagState(PinnedVersion(*tag)), state=state)
    parent, version = branch
    name = "null" if parent is None else f'"{parent}"'
    ref = f'{{"parentBranch": {name}, "parentVersion": {version}, "createAt": 1}}'
    return RefChange("1", when, BRANCH, "gone", DELETED, head=PinnedVersion("gone", 3), ref_file=ref, state=state)


@pytest.mark.parametrize(
    ("recorded", "window", "main", "branch"),
    [
        (change(6, tag=(None, 2)), 7, [2, 5], [5]),
        (change(6, tag=("a", 2)), 7, [5], [2, 5]),
        (change(8, tag=(None, 2)), 7, [5], [5]),
        (change(8, tag=(None, 2)), 9, [2, 5], [5]),
        (change(0, tag=(None, 2)), 0, [5], [5]),
        (change(6, branch=(None, 3)), 7, [3, 5], [5]),
        (change(6, branch=("a", 3)), 7, [5], [3, 5]),
        (change(8, branch=(None, 3)), 7, [5], [5]),
        (change(1, branch=(None, 3), state=FORGOTTEN), 7, [5], [5]),
    ],
)
def test_what_can_be_restored_stays_for_the_window(recorded, window, main, branch):
    seen = survey(chain(versions=NUMBERS), chain("a", NUMBERS), branches=[fork("a", 99)])
    seen = replace(seen, changes=(recorded,))
    found = kept(seen, replace(EVERYTHING, undo_window=timedelta(days=window)))
    assert (found["main"], found["a"]) == (main, branch)


def test_a_tag_that_came_and_went_since_the_plan_saves_its_version():
    before = survey(chain(versions=NUMBERS))
    verdicts = judge(before, EVERYTHING, CLOCK, {})
    after = replace(before, changes=(change(0, tag=(None, 2)),))
    assert [span.positions for span in newly_live(before, after, verdicts)] == [(1,)]
    assert newly_live(after, after, verdicts) == []


def test_a_stored_plan_remembers_which_changes_it_knew():
    seen = replace(survey(chain(versions=NUMBERS)), changes=(change(1, tag=(None, 2)),))
    assert _read_survey(_survey(seen), seen.location).changes == seen.changes
