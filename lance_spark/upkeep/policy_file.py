"""A maintenance policy from TOML, or from the same words as a dictionary. Every key is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lance_spark.cleanup.policy_file import policy_of
from lance_spark.errors import InvalidOption
from lance_spark.options.sections import Section, read_toml
from lance_spark.upkeep.policy import (
    CLEANUP,
    COMPACTION,
    EXPIRY,
    FSCK,
    INDEXES,
    OF_BRANCHES,
    STEPS,
    Layer,
    MaintenancePolicy,
    TablePolicy,
)

_KEYS: Mapping[str, Mapping[str, str]] = {
    FSCK: {"every": "span", "deep": "flag"},
    COMPACTION: {
        "target_rows": "number",
        "small_fragments": "number",
        "own_only": "flag",
        "sort_by": "texts",
        "zorder": "texts",
    },
    INDEXES: {"stale_rows": "number", "stale_percent": "number"},
    EXPIRY: {"warn": "span", "undo_window": "span", "force": "flag"},
}
"""By step, the keys of its section and how they are read. The section of the cleanup is a cleanup policy."""
_POLICY = "the maintenance policy"


def parse_maintenance(text: str) -> MaintenancePolicy:
    """The policy that a TOML file describes; conf/maintenance-policy.toml shows all keys.

    Raises InvalidOption, naming the key, for text that is not TOML, an unknown key or a bad value.
    """
    return maintenance_policy(read_toml(text))


def maintenance_policy(given: Mapping[str, Any]) -> MaintenancePolicy:
    """The policy that a dictionary describes, in the words of the file. Raises InvalidOption."""
    file = Section(given, _POLICY)
    file.check(("skip", *STEPS, "branches", "tables"))
    tables = file.section("tables")
    policy = MaintenancePolicy(
        _layer(file, STEPS),
        policy_of(file.section(CLEANUP).given, f"{CLEANUP}."),
        {pattern: _table(tables.section(pattern), pattern, file.section(CLEANUP)) for pattern in tables.given},
    )
    _try_out(policy)
    return policy


def _table(section: Section, pattern: str, cleanup: Section) -> tuple[Layer, Any]:
    section.check(("skip", *STEPS, "branches"), f"table '{pattern}' in ")
    own = section.section(CLEANUP)
    # Words of its own replace the common ones; what it does not say is as for all tables.
    whole = policy_of({**cleanup.given, **own.given}, own.place) if own.given else None
    return _layer(section, STEPS), whole


def _layer(section: Section, steps: tuple[str, ...]) -> Layer:
    given = {step: _rule(section.section(step), step) for step in steps if step in _KEYS and step in section}
    branches = section.section("branches")
    return Layer(
        _skipped(section, steps), given, {name: _branch(branches.section(name), name) for name in branches.given}
    )


def _branch(section: Section, pattern: str) -> Layer:
    steps = tuple(step for step in STEPS if step in OF_BRANCHES)
    section.check(("skip", *steps), f"branch '{pattern}' in ")
    return _layer(section, steps)


def _rule(section: Section, step: str) -> dict[str, Any]:
    section.check(tuple(_KEYS[step]), f"section '{section.place[:-1]}' in ")
    return {name: getattr(section, how)(name) for name, how in _KEYS[step].items() if name in section}


def _skipped(section: Section, steps: tuple[str, ...]) -> frozenset[str]:
    names = section.texts("skip") if "skip" in section else ()
    for name in names:
        if name not in steps:
            raise InvalidOption(
                f"'{section.place}skip' in {_POLICY} names the step '{name}'.", hint=f"There are {', '.join(steps)}."
            )
    return frozenset(names)


def _try_out(policy: MaintenancePolicy) -> None:
    """Raise InvalidOption for values that cannot be, before anything is done to any table."""
    for layer in (None, *(table for table, _ in policy.tables.values())):
        rules = TablePolicy((policy.everywhere,) if layer is None else (policy.everywhere, layer))
        _ = rules.fsck, rules.expiry
        for each in rules.layers:
            for branch in ("*", *each.branches):
                rules.for_branch(branch)
