"""From text to values: what is taken, and errors that name the option, the value and the form expected."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.core import options
from lance_spark.errors import InvalidOption

pytestmark = pytest.mark.pure

MOMENT = datetime(2026, 1, 31, 12, 30, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("1", 1),
        ("134217728", 2**27),
        ("128m", 2**27),
        ("128M", 2**27),
        ("128MB", 2**27),
        ("128MiB", 2**27),
        (" 128 mib ", 2**27),
        ("1k", 1024),
        ("0.5k", 512),
        ("1.5g", 3 * 2**29),
        ("2t", 2**41),
        ("10b", 10),
        ("9007199254740993", 2**53 + 1),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_a_size_is_bytes_in_powers_of_1024(value, size):
    assert options.to_bytes("split_size", value) == size


@pytest.mark.parametrize(
    "value",
    ["", "0", "-1", "m", "128x", "1e9", "1,5g", "0.0001b", "128 m b", "5ib", "nan", "9223372036854775808", "9" * 400],
)
def test_what_is_no_size_is_refused(value):
    with pytest.raises(InvalidOption, match=r"Option 'split_size' is '.*', but it must be a size such as 128MiB"):
        options.to_bytes("split_size", value)


@pytest.mark.parametrize(
    ("words", "truth"), [(["true", "TRUE", " yes ", "on", "1"], True), (["false", "False", "no", "off", "0"], False)]
)
def test_the_words_for_true_and_false(words, truth):
    assert {options.to_bool("with_row_id", word) for word in words} == {truth}


@pytest.mark.parametrize("value", ["", "2", "t", "truee", "None"])
def test_what_is_neither_true_nor_false_is_refused(value):
    with pytest.raises(InvalidOption, match=f"'with_row_id' is '{value}', but it must be true or false"):
        options.to_bool("with_row_id", value)


@pytest.mark.parametrize(("value", "number"), [("0", 0), (" 7 ", 7), ("9223372036854775807", 2**63 - 1)])
def test_a_whole_number(value, number):
    assert options.to_int("limit", value) == number


@pytest.mark.parametrize("value", ["", "x", "1.0", "1e3", "-1", "9223372036854775808", "9" * 5000])
def test_what_is_no_whole_number_in_range_is_refused(value):
    with pytest.raises(InvalidOption, match=r"Option 'limit' is .* must be a whole number"):
        options.to_int("limit", value)


def test_a_number_below_the_minimum_is_refused_with_the_minimum():
    assert options.to_int("version", "1", minimum=1) == 1
    with pytest.raises(InvalidOption, match="at least 1"):
        options.to_int("version", "0", minimum=1)


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-31T12:30:00+00:00",
        "2026-01-31T12:30:00Z",
        "2026-01-31 12:30:00z",
        "2026-01-31T12:30:00",
        "2026-01-31 12:30",
        " 2026-01-31T14:30:00+02:00 ",
        "2026-01-31T07:30:00.000000-05:00",
    ],
)
def test_a_moment_is_read_in_every_iso_spelling_and_is_utc(value):
    moment = options.to_moment("asOf", value)
    assert moment == MOMENT
    assert moment.tzinfo is timezone.utc


def test_a_date_is_its_midnight_and_fractions_are_kept():
    assert options.to_moment("asOf", "2026-01-31") == datetime(2026, 1, 31, tzinfo=timezone.utc)
    assert options.to_moment("asOf", "2026-01-31T12:30:00.123456Z") == MOMENT.replace(microsecond=123456)


@pytest.mark.parametrize("value", ["", "Z", "yesterday", "2026-02-30", "1795232936", "0001-01-01T00:00:00+14:00"])
def test_a_value_that_is_not_a_moment_is_refused(value):
    with pytest.raises(InvalidOption, match=r"Option 'asOf' is .* ISO 8601"):
        options.to_moment("asOf", value)


@given(st.datetimes(), st.integers(-1439, 1439))
def test_a_moment_survives_being_written_and_read(naive, offset):
    moment = naive.replace(year=2028, tzinfo=timezone(timedelta(minutes=offset)))
    assert options.to_moment("asOf", moment.isoformat()) == moment


def test_a_choice_is_one_of_a_few_words_in_any_case():
    assert options.to_choice("blob_handling", " Bytes", ("bytes", "descriptions")) == "bytes"
    with pytest.raises(InvalidOption, match="must be bytes or descriptions"):
        options.to_choice("blob_handling", "byte", ("descriptions", "bytes"))


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ("id", ("id",)),
        ("id,name", ("id", "name")),
        (" id , person.name ", ("id", "person.name")),
        ("`a,b`,c", ("`a,b`", "c")),
        ("`a,,b`", ("`a,,b`",)),
        ("m.`x,y`.z,c", ("m.`x,y`.z", "c")),
        ("`a``,b`,c", ("`a``,b`", "c")),
        ("`a.b`", ("`a.b`",)),
    ],
)
def test_columns_are_split_at_commas_outside_backticks(value, paths):
    assert options.to_columns("columns", value) == paths


@pytest.mark.parametrize("value", ["", " ", ",", "a,,b", "a, ,b", ",a", "a,", "`a", "a`,b"])
def test_a_list_of_columns_with_a_hole_or_an_open_quote_is_refused(value):
    with pytest.raises(InvalidOption, match=r"Option 'columns' is .* comma-separated"):
        options.to_columns("columns", value)


@pytest.mark.parametrize(
    ("path", "segments"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ("`a.b`", ("a.b",)),
        ("`a.b`.c", ("a.b", "c")),
        ("a.`b.c`.d", ("a", "b.c", "d")),
        ("`a``b`", ("a`b",)),
        ("a b.c", ("a b", "c")),
        ("a..b", ("a", "", "b")),
        (".", ("", "")),
        ("a.", ("a", "")),
        ("", ("",)),
        ("`", ("`",)),
    ],
)
def test_a_path_is_split_at_dots_outside_backticks(path, segments):
    assert options.path_segments(path) == segments


@given(st.lists(st.text(min_size=1), min_size=1))
def test_any_names_survive_being_quoted_into_a_path_and_a_list(names):
    quoted = ["`" + name.replace("`", "``") + "`" for name in names]
    assert options.path_segments(".".join(quoted)) == tuple(names)
    assert options.to_columns("columns", ",".join(quoted)) == tuple(quoted)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("brnch", "Did you mean 'branch'?"),
        ("BRNCH", "Did you mean 'branch'?"),
        ("splitsizes", "Did you mean 'split_size'?"),
        ("asoff", "Did you mean 'asOf'?"),
        ("qqqq", "Known options: asOf, branch, split_size."),
    ],
)
def test_an_unknown_option_comes_with_the_nearest_known_one(name, hint):
    with pytest.raises(InvalidOption, match=f"Unknown option '{name}' for reading") as caught:
        options.check_known(["branch", name], ["branch", "asOf", "split_size"], "reading")
    assert caught.value.hint == hint


def test_known_options_are_known_in_any_case():
    options.check_known(["Branch", "ASOF", "split_size"], ["branch", "asOf", "split_size"], "reading")
