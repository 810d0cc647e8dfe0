"""A policy file says what the policy is, and a misspelt key never means the default."""

from datetime import timedelta
from pathlib import Path

import pytest

from lance_spark.cleanup.retention_rules import CleanupPolicy, VersionRule, parse_policy
from lance_spark.errors import InvalidOption

pytestmark = pytest.mark.pure

EXAMPLE = Path(__file__).parents[2] / "conf" / "cleanup-policy.toml"


def test_the_example_is_the_policy_it_describes():
    assert parse_policy(EXAMPLE.read_text()) == CleanupPolicy(
        older_than=timedelta(days=14),
        retain_versions=10,
        keep_fork_versions=True,
        unverified_age=timedelta(days=7),
        delete_unverified=False,
        error_if_tagged_old_versions=False,
        clones=("s3://my-bucket/flights-copy.lance",),
        clones_from=("s3://my-bucket/sandboxes",),
        known_bases=("s3://my-bucket/archive.lance",),
        branches={
            "exp/*": VersionRule(older_than=timedelta(days=2), retain_versions=1),
            "backfill": VersionRule(before_version=120),
            "import/2013": VersionRule(versions=frozenset({3, 4, 7})),
        },
        tags={"release-*": "error", "nightly-*": "keep"},
    )


def test_an_empty_file_is_the_default_policy():
    assert parse_policy("") == CleanupPolicy()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("older_then = '3d'", ("older_then", "Did you mean 'older_than'?")),
        ("older_than = 3", ("older_than", "14d")),
        ("older_than = 'soon'", ("older_than", "14d")),
        ("retain_versions = '3'", ("retain_versions", "a number")),
        ("retain_versions = true", ("retain_versions", "a number")),
        ("retain_versions = 0", ("retain_versions",)),
        ("versions = []", ("versions",)),
        ("versions = ['a']", ("versions",)),
        ("clones = 3", ("clones", "a list of texts")),
        ("delete_unverified = 'yes'", ("delete_unverified", "true or false")),
        ("on_tagged = 'ignore'", ("on_tagged", "keep")),
        ("[tags]\n'a*' = 1", ("tags.a*",)),
        ("branches = 3", ("branches", "a table")),
        ("[branches.main]\nolder = '1d'", ("older", "older_than")),
        ("[branches.main]\nunverified_age = '1d'", ("unverified_age",)),
        ("[branches.main]\nolder_than = '-1d'", ("branches.main.older_than",)),
        ("older_than = ", ("not TOML",)),
    ],
)
def test_a_bad_file_is_refused_with_the_key(text, words):
    with pytest.raises(InvalidOption) as caught:
        parse_policy(text)
    assert all(word in str(caught.value) for word in words), caught.value


def test_one_text_stands_for_a_list_of_one():
    assert parse_policy("clones = 's3://lake/clone'").clones == ("s3://lake/clone",)
