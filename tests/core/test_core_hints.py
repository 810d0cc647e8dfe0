"""Hints: each verb in the language of whoever reads, wherever the error was raised."""

import ast
import pickle
import re
from pathlib import Path

import pytest
from pyspark import cloudpickle

from lance_spark import hints
from lance_spark.engine.workers_spark import plainly
from lance_spark.errors import Conflict, Refused
from lance_spark.hints import Hint, of, said

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2] / "lance_spark"
DELETE = of("Delete it first: ", hints.delete_tag("v1"), ".")


@pytest.mark.parametrize(
    ("verb", "python", "sql", "shell"),
    [
        (
            hints.create_branch("exp"),
            "t.branches.create('exp')",
            "CALL <catalog>.system.create_branch(table => '<table>', name => 'exp')",
            "lance-git branch exp",
        ),
        (
            hints.create_branch("b", "exp"),
            "t.branches.create('b', branch='exp')",
            "CALL <catalog>.system.create_branch(table => '<table>', name => 'b', from => 'exp')",
            "lance-git branch b exp",
        ),
        (
            hints.delete_tag("clone-1", force=True),
            "t.tags.delete('clone-1', force=True)",
            "CALL <catalog>.system.drop_tag(table => '<table>', name => 'clone-1', force => true)",
            "lance-git tag -d clone-1 -f",
        ),
        (
            hints.move_tag("v1", "exp", 7),
            "t.tags.move('v1', branch='exp', version=7)",
            "t.tags.move('v1', branch='exp', version=7) in Python",
            "lance-git tag -f v1 exp@7",
        ),
        (
            hints.unfreeze("s"),
            "t.frozen.delete('s')",
            "t.frozen.delete('s') in Python",
            "t.frozen.delete('s') in Python",
        ),
        (
            hints.optimize(own_only=False),
            "t.optimize(own_only=False)",
            "CALL <catalog>.system.optimize(table => '<table>', own_only => false)",
            "t.optimize(own_only=False) in Python",
        ),
        (
            hints.create_index("text", kind="inverted", with_position=True),
            "t.indexes.create('text', kind='inverted', with_position=True)",
            "t.indexes.create('text', kind='inverted', with_position=True) in Python",
            "t.indexes.create('text', kind='inverted', with_position=True) in Python",
        ),
        (hints.DIFF, "lance-git diff A..B in a shell", "lance-git diff A..B in a shell", "lance-git diff A..B"),
    ],
)
def test_a_verb_is_spelled_in_each_language(verb, python, sql, shell):
    assert (verb, said(verb, "python"), said(verb, "sql"), said(verb, "shell")) == (python, python, sql, shell)


def test_names_are_quoted_as_each_language_wants_it():
    verb = hints.delete_tag("it's a b")
    assert said(verb, "python") == """t.tags.delete("it's a b")"""
    assert "name => 'it''s a b'" in said(verb, "sql")
    assert said(verb, "shell") == """lance-git tag -d 'it'"'"'s a b'"""


def test_a_sentence_has_its_verbs_in_the_language_of_the_reader():
    assert DELETE == "Delete it first: t.tags.delete('v1')."
    assert said(DELETE, "shell") == "Delete it first: lance-git tag -d v1."
    told = said(DELETE, "sql", "lake", "ns.flights")
    assert told == "Delete it first: CALL lake.system.drop_tag(table => 'ns.flights', name => 'v1')."
    assert said(of("See: ", DELETE), "shell") == "See: Delete it first: lance-git tag -d v1."


def test_a_text_without_verbs_is_the_same_everywhere():
    assert {said("Run it again.", language) for language in ("python", "sql", "shell")} == {"Run it again."}


