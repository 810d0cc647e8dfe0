"""In or below a dataset's directory lance-git works on that dataset; a workspace adds what has to be remembered."""

import shutil

import lance
import pyarrow as pa
import pytest
from support.command_line import SCRIPT, append, call, ids, make_flights, run

from lance_spark.clones.clone import shallow_clone
from lance_spark.core.workspace import Workspace
from lance_spark.storage.datasets import locate
from lance_spark.storage.resolving import resolve_expression
from lance_spark.workspace.workspace_files import create_workspace


@pytest.fixture
def plain(flights):
    """See ``make_flights``, without the workspace."""
    shutil.rmtree(flights / ".lance-git")
    return flights


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A workspace, and the dataset it is for, elsewhere; for tests that change nothing."""
    work = tmp_path_factory.mktemp("work")
    dataset = make_flights(tmp_path_factory.mktemp("shared"))
    shutil.rmtree(dataset / ".lance-git")
    create_workspace(str(work), Workspace(str(dataset)))
    return work, dataset


def test_as_people_type_it(plain):
    done = run(plain, "log")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == ["main@4", "main@3", "main@2", "main@1"]
    assert run(plain / "data", "status").out == "On branch main, version 4.\n"


READ_ONLY = [
    ("log",),
    ("log", "exp", "--graph"),
    ("log", "--all", "--stat"),
    ("show", "v1"),
    ("status",),
    ("branch",),
    ("tag",),
    ("remote",),
    ("diff", "main~1..main", "--rows"),
    ("diff", "v1..@4", "--stat"),
    ("restore", "main@2", "--dry-run"),
    ("merge", "exp", "--dry-run"),
    ("branch", "new", "v1", "--dry-run"),
]


@pytest.mark.parametrize("below", ["", "data", "_versions", "tree", "_refs/branches"])
@pytest.mark.parametrize("arguments", READ_ONLY, ids=" ".join)
def test_it_answers_as_with_a_workspace_on_main(shared, arguments, below):
    work, plain = shared
    assert call(plain / below, *arguments, "--json").json == call(work, *arguments, "--json").json
    assert not list(plain.parent.rglob(".lance-git"))


def test_what_changes_the_dataset_changes_main(plain):
    assert call(plain / "data", "tag", "now", "--json").json["at"] == {"branch": "main", "version": 4}
    assert call(plain / "data", "branch", "new").code == 0
    assert call(plain, "merge", "exp").code == 0
    assert sorted(ids(plain)) == [10, 20, 30, 31, 32]
    assert call(plain / "data", "restore", "@2", "--yes").code == 0
    assert ids(plain) == [10]
    assert call(plain / "_versions", "gc").code == 0
    assert call(plain, "branch", "-d", "new", "--yes").code == 0


def test_in_a_branchs_directory_that_branch_is_the_current_one(plain):
    call(plain, "branch", "team/a/b", "exp")
    for below, branch in (
        ("tree/exp", "exp"),
        ("tree/exp/data", "exp"),
        ("tree/team/a/b/_versions", "team/a/b"),
        ("tree/team/a", "main"),
        ("tree", "main"),
    ):
        listed = call(plain / below, "branch", "--json").json
        assert (listed["current"], listed["dataset"]) == (branch, str(plain)), below
    assert call(plain / "tree" / "exp", "log", "-n", "1", "--json").json["versions"][0]["version"] == 5
    assert call(plain / "tree" / "exp" / "data", "restore", "@4", "--yes").code == 0
    assert (ids(plain, "exp"), ids(plain)) == ([10, 20, 31], [10, 20, 30])
    assert call(plain / "tree" / "exp", "status").out.splitlines()[-1] == (
        f"  cd {plain} && lance-git merge exp   publishes them"
    )


def test_what_a_branchs_directory_says_can_be_done_can_be_done(plain):
    exp = plain / "tree" / "exp"
    refused = call(exp, "branch", "-d", "exp", "--yes")
    assert refused.code == 3
    assert f"hint: Leave it first: cd {plain}." in refused.error
    assert f"First: cd {plain}/tree/idle." in call(exp, "restore", "idle@4", "--yes").error
    assert call(plain, "branch", "-d", "exp", "--yes").code == 0

    done = call(plain / "tree" / "idle", "branch", "-m", "idle", "busy")
    assert done.code == 0
    assert f"cd {plain}/tree/busy" in done.err
    assert call(plain / "tree" / "busy", "status").out.startswith("On branch busy")


def test_what_is_left_of_a_branch_is_no_dataset(plain):
    """pylance takes it for one, and puts its tags on main."""
    left = plain / "tree" / "gone"
    shutil.copytree(plain / "tree" / "exp", left)
    for arguments in (("log",), ("tag", "now"), ("restore", "@4", "--yes")):
        done = call(left / "data", *arguments)
        assert done.code == 10
        assert "The current branch 'gone' does not exist." in done.error
    listed = call(left, "branch")
    assert listed.code == 0
    assert f"The current branch 'gone' does not exist; cd {plain} leaves it." in listed.err
    assert call(left, "log", "main").code == 0
    assert set(lance.dataset(str(plain)).tags.list()) == {"v1", "both"}


def test_a_branch_whose_versions_were_lost_is_not_main(plain):
    shutil.rmtree(plain / "tree" / "exp" / "_versions")
    done = call(plain / "tree" / "exp" / "data", "restore", "@2", "--yes")
    assert done.code == 10
    assert "Branch 'exp' of" in done.error
    assert ids(plain) == [10, 20, 30]


NEEDS_ONE = [
    ("switch", "exp"),
    ("checkout", "exp"),
    ("checkout", "-b", "new"),
    ("checkout", "-b", "new", "exp", "--dry-run"),
    ("remote", "add", "up", "../up.lance"),
    ("remote", "set-url", "up", "../up.lance"),
    ("remote", "remove", "up", "--yes"),
]


@pytest.mark.parametrize("arguments", NEEDS_ONE, ids=" ".join)
def test_what_needs_a_workspace_says_how_to_get_one(shared, arguments):
    plain = shared[1]
    before = _names(plain)
    for place, options, hint in (
        (plain, (), "lance-git init . creates a workspace here."),
        (plain / "data", (), f"lance-git init {plain} creates a workspace for it."),
        (plain / "tree" / "exp", (), f"lance-git init {plain} creates a workspace for it."),
        (plain.parent, ("-C", plain), f"lance-git init {plain} creates a workspace for it."),
    ):
        done = call(place, *options, *arguments)
        assert done.code == 10
        assert done.error.splitlines() == [
            f"error: This needs a workspace. There is no workspace here, only the dataset {plain}.",
            f"hint: {hint}",
        ]
    assert _names(plain) == before


def _names(directory):
    return sorted(path for path in directory.rglob("*"))


def test_the_hint_works(plain):
    assert call(plain, "switch", "exp").code == 10
    assert call(plain, "init", ".").code == 0
    assert call(plain, "switch", "exp").out == "Switched to branch 'exp'.\n"
    assert call(plain / "data", "status").out.startswith("On branch exp")
    assert call(plain / "tree" / "idle", "status").out.startswith("On branch exp"), "the workspace says which"


def test_the_nearest_counts(plain, tmp_path):
    other = make_flights(tmp_path / "other")
    create_workspace(str(tmp_path), Workspace(str(other), "idle"))
    assert _current(tmp_path) == (str(other), "idle")
    assert _current(plain / "data") == (str(plain), "main"), "a dataset before a workspace for another one above"

    create_workspace(str(plain / "work"), Workspace(str(other), "exp"))
    (plain / "work" / "deep").mkdir()
    assert _current(plain / "work" / "deep") == (str(other), "exp"), "a workspace inside the dataset's directory"

    lance.write_dataset(pa.table({"id": [1]}), str(plain / "copies" / "copy.lance"))
    assert _current(plain / "copies" / "copy.lance" / "data") == (f"{plain}/copies/copy.lance", "main")
    assert _current(plain / "copies") == (str(plain), "main")

    create_workspace(str(plain), Workspace(str(other), "exp"))
    for below in ("", "data", "tree/exp"):
        assert _current(plain / below) == (str(other), "exp"), "a workspace before the dataset in its directory"


def test_a_workspace_above_for_this_very_dataset_counts(plain, tmp_path):
    """Else a merge, typed one directory further down, would go into main instead of the current branch."""
    create_workspace(str(tmp_path), Workspace("flights.lance", "idle"))
    for below in ("", "data", "tree/exp/data"):
        assert _current(plain / below) == (str(plain), "idle")
    assert call(plain, "merge", "exp").code == 0
    assert sorted(ids(plain, "idle")) == [10, 20, 30, 31, 32]
    assert ids(plain) == [10, 20, 30]


def _current(directory):
    listed = call(directory, "branch", "--json").json
    return listed["dataset"], listed["current"]


def test_a_workspace_that_makes_no_sense_is_not_passed_over(plain):
    (plain / ".lance-git").mkdir()
    (plain / ".lance-git" / "config.toml").write_text("brunch = 'exp'\n")
    done = call(plain / "data", "merge", "exp")
    assert done.code == 2
    assert ".lance-git/config.toml, line 1" in done.error


def test_a_directory_named_versions_makes_no_dataset(tmp_path, flights):
    """Documentation tools make such directories, too."""
    (tmp_path / "docs" / "_versions" / "1.0").mkdir(parents=True)
    create_workspace(str(tmp_path), Workspace(str(flights)))
    assert _current(tmp_path / "docs" / "_versions") == (str(flights), "main")


def test_a_directory_named_tree_above_is_no_branch(tmp_path):
    flights = make_flights(tmp_path / "tree" / "oak")
    shutil.rmtree(flights / ".lance-git")
    assert _current(flights / "data") == (str(flights), "main")
    assert _current(flights / "tree" / "exp") == (str(flights), "exp")


def test_through_a_symbolic_link(plain, tmp_path):
    (tmp_path / "link").symlink_to(plain)
    assert _current(tmp_path / "link" / "data") == (str(plain), "main")


def test_a_directory_that_is_gone(tmp_path):
    done = run(tmp_path, "-c", f"mkdir gone && cd gone && rmdir ../gone && {SCRIPT} log", script="sh")
    assert done.code == 10
    assert "The current directory is gone." in done.error


def test_without_either_it_names_the_ways(tmp_path):
    hint = run(tmp_path, "log").error
    for way in ("a dataset's directory", "-C s3://", "lance-git init", "lance-git clone"):
        assert way in hint


def test_c_takes_a_directory_or_a_uri(plain, tmp_path):
    for place in (plain, "flights.lance", "flights.lance/data", f"file://{plain}", f"file:{plain}/data/"):
        assert call(tmp_path, "-C", place, "status").out == "On branch main, version 4.\n", place
    assert call(tmp_path, "-C", plain / "tree" / "exp", "status").out.startswith("On branch exp, version 5.")
    assert call(tmp_path, "-C", f"file://{plain}/tree/exp", "status").out.startswith("On branch exp, version 5.")
    create_workspace(str(plain), Workspace(".", "idle"))
    assert call(tmp_path, "-C", "flights.lance/data", "status").out.startswith("On branch idle")
    assert call(tmp_path, "-C", f"file://{plain}", "status").out.startswith("On branch idle")


def test_remotes_that_branches_follow_are_known_without_a_workspace(flights, tmp_path):
    clone = tmp_path / "clone"
    assert call(tmp_path, "clone", flights, clone).code == 0
    shutil.rmtree(clone / ".lance-git")
    assert call(clone, "remote").out == "origin\n"
    assert call(clone, "remote", "-v", "--json").json == {"remotes": [{"name": "origin", "uri": str(flights)}]}
    append(flights, None, 40)
    assert "fetch brings it" in call(clone, "remote", "show", "origin").out
    assert call(clone / "_versions", "pull").code == 0
    assert sorted(ids(clone)) == [10, 20, 30, 40]

    following = clone / "tree" / "origin" / "exp"
    assert call(following, "log", "-n", "1").code == 0
    refused = call(following, "restore", "@4", "--yes")
    assert refused.code == 3
    assert "only a fetch writes to it" in refused.error
    assert f"cd {clone}/tree/NAME leaves it." in call(following, "branch").err


def test_a_shallow_clone_without_a_workspace_is_a_dataset(plain, tmp_path):
    here = locate(str(plain))
    shallow_clone(here, resolve_expression(here, "main@3", None), locate(str(tmp_path / "copy.lance")))
    assert _current(tmp_path / "copy.lance" / "_versions") == (f"{tmp_path}/copy.lance", "main")
    assert call(tmp_path / "copy.lance", "status").out == "On branch main, version 3.\n"
