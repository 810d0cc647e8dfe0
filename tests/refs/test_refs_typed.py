"""Refs as SQL has them, and names of tables with refs in them: tables of what is typed and what is meant."""

from datetime import datetime, timedelta, timezone

import pytest

from lance_spark.catalog.entry_rules import metadata_reading, readings
from lance_spark.catalog.name_rules import Identifier
from lance_spark.core.ref_expressions import (
    DEFAULT,
    TypedRef,
    combine,
    parse_moment,
    parse_version_text,
    spec_of_branch,
)
from lance_spark.core.refs import RefSpec
from lance_spark.errors import InvalidName, InvalidOption

pytestmark = pytest.mark.pure

NOON = datetime(2013, 7, 4, 12, tzinfo=timezone.utc)


def told(ref: TypedRef):
    """(name, version behind '@', steps back, version, moment)."""
    typed = ref.expression
    return (typed and typed.name, typed and typed.version, typed and typed.back, ref.version, ref.as_of)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", (None, None, None, 7, None)),
        (" 7 ", (None, None, None, 7, None)),
        ("v2013", ("v2013", None, 0, None, None)),
        ("tags/2013", ("tags/2013", None, 0, None, None)),
        ("exp/delays", ("exp/delays", None, 0, None, None)),
        ("exp/delays@7", ("exp/delays", 7, 0, None, None)),
        ("@7", (None, 7, 0, None, None)),
        ("main~2", ("main", None, 2, None, None)),
        ("2013-07-04", ("2013-07-04", None, 0, None, None)),
    ],
)
def test_what_stands_behind_version_as_of(text, expected):
    assert told(parse_version_text(text)) == expected


@pytest.mark.parametrize(
    "text", ["", " ", "0", "9223372036854775808", "99999999999999999999", "a..b", "a@b", "a@0", "@"]
)
def test_texts_that_are_no_version_are_refused(text):
    with pytest.raises(InvalidOption):
        parse_version_text(text)


def test_a_moment_comes_in_microseconds():
    micros = int(NOON.timestamp()) * 10**6 + 5
    assert parse_moment(micros).as_of == NOON + timedelta(microseconds=5)
    assert parse_moment(-1).as_of == datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc)
    with pytest.raises(InvalidOption):
        parse_moment(2**62)


@pytest.mark.parametrize(
    ("name", "travel", "expected"),
    [
        ("exp", "7", ("exp", None, 0, 7, None)),
        ("exp", "@7", ("exp", 7, 0, None, None)),
        ("exp", "HEAD~2", ("exp", None, 2, None, None)),
        ("exp", None, ("exp", None, 0, None, None)),
        (None, "exp@7", ("exp", 7, 0, None, None)),
    ],
)
def test_a_branch_in_the_name_and_a_version_behind_it(name, travel, expected):
    named = DEFAULT if name is None else parse_version_text(name)
    assert told(combine(named, DEFAULT if travel is None else parse_version_text(travel))) == expected


def test_a_branch_in_the_name_and_a_moment_behind_it():
    combined = combine(parse_version_text("exp"), TypedRef(as_of=NOON))
    assert spec_of_branch("exp", combined) == RefSpec(branch="exp", as_of=NOON)


@pytest.mark.parametrize(
    ("name", "travel"), [("exp@7", "8"), ("7", "8"), ("exp~1", "8"), ("exp", "v1"), ("exp", "b@8")]
)
def test_a_version_is_chosen_once(name, travel):
    with pytest.raises(InvalidOption):
        combine(parse_version_text(name), parse_version_text(travel))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("flights", [("flights", None)]),
        ("flights@exp/delays", [("flights", "exp/delays")]),
        ("flights@exp/delays@7", [("flights", "exp/delays@7")]),
        ("flights@exp@7", [("flights@exp@7", None), ("flights", "exp@7"), ("flights@exp", "7")]),
        ("a@b", [("a@b", None), ("a", "b")]),
        ("a@b@c", [("a@b@c", None), ("a@b", "c")]),
        ("a@b@main", [("a@b@main", None), ("a@b", "main")]),
        ("@b", [("@b", None)]),
        ("a@", [("a@", None)]),
        ("a@b@", [("a@b@", None)]),
        ("a@@7", [("a@@7", None), ("a", "@7"), ("a@", "7")]),
        ("a @b", [("a @b", None)]),
        ("a@0", [("a@0", None)]),
    ],
)
def test_the_readings_of_a_name(name, expected):
    def text(reading):
        return (reading.ref.version and str(reading.ref.version)) or (
            reading.ref.expression and str(reading.ref.expression)
        )

    found = readings(Identifier(("ns", name)))
    assert [(reading.table.name, text(reading)) for reading in found] == expected
    assert all(reading.table.parent == Identifier(("ns",)) for reading in found)


@pytest.mark.parametrize("name", ["", "a/b", "a/b@exp", "a$b", "../x"])
def test_a_name_without_a_valid_reading_is_refused(name):
    with pytest.raises(InvalidName):
        readings(Identifier(("ns", name)))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("ns", "t", "branches"), (("ns", "t"), "branches")),
        (("t", "FILES"), (("t",), "files")),
        (("ns", "t@exp", "versions"), (("ns", "t@exp"), "versions")),
        (("branches",), None),
        (("ns", "t"), None),
        (("ns", "t", "snapshots"), None),
    ],
)
def test_the_names_of_metadata_tables(parts, expected):
    found = metadata_reading(Identifier(parts))
    assert (found and (found[0].parts, found[1])) == expected
