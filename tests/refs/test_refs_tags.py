"""Tags on local disk through the actions, with pylance as the independent reader."""

from pathlib import Path

import lance
import pytest
from support.local_datasets import contents, ids, make_dataset, numbers, pin, write

from lance_spark.core.refs import RefSpec
from lance_spark.errors import AlreadyExists, InvalidName, NotFound
from lance_spark.refs.refs import create_branch, create_tag, delete_tag, list_tags, move_tag
from lance_spark.storage.datasets import locate


@pytest.fixture
def location(uri):
    make_dataset(uri, numbers(3), numbers(2, 3))
    create_branch(locate(uri), "dev", RefSpec(version=1))
    write(uri, numbers(1, 100), branch="dev")
    return locate(uri)


def test_a_tag_points_at_one_version_of_one_branch_for_us_and_for_pylance(location, uri):
    create_tag(location, "head", RefSpec())
    create_tag(location, "first", RefSpec(version=1))
    create_tag(location, "work", RefSpec(branch="dev"))
    create_tag(location, "copy", RefSpec(tag="work"))
    write(uri, numbers(1, 500), branch="dev")

    expected = {"head": (None, 2), "first": (None, 1), "work": ("dev", 2), "copy": ("dev", 2)}
    assert {tag.name: (tag.branch, tag.version) for tag in list_tags(location)} == expected
    theirs = lance.dataset(uri).tags.list()
    assert {name: (tag["branch"], tag["version"]) for name, tag in theirs.items()} == expected
    assert ids(uri, tag="work") == ids(uri, tag="copy") == [0, 1, 2, 100]
    assert ids(uri, tag="first") == [0, 1, 2]


def test_create_never_moves_a_tag_and_move_says_so(location, uri):
    create_tag(location, "v1", RefSpec(version=1))
    with pytest.raises(AlreadyExists, match=r"tags\.move"):
        create_tag(location, "v1", RefSpec(version=2))
    assert pin(uri, tag="v1").version == 1
    move_tag(location, "v1", RefSpec(branch="dev"))
    assert ids(uri, tag="v1") == [0, 1, 2, 100]
    delete_tag(location, "v1")
    assert list_tags(location) == []
    assert lance.dataset(uri).tags.list() == {}


def test_a_missing_tag_is_named_with_the_nearest(location):
    create_tag(location, "release-1", RefSpec())
    for attempt in (delete_tag, lambda where, name: move_tag(where, name, RefSpec())):
        with pytest.raises(NotFound, match="Did you mean 'release-1'"):
            attempt(location, "release-2")


@pytest.mark.parametrize("target", [RefSpec(version=99), RefSpec(branch="nope"), RefSpec(tag="nope")])
def test_a_tag_is_not_put_on_what_is_not_there(location, uri, target):
    create_tag(location, "v1", RefSpec())
    before = contents(uri)
    for attempt, name in ((create_tag, "new"), (move_tag, "v1")):
        with pytest.raises(NotFound):
            attempt(location, name, target)
    assert contents(uri) == before


@pytest.mark.parametrize("name", ["", "a/b", ".a", "a.", "a..b", "x.lock", "a b", "é", "t" * 212])
@pytest.mark.parametrize("exists", [True, False])
def test_a_bad_tag_name_is_refused_before_storage_is_touched(uri, name, exists):
    if exists:
        make_dataset(uri)
    before = contents(uri)
    with pytest.raises(InvalidName, match="not a valid tag name"):
        create_tag(locate(uri), name, RefSpec())
    assert contents(uri) == before


def test_a_tag_whose_version_was_cleaned_away_names_the_versions_left(location, uri):
    create_tag(location, "v1", RefSpec(version=1))
    Path(uri, "_versions", f"{2**64 - 2}.manifest").unlink()
    with pytest.raises(NotFound, match="no version 1") as caught:
        ids(uri, tag="v1")
    assert "2" in caught.value.hint
