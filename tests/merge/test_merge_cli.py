"""log, show, status, diff, merge, cherry-pick and revert through the console script: text, JSON, exit codes."""

import re

import lance
import pytest
from support.command_line import append, call, ids


@pytest.fixture
def table(tmp_path):
    (tmp_path / "columns.csv").write_text("id\n1\n")
    place = tmp_path / "t.lance"
    assert call(tmp_path, "init", "t.lance", "--from", "columns.csv").code == 0
    append(place, None, 10)
    assert call(place, "checkout", "-b", "exp").code == 0
    append(place, "exp", 20)
    return place


def test_a_branch_is_compared_published_and_drawn(table):
    assert call(table, "status").out.splitlines() == [
        "On branch exp, version 3.",
        "Ahead of main by 1 version, behind by 0 versions (last common version main@2).",
        "  lance-git switch main && lance-git merge exp   publishes them",
    ]
    assert call(table, "diff", "main..exp", "--json").json["rows"]["added"] == 1
    assert call(table, "switch", "main").code == 0

    planned = call(table, "merge", "exp", "--dry-run")
    assert planned.out.startswith("merge of exp@3 into main would be one version (fast-forward):\n  +1 -0 rows; 1 file")
    assert ids(table, None) == [10]

    done = call(table, "merge", "exp", "-m", "published")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("merge of exp@3: main@3 (fast-forward)\n")
    assert ids(table, None) == [10, 20]
    assert call(table, "merge", "exp").out == "Already up to date: main has everything of exp@3.\n"

    drawn = call(table, "log", "--graph").out
    assert re.search(r"(?m)^M +main@3 .*merge", drawn)
    assert "published" in drawn
    assert re.search(r"(?m)^\|.*\* *exp@3 ", drawn)
    assert call(table, "show", "main@3", "--json").json["entry"]["source"] == "exp@3"


def test_a_conflict_has_its_exit_code_and_changes_nothing(table):
    call(table, "switch", "main")
    lance.dataset(str(table)).update({"id": "11"}, "id = 10")
    lance.dataset(f"{table}/tree/exp").delete("id = 10")
    for arguments in (("merge", "exp"), ("merge", "exp", "--dry-run")):
        refused = call(table, *arguments)
        assert refused.code == 12
        assert "fragment 0" in refused.err + refused.out
    assert ids(table, None) == [11]


def test_a_version_is_picked_and_reverted(table):
    append(table, "exp", 30)
    call(table, "switch", "main")
    assert call(table, "cherry-pick", "exp@4").out.startswith("cherry-pick of exp@4: main@3 (since exp@3)\n")
    assert ids(table, None) == [10, 30]
    assert call(table, "revert", "HEAD").out.startswith("revert of main@3: main@4 (since main@3)\n")
    assert ids(table, None) == [10]


def test_a_long_log_reads_only_what_it_shows(table):
    shown = call(table, "log", "-n", "1")
    assert len(shown.out.splitlines()) == 1
    assert "older versions" in shown.err
    assert len(call(table, "log", "-n", "0", "--json").json["versions"]) == 3


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("merge", "nope"), 10, "no branch or tag 'nope'"),
        (("merge", "exp"), 2, "a version of 'exp' itself"),
        (("diff",), 2, "Name what to compare"),
        (("diff", "main..exp", "main"), 2, "more than two refs"),
        (("diff", "nope"), 10, "no branch or tag 'nope'"),
        (("cherry-pick", "main@1"), 3, "oldest existing version"),
        (("show", "main@77"), 10, "no version 77"),
    ],
)
def test_mistakes_are_told(table, arguments, code, said):
    refused = call(table, *arguments)
    assert refused.code == code, refused
    assert said in refused.error


def test_one_ref_is_compared_with_the_current_branch_as_in_git(table):
    """``git diff exp`` on main: what main has and exp has not."""
    call(table, "switch", "main")
    alone, two = (call(table, "diff", *words, "--json").json for words in (("exp",), ("exp", "main")))
    assert alone == two == call(table, "diff", "exp..HEAD", "--json").json
    assert alone != call(table, "diff", "HEAD..exp", "--json").json
    call(table, "switch", "exp")
    assert call(table, "diff", "main", "--json").json == call(table, "diff", "main..exp", "--json").json
