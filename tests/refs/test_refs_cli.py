"""What the verbs do when all is well, seen by pylance and as JSON."""

import re

import lance
import pytest
from support.command_line import append, call, config, ids


def names(flights):
    return set(lance.dataset(str(flights)).branches.list())


def test_a_branch_starts_where_it_was_told(flights):
    for number, (ref, rows) in enumerate(
        [
            (None, [10, 20, 30]),
            ("v1", [10]),
            ("@3", [10, 20]),
            ("main~2", [10]),
            ("exp~1", [10, 20, 31]),
            ("exp@4~1", [10, 20]),
            ("tags/both", []),
            ("heads/both", [10, 20, 30]),
            ("HEAD~~", [10]),
        ]
    ):
        done = call(flights, "branch", f"b{number}", *([ref] if ref else []), "--json")
        assert done.json["branch"] == f"b{number}"
        assert ids(flights, f"b{number}") == rows, ref


def test_a_name_of_a_branch_and_of_a_tag_is_told(flights):
    assert "'exp' is both a branch and a tag now: write heads/exp or tags/exp" in call(flights, "tag", "exp").err
    assert "'v1' is both" in call(flights, "branch", "v1").err
    assert not call(flights, "tag", "own").err


def test_main_is_the_branch_whatever_tag_another_tool_made(flights):
    lance.dataset(str(flights)).tags.create("main", (None, 1))
    log = call(flights, "log", "main", "--json").json
    assert log == call(flights, "log", "heads/main", "--json").json
    assert log != call(flights, "log", "tags/main", "--json").json
    refused = call(flights, "tag", "main", "-f")
    assert (refused.code, "'main' is the main branch" in refused.error) == (2, True)
    assert call(flights, "tag", "-d", "main", "--yes").code == 0


def test_listing_as_json(flights):
    listed = call(flights, "branch", "-v", "--json").json
    assert (listed["dataset"], listed["current"]) == (str(flights), "main")
    for entry in listed["branches"]:
        made = entry.pop("created_at")
        assert (made is None) == (entry["name"] == "main")
        assert made is None or re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", made)
    exp = listed["branches"][2]
    own = [path for path in (flights / "tree" / "exp").rglob("*") if path.is_file()]
    assert exp == {
        "name": "exp",
        "current": False,
        "fork": {"branch": "main", "version": 3},
        "follows": None,
        "head": 5,
        "versions": 3,
        "files": len(own),
        "own_bytes": sum(path.stat().st_size for path in own),
        "expire_after": None,
        "retain_versions": None,
        "owner": None,
        "protected": False,
    }
    assert [entry["name"] for entry in listed["branches"]] == ["main", "both", "exp", "idle"]
    assert listed["branches"][0]["own_bytes"] is None


def test_own_bytes_of_nested_names_are_apart(flights):
    call(flights, "branch", "exp/deep", "main")
    append(flights, "exp/deep", *range(1000))
    sizes = {entry["name"]: entry for entry in call(flights, "branch", "-v", "--json").json["branches"]}
    deep = [path.stat().st_size for path in (flights / "tree" / "exp" / "deep").rglob("*") if path.is_file()]
    whole = [path.stat().st_size for path in (flights / "tree" / "exp").rglob("*") if path.is_file()]
    assert sizes["exp/deep"]["own_bytes"] == sum(deep)
    assert sizes["exp"]["own_bytes"] == sum(whole) - sum(deep)
    assert sizes["exp"]["versions"] == 3


def test_delete(flights):
    trial = call(flights, "branch", "-d", "exp", "--dry-run")
    assert re.fullmatch(
        r"Branch 'exp', made from main@3, with 2 versions of its own, \d+ files, [\d.]+ \w+, would be deleted\.\n",
        trial.out,
    )
    assert "exp" in names(flights)
    done = call(flights, "branch", "-d", "exp", "--yes", "--purge", "--json").json
    assert (done["action"], done["branch"], done["versions"], done["dry_run"]) == ("delete", "exp", 2, False)
    assert done["restorable"] is False
    assert names(flights) == {"idle", "both"}
    assert not (flights / "tree" / "exp").exists()
    assert ids(flights) == [10, 20, 30]


def test_rename_of_a_branch_without_versions_of_its_own(flights):
    call(flights, "switch", "idle")
    assert call(flights, "branch", "-m", "idle", "busy", "--dry-run").code == 0
    assert names(flights) == {"exp", "idle", "both"}
    assert call(flights, "branch", "-m", "idle", "busy").out == "Branch 'idle' was renamed to 'busy'.\n"
    assert names(flights) == {"exp", "busy", "both"}
    assert ids(flights, "busy") == [10, 20, 30]
    assert 'branch = "busy"' in config(flights)
    assert not (flights / "tree" / "idle").exists()
    assert call(flights, "branch", "-m", "done").out == "Branch 'busy' was renamed to 'done'.\n", "the current one"
    assert 'branch = "done"' in config(flights)


