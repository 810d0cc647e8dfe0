"""Words of Delta, pylance and PySpark on our objects: what to type instead."""

import re
from datetime import timedelta

import pytest

from lance_spark import CleanupPolicy, LanceCatalog, LanceTable, VersionRule
from lance_spark.core import words
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import InvalidOption, NoSuchName
from lance_spark.optimize.compaction_rules import OptimizeResult

pytestmark = pytest.mark.pure

TABLE = LanceTable(None, DatasetLocation.at("/nowhere"))
LAKE = LanceCatalog("/nowhere")
KINDS = {
    LanceTable: words.OF_TABLES,
    LanceCatalog: words.OF_CATALOGS,
    OptimizeResult: words.OF_OPTIMIZE,
    type(TABLE.branches): words.OF_BRANCHES,
    type(TABLE.tags): words.OF_TAGS,
    type(TABLE.frozen): words.OF_FROZEN,
    type(TABLE.indexes): words.OF_INDEXES,
    type(TABLE.remotes): words.OF_REMOTES,
    type(LAKE.branches): words.OF_LAKE_BRANCHES,
}


@pytest.mark.parametrize(("kind", "word"), [(kind, word) for kind, known in KINDS.items() for word in known], ids=str)
def test_a_word_of_another_library_is_no_name_of_ours_and_its_answer_is(kind, word):
    assert kind._words is KINDS[kind]
    assert word not in dir(kind)
    answer = KINDS[kind][word]
    assert re.search(r"\b(t|lake|print|LanceTable|LanceCatalog)\b", answer)
    for owner, name in re.findall(r"\b(t|lake|LanceTable)\.([a-z_]+)", answer):
        assert name in dir(LanceCatalog if owner == "lake" else LanceTable), answer
    for owner, collection, name in re.findall(r"\b(t|lake)\.([a-z]+)\.([a-z_]+)\(", answer):
        assert hasattr(type(getattr(TABLE if owner == "t" else LAKE, collection)), name), answer


def test_the_hint_is_in_the_error():
    with pytest.raises(
        NoSuchName, match=r"LanceTable has no 'vacuum'.\n  hint: Use t.cleanup\(CleanupPolicy"
    ) as caught:
        TABLE.vacuum(168)
    assert isinstance(caught.value, AttributeError)
    assert isinstance(caught.value, InvalidOption)
    with pytest.raises(NoSuchName, match=r"Use LanceTable\.for_path"):
        LanceTable.forPath(None, "/nowhere")


def test_a_name_in_camel_case_is_found():
    with pytest.raises(NoSuchName, match="Did you mean 'count_rows'"):
        TABLE.countRows()


def test_any_other_name_is_an_error_with_the_nearest_name_that_can_be_undone_or_with_where_to_look():
    with pytest.raises(NoSuchName, match="Did you mean 'optimize'"):
        TABLE.optimise()
    with pytest.raises(NoSuchName, match=r"hint: t\.head\(columns=\['label'\]\).*help\(LanceTable\)"):
        _ = TABLE.label
    with pytest.raises(NoSuchName, match=r"hint: lake\.table\('docs'\)"):
        _ = LAKE.docs
    with pytest.raises(NoSuchName, match="It has alter, create, delete, list, move, restore"):
        TABLE.tags.zzz()
    with pytest.raises(NoSuchName) as caught:
        TABLE.cleanups()
    assert "Did you mean" not in str(caught.value)
    assert not hasattr(TABLE, "vacuum")
    assert not hasattr(LanceTable, "__nothing__")


class Failing(words.Hinting):
    @property
    def broken(self):
        return None.nothing


def test_an_error_inside_of_a_property_is_not_hidden():
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'nothing'"):
        _ = Failing().broken


@pytest.mark.parametrize("kind", [CleanupPolicy, VersionRule])
def test_a_span_of_time_is_a_timedelta_or_a_text(kind):
    assert kind(older_than="7d").older_than == timedelta(days=7)
    with pytest.raises(InvalidOption, match=r"older_than is 7.\n.*timedelta"):
        kind(older_than=7)
