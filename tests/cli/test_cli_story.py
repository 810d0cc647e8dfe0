"""The console script, one command after the other: text, JSON, exit codes; at night in processes of their own."""

import json
import re
from textwrap import dedent

import pytest
from support.command_line import append, call, config, ids, run

from lance_spark.errors import LanceSparkError


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("story")


def text(expected: str) -> str:
    return dedent(expected).lstrip("\n")


@pytest.mark.when(day={"told": [call]}, night={"told": [run]})
@pytest.mark.parametrize("told", [call, run], ids=["in this process", "in processes"])
def test_a_day_with_lance_git(place, told):
    (place / "columns.csv").write_text("id\n1\n")
    table = place / "flights.lance"

    done = told(place, "init", "flights.lance", "--from", "columns.csv")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"Dataset {table} created with the columns id; workspace in {table}.\n"
    append(table, None, 10)

    below = table / "data"  # a workspace is found from any directory inside of it
    assert told(below, "branch", "exp").out == "Branch 'exp' created at main@2.\n"
    assert told(below, "checkout", "exp").out == "Switched to branch 'exp'.\n"
    assert 'branch = "exp"' in config(table)
    append(table, "exp", 20)

    assert told(table, "tag", "audited").out == "Tag 'audited' was put on exp@3.\n"
    assert told(table, "branch").out == "  main\n* exp\n"
    assert re.sub(r"[\d,.]+ (B|KiB)", "SIZE", told(table, "branch", "-v").out) == text(
        """
           branch  newest  made from  made      versions  own size
           main         2                              2
        *  exp          3  main@2     just now         2   SIZE
        """
    )
    assert told(table, "tag").out == text(
        """
        tag      version  made
        audited  exp@3    just now
        """
    )

    refused = told(table, "restore", "audited~1")
    assert (refused.code, refused.out) == (3, "")
    assert refused.err.splitlines() == [
        "error: Nothing was done, as nobody could be asked: Version exp@2 will be made the newest of 'exp' again; "
        "what 1 later version changed is undone.",
        "hint: Add --yes to do it, or --dry-run to see more.",
    ]
    assert ids(table, "exp") == [10, 20]
    done = told(table, "restore", "audited~1", "--yes")
    assert done.out == "Version exp@2 restored as exp@4; what 1 later version changed is undone.\n"
    assert ids(table, "exp") == [10]
    assert ids(table) == [10]

    remote = told(table, "remote", "add", "origin", "s3a://bucket/flights.lance/")
    assert remote.out == "Remote 'origin' is s3://bucket/flights.lance.\n"
    assert told(place, "-C", "flights.lance", "remote", "-v").out == text(
        """
        remote  uri
        origin  s3://bucket/flights.lance
        """
    )

    gone = told(table, "--json", "switch", "expp")
    assert (gone.code, gone.out) == (10, "")
    assert json.loads(gone.err) == {
        "error": "There is no branch or tag 'expp'.",
        "hint": "Did you mean 'exp'?",
        "exit_code": 10,
    }


def test_help_answers_at_once_and_lists_verbs_and_every_exit_code(place):
    done = run(place, "--help")
    assert done.code == 0
    for verb in ("init", "branch", "checkout", "switch", "tag", "restore", "remote", "gc"):
        assert re.search(rf"^  {verb} +[A-Z].*\.$", done.out, re.M), verb
    listed = {int(code) for code in re.findall(r"^ +(\d+)  \w", done.out, re.M)}
    pending, codes = [LanceSparkError], set()
    while pending:
        kind = pending.pop()
        codes.add(kind.exit_code)
        pending += kind.__subclasses__()
    assert codes | {0, 2, 6, 130} == listed
    assert run(place).out == done.out


def test_the_version_is_that_of_the_package(place):
    assert re.fullmatch(r"lance-git, version \d+\.\d+\.\d+\n", run(place, "--version").out)


def test_without_a_workspace_it_says_how_to_get_one(tmp_path):
    done = run(tmp_path, "branch")
    assert done.code == 10
    assert done.error == text(
        """
        error: There is no workspace here or in a directory above, and this is not a dataset's directory.
        hint: Go to a dataset's directory, or name a dataset: lance-git -C s3://bucket/flights.lance log. \
lance-git init and lance-git clone create a workspace.
        """
    )
