"""What people type for a ref is read in one way, and what cannot be read says what can be typed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.core.ref_expressions import RefExpression, parse_expression, parse_range
from lance_spark.errors import InvalidOption
from lance_spark.hints import said

pytestmark = pytest.mark.pure

READ = {
    "main": ("main", None, 0),
    "exp/a.b-c": ("exp/a.b-c", None, 0),
    "exp@8": ("exp", 8, 0),
    "@7": (None, 7, 0),
    "main~2": ("main", None, 2),
    "main~": ("main", None, 1),
    "main~~3": ("main", None, 4),
    "main~0": ("main", None, 0),
    "exp@8~2": ("exp", 8, 2),
    "HEAD": (None, None, 0),
    "HEAD~1": (None, None, 1),
    "HEAD@3": (None, 3, 0),
    "heads/HEAD": ("heads/HEAD", None, 0),
    "tags/v1~1": ("tags/v1", None, 1),
    "origin/main@8": ("origin/main", 8, 0),
    " main ": ("main", None, 0),
    "7": ("7", None, 0),
}


@pytest.mark.parametrize("text", READ)
def test_one_ref(text):
    read = parse_expression(text)
    assert (read.name, read.version, read.back) == READ[text]
    assert str(read) == text.strip()


WRONG = ["", " ", "~2", "main~2@7", "a@b@c", "main@", "main@0", "main@-1", "main@1.5", "main~x", "main~-1", "A..B"]
WRONG += ["main@99999999999999999999", "main~99999999999999999999", "main@٣", "main@ 3"]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_ref(text):
    with pytest.raises(InvalidOption) as caught:
        parse_expression(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("heads/a/b", ("branch", "a/b")),
        ("tags/v1@2", ("tag", "v1")),
        ("headsman", None),
        ("@7", None),
        ("a/tags/b", None),
    ],
)
def test_the_spelling_that_says_which(text, kind):
    assert parse_expression(text).explicit == kind


HEAD = RefExpression("HEAD", None)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("main..exp", RefExpression("main", "main"), RefExpression("exp", "exp")),
        ("main@5..main~2", RefExpression("main@5", "main", 5), RefExpression("main~2", "main", None, 2)),
        ("v1.0..v1.1", RefExpression("v1.0", "v1.0"), RefExpression("v1.1", "v1.1")),
        ("main..", RefExpression("main", "main"), HEAD),
        ("..exp", HEAD, RefExpression("exp", "exp")),
    ],
)
def test_a_range(text, start, end):
    read = parse_range(text)
    assert (read.start, read.end) == (start, end)


@pytest.mark.parametrize("text", ["..", "main", "a...b", "a..b..c", "", "a..@x"])
def test_what_is_no_range(text):
    with pytest.raises(InvalidOption):
        parse_range(text)


@given(st.text(max_size=12))
def test_anything_is_read_or_refused(text):
    try:
        read = parse_expression(text)
    except InvalidOption:
        return
    assert read.back >= 0
    assert read.version is None or read.version >= 1


@given(st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True), st.integers(1, 2**63 - 1), st.integers(0, 1000))
def test_what_is_printed_is_read_again(name, version, back):
    assert parse_expression(f"{name}@{version}~{back}") == RefExpression(
        f"{name}@{version}~{back}", name, version, back
    )


@pytest.mark.parametrize(
    "place", ["/data/flights.lance", "./flights.lance", "../flights.lance", "s3://b/flights.lance"]
)
@pytest.mark.parametrize("read", [parse_expression, parse_range])
def test_a_place_in_the_place_of_a_ref_goes_before_the_verb(place, read):
    """``lance-git log /data/flights.lance`` was told which branch names are valid."""
    with pytest.raises(InvalidOption, match="is a place, and a ref is needed here") as raised:
        read(place)
    assert said(raised.value.hint, "shell") == f"lance-git -C {place} VERB, then the ref"