def test_a_capital_d_deletes_without_asking_and_can_be_undone(flights):
    before = ids(flights, "exp")
    assert call(flights, "branch", "-d", "exp").code == 3, "a script is not asked"
    assert call(flights, "branch", "-D", "exp").code == 0
    assert names(flights) == {"idle", "both"}
    call(flights, "branch", "exp", "--restore")
    assert ids(flights, "exp") == before
    call(flights, "branch", "--alter", "exp", "--protected")
    assert call(flights, "branch", "-D", "exp").code == 3
    assert "exp" in names(flights)


def test_lists_take_a_pattern(flights):
    assert call(flights, "branch", "--list", "e*").out == "  exp\n"
    assert call(flights, "branch", "-l", "m*", "-v").out.splitlines()[1].split()[:2] == ["*", "main"]
    assert call(flights, "branch", "--list", "nothing").out == ""
    call(flights, "tag", "other")
    assert call(flights, "tag", "--list", "v*", "--json").json["tags"][0]["name"] == "v1"
    assert len(call(flights, "tag", "--list", "v*", "--json").json["tags"]) == 1


def test_the_help_has_a_line_for_each_thing_that_a_verb_does(flights):
    usage = call(flights, "branch", "-h").out.partition("\n\n")[0]
    assert [line.partition("lance-git branch ")[2] for line in usage.splitlines()] == [
        "[-r | -a] [-v] [--list [PATTERN]]",
        "NAME [REF] [SETTINGS]",
        "(-d | -D) NAME [--purge]",
        "-m [OLD] NEW",
        "--restore NAME",
        "--alter NAME [SETTINGS] [--unset SETTING]",
    ]


def test_switching(flights):
    assert call(flights, "switch", "exp", "--dry-run").out == "Would switch to branch 'exp'.\n"
    assert call(flights, "switch", "main").out == "Already on 'main'.\n"
    assert call(flights, "switch", "exp", "--json").json == {
        "action": "switch",
        "branch": "exp",
        "from": "main",
        "created_at": None,
        "dry_run": False,
    }
    assert call(flights, "branch").out == "  main\n  both\n* exp\n  idle\n"
    assert call(flights, "switch", "heads/both").out == "Switched to branch 'both'.\n"
    done = call(flights, "checkout", "-b", "fix", "v1")
    assert (done.out, done.err) == ("Branch 'fix' created at main@2.\n", "Switched to branch 'fix'.\n")
    assert call(flights, "tag", "here", "--json").json["at"] == {"branch": "fix", "version": 2}


def test_a_trial_of_a_new_branch_changes_nothing(flights):
    before = config(flights)
    assert call(flights, "checkout", "-b", "fix", "--dry-run").out == "Branch 'fix' would be created at main@4.\n"
    assert config(flights) == before
    assert "fix" not in names(flights)


def test_tags(flights):
    assert call(flights, "tag", "v2", "exp~1", "--json").json == {
        "action": "create",
        "tag": "v2",
        "at": {"branch": "exp", "version": 4},
        "was": None,
        "dry_run": False,
    }
    call(flights, "tag", "v3", "--dry-run")
    listed = call(flights, "tag", "--json").json["tags"]
    assert [(tag["name"], tag["branch"], tag["version"]) for tag in listed] == [
        ("both", "main", 1),
        ("v1", "main", 2),
        ("v2", "exp", 4),
    ]
    moved = call(flights, "tag", "-f", "v2", "main", "--old", "exp@4")
    assert moved.out == "Tag 'v2' was moved from exp@4 to main@4.\n"
    assert call(flights, "tag", "-d", "v2", "--dry-run").out == "Tag 'v2' would be deleted; it was at main@4.\n"
    assert call(flights, "tag", "-d", "v2", "--yes").out == "Tag 'v2' was deleted; it was at main@4.\n"
    assert set(lance.dataset(str(flights)).tags.list()) == {"v1", "both"}


def test_restore(flights):
    trial = call(flights, "restore", "v1", "--dry-run", "--json").json
    assert trial == {
        "action": "restore",
        "version": {"branch": "main", "version": 2},
        "made": None,
        "undone": [3, 4],
        "indexes_lacking": [],
        "dry_run": True,
    }
    assert ids(flights) == [10, 20, 30]
    assert call(flights, "restore", "v1", "--yes", "--json").json["made"] == {"branch": "main", "version": 5}
    assert ids(flights) == [10]
    assert ids(flights, "exp") == [10, 20, 31, 32]


def test_a_dataset_is_used_without_a_workspace(flights, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert call(elsewhere, "--dataset", flights, "branch", "new", "HEAD~1").out == "Branch 'new' created at main@3.\n"
    assert call(elsewhere, "-C", tmp_path, "--dataset", "flights.lance", "tag", "--json").code == 0


@pytest.mark.parametrize("value", ["hush-hush-value"])
def test_storage_options_are_stored_nowhere(flights, tmp_path, value):
    secret = ("--storage", f"aws_secret_access_key={value}")
    for arguments in (("branch", "new"), ("switch", "new"), ("remote", "add", "origin", "s3://bucket/t")):
        done = call(flights, *secret, *arguments)
        assert done.code == 0
        assert value not in done.out + done.err
    assert call(tmp_path, *secret, "init", "other.lance").code == 0
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or value.encode() not in path.read_bytes(), path
