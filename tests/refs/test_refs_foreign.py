"""Ref files that pylance did not write, or that something broke, and directories without one."""

import json
from pathlib import Path

import lance
import pytest
from support.local_datasets import contents, ids, make_dataset, numbers, write

from lance_spark.core.refs import RefSpec
from lance_spark.errors import AlreadyExists, CorruptData, NotFound, Refused
from lance_spark.refs.refs import create_branch, create_tag, delete_branch, delete_tag, list_branches, list_tags
from lance_spark.storage.datasets import locate


@pytest.fixture
def location(uri):
    make_dataset(uri)
    for name in ("dev", "team/x"):
        create_branch(locate(uri), name, RefSpec())
        write(uri, numbers(1, 100), branch=name)
    create_tag(locate(uri), "v1", RefSpec(branch="dev"))
    return locate(uri)


def rewrite(uri, path, **entry):
    file = Path(uri, "_refs", path)
    file.write_text(json.dumps(entry))
    return file


def test_a_branch_file_with_the_specifications_keys_is_read(location, uri):
    rewrite(uri, "branches/team%2Fx.json", parent_branch=None, parent_version=1, create_at=1_700_000_000)
    with pytest.raises(RuntimeError, match="parentVersion"):
        lance.dataset(uri).branches.list()

    branches = {branch.name: branch for branch in list_branches(location)}
    assert branches["team/x"].parent_version == 1
    assert branches["team/x"].created_at.year == 2023
    assert ids(uri, branch="team/x") == [0, 1, 2, 100]
    write(uri, numbers(1, 200), branch="team/x")
    create_tag(location, "v2", RefSpec(branch="team/x"))
    create_branch(location, "other", RefSpec())
    assert ids(uri, tag="v2") == [0, 1, 2, 100, 200]
    assert ids(uri, branch="other") == [0, 1, 2]


def test_a_tag_file_with_the_specifications_keys_is_read(location, uri):
    rewrite(uri, "tags/v0.json", branch="dev", version=1, manifest_size=500)
    assert [(tag.name, tag.branch, tag.version) for tag in list_tags(location)] == [("v0", "dev", 1), ("v1", "dev", 2)]
    assert ids(uri, tag="v0") == [0, 1, 2]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"parentVersion": "x", "createAt": 1, "version": "x"}',
        b'{"parentVersion": 1e999, "createAt": 1, "version": 1e999}',
        b'{"parentVersion": 1, "createAt": 1e99, "version": 1, "createdAt": 5}',
        b'{"parentVersion": 1, "parentBranch": 5, "createAt": 1, "version": 1, "branch": 5}',
        b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_one_corrupt_ref_file_is_named_and_hides_no_other_ref(location, uri, kind, content):
    folder = "branches" if kind == "branch" else "tags"
    Path(uri, "_refs", folder, "broken.json").write_bytes(content)
    before = contents(uri)
    attempts = [
        lambda: list_branches(location) if kind == "branch" else list_tags(location),
        lambda: ids(uri, **{kind: "broken"}),
        lambda: delete_branch(location, "team/x"),
    ]
    for attempt in attempts:
        with pytest.raises(CorruptData, match=f"{kind} 'broken'"):
            attempt()
    assert contents(uri) == before
    assert ids(uri, branch="dev") == ids(uri, tag="v1") == [0, 1, 2, 100]
    create_tag(location, "new", RefSpec())  # looks for its own name only
    delete_tag(location, "new")


def test_a_tag_with_a_letter_outside_ascii_is_listed_read_and_deleted_though_pylance_cannot_list_it(location, uri):
    lance.dataset(uri).tags.create("é", 1)
    with pytest.raises(ValueError, match="Not found"):
        lance.dataset(uri).tags.list()
    assert [tag.name for tag in list_tags(location)] == ["v1", "é"]
    assert ids(uri, tag="é") == [0, 1, 2]
    delete_branch(location, "team/x")
    assert [branch.name for branch in list_branches(location)] == ["dev"]
    delete_tag(location, "é")
    assert list(lance.dataset(uri).tags.list()) == ["v1"]


def test_other_files_beside_refs_are_ignored(location, uri):
    Path(uri, "_refs/branches/dev.json.bak").write_text("junk")
    Path(uri, "_refs/tags/.DS_Store").write_text("junk")
    assert [branch.name for branch in list_branches(location)] == ["dev", "team/x"]
    assert [tag.name for tag in list_tags(location)] == ["v1"]


@pytest.fixture
def zombie(location, uri):
    """Branch 'team/x' whose ref file is gone: what a crash while deleting or creating leaves behind."""
    Path(uri, "_refs/branches/team%2Fx.json").unlink()
    return location


def test_a_branch_directory_without_a_ref_file_is_not_a_branch(zombie, uri):
    before = contents(uri)
    for attempt in (
        lambda: ids(uri, branch="team/x"),
        lambda: write(uri, numbers(1), branch="team/x"),
        lambda: create_tag(zombie, "v2", RefSpec(branch="team/x")),
        lambda: create_branch(zombie, "child", RefSpec(branch="team/x")),
        lambda: delete_branch(zombie, "team/x"),
    ):
        with pytest.raises(NotFound, match="no branch 'team/x'"):
            attempt()
    assert [branch.name for branch in list_branches(zombie)] == ["dev"]
    assert contents(uri) == before


def test_a_branch_is_not_created_over_a_directory_left_behind(zombie, uri):
    before = contents(uri)
    for attempt in (
        lambda: create_branch(zombie, "team/x", RefSpec()),
        lambda: write(uri, numbers(1), branch="team/x", create_branch="true"),
    ):
        with pytest.raises(AlreadyExists, match="without its ref file") as caught:
            attempt()
        assert f"{uri}/tree/team/x" in caught.value.hint
    assert contents(uri) == before


@pytest.mark.parametrize("inside", ["data", "_versions", "_x/y"])
def test_a_branch_inside_another_ones_files_is_not_deleted_with_them(location, uri, inside):
    lance.dataset(uri).create_branch(f"dev/{inside}")
    before = contents(uri)
    with pytest.raises(Refused, match="among the files of branch 'dev'"):
        delete_branch(location, f"dev/{inside}")
    assert contents(uri) == before
    assert ids(uri, branch="dev") == [0, 1, 2, 100]
    assert ids(uri, branch=f"dev/{inside}") == [0, 1, 2]


def test_a_branch_named_below_main_is_not_deleted_because_pylance_would_delete_the_dataset(location, uri):
    lance.dataset(uri).create_branch("main/x")
    before = contents(uri)
    with pytest.raises(Refused, match="whole dataset"):
        delete_branch(location, "main/x")
    assert contents(uri) == before
