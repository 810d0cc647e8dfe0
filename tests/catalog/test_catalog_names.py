"""Names of namespaces and tables: how people type them, and which rule a bad one breaks."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.catalog import name_rules
from lance_spark.errors import InvalidName

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("flights", ("flights",)),
        ("ns1.ns2.flights", ("ns1", "ns2", "flights")),
        ("`a.b`.c", ("a.b", "c")),
        ("a.`b``c`", ("a", "b`c")),
        ("`x`", ("x",)),
        (["a.b", "c"], ("a.b", "c")),
        (("a",), ("a",)),
        (name_rules.Identifier(("a", "b")), ("a", "b")),
        ("日本.ü", ("日本", "ü")),
        ("a b.c-d", ("a b", "c-d")),
    ],
)
def test_a_name_is_typed_with_dots_or_given_in_parts(typed, parts):
    found = name_rules.identify_table(typed)
    assert found.parts == parts
    assert name_rules.identify_table(str(found)) == found
    assert found.object_id == "$".join(parts)
    assert name_rules.from_object_id(found.object_id) == found


@pytest.mark.parametrize(
    ("typed", "rule"),
    [
        ("", "empty"),
        ([], "empty"),
        ([""], "empty"),
        (".", "empty"),
        ("a..b", "empty"),
        (".a", "empty"),
        ("a.", "empty"),
        ("``", "empty"),
        ("a$b", "divides ids"),
        ("a/b", "'/'"),
        ("../evil", "'/'|empty"),
        (["../evil"], "'/'"),
        ("a\\b", "'/'"),
        (["."], "'.' or '..'"),
        ([".."], "'.' or '..'"),
        (["a", ".."], "'.' or '..'"),
        ("a\0", "control"),
        ("a\nb", "control"),
        ("a\x7f", "control"),
        ("a\x85", "control"),
        ("a\ud800", "control"),
        ("`a", "backtick"),
        ("`a`b", "dot"),
        ([7], "part of a name"),
        ([None], "part of a name"),
    ],
)
def test_what_can_be_the_name_of_nothing_is_refused(typed, rule):
    with pytest.raises(InvalidName, match=rule):
        name_rules.identify_table(typed)
    if typed not in ("", []):
        with pytest.raises(InvalidName, match=rule):
            name_rules.identify_namespace(typed)


@pytest.mark.parametrize("part", ["it's", 'a"b', "a`b", "a?b", " a", "a ", "\u3000a", "x" * 247, "日" * 83])
@pytest.mark.parametrize("kind", [name_rules.TABLE, name_rules.NAMESPACE])
def test_nothing_new_gets_a_name_that_trips_others(part, kind):
    identifier = name_rules.identify_table(
        [part]
    )  # what another tool made can be named, so that it can be renamed or dropped
    with pytest.raises(InvalidName, match=kind):
        name_rules.check_new(identifier, kind)
    assert not name_rules.is_sound(identifier.object_id)


@pytest.mark.parametrize(
    "part", ["x" * 246, "日" * 82, "a%b", "a#b", "a*b", "[x]", "a.b", "x.lance", "_", "-", "😀", "A"]
)
def test_every_other_name_is_allowed(part):
    name_rules.check_new(name_rules.identify_table([part]), name_rules.TABLE)
    assert name_rules.is_sound(part)


def test_the_length_counts_the_whole_id_in_bytes():
    fits, too_long = name_rules.Identifier(("n" * 100, "t" * 145)), name_rules.Identifier(("n" * 100, "t" * 146))
    name_rules.check_new(fits, name_rules.TABLE)
    assert len(f"12345678_{fits.object_id}".encode()) == 255
    with pytest.raises(InvalidName, match="256 bytes, at most 255 fit"):
        name_rules.check_new(too_long, name_rules.TABLE)


def test_the_root_is_a_namespace_and_no_table():
    assert name_rules.identify_namespace("") == name_rules.identify_namespace([]) == name_rules.ROOT
    assert name_rules.ROOT.is_root
    assert name_rules.ROOT.child("a") == name_rules.identify_table("a")
    assert name_rules.identify_table("a").parent == name_rules.ROOT
    assert name_rules.identify_table("a.b").parent == name_rules.Identifier(("a",))
    assert (name_rules.ROOT.name, name_rules.ROOT.object_id, str(name_rules.ROOT)) == ("", "", "")


def test_identifiers_sort_hash_and_pickle():
    names = [name_rules.identify_table(name) for name in ("b", "a.b", "a")]
    assert [str(name) for name in sorted(names)] == ["a", "a.b", "b"]
    assert len({*names, name_rules.identify_table("b")}) == 3
    assert pickle.loads(pickle.dumps(names)) == names


def test_an_error_shows_no_control_characters():
    with pytest.raises(InvalidName) as caught:
        name_rules.identify_table("a\x1b[31m")
    assert "\x1b" not in str(caught.value)


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="$/\\"), min_size=1), min_size=1)
)
def test_what_is_shown_can_be_typed(parts):
    if {".", ".."} & set(parts):
        return
    identifier = name_rules.identify_table(parts)
    assert name_rules.identify_table(str(identifier)) == identifier
