"""Options that are declared once: every place takes them from the declaration."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from datetime import timedelta

import pytest

from lance_spark.core.declared import add_arguments, as_markdown, at, declared, file_values, option, sql_values, values
from lance_spark.core.options import Section
from lance_spark.errors import InvalidOption

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
        parsed() == file_values(declared(Policy), Section({}, "the policy")) == sql_values(declared(Policy), {}) == {}
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
    assert Policy(**sql_values(at(Policy, "sql"), {**given, "on_tag": "keep", "only": None})) == EVERYTHING


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
        sql_values(declared(Policy), given)


def test_places():
    assert [each.name for each in at(Policy, "job")][-1] == "only"
    assert "only" not in {each.name for place in ("file", "shell", "sql") for each in at(Policy, place)}


def test_a_table_for_the_documentation():
    lines = list(as_markdown(Policy))
    assert lines[2] == "| `age` | `--age SPAN` | `age` | how old (default 2d) |"
    assert lines[6] == "| `careful` | `--careless` | `careful` | careful |"
    assert lines[8] == "| `strict` | `--on-tag error\\|keep` | `on_tag` | what a tag does (default error) |"
    assert lines[9] == "| `only` | `--only NAME` | - | only these |"


def test_a_default_that_can_change_is_refused():
    with pytest.raises(TypeError):
        option([], "a list")
