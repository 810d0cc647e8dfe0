"""A cleanup policy from TOML. Every key is checked: a misspelt key would silently mean the default."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from lance_spark.cleanup.policy import CleanupPolicy, VersionRule
from lance_spark.errors import InvalidOption
from lance_spark.options.text import check_known, to_span

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_RULE = ("older_than", "before_version", "retain_versions", "versions")
_LISTS = ("clones", "clones_from", "known_bases")
_FLAGS = ("delete_unverified", "keep_fork_versions")
_SPANS = ("commit_window", "undo_window", "unverified_age")
_KNOWN = (*_RULE, *_LISTS, *_FLAGS, *_SPANS, "on_tagged", "branches", "tags")


def parse_policy(text: str) -> CleanupPolicy:
    """The policy that a TOML file describes; conf/cleanup-policy.toml shows all keys.

    Raises InvalidOption, naming the key, for text that is not TOML, an unknown key or a bad value.
    """
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InvalidOption(f"The policy file is no TOML: {problem}.") from None
    check_known(given, _KNOWN, "the cleanup policy of")
    values: dict[str, Any] = {**_rule(given, "")}
    values |= {name: tuple(_strings(name, given[name])) for name in _LISTS if name in given}
    values |= {name: _typed(name, given[name], bool, "true or false") for name in _FLAGS if name in given}
    values |= {name: _span(name, given[name]) for name in _SPANS if name in given}
    if "on_tagged" in given:
        values["error_if_tagged_old_versions"] = _choice("on_tagged", given["on_tagged"]) == "error"
    branches = _typed("branches", given.get("branches", {}), dict, "a table")
    values["branches"] = {pattern: _branch_rule(pattern, rule) for pattern, rule in branches.items()}
    tags = _typed("tags", given.get("tags", {}), dict, "a table")
    values["tags"] = {pattern: _choice(f"tags.{pattern}", choice) for pattern, choice in tags.items()}
    return CleanupPolicy(**values)


def _branch_rule(pattern: str, rule: object) -> VersionRule:
    table = _typed(f"branches.{pattern}", rule, dict, "a table")
    check_known(table, _RULE, f"branch '{pattern}' in the cleanup policy of")
    return VersionRule(**_rule(table, f"branches.{pattern}."))


def _rule(given: Mapping[str, object], where: str) -> dict[str, Any]:
    readers: dict[str, Callable[[str, object], Any]] = {
        "older_than": _span,
        "before_version": lambda name, value: _typed(name, value, int, "a number"),
        "retain_versions": lambda name, value: _typed(name, value, int, "a number"),
        "versions": _numbers,
    }
    return {name: read(where + name, given[name]) for name, read in readers.items() if name in given}


def _span(name: str, value: object) -> timedelta:
    return to_span(name, _typed(name, value, str, 'a span such as "14d"'))


def _numbers(name: str, value: object) -> frozenset[int]:
    return frozenset(_typed(name, number, int, "a list of numbers") for number in _typed(name, value, list, "a list"))


def _strings(name: str, value: object) -> list[str]:
    return [_typed(name, text, str, "a list of texts") for text in _typed(name, value, list, "a list of texts")]


def _choice(name: str, value: object) -> str:
    if value in ("error", "keep"):
        return str(value)
    raise InvalidOption(f"'{name}' in the cleanup policy is {value!r}.", hint='Write "error" or "keep".')


def _typed(name: str, value: object, kind: type, example: str) -> Any:
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise InvalidOption(f"'{name}' in the cleanup policy is {value!r}.", hint=f"Write {example}.")
