"""A maintenance policy: what it says of which table and branch, and which words it does not know."""

from datetime import timedelta

import pytest

from lance_spark.cleanup.retention_rules import CleanupPolicy, VersionRule
from lance_spark.errors import InvalidOption, NotFound
from lance_spark.maintenance import policy_rules

pytestmark = pytest.mark.pure

POLICY = """
skip = ["indexes"]

[fsck]
every = "3d"

[compaction]
target_rows = 500
small_fragments = 4

[cleanup]
older_than = "7d"
retain_versions = 2

[branches."exp/*"]
skip = ["compaction"]

[branches.dev.compaction]
small_fragments = 2

[tables."ns1.*"]
skip = ["expiry"]

[tables."ns1.*".fsck]
deep = true

[tables."ns1.*".cleanup]
older_than = "1d"

[tables."ns1.*".compaction]
target_rows = 900

[tables."ns1.*".branches.dev.compaction]
target_rows = 100

[tables."ns1.never.reached".fsck]
every = "1d"
"""


@pytest.fixture(scope="module")
def policy():
    return policy_rules.parse_maintenance(POLICY)


@pytest.mark.parametrize(
    ("table", "branch", "rule", "skipped"),
    [
        ("t", None, policy_rules.CompactionRule(500, small_fragments=4), {"indexes"}),
        ("t", "dev", policy_rules.CompactionRule(500, small_fragments=2), {"indexes"}),
        ("t", "exp/a", policy_rules.CompactionRule(500, small_fragments=4), {"indexes", "compaction"}),
        ("ns1.t", None, policy_rules.CompactionRule(900, small_fragments=4), {"indexes", "expiry"}),
        ("ns1.t", "dev", policy_rules.CompactionRule(100, small_fragments=2), {"indexes", "expiry"}),
        ("ns1.t", "exp/a", policy_rules.CompactionRule(900, small_fragments=4), {"indexes", "expiry", "compaction"}),
    ],
)
def test_tables_say_more_than_everything_and_branches_more_than_tables(policy, table, branch, rule, skipped):
    rules = policy.for_table(table).for_branch(branch)
    assert (rules.compaction, rules.skip, rules.indexes) == (rule, skipped, policy_rules.IndexRule())


def test_the_rules_of_whole_tables(policy):
    assert policy.for_table("t").fsck == policy_rules.FsckRule(timedelta(days=3))
    assert policy.for_table("ns1.t").fsck == policy_rules.FsckRule(timedelta(days=3), deep=True)
    assert policy.for_table("t").cleanup == CleanupPolicy(timedelta(days=7), retain_versions=2)
    assert policy.for_table("ns1.t").cleanup == CleanupPolicy(timedelta(days=1), retain_versions=2)
    assert policy.for_table("ns1.t").expiry.warn == timedelta(days=7)


def test_the_first_pattern_that_matches_counts(policy):
    assert policy.for_table("ns1.never.reached").fsck.every == timedelta(days=3)


def test_without_a_word_every_step_is_done_with_its_defaults():
    plain = policy_rules.MaintenancePolicy().for_table("t")
    assert plain.for_branch("exp").compaction == policy_rules.CompactionRule()
    assert (plain.skip, plain.cleanup, plain.fsck) == (frozenset(), CleanupPolicy(), policy_rules.FsckRule())
    assert policy_rules.maintenance_policy({}) == policy_rules.MaintenancePolicy()


def test_a_dictionary_has_the_words_of_the_file():
    cleanup = {"branches": {"exp/*": {"retain_versions": 1}}}
    made = policy_rules.maintenance_policy(
        {"compaction": {"target_rows": 7}, "cleanup": cleanup, "expiry": {"warn": "1d"}}
    )
    table = made.for_table("t")
    assert table.for_branch(None).compaction.target_rows == 7
    assert table.cleanup.branches == {"exp/*": VersionRule(retain_versions=1)}
    assert table.expiry.warn == timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("compactions = 1", "compaction"),
        ("compaction = true", "'compaction'"),
        ("[compaction]\ntarget = 5", "target"),
        ("[compaction]\ntarget_rows = true", "'compaction.target_rows'"),
        ("[compaction]\nsmall_fragments = 0", "small_fragments"),
        ("[indexes]\nstale_percent = 101", "stale_percent"),
        ("[compaction]\nsort_by = 1", "sort_by"),
        ('[compaction]\nsort_by = ["day"]\nzorder = ["a", "b"]', "zorder"),
        ("[fsck]\nevery = 7", "'fsck.every'"),
        ('[fsck]\nevery = "soon"', "fsck.every"),
        ('[cleanup]\nolder = "1d"', "older"),
        ("[cleanup]\nretain_versions = 0", "retain_versions"),
        ('skip = ["vacuum"]', "'vacuum'"),
        ("skip = true", "'skip'"),
        ('[branches.dev]\nskip = ["cleanup"]', "'cleanup'"),
        ("[branches.dev.cleanup]\nretain_versions = 1", "cleanup"),
        ("[branches.dev.compaction]\ntarget_rows = 0", "target_rows"),
        ('[tables.t]\nsteps = ["fsck"]', "steps"),
        ("[tables.t.cleanup]\nretain_versions = -1", "retain_versions"),
        ("[tables.t.branches.dev.compaction]\nsmall_fragments = 0", "small_fragments"),
        ("[tables.t.tables.u]\nskip = []", "tables"),
        ("= 1", "TOML"),
    ],
)
def test_every_word_is_checked_before_anything_is_done(text, named):
    with pytest.raises(InvalidOption) as error:
        policy_rules.parse_maintenance(text)
    assert named in str(error.value)