def test_an_error_says_its_hint_to_whoever_typed():
    error = Refused("No.", hint=DELETE)
    assert str(error) == "No.\n  hint: Delete it first: t.tags.delete('v1')."
    assert error.told("shell") == "No.\n  hint: Delete it first: lance-git tag -d v1."
    assert error.told("sql", "lake") == (
        "No.\n  hint: Delete it first: CALL lake.system.drop_tag(table => '<table>', name => 'v1')."
    )
    assert Refused("No.").told("sql") == "No."


@pytest.mark.parametrize("pickler", [pickle, cloudpickle], ids=["pickle", "cloudpickle"])
def test_an_error_that_crossed_processes_still_speaks_all_languages(pickler):
    error = pickle.loads(pickler.dumps(Refused("No.", hint=DELETE)))
    assert error.told("shell").endswith("lance-git tag -d v1.")


def test_an_error_that_is_raised_again_as_another_one_keeps_its_languages():
    first = Refused("No.", hint=DELETE)
    assert Conflict("Not now.", hint=first.hint).told("shell").endswith("lance-git tag -d v1.")


RIMS = (
    "cli",
    "spark",
    "datasource",
    "session",
    "jvm",
    "native",
    "training",
    "core/options.py",
    "core/catalog_options.py",
    "core/table_options.py",
    "sql",
    "engine/types_spark.py",
    "hints.py",
)
"""What only one language reaches, and the spellings themselves."""
ONE_LANGUAGE = {
    "frozen/frozen.py",  # frozen sets are Python's
    "workspace/init.py",
    "core/workspace.py",  # workspaces are the shell's
    "streams/sink.py",
    "streams/source.py",
    "format/stream_notes.py",
    "streams/source_rules.py",  # streams are options of readers and writers
    "clones/clone.py",  # only t.deep_clone copies so
    "search/vector_rules.py",  # the arguments of a search, which SQL names alike
}
VERB = re.compile(r"lance-git [a-z]|lance-catalog [a-z]|CALL |(?<![\w/])(?:t|table)\.[a-z_]+(?:\(|\.[a-z])|option\('")


def _texts(node):
    """The texts of a hint that are not part of one made by ``hints``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        root = node.func.value
        if isinstance(root, ast.Name) and root.id == "hints" and node.func.attr != "of":
            return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from _texts(child)


def _hints(path):
    for node in ast.walk(ast.parse(path.read_text())):
        for keyword in getattr(node, "keywords", ()):
            if keyword.arg == "hint":
                yield from _texts(keyword.value)


def test_what_several_languages_reach_names_no_verb_in_one_of_them():
    found = {
        (str(path.relative_to(ROOT)), text)
        for path in ROOT.rglob("*.py")
        if path.relative_to(ROOT).parts[0] not in RIMS and str(path.relative_to(ROOT)) not in {*RIMS, *ONE_LANGUAGE}
        for text in _hints(path)
        if VERB.search(text)
    }
    assert found == set()


def test_the_exceptions_are_needed():
    assert {name for name in ONE_LANGUAGE if any(VERB.search(text) for text in _hints(ROOT / name))} == ONE_LANGUAGE


def test_each_verb_is_used():
    sources = "".join(path.read_text() for path in ROOT.rglob("*.py") if path != ROOT / "hints.py")
    own = (ROOT / "hints.py").read_text()
    made_here = {name for name, value in vars(hints).items() if getattr(value, "__module__", "") == hints.__name__}
    names = made_here | {name for name, value in vars(hints).items() if isinstance(value, Hint)}
    unused = {name for name in names if f"hints.{name}" not in sources and len(re.findall(rf"\b{name}\b", own)) < 2}
    assert unused - {"Hint"} == set()


def test_a_worker_says_the_hint_in_the_language_that_it_is_told(monkeypatch):
    """A search in SQL is checked by a worker of Spark's, of whose errors Spark keeps the text."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "0")
    for language, words in (("python", "t.tags.delete('v1')"), ("sql", "CALL <catalog>.system.drop_tag")):
        with pytest.raises(Refused) as caught, plainly(language):
            raise Refused("No.", hint=DELETE)
        assert words in str(caught.value)
