"""clone, fetch, pull, push and remote: what they say, as text and JSON, exit codes, and what becomes of the data."""

import re
import shutil
import signal
import socket
import subprocess
import time

import lance
import pytest
import s3fs
from support.command_line import SCRIPT, append, call, config, ids, run
from support.killed import killed_at

from lance_spark.cli.verbs import clone as clone_verb
from lance_spark.errors import PermissionDenied, StorageFailure
from lance_spark.remotes import clone as cloning
from lance_spark.storage import files


@pytest.fixture
def ada(flights, tmp_path):
    """A clone of the flights: a workspace of its own."""
    return cloned(tmp_path, "ada")


@pytest.fixture
def bob(flights, tmp_path):
    return cloned(tmp_path, "bob")


def cloned(parent, name, *options):
    done = call(parent, "clone", "flights.lance", name, *options)
    assert (done.code, done.err) == (0, ""), done
    return parent / name


def everything(directory):
    """All files with their bytes: whatever changes, changes this."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def branches(directory, *options):
    return [entry["name"] for entry in call(directory, "branch", "--json", *options).json["branches"]]


def tags(directory):
    return set(lance.dataset(str(directory)).tags.list())


def rows(directory, branch=None):
    """The rows of a branch; a version that was written down anew may have them in another order."""
    return sorted(ids(directory, branch))


def where(directory):
    """Ahead and behind of the first remote branch that status shows."""
    found = call(directory, "status", "--json").json["remotes"][0]
    return found["ahead"], found["behind"]


def test_two_people_and_one_remote(flights, tmp_path):
    """The main steps of the day in a process of their own."""
    made = run(tmp_path, "clone", "flights.lance", "ada")
    assert (made.code, made.err) == (0, "")
    assert made.out.splitlines() == [
        f"Cloned {flights} into {tmp_path}/ada.",
        "  On branch main, at its main@4: 3 rows. Its 3 files, 615 B, stay there.",
        "  Its branches are followed by origin/main, origin/both, origin/exp, origin/idle.",
    ]
    ada, bob = tmp_path / "ada", cloned(tmp_path, "bob")
    assert rows(ada) == [10, 20, 30]
    assert not (ada / "data").exists()

    for person, value in ((ada, 100), (bob, 200)):
        assert call(person, "switch", "exp").out == "Switched to branch 'exp', created from origin/exp@8.\n"
        append(person, "exp", value)
    pushed = run(ada, "push", "-m", "one hundred")
    assert (pushed.code, pushed.err) == (0, "")
    assert re.fullmatch(
        r"Pushed exp@9 to origin, where it is exp@6\.\n  1 version; \+1 -0 rows; 1 file copied, \d+ B\n", pushed.out
    )
    assert rows(flights, "exp") == [10, 20, 31, 32, 100]
    assert call(flights, "show", "exp", "--json").json["entry"]["message"] == "one hundred"

    refused = run(bob, "push")
    assert refused.code == 3
    assert refused.error.splitlines() == [
        "error: origin has versions of 'exp' that yours lacks, so this push is not a fast-forward.",
        "hint: Run lance-git pull origin exp, then push again.",
    ]
    assert rows(flights, "exp") == [10, 20, 31, 32, 100]

    pulled = run(bob, "pull", "origin", "exp")
    assert pulled.code == 0, pulled.err
    assert pulled.out.splitlines()[-2:] == [
        "merge of origin/exp@9: exp@10 (since origin/exp@8)",
        "  +1 -0 rows; 0 files copied, 0 B",
    ]
    assert rows(bob, "exp") == [10, 20, 31, 32, 100, 200]
    assert call(bob, "push", "--json").json["version"] == 7
    assert call(bob, "push").out == "Everything up to date.\n"
    assert rows(flights, "exp") == [10, 20, 31, 32, 100, 200]

    assert call(ada, "fetch").out.splitlines() == [
        f"Fetched from origin ({flights}):",
        "branch      version",
        "origin/exp  6 -> 7   updated",
    ]
    assert call(ada, "pull").code == 0
    assert rows(ada, "exp") == [10, 20, 31, 32, 100, 200]


def test_status_counts_what_the_other_side_lacks(flights, ada):
    assert where(ada) == (0, 0)
    assert call(ada, "status").out.splitlines() == [
        "On branch main, version 4.",
        "Up to date with origin/main, as last fetched (version 4 there).",
    ]
    append(flights, None, 40)
    append(flights, None, 50)
    assert where(ada) == (0, 0)  # nobody was asked
    call(ada, "fetch")
    assert call(ada, "status").out.splitlines()[1:] == [
        "Ahead of origin/main by 0 versions, behind by 2 versions, as last fetched (version 6 there).",
        "  lance-git pull   brings what is there",
    ]
    assert call(ada, "pull", "--ff-only").code == 0
    assert where(ada) == (0, 0)
    append(ada, None, 60)
    assert call(ada, "status").out.splitlines()[-1] == "  lance-git push   publishes them"
    assert where(ada) == (1, 0)
    append(flights, None, 70)
    call(ada, "fetch")
    assert where(ada) == (1, 1)
    assert call(ada, "pull", "--ff-only").code == 3
    assert call(ada, "pull").code == 0
    assert where(ada) == (1, 0)  # the merge itself is nothing that origin lacks
    assert call(ada, "push").code == 0
    assert where(ada) == (0, 0)
    assert rows(flights) == rows(ada)
    call(ada, "checkout", "-b", "mine", "origin/main")
    append(ada, "mine", 80)
    assert call(ada, "status").out.splitlines()[-1] == "  lance-git push   publishes them"
    assert call(ada, "push").out.splitlines()[0] == f"Branch 'mine' was created at origin ({flights})."
    counterpart, parent = call(ada, "status", "--json").json["remotes"][::-1]
    assert (counterpart["name"], counterpart["ahead"], parent["name"], parent["ahead"]) == (
        "origin/mine",
        0,
        "origin/main",
        1,
    )
    assert rows(flights, "mine") == sorted([*rows(flights), 80])


@pytest.mark.parametrize(
    ("ref", "branch", "values", "follows"),
    [
        ("exp", "exp", [10, 20, 31, 32], 5),
        ("exp@4", "exp", [10, 20, 31], 4),
        ("v1", "main", [10], 2),
        ("main~1", "main", [10, 20], 3),
    ],
)
def test_a_clone_of_a_branch_a_tag_or_a_version(flights, tmp_path, ref, branch, values, follows):
    done = call(tmp_path, "clone", "flights.lance", "--ref", ref, "--single-branch", "--json").json
    place = tmp_path / "flights"
    assert (done["branch"], done["rows"], done["workspace"]) == (branch, len(values), str(place))
    assert f'branch = "{branch}"' in config(place)
    assert rows(place, None if branch == "main" else branch) == values
    assert branches(place, "-r") == sorted({"origin/main", f"origin/{branch}"})
    assert call(place, "status", "--json").json["remotes"][0]["version"] == follows
    assert call(place, "pull").code == 0
    assert rows(place, None if branch == "main" else branch) == rows(flights, None if branch == "main" else branch)


def test_a_deep_clone_needs_its_source_no_more(flights, tmp_path):
    done = call(tmp_path, "clone", "flights.lance", "deep", "--deep")
    assert "3 rows. Its 3 files, 615 B, are copied.\n" in done.out
    shutil.rmtree(flights)
    assert rows(tmp_path / "deep") == [10, 20, 30]
    assert call(tmp_path / "deep", "status").code == 0


def test_json_of_each_verb(flights, ada):
    append(flights, None, 40)
    fetched = call(ada, "fetch", "origin", "main", "--json").json
    assert fetched == {
        "action": "fetch",
        "remote": "origin",
        "uri": str(flights),
        "branches": [
            {"branch": "main", "into": "origin/main", "state": "updated", "before": 4, "after": 5, "version": 5}
        ],
        "notes": [],
        "dry_run": False,
    }
    pulled = call(ada, "pull", "--json").json
    assert (pulled["action"], pulled["fetch"]["branches"][0]["state"]) == ("pull", "up to date")
    assert (pulled["merge"]["into"], pulled["merge"]["version"], pulled["merge"]["rows_added"]) == ("main", 5, 1)
    append(ada, None, 60)
    pushed = call(ada, "push", "--json").json
    assert (pushed["remote"], pushed["branch"], pushed["created"], pushed["version"]) == ("origin", "main", False, 6)
    assert (pushed["replayed"]["rows_added"], pushed["replayed"]["files_copied"]) == (1, 1)
    shown = call(ada, "remote", "show", "origin", "--json").json
    assert shown["branches"][0] == {
        "branch": "main",
        "newest": 6,
        "fetched": 6,
        "into": "origin/main",
        "state": "up to date",
    }


def test_a_trial_changes_nothing(flights, ada, tmp_path):
    append(flights, None, 40)
    append(ada, None, 50)
    call(ada, "branch", "mine")
    before = everything(tmp_path)
    assert call(tmp_path, "clone", "flights.lance", "new", "--dry-run").out.startswith(f"Would clone {flights} into ")
    fetch = call(ada, "fetch", "--dry-run")
    assert fetch.out.splitlines()[-1] == "origin/main  4 -> 5   updated"
    assert call(ada, "remote", "add", "up", "../other", "--dry-run").code == 0
    assert call(ada, "remote", "set-url", "origin", "../other", "--dry-run").code == 0
    assert call(ada, "remote", "remove", "origin", "--dry-run").code == 0
    assert call(ada, "branch", "-d", "origin/idle", "--dry-run").code == 0
    assert call(ada, "switch", "exp", "--dry-run").out.startswith("Would switch to branch 'exp', created from origin")
    assert everything(tmp_path) == before
    # A push and a pull fetch, and leave every branch of one's own, and the remote, alone.
    origin = everything(flights)
    push = call(ada, "push", "origin", "mine", "--dry-run")
    assert push.out.startswith("Branch 'mine' would be created at origin")
    assert call(ada, "push", "--dry-run").code == 3
    pull = call(ada, "pull", "--dry-run")
    assert "merge of origin/main@5 into main would be one version" in pull.out
    assert rows(ada) == [10, 20, 30, 50]
    assert call(ada, "pull").code == 0
    push = call(ada, "push", "--dry-run")
    assert push.out.startswith(
        "Would push main@6 to origin, as one version of 'main':\n  2 versions; +1 -0 rows; 1 file"
    )
    assert rows(flights) == [10, 20, 30, 40]
    assert {path: text for path, text in everything(flights).items() if "tags" not in path.parts} == {
        path: text for path, text in origin.items() if "tags" not in path.parts
    }


WRONG = [
    (("nowhere.lance", "new"), 10, "There is no Lance dataset at"),
    (("flights.lance", "new", "--ref", "nope"), 10, "There is no branch or tag 'nope'."),
    (("flights.lance", "flights.lance"), 11, "is the dataset itself"),
    (("flights.lance", "full"), 11, "/full is not empty."),
    (("flights.lance", "note.txt"), 11, "/note.txt is not empty."),
    (("flights.lance", "other"), 11, "already has a workspace for"),
    (("flights.lance", "ada"), 11, "already has a clone of"),
    (("--dataset", "x", "flights.lance", "new"), 2, "as its argument"),
    (("s3://key:hush-hush@bucket/t", "new"), 2, "The URI has credentials in it"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), WRONG, ids=[" ".join(wrong[0]) for wrong in WRONG])
def test_a_refused_clone_leaves_nothing(flights, ada, tmp_path, arguments, code, words):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    (tmp_path / "note.txt").write_text("x")
    call(tmp_path, "init", "t.lance", "other")
    before = everything(tmp_path)
    options = arguments[:2] if arguments[0].startswith("--") else ()
    done = call(tmp_path, *options, "clone", *arguments[len(options) :])
    assert (done.code, words in done.error) == (code, True), done
    assert "hush-hush" not in done.err
    assert everything(tmp_path) == before
    assert not (tmp_path / "new").exists()


def test_a_clone_that_failed_or_was_interrupted_is_taken_away(flights, tmp_path, monkeypatch):
    before = everything(tmp_path)
    for problem, code in ((StorageFailure("The network is gone."), 20), (KeyboardInterrupt(), 130)):

        def fail(*_, problem=problem):
            raise problem

        with monkeypatch.context() as patch:
            patch.setattr(cloning, "fetch", fail)
            assert call(tmp_path, "clone", "flights.lance", "ada").code == code
        assert not (tmp_path / "ada").exists()
        assert everything(tmp_path) == before  # nor do tags at the source keep anything for it


POINTS = [
    *((point, ("--ref", "exp")) for point in ("_make_main", "_follow_main", "protect", "fetch", "_branch")),
    *((point, ("--deep",)) for point in ("_make_main", "_follow_main")),
    *((point, ("--deep", "--ref", "exp")) for point in ("fetch", "_branch")),
]


@pytest.mark.parametrize(("point", "options"), POINTS)
def test_a_killed_clone_is_finished_by_the_same_call(flights, tmp_path, monkeypatch, point, options):
    with killed_at(cloning, point), monkeypatch.context() as patch:
        patch.setattr(clone_verb, "remove_with_content", lambda _: None)
        patch.setattr(clone_verb, "_release", lambda *_: None)
        call(tmp_path, "clone", "flights.lance", "ada", *options)
    ada = tmp_path / "ada"
    unfinished = call(ada, "branch")
    assert unfinished.code == 3
    assert f"hint: Finish it: lance-git clone {flights} {ada}" in unfinished.error
    append(flights, "exp", 33)  # what was asked for was the version before
    append(flights, None, 40)
    branch = "exp" if "exp" in options else None
    assert cloned(tmp_path, "ada", *options) == ada
    assert rows(ada, branch) == ([10, 20, 31, 32] if branch else [10, 20, 30])
    assert call(ada, "status").code == 0
    assert call(ada, "pull").code == 0
    assert rows(ada, branch) == rows(flights, branch)


def test_a_clone_of_another_branch_does_not_go_on_with_one_that_was_begun(flights, tmp_path, monkeypatch):
    with killed_at(cloning, "fetch"), monkeypatch.context() as patch:
        patch.setattr(clone_verb, "remove_with_content", lambda _: None)
        call(tmp_path, "clone", "flights.lance", "ada")
    done = call(tmp_path, "clone", "flights.lance", "ada", "--ref", "exp")
    assert (done.code, "A clone of main@4 was begun here" in done.error) == (11, True)


def test_a_process_that_is_killed(flights, tmp_path):
    process = subprocess.Popen([SCRIPT, "clone", "flights.lance", "ada"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not (tmp_path / "ada" / ".lance-git" / "config.toml").exists() and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    if process.wait() == 0:
        pytest.skip("it had finished")
    ada = cloned(tmp_path, "ada")
    assert rows(ada) == [10, 20, 30]
    assert branches(ada, "-r") == ["origin/both", "origin/exp", "origin/idle", "origin/main"]


def test_branches_of_a_remote_are_apart_from_ones_own(flights, ada):
    assert branches(ada) == ["main"]
    assert call(ada, "branch").out == "* main\n"
    assert call(ada, "branch", "-r").out.splitlines() == [
        "  origin/both",
        "  origin/exp",
        "  origin/idle",
        "  origin/main",
    ]
    assert branches(ada, "-a") == ["main", "origin/both", "origin/exp", "origin/idle", "origin/main"]
    listed = call(ada, "branch", "-r", "-v", "--json").json["branches"][1]
    assert listed["follows"] == {"remote": "origin", "branch": "exp", "version": 5}
    assert " exp@5 of origin " in call(ada, "branch", "-rv").out
    refused = call(ada, "branch", "-m", "origin/idle", "mine")
    assert (refused.code, "'origin/idle' follows 'idle' of origin" in refused.error) == (3, True)
    for arguments in (("branch", "origin/new"), ("checkout", "-b", "origin/new"), ("branch", "-m", "x", "origin/new")):
        assert call(ada, *arguments).code == 3
    deleted = call(ada, "branch", "-d", "origin/idle", "--yes")
    assert deleted.out.startswith("Branch 'origin/idle', which follows idle@4 of origin, with 0 versions of its own")
    assert deleted.err == "lance-git fetch origin idle creates it again.\n"
    assert call(ada, "fetch").code == 0
    assert "origin/idle" in branches(ada, "-r")
    for name in tags(flights) - {"v1", "both"}:
        call(flights, "tag", "-d", name, "-f", "--yes")
    assert call(flights, "branch", "-d", "idle", "--yes").code == 0
    assert call(ada, "fetch").out.splitlines()[-2:] == [
        "origin/idle           gone at the remote",
        "Forget it: lance-git branch -d origin/idle",
    ]


def test_switching_to_what_a_remote_has(flights, ada, tmp_path):
    refused = call(ada, "switch", "origin/exp")
    assert refused.code == 3
    assert refused.error.splitlines() == [
        "error: 'origin/exp' follows 'exp' of origin: only a fetch writes to it.",
        "hint: lance-git switch exp gives you a branch of your own.",
    ]
    assert call(ada, "switch", "exp", "--json").json == {
        "action": "switch",
        "branch": "exp",
        "from": "main",
        "created_at": {"branch": "origin/exp", "version": 8},
        "dry_run": False,
    }
    assert call(ada, "switch", "exp").out == "Already on 'exp'.\n"
    assert rows(ada, "exp") == [10, 20, 31, 32]
    assert call(ada, "switch", "nope").code == 10
    assert call(ada, "switch", "idle@4").code == 10
    shutil.copytree(flights, tmp_path / "up.lance")
    call(ada, "remote", "add", "up", "../up.lance")
    assert call(ada, "fetch", "up", "idle").code == 0
    two = call(ada, "switch", "idle")
    assert two.code == 3
    assert two.error.splitlines() == [
        "error: More than one remote has a branch 'idle'.",
        "hint: Choose one: lance-git checkout -b idle origin/idle.",
    ]
    assert call(ada, "fetch").code == 0  # from origin


def test_nobody_but_a_fetch_writes_to_a_following_branch(flights, ada):
    file = ada / ".lance-git" / "config.toml"
    file.write_text(file.read_text().replace('branch = "main"', 'branch = "origin/exp"'))
    before = everything(ada)
    for arguments in (
        ("merge", "main"),
        ("cherry-pick", "main@4"),
        ("revert", "HEAD"),
        ("restore", "HEAD~1", "--yes"),
        ("pull",),
        ("push",),
        ("push", "origin", "origin/main"),
    ):
        done = call(ada, *arguments)
        assert (done.code, "only a fetch writes to it" in done.error) == (3, True), arguments
    assert everything(ada) == before
    assert "It follows exp of origin" in call(ada, "status").out
    assert "follows a remote's" in call(ada, "branch").err


def test_refs_of_a_remote(flights, ada):
    for value in (40, 50):
        append(flights, None, value)
        assert call(ada, "fetch").code == 0
    for ref, count in (("origin/main", 5), ("origin/main~1", 4), ("origin/main@5", 4), ("heads/origin/main", 5)):
        shown = call(ada, "show", ref, "--json").json
        assert shown["entry"]["total_rows"] == count, ref
        assert call(ada, "log", ref, "-n", "1", "--json").json["versions"][0]["total_rows"] == count
    assert call(ada, "diff", "main..origin/main", "--rows", "--json").json["rows"]["added"] == 2
    assert call(ada, "diff", "origin/main@5..origin/main", "--json").json["rows"]["added"] == 1
    assert call(ada, "tag", "fetched", "origin/main").code == 0
    assert call(ada, "merge", "origin/main~1").code == 0
    assert rows(ada) == [10, 20, 30, 40]


def test_the_log_of_a_remotes_branch_has_the_versions_of_the_remote(flights, ada):
    append(flights, "exp", 33)
    lance.dataset(str(flights / "tree" / "exp")).delete("id = 31")
    call(ada, "switch", "main")
    append(ada, None, 40)
    call(ada, "push", "-m", "forty")
    assert call(ada, "fetch").code == 0
    lines = [line.partition("  20")[0].rstrip() for line in call(ada, "log", "origin/exp", "--graph").out.splitlines()]
    assert lines == [
        "* origin/exp@9 (origin/exp)  fetch (update) of exp@7 at origin  4 rows",
        "|     exp@7  delete",
        "|     exp@6  append",
        "* origin/exp@8  fetch (update) of exp@5 at origin  4 rows",
        "|     exp@5  append",
        "|     exp@4  append",
        "* origin/exp@7  fetch (update) of exp@3 at origin  2 rows",
        "      Fetch exp@3 of origin",
    ]
    shown = call(ada, "log", "origin/main", "--json").json["versions"]
    assert [entry["message"] for entry in shown] == ["main@5  push (update): forty", None]
    assert shown[0]["parents"][0] == "main@4"
    bob = cloned(flights.parent, "bob")
    assert (
        call(bob, "log", "origin/exp", "-n", "1", "--json").json["versions"][0]["message"]
        == "exp@7  delete\nexp@6  append\nexp@5  append\nexp@4  append"
    )


def test_tags_that_protect_a_clone_are_not_in_the_way(flights, ada):
    assert {tag["name"] for tag in call(flights, "tag", "--json").json["tags"]} == {"v1", "both"}
    own = sorted(tags(flights) - {"v1", "both"})
    assert len(own) > 4
    assert "clone-" not in call(flights, "log").out
    for name in own:
        done = call(flights, "tag", "-d", name, "--yes")
        assert (done.code, f"the clone at {ada} needs" in done.error) == (3, True)
    assert "clone-" not in call(flights, "branch", "new", "nope").error


def test_remotes_are_noted_and_forgotten(flights, tmp_path):
    added = call(flights, "remote", "add", "origin", "../copy.lance")
    assert added.out == f"Remote 'origin' is {tmp_path}/copy.lance.\n"
    assert call(flights, "remote").out == "origin\n"
    assert call(flights, "remote", "add", "origin", "s3://bucket/t").code == 11
    assert call(flights, "remote", "set-url", "origin", "s3://bucket/t", "--json").json == {
        "action": "set-url",
        "remote": "origin",
        "uri": "s3://bucket/t",
        "was": f"{tmp_path}/copy.lance",
        "dry_run": False,
    }
    assert call(flights, "--json", "remote").json == {"remotes": [{"name": "origin", "uri": "s3://bucket/t"}]}
    assert "Did you mean 'origin'?" in call(flights, "remote", "remove", "orign").error
    assert call(flights, "remote", "remove", "origin", "--json").json["deleted"] == []
    assert call(flights, "remote").out == ""


def test_a_remote_that_is_removed_takes_its_branches_along(flights, ada):
    call(ada, "switch", "exp")
    refused = call(ada, "remote", "remove", "origin")
    assert (refused.code, "Nothing was done, as nobody could be asked" in refused.error) == (3, True)
    assert len(branches(ada, "-r")) == 4
    done = call(ada, "remote", "remove", "origin", "--yes")
    assert done.out.splitlines() == [
        "Remote 'origin' was removed, with the branches origin/both, origin/idle, origin/main.",
        "  origin/exp stays: 'exp' was created from it and reads its files.",
    ]
    assert branches(ada, "-a") == ["main", "exp", "origin/exp"]
    assert rows(ada) == [10, 20, 30]
    assert rows(ada, "exp") == [10, 20, 31, 32]


def test_a_remote_that_moved(flights, ada, tmp_path):
    moved = tmp_path / "moved.lance"
    shutil.copytree(flights, moved)
    append(moved, None, 40)
    done = call(ada, "remote", "set-url", "origin", "../moved.lance")
    assert done.err.splitlines() == [
        f"What was fetched is still read from {flights}. If that no longer exists:",
        f"  lance-git relocate --from {flights} --to {moved}",
    ]
    assert call(ada, "fetch").out.splitlines()[-1] == "origin/main  4 -> 5   updated"
    assert call(ada, "pull").code == 0
    assert rows(ada) == [10, 20, 30, 40]


def test_which_remote_is_meant(flights, ada, tmp_path):
    assert call(ada, "fetch", "../flights.lance").out == "origin has nothing new (4 branches).\n"
    assert call(tmp_path, "--dataset", "ada", "fetch").code == 0
    assert call(tmp_path, "--dataset", "ada", "fetch", flights, "exp").code == 0
    append(ada, None, 40)
    assert call(tmp_path, "--dataset", "ada", "push").code == 0
    for arguments, code, said in (
        (("fetch", "exp"), 10, "Name the remote first: origin exp."),
        (("fetch", "origin/exp"), 10, "Put a space between the two: origin exp."),
        (("fetch", "orign"), 10, "Remotes here: origin."),
        (("fetch", "../other.lance"), 10, "Add one with: lance-git remote add NAME URI."),
        (("fetch", "origin", "nope"), 10, "There is no branch 'nope'."),
        (("push", "origin", "nope"), 10, "There is no branch 'nope'."),
        (("--dataset", ".", "fetch", "../other.lance"), 10, "leave --dataset out"),
    ):
        done = call(ada, *arguments)
        assert (done.code, said in done.error) == (code, True), done
    call(ada, "checkout", "-b", "mine")
    assert "lance-git push creates 'mine' there" in call(ada, "pull").error
    call(ada, "remote", "add", "up", "../up.lance")
    call(ada, "remote", "remove", "origin", "--yes")
    assert "There is no Lance dataset at" in call(ada, "fetch").error  # up is the only one now
    call(ada, "remote", "add", "down", "../down.lance")
    assert "Name one of down, up." in call(ada, "fetch").error
    assert call(flights, "push").error.splitlines()[0] == "error: There is no remote."


def test_a_push_makes_a_new_dataset_and_a_lost_one_is_not_made_anew(flights, tmp_path):
    call(flights, "remote", "add", "origin", "../new.lance")
    assert "Push main first" in call(flights, "push", "origin", "exp").error
    assert call(flights, "push").code == 0
    call(flights, "checkout", "-b", "more")
    append(flights, "more", 40)
    assert call(flights, "push").code == 0
    assert (rows(tmp_path / "new.lance"), rows(tmp_path / "new.lance", "more")) == ([10, 20, 30], [10, 20, 30, 40])
    (tmp_path / "new.lance").rename(tmp_path / "moved.lance")
    lost = call(flights, "push")
    assert (lost.code, "lance-git remote set-url origin URI" in lost.error) == (10, True)
    assert not (tmp_path / "new.lance").exists()


def test_nobody_answers_is_not_absent(flights, ada, tmp_path, monkeypatch):
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    dead = {"endpoint": f"http://127.0.0.1:{port}", "access_key_id": "x", "secret_access_key": "hush-hush"}
    options = [f"aws_{key}={value}" for key, value in dead.items()]
    options += ["allow_http=true", "aws_region=us-east-1", "client_max_retries=1", "client_retry_timeout=1"]
    storage = [part for option in options for part in ("--storage", option)]
    call(ada, "remote", "add", "far", "s3://bucket/t.lance")
    before = everything(ada)
    for arguments in (("fetch", "far"), ("push", "far")):
        done = call(ada, *storage, *arguments)
        assert (done.code, "hush-hush" in done.err) == (20, False), done
    assert call(tmp_path, *storage, "clone", "s3://bucket/t.lance").code == 20
    assert not (tmp_path / "t").exists()
    real, list_names = lance.dataset, files.list_names

    def denied(uri, *rest, **options):
        if str(uri).startswith(str(flights)):
            raise OSError("LanceError(IO): Generic LocalFileSystem error: Permission denied (os error 13)")
        return real(uri, *rest, **options)

    def denied_list(location, directory):
        if location.uri == str(flights):
            raise PermissionDenied("Permission denied.")
        return list_names(location, directory)

    with monkeypatch.context() as patch:
        patch.setattr(lance, "dataset", denied)
        patch.setattr(files, "list_names", denied_list)
        for arguments in (("fetch",), ("push",), ("pull",), ("remote", "show", "origin")):
            assert call(ada, *arguments).code == 21, arguments
    assert everything(ada) == before


def test_a_tag_is_pushed_to_the_version_with_the_same_rows(flights, ada):
    assert call(ada, "tag", "v9").code == 0
    assert call(ada, "push", "origin", "v9", "--dry-run").out.startswith("Would push tag 'v9' to origin")
    assert "v9" not in tags(flights)
    assert call(ada, "push", "origin", "v9", "--json").json["created"] is True
    assert sorted(lance.dataset(str(flights), version="v9").to_table()["id"].to_pylist()) == rows(ada)
    assert call(ada, "push", "origin", "tags/v9").out.startswith("origin (")
    append(ada, None, 77)
    assert call(ada, "tag", "v10").code == 0
    error = call(ada, "push", "origin", "v10")
    assert (error.code, "lance-git push origin main" in error.error) == (3, True)
    assert "v10" not in tags(flights)
    told = call(ada, "push", "--tags", "-u").out
    assert "Pushed tag 'v10' to origin" in told
    assert "v9" not in told
    assert sorted(lance.dataset(str(flights), version="v10").to_table()["id"].to_pylist()) == rows(ada)
    append(ada, None, 78)
    assert call(ada, "push").code == 0
    assert call(ada, "push", "origin", "v10").code == 0, "it was pushed as a version of its own"
    assert call(ada, "tag", "old", "origin/main~1").code == 0
    assert call(ada, "push", "origin", "old").code == 0, "it was fetched from there"
    assert call(ada, "tag", "newest").code == 0
    assert call(ada, "push", "--tags").out.startswith("Branch 'main' is up to date.\nPushed tag 'newest'")
    assert call(ada, "push", "--tags").out == "Everything up to date.\n"
    assert call(ada, "tag", "-f", "v10", "--yes").code == 0
    assert call(ada, "push", "origin", "v10").code == 11, "a tag there is never moved"


def test_rm_is_remove(ada):
    assert call(ada, "remote", "rm", "origin", "--dry-run").out.startswith("Remote 'origin' would be removed")
