"""``gc`` is our cleanup: it says what would go, and what it deletes is what it said."""

from datetime import timedelta

import lance
from support.command_line import append, call, config, ids

AT_ONCE = ("--commit-window", "0s", "--undo-window", "0s")


def versions(flights):
    return [entry["version"] for entry in lance.dataset(str(flights)).versions()]


def test_a_dry_run_deletes_nothing_and_a_run_what_was_said(flights):
    for name in ("v1", "both"):
        call(flights, "tag", "-d", name, "--yes")
    planned = call(flights, "gc", "--older-than", "0s", *AT_ONCE, "--json").json
    assert (planned["executed"], planned["to_delete"]["files"] > 0) == (False, True)
    assert versions(flights) == [1, 2, 3, 4]
    told = call(flights, "gc", "--older-than", "0s", *AT_ONCE).out
    assert "dry run:" in told.splitlines()[-1]
    done = call(flights, "gc", "--older-than", "0s", *AT_ONCE, "--execute", "--yes", "--json").json
    assert (done["executed"], done["totals"]["deleted"]) == (True, planned["to_delete"])
    assert versions(flights) == [3, 4]  # exp was made from 3
    assert ids(flights) == [10, 20, 30]
    assert ids(flights, "exp") == [10, 20, 31, 32]


def test_with_nothing_to_delete_nobody_is_asked(flights):
    """A schedule without --yes ended with exit code 3 on each night that had nothing to do."""
    done = call(flights, "gc", "--older-than", "999d", "--execute", "--json")
    assert (done.code, done.json["totals"]["deleted"]["files"]) == (0, 0)
    assert versions(flights) == [1, 2, 3, 4]


def test_a_branch_can_be_cleaned_alone(flights):
    planned = call(
        flights, "gc", "--branch", "exp", "--older-than", "0s", *AT_ONCE, "--execute", "--yes", "--json"
    ).json
    assert list(planned["versions"]) == ["exp"]
    assert {row["outcome"] for row in planned["outcomes"]} == {"deleted"}
    assert versions(flights) == [1, 2, 3, 4]
    gone = call(flights, "gc", "--branch", "exq")
    assert (gone.code, "'exp'" in gone.err) == (10, True)


def test_versions_of_deleted_tags_stay_for_a_week(flights):
    for name in ("v1", "both"):
        call(flights, "tag", "-d", name, "--yes")
    call(flights, "gc", "--older-than", "0s", "--commit-window", "0s", "--execute", "--yes")
    assert 1 in versions(flights)
    call(flights, "tag", "--restore", "v1")
    assert lance.dataset(str(flights), version="v1").to_table()["id"].to_pylist() == [10]


def test_the_default_is_two_weeks_and_retain_counts(flights, tmp_path):
    assert call(flights, "gc", "--json").json["to_delete"]["files"] == 0
    (tmp_path / "policy.toml").write_text('older_than = "0s"\ncommit_window = "0s"\non_tagged = "keep"\n')
    policy = ("--policy", tmp_path / "policy.toml")
    removed = [
        {branch: counts.get("removed", 0) for branch, counts in call(flights, "gc", *given).json["versions"].items()}
        for given in ((*policy, "--json"), (*policy, "--retain-versions", "2", "--json"))
    ]
    assert [counts["exp"] for counts in removed] == [2, 1]


def test_no_cleanup_takes_the_workspace(flights):
    call(flights, "remote", "add", "origin", "s3://bucket/t")
    for name in ("v1", "both"):
        call(flights, "tag", "-d", name, "--yes")
    before = config(flights)
    assert call(flights, "gc", "--older-than", "0s", "--commit-window", "0s", "--execute", "--yes").code == 0
    assert config(flights) == before
    append(flights, None, 40)
    lance.dataset(str(flights)).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert config(flights) == before
