"""A stored plan says the same when it is read again: what it leaves out would not be checked before the deletes."""

import json
from dataclasses import asdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cleanup_surveys import CLONE, NOW, ROOT, chain, fork, manifest, survey

from lance_spark.cleanup.plan_rules import PlanFacts, from_document, to_document
from lance_spark.cleanup.retention_rules import Verdict
from lance_spark.cleanup.sweep_rules import SUMS, newly_live
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import CorruptData

pytestmark = pytest.mark.pure

SECRET = "s3cr3t"
LOCATION = DatasetLocation(ROOT, (("aws_secret_access_key", SECRET),))
ROW = {
    "kind": "data",
    "branch": "main",
    "action": "delete",
    "reason": "no version names it",
    "verified": False,
    "files": 3,
    "bytes": 2**60,
    "example": "data/é.lance",
}
STAYS = {**ROW, "action": "keep", "verified": None, "example": None}
FACTS = PlanFacts(
    id="20261121T000000-0a1b2c3d",
    created_ns=NOW + 123_456_789,
    policy={"older_than": "14 days, 0:00:00"},
    survey=survey(
        chain(detached=[manifest(2**63 + 5)]),
        chain("é/b", (5,)),
        chain("z", (), has_ref=False),
        chain(versions=(2**62,), repository=1),
        branches=[fork("é/b", 4, None, 100), fork("c", 5, "é/b", 2**31)],
        tags=[("v1", None, 2), ("v2", "é/b", 5)],
        recorded={"v1": CLONE},
    ),
    verdicts=(
        Verdict((False, True, True, True), {"latest": 1}),
        *(Verdict((True,), {}), Verdict((), {})),
        Verdict((True,), {}),
    ),
    sums=pa.Table.from_pylist([ROW, STAYS], SUMS),
    clones=(CLONE,),
    clones_from=("s3://b/x y",),
    warnings=("beware",),
)


def stored(facts, parts=()):
    """The document as a store gives it back."""
    return json.loads(json.dumps(to_document(facts, parts)))


def spelled_out(facts):
    """All of it as plain values, without storage options, which are not stored."""
    return {
        **vars(facts),
        "sums": facts.sums.to_pylist(),
        "survey": str(asdict(facts.survey)).replace(str(LOCATION.options), "()"),
    }


def test_a_plan_comes_back_from_its_document():
    facts, parts = from_document(stored(FACTS, ["a.parquet", "b.parquet"]), LOCATION)
    assert spelled_out(facts) == spelled_out(FACTS)
    assert facts.sums.schema.equals(SUMS)
    assert parts == ["a.parquet", "b.parquet"]


def test_storage_options_are_not_stored_and_come_from_who_reads_the_plan():
    facts, _ = from_document(stored(FACTS), LOCATION)
    assert SECRET not in json.dumps(stored(facts))
    assert [repository.options for repository in facts.survey.repositories] == [LOCATION.options] * 2


def test_a_plan_that_was_read_sees_the_same_changes_as_before():
    facts, _ = from_document(stored(FACTS), LOCATION)
    assert newly_live(facts.survey, FACTS.survey, facts.verdicts) == []
    moved = survey(*FACTS.survey.chains, tags=[("new", None, 1)])
    assert newly_live(facts.survey, moved, facts.verdicts) == newly_live(FACTS.survey, moved, FACTS.verdicts) != []


@given(st.lists(st.booleans()), st.dictionaries(st.text(), st.integers(0, 2**40)))
def test_a_verdict_comes_back(kept, reasons):
    facts = PlanFacts("i", NOW, {}, survey(chain()), (Verdict(tuple(kept), reasons),), SUMS.empty_table())
    assert from_document(stored(facts), LOCATION)[0].verdicts == facts.verdicts


def test_a_person_reads_when_the_plan_was_made_and_what_for():
    document = stored(FACTS)
    assert document["created"].startswith("2024-10-04T00:00:00")
    assert (document["dataset"], document["policy"]) == (ROOT, {"older_than": "14 days, 0:00:00"})


@pytest.mark.parametrize("number", [None, 0, 2, "1"])
def test_a_document_of_another_format_is_refused(number):
    with pytest.raises(CorruptData, match="format"):
        from_document({**stored(FACTS), "format": number}, LOCATION)


@pytest.mark.parametrize("name", sorted(set(stored(FACTS)) - {"format", "created", "dataset", "branches"}))
def test_a_document_without_something_is_refused(name):
    document = stored(FACTS)
    del document[name]
    with pytest.raises(CorruptData, match=name):
        from_document(document, LOCATION)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("survey", []),
        ("survey", {**stored(FACTS)["survey"], "chains": [{}]}),
        ("survey", {**stored(FACTS)["survey"], "tags": [["t"]]}),
        ("survey", {**stored(FACTS)["survey"], "branches": [["b", None, 1, "yesterday"]]}),
        ("verdicts", [3]),
        ("verdicts", [{"count": 1, "removed": [1], "reasons": {}}]),
        ("verdicts", None),
        ("totals", [{"files": "many"}]),
        ("parts", None),
    ],
)
def test_a_document_of_another_shape_is_refused(name, value):
    with pytest.raises(CorruptData, match="Make the plan again"):
        from_document({**stored(FACTS), name: value}, LOCATION)
