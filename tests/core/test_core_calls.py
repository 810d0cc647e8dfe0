"""Calls with arguments that a verb does not take: an error of ours that says what to type."""

from __future__ import annotations

import ast
import contextlib
import inspect
import operator
import pickle
import re
from datetime import timedelta

import pandas as pd
import pyarrow as pa
import pytest

import lance_spark
from lance_spark import CleanupPolicy, LanceCatalog, LanceTable, MaintenancePolicy, MatchQuery, capabilities, register
from lance_spark.cleanup.cleanup import CleanupPlan
from lance_spark.core import words
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import Branch, Tag
from lance_spark.core.show import Shown
from lance_spark.errors import InvalidOption, WrongArguments
from lance_spark.frozen.draw_rules import Lineage
from lance_spark.fsck.report import FsckReport
from lance_spark.indexes.index_rules import IndexInfo
from lance_spark.log.print_rules import History
from lance_spark.maintenance.spark import MaintenancePlan
from lance_spark.merge.report import MergeResult
from lance_spark.remotes.protection import Remote

pytestmark = pytest.mark.pure

t = LanceTable(None, DatasetLocation.at("/nowhere"))
lake = LanceCatalog("/nowhere")
FRAME = pd.DataFrame({"id": [1]})
COLLECTIONS = ("branches", "constraints", "frozen", "indexes", "layout", "remotes", "streams", "tags")
FACES = {"t": t, "lake": lake} | {
    f"{name}.{part}": getattr(owner, part)
    for name, owner, parts in (("t", t, COLLECTIONS), ("lake", lake, ("branches", "tags")))
    for part in parts
}
VERBS = [
    pytest.param(face, name, id=f"{typed}.{name}")
    for typed, face in FACES.items()
    for name in dir(type(face))
    if not name.startswith("_") and inspect.isfunction(inspect.getattr_static(type(face), name))
]


def made(kind):
    """A result of that kind, without values."""
    return object.__new__(kind)