def test_the_steps_are_in_the_order_that_is_safe():
    assert policy_rules.STEPS.index("fsck") == 0
    assert policy_rules.STEPS.index("cleanup") == len(policy_rules.STEPS) - 1
    assert policy_rules.STEPS.index("expiry") < policy_rules.STEPS.index("cleanup")


@pytest.mark.parametrize(
    ("cleanup", "expiry", "files_of_branches", "versions"),
    [
        ({}, {}, 7, 7),
        ({"undo_window": "30d"}, {}, 30, 30),
        ({"undo_window": "1d"}, {}, 7, 1),
        ({}, {"undo_window": "30d"}, 30, 30),
        ({}, {"undo_window": "1d"}, 1, 7),
        ({"undo_window": "30d"}, {"undo_window": "2d"}, 2, 30),
    ],
)
def test_the_longer_window_for_taking_back_counts(cleanup, expiry, files_of_branches, versions):
    policy = policy_rules.maintenance_policy({"cleanup": cleanup, "expiry": expiry}).for_table("a")
    assert policy.expiry.undo_window == timedelta(days=files_of_branches)
    assert policy.kept_for_undo.undo_window == timedelta(days=versions)


@pytest.mark.parametrize(
    ("patterns", "tables", "said"),
    [
        (["air.flights"], ["air.flights", "b"], ()),
        (["air.flight"], ["air.flights"], "'air.flight' in the policy's tables matches no table"),
        (["Air.flights"], ["air.flights"], "matches no table"),
        (["old"], [], "matches no table"),
        (["old.*"], ["air.flights"], ("'old.*' in the policy's tables matches no table",)),
        (["air.*", "air.flights"], ["air.flights"], "'air.flights' in the policy's tables never applies: 'air.*'"),
        (["air.flights", "air.*"], ["air.flights", "air.planes"], ()),
        (["*", "air.*"], ["air.flights"], ("'air.*' in the policy's tables never applies: '*' before it",)),
        (["[ab]", "?"], ["a", "b", "c"], ()),
    ],
)
def test_a_name_that_applies_to_no_table_is_an_error_and_a_pattern_a_note(patterns, tables, said):
    policy = policy_rules.maintenance_policy({"tables": {pattern: {"skip": ["cleanup"]} for pattern in patterns}})
    if isinstance(said, str):
        with pytest.raises(NotFound) as error:
            policy_rules.check_tables(policy, tables)
        assert said in error.value.message
        assert "Nothing was done." in error.value.message
        assert error.value.hint
        return
    notes = policy_rules.check_tables(policy, tables)
    assert len(notes) == len(said)
    assert all(note.startswith(start) for note, start in zip(notes, said, strict=True))


@pytest.mark.parametrize(
    ("patterns", "name", "said"),
    [
        ([], "flights", ()),
        (["flights"], "flights", ()),
        (["*s"], "flights", ()),
        (["planes"], "flights", ("no table of the policy matches 'flights'; the common rules applied",)),
        (["air.flights"], "flights", "rules for table 'air.flights'"),
        (["air.`flights`"], "flights", "rules for table"),
        (["*", "air.flights"], "flights", ()),
    ],
)
def test_a_single_dataset_does_not_lose_the_rules_of_its_table_in_silence(patterns, name, said):
    policy = policy_rules.maintenance_policy({"tables": {pattern: {"skip": ["cleanup"]} for pattern in patterns}})
    if isinstance(said, str):
        with pytest.raises(NotFound, match=said):
            policy_rules.check_only_table(policy, name)
        return
    assert policy_rules.check_only_table(policy, name) == said


def test_rules_for_branches_that_no_table_has_are_told():
    policy = policy_rules.maintenance_policy(
        {
            "cleanup": {"branches": {"archiv": {"retain_versions": 9}, "exp/*": {"older_than": "1d"}}},
            "branches": {"exp/*": {"skip": ["indexes"]}, "exp/a": {"skip": []}},
            "tables": {"b": {"branches": {"dev": {"skip": []}}}, "none.*": {"branches": {"x": {"skip": []}}}},
        }
    )
    notes = policy_rules.unused_branches(policy, {"a": {"main", "exp/a", "archive"}, "b": {"main", "exp/b"}})
    assert notes == [
        "the policy's rule for branch 'exp/a' never applies: 'exp/*' before it matches first",
        "the policy's rule for branch 'archiv' in 'cleanup' matches no branch",
        "the policy's rule for branch 'dev' of 'b' matches no branch",
    ]


def test_one_pattern_in_two_sections_is_told_once_for_each():
    """Two equal notes look like one that was printed twice."""
    rules = {"old/*": {"older_than": "1d"}}
    policy = policy_rules.maintenance_policy(
        {
            "branches": {"old/*": {"skip": []}},
            "cleanup": {"branches": rules},
            "tables": {"a": {"branches": {"old/*": {"skip": []}}, "cleanup": {"branches": rules}}},
        }
    )
    notes = policy_rules.unused_branches(policy, {"a": {"main"}})
    assert notes == [
        "the policy's rule for branch 'old/*' matches no branch",
        "the policy's rule for branch 'old/*' in 'cleanup' matches no branch",
        "the policy's rule for branch 'old/*' of 'a' matches no branch",
        "the policy's rule for branch 'old/*' in 'cleanup' of 'a' matches no branch",
    ]


@pytest.mark.parametrize("key", ["older_than", "retain_versions", "on_tagged", "tags"])
def test_the_policy_of_a_cleanup_alone_is_sent_below_its_section(key):
    with pytest.raises(InvalidOption, match=f"'{key}' is a setting of a cleanup") as refused:
        policy_rules.maintenance_policy({key: "1d"})
    assert refused.value.hint == "Put it below [cleanup]."
