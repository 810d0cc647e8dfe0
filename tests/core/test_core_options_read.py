"""The options of a read: every one, its alias, its bad values, and what excludes what."""

from datetime import datetime, timezone

import pytest

from lance_spark.core.refs import RefSpec
from lance_spark.core.table_options import (
    READ_OPTIONS,
    ReadOptions,
    local_moment,
    parse_read_options,
    refuse_local_moment,
    refuse_stream_options,
    split_stream_options,
)
from lance_spark.errors import InvalidName, InvalidOption

pytestmark = pytest.mark.pure

NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)
GOOD = {
    "branch": ("exp/delays", {"ref": RefSpec(branch="exp/delays")}),
    "tag": ("v1", {"ref": RefSpec(tag="v1")}),
    "version": ("7", {"ref": RefSpec(version=7)}),
    "asOf": ("2026-01-01", {"ref": RefSpec(as_of=NEW_YEAR)}),
    "columns": ("id, m.a", {"columns": ("id", "m.a")}),
    "filter": ("id > 5", {"filter": "id > 5"}),
    "limit": ("0", {"limit": 0}),
    "with_row_id": ("true", {"with_row_id": True}),
    "with_row_address": ("TRUE", {"with_row_address": True}),
    "batch_size": ("1024", {"batch_size": 1024}),
    "split_size": ("64m", {"split_size": 2**26}),
    "blob_handling": ("Bytes", {"blob_handling": "bytes"}),
}


def test_no_option_means_the_latest_main_with_all_columns():
    assert parse_read_options({}) == ReadOptions(
        ref=RefSpec(),
        columns=None,
        filter=None,
        limit=None,
        with_row_id=False,
        with_row_address=False,
        batch_size=None,
        split_size=128 * 2**20,
        blob_handling="descriptions",
    )


def test_every_option_is_tried_below():
    assert set(GOOD) == set(READ_OPTIONS)


@pytest.mark.parametrize("spell", [str, str.lower, str.upper])
@pytest.mark.parametrize("option", GOOD)
def test_an_option_is_understood_in_any_case(option, spell):
    value, expected = GOOD[option]
    assert parse_read_options({spell(option): value}) == ReadOptions(**expected)


@pytest.mark.parametrize(("alias", "option"), [("versionAsOf", "version"), ("timestampAsOf", "asOf")])
@pytest.mark.parametrize("spell", [str, str.lower])
def test_an_alias_means_the_same(alias, option, spell):
    value, expected = GOOD[option]
    assert parse_read_options({spell(alias): value}) == ReadOptions(**expected)
    with pytest.raises(InvalidOption, match=f"Option '{option}' is given twice"):
        parse_read_options({option: value, spell(alias): value})


@pytest.mark.parametrize(
    ("given", "ref"),
    [
        ({"branch": "main"}, RefSpec()),
        ({"branch": "b", "version": "3"}, RefSpec(branch="b", version=3)),
        ({"branch": "main", "version": "3"}, RefSpec(version=3)),
        ({"branch": "b", "asOf": "2026-01-01"}, RefSpec(branch="b", as_of=NEW_YEAR)),
        ({"branch": "b", "timestampasof": "2026-01-01"}, RefSpec(branch="b", as_of=NEW_YEAR)),
        ({"tag": "main"}, RefSpec(tag="main")),
    ],
)
def test_a_branch_goes_with_a_version_or_a_moment(given, ref):
    assert parse_read_options(given).ref == ref


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"tag": "v1", "branch": "b"}, ("tag", "branch")),
        ({"tag": "v1", "branch": "main"}, ("tag", "branch")),
        ({"tag": "v1", "version": "1"}, ("tag", "version")),
        ({"tag": "v1", "versionAsOf": "1"}, ("tag", "version")),
        ({"tag": "v1", "asOf": "2026-01-01"}, ("tag", "asOf")),
        ({"TAG": "v1", "timestampAsOf": "2026-01-01"}, ("tag", "asOf")),
        ({"version": "1", "asOf": "2026-01-01"}, ("version", "asOf")),
        ({"branch": "b", "version": "1", "asOf": "2026-01-01"}, ("version", "asOf")),
    ],
)
def test_two_refs_at_once_are_refused_naming_both(given, named):
    with pytest.raises(InvalidOption) as caught:
        parse_read_options(given)
    assert all(f"'{name}'" in caught.value.message for name in named)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("version", "0"),
        ("version", "-3"),
        ("version", "latest"),
        ("version", str(2**70)),
        ("asOf", "last tuesday"),
        ("columns", ""),
        ("columns", "a,,b"),
        ("filter", ""),
        ("filter", "  "),
        ("filter", "id > 1) OR (id < 0"),
        ("limit", "-1"),
        ("limit", "ten"),
        ("limit", str(2**64)),
        ("with_row_id", "maybe"),
        ("with_row_address", ""),
        ("batch_size", "0"),
        ("split_size", "0"),
        ("split_size", "lots"),
        ("blob_handling", "path"),
    ],
)
def test_a_bad_value_is_refused_naming_the_option(option, value):
    with pytest.raises(InvalidOption, match=f"Option '{option}' is"):
        parse_read_options({option: value})


