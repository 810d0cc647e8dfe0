"""Which files go: against a model of sets and a plain reading of the rules, one file at a time."""

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cleanup_files import (
    CLONE_CHAIN,
    FILES_OF_ALL,
    KEYS_OF_ALL,
    OLD,
    WEEK_OLD,
    YOUNG,
    deleted,
    judgement,
    local_of,
    marks,
    sums,
    to_table,
)
from support.cleanup_surveys import DAY, NOW

from lance_spark.cleanup.sweep_rules import DECIDED, decide

pytestmark = pytest.mark.pure

KEYS = st.frozensets(st.sampled_from(KEYS_OF_ALL), max_size=6)
VERSIONS = st.lists(st.tuples(st.booleans(), st.booleans(), KEYS), max_size=4)
TIMES = st.sampled_from([None, OLD, WEEK_OLD - 1000, WEEK_OLD, YOUNG, NOW - 1000, NOW, NOW + DAY])


@st.composite
def worlds(draw):
    """Files with their times, what the versions of each chain name, and leftovers.

    A version is (whether it stays, whether its manifest was read, the keys it names); one that stays was read.
    """
    chains = [[*draw(VERSIONS), (True, True, draw(KEYS))] for _ in range(4)]
    files = draw(st.dictionaries(st.sampled_from(sorted(FILES_OF_ALL)), TIMES))
    leftovers = draw(st.sets(st.sampled_from([key for key in KEYS_OF_ALL if not key.startswith("*/")])))
    removed = draw(st.sets(st.sampled_from([path for path, told in FILES_OF_ALL.items() if told[0] == "manifest"])))
    return files, chains, leftovers, removed, draw(st.sampled_from([None, WEEK_OLD, NOW - 3 * DAY]))


def spans_of(chains):
    """What reading the versions one after the other marks."""
    for index, versions in enumerate(chains):
        read = [(at, keys) for at, (kept, seen, keys) in enumerate(versions) if kept or seen]
        for key in KEYS_OF_ALL:
            since = None
            for (at, keys), (_, following) in zip(read, [*read[1:], (None, frozenset())], strict=True):
                if key in keys and since is None:
                    since = at
                if key in keys and key not in following:
                    yield index, key, since, at
                    since = None


def expected_fate(path, modified, world):
    """Action, reason and whether it is verified."""
    _, chains, leftovers, removed, before = world
    kind, key, local, _ = FILES_OF_ALL[path]
    versions = [version for each in chains for version in each]
    live = any(kept and not keys.isdisjoint({key, f"*/{local}"}) for kept, _, keys in versions)
    proof = key in leftovers or any(not kept and seen and key in keys for kept, seen, keys in versions)
    if kind == "unknown":
        return "keep", "unknown kind of file", None
    if kind == "bookkeeping":
        return "keep", "a kept version names it", None
    if modified is None or modified >= NOW:
        return "keep", "changed after the mark began", None
    if kind == "manifest":
        return ("delete", "old version", True) if path in removed else ("keep", "a kept version names it", None)
    if live:
        return "keep", "a kept version names it", None
    if proof:
        return "delete", "only removed versions name it", True
    if before is None or modified < before:
        return "delete", "no version names it", False
    return "keep", "no version names it, but it is too young", None


def judged(world):
    files, chains, leftovers, removed, before = world
    kept = [[version[0] for version in versions] for versions in chains]
    told = judgement(*kept, removed=removed, before=before)
    return to_table(files), marks(*spans_of(chains), leftovers=leftovers), told


@given(worlds())
def test_files_are_decided_on_as_a_plain_reading_of_the_rules_says(world):
    files, chains, *_ = world
    expected = {path: expected_fate(path, modified, world) for path, modified in files.items()}
    decided = decide(*judged(world))
    assert decided.schema.equals(DECIDED)
    assert deleted(decided) == {path: fate[1:] for path, fate in expected.items() if fate[0] == "delete"}
    kept = [(path, fate[1]) for path, fate in expected.items() if fate[0] == "keep"]
    assert sums(decided) == Counter((FILES_OF_ALL[path][0], FILES_OF_ALL[path][3], why) for path, why in kept)
    needed = {key for versions in chains[:CLONE_CHAIN] for key in versions[-1][2]}
    assert missing_keys(decided) == {
        key for key in needed - set(files) if local_of(key).startswith(("data/", "_deletions/")) and key[0] != "*"
    }


def missing_keys(decided):
    return set(decided.filter(pc.equal(decided["action"], "missing"))["path"].to_pylist())


def in_group(table, number, groups):
    return pa.array([len(local or "") % groups == number for local in table["local"].to_pylist()], pa.bool_())


@given(worlds(), st.integers(2, 4))
def test_deciding_in_groups_of_the_same_local_name_decides_the_same(world, groups):
    files, spans, told = judged(world)
    told = replace(told, whole_listing=True)
    parts = []
    for number in range(groups):
        mine = [table.filter(in_group(table, number, groups)) for table in (files, spans)]
        parts.append(decide(*mine, told))
    together, apart = decide(files, spans, told), pa.concat_tables(parts)
    assert deleted(apart) == deleted(together)
    assert sums(apart) == sums(together)
    assert missing_keys(apart) == missing_keys(together)
