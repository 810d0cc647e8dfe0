"""Lifetimes, expiry, protection and the reflog as people type them."""

import lance
import pytest
from support.command_line import append, call, ids


def branches(flights):
    return set(lance.dataset(str(flights)).branches.list())


def tag_version(flights, name):
    return lance.dataset(str(flights)).tags.list()[name]["version"]


def test_a_branch_with_a_lifetime(flights):
    options = ["--expire-after", "30d", "--retain-versions", "3", "--owner", "ml"]
    call(flights, "branch", "new", *options)
    listed = call(flights, "branch", "-v")
    assert "expires after 30d, keeps 3 versions, owner ml" in listed.out
    done = call(flights, "branch", "--alter", "new", "--protected", "--unset", "retain_versions", "--json").json
    wanted = {"expire_after": "30d", "retain_versions": None, "owner": "ml", "protected": True}
    assert {name: done[name] for name in wanted} == wanted
    found = {entry["name"]: entry for entry in call(flights, "branch", "--json").json["branches"]}
    assert {name: found["new"][name] for name in wanted} == wanted
    assert call(flights, "branch", "-d", "new", "--yes").code == 3
    call(flights, "branch", "--alter", "new", "--no-protected")
    call(flights, "branch", "-d", "new", "--yes")


def test_a_tag_with_a_lifetime(flights):
    call(flights, "tag", "rc", "--expire-after", "5d", "--owner", "qa")
    assert "expires after 5d, owner qa" in call(flights, "tag").out
    call(flights, "tag", "--alter", "rc", "--unset", "expire_after")
    entry = next(tag for tag in call(flights, "tag", "--json").json["tags"] if tag["name"] == "rc")
    assert (entry["expire_after"], entry["owner"]) == (None, "qa")


@pytest.mark.parametrize(
    "typed",
    [
        ["branch", "--alter", "exp"],
        ["branch", "--expire-after", "30d"],
        ["branch", "--unset", "owner"],
        ["branch", "new", "--expire-after", "soon"],
        ["branch", "--alter", "exp", "--unset", "colour"],
        ["branch", "--restore", "exp", "-d", "exp"],
        ["branch", "--purge"],
        ["tag", "--alter", "v1"],
        ["tag", "--alter", "v1", "-d", "v1"],
        ["tag", "--owner", "x"],
        ["expire-refs", "--warn", "soon"],
        ["expire-refs", "--execute", "--dry-run"],
    ],
)
def test_what_is_typed_wrong_changes_nothing(flights, typed):
    before = branches(flights)
    assert call(flights, *typed).code == 2
    assert branches(flights) == before


def test_main_can_be_protected(flights):
    call(flights, "branch", "--alter", "main", "--protected")
    refused = call(flights, "restore", "main~1", "--yes")
    assert refused.code == 3
    assert "protected" in refused.err
    call(flights, "merge", "exp")
    assert 31 in ids(flights)
    assert call(flights, "branch", "--alter", "main", "--expire-after", "1d").code == 3


def test_expiry_is_dry_unless_told(flights):
    call(flights, "branch", "new", "idle", "--expire-after", "0.001s")
    call(flights, "branch", "--alter", "exp", "--expire-after", "0.001s")
    dry = call(flights, "expire-refs", "--json").json
    assert {ref["name"]: ref["state"] for ref in dry["refs"] if ref["expire_after"]} == {
        "exp": "to be warned of",
        "new": "to be warned of",
    }
    call(flights, "expire-refs", "--execute", "--warn", "1h")
    again = call(flights, "expire-refs", "--warn", "1h")
    assert "warned of" in again.out
    refused = call(flights, "expire-refs", "--execute", "--warn", "0s")
    assert refused.code == 3  # nobody said yes
    done = call(flights, "expire-refs", "--execute", "--warn", "0s", "--yes", "--json").json
    assert [(each["name"], each["outcome"]) for each in done["outcomes"]] == [("new", "deleted")]
    assert "exp" in branches(flights)  # it has changes that main does not have
    assert "new" not in branches(flights)
    call(flights, "expire-refs", "--execute", "--warn", "0s", "--yes", "--force")
    assert "exp" not in branches(flights)


def test_a_deleted_branch_is_restored(flights):
    rows = ids(flights, "exp")
    deleted = call(flights, "branch", "-d", "exp", "--yes")
    assert "branch --restore exp" in deleted.err
    assert "deleted" in call(flights, "reflog").out
    assert call(flights, "branch", "--restore", "exp", "--dry-run", "--json").json["at"]["branch"] == "exp"
    assert "exp" not in branches(flights)
    call(flights, "branch", "--restore", "exp")
    assert ids(flights, "exp") == rows
    append(flights, "exp", 99)
    assert "exp@6" in call(flights, "reflog", "exp").out


def test_a_purged_branch_is_gone_at_once(flights):
    call(flights, "branch", "-d", "exp", "--yes", "--purge")
    assert not (flights / "tree" / "exp").exists()
    assert call(flights, "branch", "--restore", "exp").code == 10


def test_a_moved_tag_is_taken_back(flights):
    before = tag_version(flights, "v1")
    call(flights, "tag", "-f", "v1", "main", "--yes")
    assert tag_version(flights, "v1") != before
    shown = call(flights, "reflog", "v1", "--json").json["changes"]
    assert [(change["action"], change["was"]) for change in shown] == [("moved", f"main@{before}")]
    assert call(flights, "tag", "--restore", "v1", "--dry-run", "--json").json["at"]["version"] == before
    call(flights, "tag", "--restore", "v1")
    assert tag_version(flights, "v1") == before
    call(flights, "tag", "-d", "v1", "--yes")
    call(flights, "tag", "--restore", "v1")
    assert tag_version(flights, "v1") == before


def test_a_tag_that_is_moved_twice_to_one_place_is_taken_back_all_the_same(flights):
    before = tag_version(flights, "v1")
    moved = call(flights, "tag", "-f", "v1", "main", "--yes")
    assert "tag --restore v1" in moved.err
    again = call(flights, "tag", "-f", "v1", "main")  # nothing moves, so nothing is asked
    assert again.out == f"Tag 'v1' is already at main@{tag_version(flights, 'v1')}.\n"
    call(flights, "tag", "--restore", "v1")
    assert tag_version(flights, "v1") == before
    assert "tag --restore v1" in call(flights, "tag", "-d", "v1", "--yes").err
