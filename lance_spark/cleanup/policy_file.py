"""A cleanup policy from TOML. Every key is checked: a misspelt key would silently mean the default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lance_spark.cleanup.policy import CleanupPolicy, VersionRule
from lance_spark.options.sections import Section, read_toml

_RULE = ("older_than", "before_version", "retain_versions", "versions")
_LISTS = ("clones", "clones_from", "known_bases")
_FLAGS = ("delete_unverified", "keep_fork_versions")
_SPANS = ("commit_window", "undo_window", "unverified_age")
_KNOWN = (*_RULE, *_LISTS, *_FLAGS, *_SPANS, "on_tagged", "branches", "tags")
_ON_TAGGED = ("error", "keep")


def parse_policy(text: str) -> CleanupPolicy:
    """The policy that a TOML file describes; conf/cleanup-policy.toml shows all keys.

    Raises InvalidOption, naming the key, for text that is not TOML, an unknown key or a bad value.
    """
    return policy_of(read_toml(text))


def policy_of(given: Mapping[str, Any], place: str = "") -> CleanupPolicy:
    """The policy that the tables of a TOML file describe. ``place`` is the name of the table, with a dot behind it."""
    policy = Section(given, "the cleanup policy", place)
    policy.check(_KNOWN)
    values: dict[str, Any] = {**_rule(policy)}
    values |= {name: policy.texts(name) for name in _LISTS if name in policy}
    values |= {name: policy.flag(name) for name in _FLAGS if name in policy}
    values |= {name: policy.span(name) for name in _SPANS if name in policy}
    if "on_tagged" in policy:
        values["error_if_tagged_old_versions"] = policy.choice("on_tagged", _ON_TAGGED) == "error"
    branches, tags = policy.section("branches"), policy.section("tags")
    values["branches"] = {pattern: _branch_rule(branches, pattern) for pattern in branches.given}
    values["tags"] = {pattern: tags.choice(pattern, _ON_TAGGED) for pattern in tags.given}
    return CleanupPolicy(**values)


def _branch_rule(branches: Section, pattern: str) -> VersionRule:
    rule = branches.section(pattern)
    rule.check(_RULE, f"branch '{pattern}' in ")
    return VersionRule(**_rule(rule))


def _rule(section: Section) -> dict[str, Any]:
    readers = {
        "older_than": section.span,
        "before_version": section.number,
        "retain_versions": section.number,
        "versions": section.numbers,
    }
    return {name: read(name) for name, read in readers.items() if name in section}
