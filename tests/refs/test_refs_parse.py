"""Ref files: both spellings of the keys, and a clear error for everything else."""

import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.core.ref_files import BRANCHES, TAGS, parse_branch, parse_tag, ref_file, ref_name
from lance_spark.errors import CorruptData

pytestmark = pytest.mark.pure

BRANCH = {"parentBranch": "a/b", "parentVersion": 3, "createAt": 1795232936, "manifestSize": 1, "metadata": {"k": "v"}}
TAG = {"branch": "a/b", "version": 7, "createdAt": "2026-11-21T03:48:56.044359970Z", "updatedAt": "?", "metadata": {}}


def raw(entry):
    return json.dumps(entry).encode()


def without(entry, *keys):
    return {key: value for key, value in entry.items() if key not in keys}


def snake(entry):
    names = {"parentBranch": "parent_branch", "parentVersion": "parent_version", "createAt": "create_at"}
    return {names.get(key, key).replace("createdAt", "created_at"): value for key, value in entry.items()}


@pytest.mark.parametrize("spell", [dict, snake])
def test_a_branch_file_is_read_in_both_spellings(spell):
    branch = parse_branch("x", raw(spell(BRANCH)))
    assert (branch.name, branch.parent_branch, branch.parent_version) == ("x", "a/b", 3)
    assert branch.created_at == datetime(2026, 11, 21, 3, 48, 56, tzinfo=timezone.utc)
    assert branch.metadata == {"k": "v"}


def test_a_branch_file_as_pylance_writes_it_is_read():
    content = b"""{ "parentBranch": null,
      "identifier": {"version_mapping": [[1, "4bab99a6d16d47ffa6c7ba7067ff79e1"]]},
      "parentVersion": 1, "createAt": 1795232935, "manifestSize": 369, "metadata": {} }"""
    branch = parse_branch("br/é", content)
    assert (branch.parent_branch, branch.parent_version, branch.metadata) == (None, 1, {})


@pytest.mark.parametrize("entry", [without(BRANCH, "parentBranch", "metadata"), {**BRANCH, "metadata": None}])
def test_what_is_optional_in_a_branch_file_may_be_missing(entry):
    assert parse_branch("x", raw(entry)).metadata == {}


@pytest.mark.parametrize("spell", [dict, snake])
def test_a_tag_file_is_read_in_both_spellings(spell):
    tag = parse_tag("v1", raw(spell(TAG)))
    assert (tag.name, tag.branch, tag.version) == ("v1", "a/b", 7)
    assert tag.created_at == datetime(2026, 11, 21, 3, 48, 56, 44359, tzinfo=timezone.utc)


@pytest.mark.parametrize("entry", [{"version": 7}, {"version": 7, "branch": None, "createdAt": None, "metadata": None}])
def test_a_tag_file_of_an_older_writer_has_only_a_version(entry):
    tag = parse_tag("v1", raw(entry))
    assert (tag.branch, tag.version, tag.created_at, tag.metadata) == (None, 7, None, {})


@pytest.mark.parametrize(
    ("text", "seconds", "micros"),
    [
        ("2026-01-01T00:00:00Z", 0, 0),
        ("2026-01-01T00:00:00.5Z", 0, 500000),
        ("2026-01-01T00:00:01.000000001Z", 1, 0),
        ("2026-01-01T00:00:01.999999999Z", 1, 999999),
        ("2026-01-01T00:00:01.123456+00:00", 1, 123456),
        ("2026-01-01T02:00:00+02:00", 0, 0),
        ("2025-12-31T19:00:00.5-05:00", 0, 500000),
    ],
)
def test_times_with_nanoseconds_and_offsets_are_read_to_the_microsecond(text, seconds, micros):
    expected = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=seconds, microseconds=micros)
    assert parse_tag("t", raw({"version": 1, "createdAt": text})).created_at == expected


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "cannot be understood"),
        (b"{", "cannot be understood"),
        (b"\xff\xfe", "cannot be understood"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'"x"', "not a JSON object"),
        (b"[" * 100_000, "cannot be understood"),
        (raw(without(BRANCH, "parentVersion")), "'parentVersion' is missing"),
        (raw(without(BRANCH, "createAt")), "'createAt' is missing"),
        (raw({**BRANCH, "parentVersion": None}), "cannot be understood"),
        (raw({**BRANCH, "parentVersion": "three"}), "three"),
        (raw({**BRANCH, "parentBranch": 5}), "5"),
        (raw({**BRANCH, "createAt": 10**12}), "cannot be understood"),
        (raw({**BRANCH, "createAt": 10**40}), "cannot be understood"),
        (raw({**BRANCH, "createAt": float("inf")}), "cannot be understood"),
        (raw({**BRANCH, "metadata": 5}), "cannot be understood"),
    ],
)
def test_a_branch_file_that_is_damaged_is_named(content, word):
    with pytest.raises(CorruptData, match=word) as caught:
        parse_branch("my/branch", content)
    assert "ref file of branch 'my/branch'" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"not json", "cannot be understood"),
        (b"3", "not a JSON object"),
        (raw(without(TAG, "version")), "'version' is missing"),
        (raw({**TAG, "version": []}), "cannot be understood"),
        (raw({**TAG, "branch": ["a"]}), "cannot be understood"),
        (raw({**TAG, "createdAt": 1795232936}), "cannot be understood"),
        (raw({**TAG, "createdAt": "yesterday"}), "yesterday"),
        (raw({**TAG, "createdAt": "2026-13-01T00:00:00Z"}), "cannot be understood"),
        (raw({**TAG, "createdAt": "0001-01-01T00:00:00+14:00"}), "cannot be understood"),
        (raw({**TAG, "metadata": "x"}), "cannot be understood"),
    ],
)
def test_a_tag_file_that_is_damaged_is_named(content, word):
    with pytest.raises(CorruptData, match=word) as caught:
        parse_tag("v1", content)
    assert "ref file of tag 'v1'" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("exp", "_refs/branches/exp.json"),
        ("bugfix/issue-123", "_refs/branches/bugfix%2Fissue-123.json"),
        ("é", "_refs/branches/%C3%A9.json"),
        ("v1.0_x-y", "_refs/branches/v1.0_x-y.json"),
    ],
)
def test_a_slash_in_a_branch_name_is_escaped_in_its_file_name(name, path):
    assert ref_file(BRANCHES, name) == path


@given(st.text(min_size=1), st.sampled_from([BRANCHES, TAGS]))
def test_the_name_comes_back_from_the_file_name(name, directory):
    path = ref_file(directory, name)
    assert path.count("/") == directory.count("/") + 1
    assert ref_name(path) == ref_name(path.rsplit("/", 1)[1]) == name


@pytest.mark.parametrize("path", ["_refs/tags/v1", "_refs/tags/v1.json.tmp", "_refs/tags/", ""])
def test_a_file_that_is_no_ref_has_no_name(path):
    assert ref_name(path) is None