TYPED = [
    # --- a word of another library: the call again, with ours
    (lambda: t.log(limit=3), "t.log(count=3)"),
    (lambda: t.log(n=3), "t.log(count=3)"),
    (lambda: t.head(n=3), "t.head(count=3)"),
    (lambda: t.count_rows(where="id > 3"), "t.count_rows(filter='id > 3')"),
    (lambda: t.delete(filter="id = 9"), "t.delete(where='id = 9')"),
    (lambda: t.update({"x": "1"}, filter="id = 3"), "t.update({'x': '1'}, where='id = 3')"),
    (lambda: t.merge(FRAME, key="id"), "t.merge(df, on='id')"),
    (lambda: t.frozen.create("v1", splits={"train": 1.0}), "t.frozen.create('v1', split={'train': 1.0})"),
    (lambda: t.frozen.create(name="v1", where="id > 3"), "t.frozen.create(name='v1', filter='id > 3')"),
    (lambda: t.diff(branch="exp"), "t.diff(ref='exp')"),
    (lambda: t.branches.merge("exp", strategy="theirs"), "t.branches.merge('exp', prefer='theirs')"),
    (lambda: t.branches.merge("exp", theirs=True), "t.branches.merge('exp', prefer='theirs')"),
    (lambda: t.branches.merge("exp", dryrun=True), "t.branches.merge('exp', dry_run=True)"),
    (lambda: t.optimize(order_by="id"), "t.optimize(sort_by='id')"),
    (lambda: LanceTable.for_path(path="x"), "LanceTable.for_path(uri='x')"),
    (lambda: LanceCatalog(path="x"), "LanceCatalog(root='x')"),
    (lambda: CleanupPolicy(days=7), "CleanupPolicy(older_than=timedelta(days=7))"),
    # --- another way to say it
    (lambda: t.diff(version=1), "t.diff('@3')"),
    (lambda: t.log(branch="exp"), "t.checkout(branch='exp').log()"),
    (lambda: t.cleanup(older_than="7d"), "t.cleanup(CleanupPolicy(older_than=timedelta(days=7)))"),
    (lambda: t.cleanup(dry_run=True), "t.cleanup() alone shows a plan"),
    (lambda: t.checkout("exp", create=True), "t.branches.create('exp')"),
    (lambda: LanceTable("flights.lance"), "LanceTable.for_path('flights.lance')"),
    (lambda: LanceTable(None, "flights.lance"), "LanceTable.for_path('flights.lance', spark=spark)"),
    (lambda: LanceTable.write("new.lance", FRAME), "t = LanceTable.for_path('new.lance')"),
    (lambda: t["id"], "t.head(columns=['id'])"),
    (lambda: list(t), "t.to_df()"),
    (lambda: lake["docs"], "lake.table('docs')"),
    # --- what Python's grammar asks
    (lambda: len(t), "t.count_rows()"),
    (lambda: t("exp"), "t.checkout(branch='exp')"),
    (lambda: t.branches("exp"), "t.branches['exp'] for one, t.branches.list() for all"),
    (lambda: t.tags("v1"), "t.tags['v1'] for one"),
    (lambda: t.frozen("v1"), "t.frozen['v1'] for one"),
    (lambda: t.indexes("id_idx"), "t.indexes['id_idx'] for one"),
    (lambda: t.remotes("origin"), "t.remotes['origin']"),
    (lambda: t.layout(), "describe"),
    (lambda: lake("docs"), "lake.table('docs')"),
    (lambda: len(lake), "len(lake.list_tables())"),
    (lambda: lake.branches("etl"), "lake.branches['etl']"),
    (lambda: operator.setitem(lake, "docs", FRAME), "lake.write_table(df, 'docs')"),
    (lambda: operator.delitem(t.branches, "exp"), "t.branches.delete('exp')"),
    (lambda: operator.delitem(t.indexes, "id_idx"), "t.indexes.drop('id_idx')"),
    (lambda: operator.setitem(t, "x", 0), "t.update({'x': '0'}, where='id = 3')"),
    (lambda: next(t), "t.head(1)"),
    (lambda: contextlib.ExitStack().enter_context(t), "there is nothing to close"),
    (lambda: LanceTable["flights.lance"], "LanceTable.for_path(path)"),
    (lambda: made(CleanupPlan)(), "plan.apply()"),
    (lambda: len(made(MaintenancePlan)), "plan.report()"),
    (lambda: list(made(FsckReport)), "report.findings"),
    (lambda: made(History)[0], "t.log().entries[0]"),
    (lambda: made(Lineage)["train"], "It has algorithm, "),
    # --- words and arguments of results
    (lambda: made(CleanupPlan).execute(), "plan.apply()"),
    (lambda: made(CleanupPlan).apply(dry_run=True), "plan.apply(max_deletes_per_second=None)"),
    (lambda: made(MergeResult).apply(), "the same call without dry_run=True"),
    (lambda: made(FsckReport).errors, "report.findings"),
    (lambda: made(History).to_pandas(), "t.history().toPandas()"),
    (lambda: made(Branch).delete(), "t.branches.delete('exp')"),
    (lambda: made(Tag).checkout(), "t.checkout(tag='v1')"),
    (lambda: made(IndexInfo).drop(), "t.indexes.drop('id_idx')"),
    (lambda: made(Lineage).read(), "t.frozen.read('v1')"),
    (lambda: made(Lineage).algorithms, "Did you mean 'algorithm'?"),
    (lambda: made(Remote).push(), "t.remotes.push(remote)"),
    # --- functions of the package, and what it does not have
    (lambda: register(), "register(spark, "),
    (lambda: register("lake"), "register(spark, "),
    (lambda: capabilities(None), "capabilities(spark)"),
    (lambda: MatchQuery(), "MatchQuery(query"),
    (lambda: MaintenancePolicy(older_than="7d"), "{'cleanup': {'older_than': '7d'}}"),
    (lambda: lance_spark.read("flights.lance"), "LanceTable.for_path(path)"),
    (lambda: lance_spark.LanceTabel, "Did you mean 'LanceTable'?"),
    # --- values of another kind
    (lambda: t.checkout(as_of=3), "t.checkout(branch=None"),
    (lambda: t.layout.cluster_by(["id"]), "t.layout.cluster_by(*columns"),
    (lambda: lake.table(3), "lake.table(name"),
    (lambda: t.maintain(3), "t.maintain(policy=None"),
    # --- a value of another kind
    (lambda: t.diff("exp", "main"), "t.diff('main..exp')"),
    (lambda: t.rename_columns("x", "y"), "t.rename_columns({'old': 'new'})"),
    (lambda: t.alter_columns("x", "double"), "t.alter_columns({'speed': 'double'})"),
    (lambda: lake.list_tables(recursive="yes"), "lake.list_tables(namespace='', recursive=False"),
    (lambda: t.log(-1), "t.log(10)"),
    # --- swapped
    (lambda: lake.write_table("docs", FRAME), "lake.write_table(df, 'docs')"),
    (lambda: lake.write_table("docs", pa.table({"id": [1]})), "lake.write_table(df, 'docs')"),
    # --- one is missing, or there are too many
    (lambda: t.diff(), "t.diff('main')"),
    (lambda: t.revert(), "t.revert(7)"),
    (lambda: t.cherry_pick("exp"), "t.cherry_pick('exp', 7)"),
    (lambda: t.write(), "t.write(df)"),
    (lambda: t.branches.create(), "t.branches.create('exp')"),
    (lambda: lake.write_table(FRAME), "lake.write_table(df, 'docs')"),
    (lambda: lake.table(), "lake.table('docs')"),
    (lambda: t.indexes.list("x"), "t.indexes.list()"),
    (lambda: lake.tags.create("v1", "main"), "lake.tags.create(name)"),
]


