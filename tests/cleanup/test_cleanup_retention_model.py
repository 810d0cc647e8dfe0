"""Which versions stay: against a plain reading of the rules, one version at a time."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cleanup_surveys import DAY, HOUR, NOW, chain, fork, manifest, survey

from lance_spark.cleanup.retention_rules import CleanupPolicy, RunClock, VersionRule, judge, positions_of_unknown_age
from lance_spark.errors import Refused

pytestmark = pytest.mark.pure

CLOCK = RunClock(NOW)
BRANCHES = (None, "a", "a/b", "z")
RULES = st.builds(
    VersionRule,
    st.none() | st.integers(0, 6).map(lambda days: timedelta(days=days)),
    st.none() | st.integers(1, 8),
    st.none() | st.integers(1, 5),
    st.none() | st.frozensets(st.integers(0, 8), min_size=1),
).filter(lambda rule: not rule.is_empty)


@st.composite
def worlds(draw):
    """A survey, what is inside the manifests, and a policy with one rule for each branch."""
    chains, times = [], {}
    for index, (branch, repository) in enumerate([*((branch, 0) for branch in BRANCHES), (None, 1)]):
        numbers = sorted(draw(st.sets(st.integers(1, 8), min_size=1)))
        times[index] = [NOW - draw(st.integers(-2, 7 * 24)) * HOUR for _ in numbers]
        # The clock of the store is behind that of the writer by less than the margin, or the file was copied later.
        late = [draw(st.sampled_from([-HOUR + 1, 0, 1, DAY])) for _ in numbers]
        files = [manifest(number, time + more) for number, time, more in zip(numbers, times[index], late, strict=True)]
        detached = [manifest(2**63)] if draw(st.booleans()) else []
        chains.append(chain(branch, files, repository, has_ref=branch != "z", detached=detached))
    numbers = st.integers(1, 8)
    branches = [fork("a", draw(numbers)), fork("a/b", draw(numbers), draw(st.sampled_from([None, "a"])))]
    tags = [
        (name, draw(st.sampled_from([None, "a", "a/b"])), draw(numbers))
        for name in draw(st.sets(st.sampled_from("tuv")))
    ]
    rules = {branch or "main": draw(RULES) for branch in BRANCHES}
    policy = CleanupPolicy(
        branches=rules,
        commit_window=timedelta(hours=draw(st.sampled_from([0, 1, 12, 24, 72]))),
        error_if_tagged_old_versions=draw(st.booleans()),
        keep_fork_versions=draw(st.booleans()),
    )
    return survey(*chains, branches=branches, tags=tags), times, policy


def goes_by_rule(rule, numbers, times, at):
    """Whether a version meets every condition of a rule, read one after the other."""
    newer = len(numbers) - 1 - at
    if rule.older_than is not None and not times[at] < NOW - rule.older_than.days * DAY:
        return False
    if rule.before_version is not None and not numbers[at] < rule.before_version:
        return False
    if rule.retain_versions is not None and newer < rule.retain_versions:
        return False
    return rule.versions is None or numbers[at] in rule.versions


def first_needed(files, times, window):
    """Where the versions begin that jobs may need: the newest one before those that look younger than the window."""
    begin = NOW - window // timedelta(hours=1) * HOUR
    young = [at for at, file in enumerate(files) if max(file.modified_ns, times[at]) >= begin]
    return max(0, young[0] - 1) if window and young else len(files)


def expected(seen, times, policy):
    """What stays by root, and whether a tag forbids the run."""
    kept, forbidden = [], False
    for index, each in enumerate(seen.chains):
        numbers = [file.version for file in each.versions]
        tagged = {tag.version for tag in seen.refs.tags.values() if tag.branch == each.branch}
        forks = {branch.parent_version for branch in seen.refs.branches.values() if branch.parent_branch == each.branch}
        stays, needed = [], first_needed(each.versions, times[index], policy.commit_window)
        for at, number in enumerate(numbers):
            untouchable = each.repository == 1 or not each.has_ref or at == len(numbers) - 1 or at >= needed
            late = each.versions[at].modified_ns >= NOW
            if untouchable or late or not goes_by_rule(policy.branches[each.name], numbers, times[index], at):
                stays.append(True)
                continue
            forbidden = forbidden or (number in tagged and policy.error_if_tagged_old_versions)
            stays.append(number in tagged or (policy.keep_fork_versions and number in forks))
        kept.append((*stays, *(True for _ in each.detached)))
    return kept, forbidden


@given(worlds())
def test_versions_are_judged_as_a_plain_reading_of_the_rules_says(world):
    seen, times, policy = world
    unknown = positions_of_unknown_age(seen, policy, CLOCK)
    ages = {index: {at: times[index][at] for at in positions} for index, positions in unknown.items()}
    kept, forbidden = expected(seen, times, policy)
    if forbidden:
        with pytest.raises(Refused):
            judge(seen, policy, CLOCK, ages)
        return
    verdicts = judge(seen, policy, CLOCK, ages)
    assert [verdict.kept for verdict in verdicts] == kept
    for verdict in verdicts:
        assert verdict.removed == tuple(at for at, stays in enumerate(verdict.kept) if not stays)
        assert sum(verdict.reasons.values()) == sum(verdict.kept)


@given(worlds())
def test_reading_more_manifests_than_needed_changes_no_verdict(world):
    seen, times, policy = world
    policy = replace(policy, error_if_tagged_old_versions=False)
    some = {
        index: {at: times[index][at] for at in positions}
        for index, positions in positions_of_unknown_age(seen, policy, CLOCK).items()
    }
    every = {index: dict(enumerate(stamps)) for index, stamps in times.items()}
    # Only what the report calls the reason may differ: young manifests that stay anyway are not read for it.
    kept = [[verdict.kept for verdict in judge(seen, policy, CLOCK, ages)] for ages in (some, every)]
    assert kept[0] == kept[1]