@pytest.mark.parametrize(("option", "value"), [("branch", ""), ("branch", "a//b"), ("tag", "a/b"), ("tag", "")])
def test_a_ref_that_cannot_exist_is_refused(option, value):
    with pytest.raises(InvalidName):
        parse_read_options({option: value})


@pytest.mark.parametrize(
    ("option", "near"),
    [
        ("branche", "branch"),
        ("versionasoff", "versionAsOf"),
        ("column", "columns"),
        ("withRowIds", "with_row_id"),
        ("mode", None),
        ("create_branch", None),
        ("max_rows_per_file", None),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_one(option, near):
    with pytest.raises(InvalidOption, match=f"Unknown option '{option}' for reading") as caught:
        parse_read_options({option: "1"})
    assert near is None or caught.value.hint == f"Did you mean '{near}'?"


@pytest.mark.parametrize(
    ("given", "named", "call"),
    [
        ({"readChangeFeed": "true"}, "readChangeFeed", "changes(since)"),
        ({"readChangeFeed": "true", "startingVersion": "5"}, "readChangeFeed", "changes(4)"),
        ({"readChangeFeed": "true", "startingVersion": "1"}, "readChangeFeed", "changes(1)"),
        ({"readchangefeed": "true", "startingversion": "5", "endingversion": "7"}, "readChangeFeed", "changes(4, 7)"),
        ({"changes": "true", "starting_version": "exp"}, "changes", "changes(since)"),
        ({"startingVersion": "5", "endingVersion": "7"}, "endingVersion", "changes(4, 7)"),
        (
            {"readChangeData": "true", "startingTimestamp": "2026-01-01", "endingTimestamp": "2026-02-01"},
            "readChangeData",
            "changes(datetime.fromisoformat('2026-01-01'), datetime.fromisoformat('2026-02-01'))",
        ),
    ],
)
@pytest.mark.parametrize("parse", [parse_read_options, refuse_stream_options])
def test_a_read_of_changes_is_answered_with_the_call_that_does_it(given, named, call, parse):
    with pytest.raises(InvalidOption) as caught:
        parse(given)
    assert caught.value.message == f"Option '{named}' does not apply to a read, which covers one version."
    assert f"LanceTable.for_path(path).{call} is" in caught.value.hint


def test_in_a_stream_deltas_word_for_changes_is_taken():
    assert split_stream_options({"readChangeFeed": "true", "branch": "b"}) == ({"changes": "true"}, {"branch": "b"})


SPELLINGS = [
    ({"with_row_id": "true"}, {"withRowId": "true"}),
    ({"batch_size": "7"}, {"batchSize": "7"}),
    ({"asOf": "2026-01-31"}, {"as_of": "2026-01-31"}),
    ({"version": "3"}, {"version_as_of": "3"}),
    ({"blob_handling": "bytes"}, {"BlobHandling": "bytes"}),
]


@pytest.mark.parametrize(("ours", "theirs"), SPELLINGS)
def test_an_option_is_the_same_with_underscores_and_in_camel_case(ours, theirs):
    assert parse_read_options(ours) == parse_read_options(theirs)
    with pytest.raises(InvalidOption, match="given twice"):
        parse_read_options({**ours, **theirs})


@pytest.mark.parametrize(
    ("moment", "local"),
    [
        ("2026-01-31", True),
        ("2026-01-31 12:00:00", True),
        ("2026-01-31T12:00:00.123456", True),
        ("2026-01-31T12:00:00Z", False),
        (" 2026-01-31T12:00:00+01:00 ", False),
        ("2026-01-31 12:00:00 Europe/Berlin", True),
    ],
)
def test_a_moment_without_an_offset_is_known(moment, local):
    for key in ("asOf", "as_of", "timestampAsOf", "TIMESTAMPASOF"):
        assert local_moment({"path": "t", key: moment}) == (key if local else None)
    assert local_moment({"path": moment}) is None


def test_a_moment_without_an_offset_is_refused_where_no_session_has_a_time_zone():
    with pytest.raises(InvalidOption, match="without an offset") as problem:
        refuse_local_moment({"timestampAsOf": "2026-01-31"})
    assert "2026-01-31T00:00:00Z" in str(problem.value)
    refuse_local_moment({"timestampAsOf": "2026-01-31T12:00:00Z"})
