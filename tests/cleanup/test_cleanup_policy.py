"""What a policy asks for: its defaults, its rules by branch and tag, and the values it refuses."""

from datetime import timedelta

import pytest
from support.cleanup_surveys import chain, fork, survey

from lance_spark.cleanup.retention_rules import (
    DEFAULT_OLDER_THAN,
    DEFAULT_UNVERIFIED_AGE,
    CleanupPolicy,
    VersionRule,
    parse_policy,
    unused_rules,
)
from lance_spark.errors import InvalidOption

pytestmark = pytest.mark.pure

TWO_WEEKS = VersionRule(older_than=timedelta(days=14))
DAY = timedelta(days=1)


def test_without_any_rule_versions_older_than_two_weeks_go_on_every_branch():
    assert (timedelta(days=14), timedelta(days=7)) == (DEFAULT_OLDER_THAN, DEFAULT_UNVERIFIED_AGE)
    assert CleanupPolicy().rule_for(None) == CleanupPolicy().rule_for("exp/a") == TWO_WEEKS
    assert CleanupPolicy(delete_unverified=True).rule_for(None) == TWO_WEEKS


@pytest.mark.parametrize(
    "given", [{"older_than": timedelta(0)}, {"before_version": 5}, {"retain_versions": 1}, {"versions": frozenset({3})}]
)
def test_any_rule_that_is_given_takes_the_place_of_the_default(given):
    assert CleanupPolicy(**given).rule_for(None) == VersionRule(**given)


@pytest.mark.parametrize("numbers", [{"before_version": 5}, {"versions": frozenset({3})}])
@pytest.mark.parametrize("more", [{}, {"older_than": DAY}, {"retain_versions": 2}])
def test_a_rule_with_version_numbers_leaves_branches_alone(numbers, more):
    policy = CleanupPolicy(**numbers, **more)
    assert policy.rule_for(None) == VersionRule(**numbers, **more)
    assert policy.rule_for("dev") is None


def test_a_rule_for_a_branch_may_name_version_numbers():
    rule = VersionRule(before_version=7)
    policy = CleanupPolicy(versions=frozenset({1}), branches={"dev": rule})
    assert policy.rule_for("dev") == rule
    assert policy.rule_for("dev2") is None


@pytest.mark.parametrize(
    ("branch", "days"),
    [("exp/a", 1), ("exp/a/b", 1), ("exp/keep", 1), ("exp", 3), ("EXP/a", 3), ("other", 3), (None, 9), ("mainly", 3)],
)
def test_the_first_pattern_that_matches_a_branch_counts(branch, days):
    rules = {"exp/*": 1, "exp/keep": 2, "main": 9, "*": 3}
    policy = CleanupPolicy(branches={name: VersionRule(older_than=days * DAY) for name, days in rules.items()})
    assert policy.rule_for(branch) == VersionRule(older_than=days * DAY)


def test_a_branch_that_no_pattern_matches_follows_the_rule_for_all():
    policy = CleanupPolicy(retain_versions=4, branches={"exp/?": VersionRule(older_than=DAY)})
    assert policy.rule_for("exp/ab") == policy.rule_for(None) == VersionRule(retain_versions=4)


def test_an_empty_rule_for_a_branch_is_the_default_and_not_a_rule_that_every_version_meets():
    assert CleanupPolicy(older_than=DAY, branches={"exp/*": VersionRule()}).rule_for("exp/a") == TWO_WEEKS


@pytest.mark.parametrize(
    ("tag", "default", "choice"),
    [
        ("release-1", True, "keep"),
        ("release-x", True, "keep"),
        ("nightly", False, "error"),
        ("Release-1", True, "error"),
        ("other", True, "error"),
        ("other", False, "keep"),
    ],
)
def test_tags_are_told_by_the_first_pattern_that_matches(tag, default, choice):
    rules = {"release-*": "keep", "release-x": "error", "night*": "error"}
    assert CleanupPolicy(error_if_tagged_old_versions=default, tags=rules).on_tagged(tag) == choice


@pytest.mark.parametrize("choice", ["Keep", "kep", "delete", "", None, True])
def test_a_misspelt_rule_for_tags_is_refused_lest_tagged_versions_are_neither_kept_nor_an_error(choice):
    with pytest.raises(InvalidOption, match=r"v\*"):
        CleanupPolicy(tags={"v*": choice})


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"older_than": -DAY}, "older_than"),
        ({"before_version": 0}, "before_version"),
        ({"retain_versions": 0}, "retain_versions"),
        ({"retain_versions": -3}, "retain_versions"),
        ({"versions": frozenset()}, "versions"),
    ],
)
def test_what_cannot_be_meant_is_refused_for_the_dataset_and_for_a_branch(given, word):
    with pytest.raises(InvalidOption, match=word):
        CleanupPolicy(**given)
    with pytest.raises(InvalidOption, match=word):
        VersionRule(**given)


def test_a_negative_unverified_age_is_refused():
    with pytest.raises(InvalidOption, match="unverified_age"):
        CleanupPolicy(unverified_age=-DAY)


def test_versions_may_be_given_as_any_collection():
    assert CleanupPolicy(versions=[3, 5, 3]).versions == frozenset({3, 5})


@pytest.mark.parametrize("field", ["clones", "clones_from", "known_bases"])
def test_one_place_is_one_place(field):
    assert getattr(CleanupPolicy(**{field: "s3://lake/clone"}), field) == ("s3://lake/clone",)


@pytest.mark.parametrize("field", ["older_than", "commit_window", "undo_window", "unverified_age"])
def test_spans_may_be_text_as_in_policy_files(field):
    """A text was compared with a timedelta: Python's own TypeError."""
    assert getattr(CleanupPolicy(**{field: "36h"}), field) == timedelta(hours=36)
    for wrong in ("36", "-1d", "soon", 36):
        with pytest.raises(InvalidOption, match=field):
            CleanupPolicy(**{field: wrong})


def test_a_span_of_a_branch_may_be_text():
    assert VersionRule(older_than="0s") == VersionRule(older_than=timedelta(0))
    with pytest.raises(InvalidOption, match="older_than"):
        VersionRule(older_than=14)


def test_a_rule_for_a_branch_or_a_tag_that_is_not_there_is_warned_of():
    known = survey(chain(), chain("exp/a"), branches=[fork("exp/a", 1)], tags=[("v1", None, 2)])
    rules = dict.fromkeys(["main", "archiv", "exp/*", "exp/a", "old/*"], VersionRule(retain_versions=9))
    policy = CleanupPolicy(branches=rules, tags={"v*": "keep", "v1": "error", "v2": "error"})
    assert list(unused_rules(known, policy)) == [
        "The policy's rule for branch 'archiv' matches no branch.",
        "The policy's rule for branch 'exp/a' never applies: 'exp/*' before it matches first.",
        "The policy's rule for branch 'old/*' matches no branch.",
        "The policy's rule for tag 'v1' never applies: 'v*' before it matches first.",
        "The policy's rule for tag 'v2' matches no tag.",
    ]
    assert not list(unused_rules(known, CleanupPolicy()))


@pytest.mark.parametrize(
    "text", ['[cleanup]\nolder_than = "1d"', '[tables."a.*"]\nskip = ["cleanup"]', 'skip = ["fsck"]']
)
def test_the_policy_of_a_maintenance_is_not_that_of_a_cleanup(text):
    """The hint was a setting with a similar name."""
    with pytest.raises(InvalidOption, match="belongs to the policy of a maintenance") as refused:
        parse_policy(text)
    assert "below [cleanup]" in refused.value.hint