@pytest.mark.parametrize(("call", "hint"), TYPED, ids=[hint for _, hint in TYPED])
def test_the_hint_says_what_to_type(call, hint):
    with pytest.raises(InvalidOption) as raised:
        call()
    assert hint in str(raised.value)
    assert len(str(raised.value)) < 400  # the rows of an argument are not printed


@pytest.mark.parametrize(("face", "name"), VERBS)
def test_every_verb_answers_a_word_that_it_does_not_know(face, name):
    verb = getattr(face, name)
    if any(each.kind is each.VAR_KEYWORD for each in inspect.signature(verb).parameters.values()):
        with pytest.raises(
            WrongArguments, match=rf"{name} takes at most \d+ arguments without their names|{name} needs"
        ):
            verb(*[None] * 20) if "message" in inspect.signature(verb).parameters else verb(*[None] * 30)
        return
    with pytest.raises(WrongArguments, match=rf"(t|lake|LanceTable|LanceCatalog)\.[a-z_.]*{name} takes no 'zzz'"):
        verb(zzz=1)


def calls_in(text):
    """The calls that a hint shows, as Python's grammar sees them."""
    for start in re.finditer(r"(?<![\w.])(t|lake|LanceTable|LanceCatalog|CleanupPolicy)[\w.]*\(", text):
        for end in range(start.end(), len(text) + 1):
            try:
                yield ast.parse(text[start.start() : end], mode="eval").body
                break
            except SyntaxError:
                continue


SHOWN = {
    text
    for known in (words.CALLS_OF_TABLES, words.CALLS_OF_BRANCHES, words.CALLS_OF_CATALOGS, words.CALLS_OF_POLICIES)
    for text in known.values()
}
NAMES = {"t": t, "lake": lake, "LanceTable": LanceTable, "LanceCatalog": LanceCatalog, "CleanupPolicy": CleanupPolicy}


@pytest.mark.parametrize("text", sorted(SHOWN))
def test_a_call_of_a_hint_is_one_that_the_verb_takes(text):
    found = list(calls_in(text))
    assert found
    for call in found:
        *owner, name = ast.unparse(call.func).split(".")
        at = NAMES.get(owner[0]) if owner else None
        if at is None or any("(" in part for part in owner):  # of what a call returns
            continue
        for part in owner[1:]:
            at = getattr(at, part)
        given = {each.arg: None for each in call.keywords}
        inspect.signature(getattr(at, name)).bind(*[None] * len(call.args), **given)


@pytest.mark.parametrize("known", [words.CALLS_OF_TABLES, words.CALLS_OF_BRANCHES, words.CALLS_OF_CATALOGS])
def test_a_word_that_a_verb_takes_needs_no_answer(known):
    faces = {words.CALLS_OF_BRANCHES["create", ""]: t.branches, words.CALLS_OF_CATALOGS["table", ""]: lake}
    face = next((at for text, at in faces.items() if text in known.values()), t)
    for verb, word in known:
        takes = inspect.signature(LanceTable if verb == "LanceTable" else getattr(face, verb)).parameters
        assert word.partition(":")[0] in takes if ":" in word else word not in takes, (verb, word)


def test_an_error_inside_of_a_verb_is_not_one_of_its_arguments():
    def broken(rows):
        return None + 1

    class Table(words.Hinting):
        _typed = "t"

        def apply(self, function, count: int = 1):
            return function(count)

    with pytest.raises(TypeError, match="unsupported operand") as raised:
        Table().apply(broken)
    assert not isinstance(raised.value, WrongArguments)
    with pytest.raises(WrongArguments, match=r"'count' of t\.apply is 'x', but it has to be a whole number") as raised:
        Table().apply(broken, "x")
    assert isinstance(raised.value.__cause__, TypeError)


def test_a_span_as_text_is_a_policy():
    assert CleanupPolicy(older_than="7d").older_than == timedelta(days=7)


def test_what_a_class_does_stays_as_it_is():
    """Only what Python's grammar would refuse anyway has an answer."""

    class Both(Shown, list):
        pass

    class Longer(Both):
        pass

    assert (Longer([1, 2])[1], list(Longer([3])), len(Longer()), bool(Longer())) == (2, [3], 0, False)
    assert bool(t)
    assert bool(lake)
    assert not hasattr(made(FsckReport), "__nothing__")
    assert pickle.loads(pickle.dumps(Branch("exp", None, 1, None))).name == "exp"


def test_the_branch_and_the_version_of_a_handle_are_plain_values():
    """A subclass that could answer ``t.branch('exp')`` would be an empty struct in a DataFrame of Spark."""
    assert {inspect.signature(getattr(LanceTable, name).fget).return_annotation for name in ("branch", "version")} == {
        "str",
        "int",
    }
