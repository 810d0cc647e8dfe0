"""Options that are declared once: every place takes them from the declaration."""

import argparse
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pytest

from lance_spark.core.declared import (
    add_arguments,
    at,
    by_key,
    declared,
    file_values,
    keyed_values,
    option,
    source_option,
    typed_at,
    values,
)
from lance_spark.core.options import to_bytes
from lance_spark.core.policy_files import Section
from lance_spark.errors import InvalidOption
from tests.support.option_tables import as_markdown

pytestmark = pytest.mark.pure


@dataclass(frozen=True)
class Policy:
    age: timedelta = option(timedelta(days=2), "how old")
    count: int | None = option(None, "how many")
    numbers: frozenset[int] | None = option(None, "which", flag="number")
    names: tuple[str, ...] = option((), "who", flag="name", metavar="URI")
    careful: bool = option(True, "careful", flag="careless", switch_off="not careful")
    hasty: bool = option(False, "hasty")
    strict: bool = option(True, "what a tag does", key="on_tag", choices={"error": True, "keep": False})
    only: tuple[str, ...] = option((), "only these", places=("job",))
    plain: int = 3


EVERYTHING = Policy(timedelta(hours=36), 4, frozenset({5, 6}), ("a", "b"), False, True, False)


def parsed(*typed, base=None):
    parser = argparse.ArgumentParser()
    add_arguments(parser, at(Policy, "job"))
    return values(at(Policy, "job"), vars(parser.parse_args(typed)), base)


def test_kinds_come_from_the_types():
    kinds = ["span", "number", "numbers", "texts", "flag", "flag", "choice", "texts"]
    assert [each.kind for each in declared(Policy)] == kinds


def test_nothing_given_gives_nothing():
    assert (
        parsed() == file_values(declared(Policy), Section({}, "the policy")) == keyed_values(declared(Policy), {}) == {}
    )


def test_a_command_line():
    typed = "--age 36h --count 4 --number 5 --number 6 --name a --name b --careless --hasty --on-tag keep"
    assert Policy(**parsed(*typed.split())) == EVERYTHING
    assert parsed("--name", "b", base=Policy(names=("a",))) == {"names": ("a", "b")}


def test_a_policy_file():
    given = {"age": "36h", "count": 4, "numbers": [5, 6], "names": ["a", "b"], "careful": False, "hasty": True}
    section = Section({**given, "on_tag": "keep"}, "the policy")
    assert Policy(**file_values(declared(Policy), section)) == EVERYTHING


def test_sql():
    given = {"age": "36h", "count": 4, "numbers": "5, 6", "names": "a,b", "careful": False, "hasty": True}
    assert Policy(**keyed_values(at(Policy, "sql"), {**given, "on_tag": "keep", "only": None})) == EVERYTHING


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"age": "soon"}, "'age'"),
        ({"numbers": "1, two"}, "'numbers'"),
        ({"numbers": "0"}, "'numbers'"),
        ({"on_tag": "maybe"}, "'on_tag' is 'maybe', but it must be error or keep"),
    ],
)
def test_what_cannot_be_names_the_option(given, message):
    with pytest.raises(InvalidOption, match=message):
        keyed_values(declared(Policy), given)


def test_places():
    assert [each.name for each in at(Policy, "job")][-1] == "only"
    assert "only" not in {each.name for place in ("file", "shell", "sql") for each in at(Policy, place)}


def test_a_table_for_the_documentation():
    lines = list(as_markdown(Policy))
    assert lines[2] == "| `age` | `--age SPAN` | `age` | how old (default 2d) |"
    assert lines[6] == "| `careful` | `--careless` | `careful` | careful (default true) |"
    assert lines[8] == "| `strict` | `--on-tag error\\|keep` | `on_tag` | what a tag does (default error) |"
    assert lines[9] == "| `only` | `--only NAME` | - | only these |"


def test_a_column_for_each_place_that_has_options():
    @dataclass(frozen=True)
    class Few:
        rows: int = option(5, "how many", places=("sql", "file"))
        where: str | None = option(None, "which", places=("sql",))

    assert list(as_markdown(Few)) == [
        "| Python | policy file, SQL | meaning |",
        "|---|---|---|",
        "| `rows` | `rows` | how many (default 5) |",
        "| `where` | `where` (SQL only) | which |",
    ]

    @dataclass(frozen=True)
    class Same:
        rows: int = option(5, "how many", places=("sql",))
        word: str | list[str] | None = option("or", "which", places=("sql",))

    assert list(as_markdown(Same)) == [
        "| Python, SQL | meaning |",
        "|---|---|",
        "| `rows` | how many (default 5) |",
        "| `word` | which (default or) |",
    ]
    assert [each.name for each in at(Policy, "sql", "age", "only")] == ["age"]


@dataclass(frozen=True)
class Read:
    rows: int | None = source_option(None, "how many", key="maxRows", aliases=("max_rows",))
    size: int = source_option(2**20, "how large", parse=to_bytes)
    whole: bool = source_option(True, "all of it")
    moment: datetime | None = source_option(None, "when", key="asOf")
    way: str = source_option("a", "how", choices={"a": "a", "b": "b"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Read()),
        ({"MAXROWS": "3", "other": "x"}, Read(rows=3)),
        ({"max_rows": "3", "SIZE": "2k", "whole": "No"}, Read(3, 2048, False)),
        ({"asof": "2026-01-01", "way": "B"}, Read(moment=datetime(2026, 1, 1, tzinfo=timezone.utc), way="b")),
        ({"maxrows": "0"}, "'maxRows' is '0'"),
        ({"size": "large"}, "'size' is 'large'"),
        ({"whole": "perhaps"}, "'whole' is 'perhaps'"),
        ({"asOf": "soon"}, "'asOf' is 'soon'"),
        ({"way": "c"}, "'way' is 'c'"),
        ({"maxRows": "1", "max_rows": "1"}, "'maxRows' is given twice, once as 'max_rows'"),
    ],
)
def test_options_of_the_data_source_are_texts_under_several_names(given, expected):
    if isinstance(expected, str):
        with pytest.raises(InvalidOption, match=expected):
            keyed_values(declared(Read), by_key(declared(Read), given)[0])
    else:
        own, rest = by_key(declared(Read), given)
        assert Read(**keyed_values(declared(Read), own)) == expected
        assert rest == {name: value for name, value in given.items() if name == "other"}


def test_a_table_of_the_data_source():
    assert list(as_markdown(Read, Read))[:5] == [
        "| option | meaning |",
        "|---|---|",
        "| `maxRows`, `max_rows` | how many |",
        "| `size` | how large (default 1.0 MiB) |",
        "| `whole` | all of it (default true) |",
    ]


@pytest.mark.parametrize(
    ("place", "given"), [("sql", {"names": "a,b", "hasty": True}), ("shell", {"names": ["a", "b"], "hasty": True})]
)
def test_a_dataclass_of_what_was_typed(place, given):
    assert typed_at(place, Policy, given, plain=4) == Policy(names=("a", "b"), hasty=True, plain=4)


def test_a_default_that_can_change_is_refused():
    with pytest.raises(TypeError):
        option([], "a list")
