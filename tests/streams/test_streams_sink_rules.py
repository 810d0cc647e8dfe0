"""Whether a batch of a stream is committed, skipped or refused, as a table."""

import pytest

from lance_spark.errors import CorruptData, InvalidOption, Refused
from lance_spark.format.stream_notes import BATCH, QUERY, TAKEN_BACK, parse_query_id, sink_tag, source_tag
from lance_spark.format.transactions import Transaction
from lance_spark.streams.sink_rules import Batch, BatchDecision, BranchLook, Watermark, decide, doubled, is_like

pytestmark = pytest.mark.pure

Q = "q"


def by(query, number, operation="Append", **more):
    return Transaction(1, "u", operation, {QUERY: query, BATCH: str(number), **more})


OWN = [by(Q, number) for number in range(10)]
OTHER = Transaction(1, "u", "Append")
FOREIGN = by("another", 9)
OVERWRITE, RESTORE = Transaction(1, "u", "Overwrite"), Transaction(1, "u", "Restore")
BRANCH = "ingest"


def look(mark, *newer, first=6):
    """Versions from 6 on, after a tag at version 5; ``...`` for one that was cleaned up."""
    versions = {first + place: entry for place, entry in enumerate(newer)}
    tag = None if mark is None else Watermark(BRANCH, 5, True, mark)
    return BranchLook(
        tag, {key: entry for key, entry in versions.items() if entry is not ...}, max(versions, default=5)
    )


TABLE = {
    "a new query": (0, look(None), BatchDecision("begin")),
    "begun, nothing committed": (0, look(OTHER), BatchDecision("commit", None)),
    "begun, killed after the commit": (0, look(OTHER, OTHER, OWN[0]), BatchDecision("skip", 7)),
    "begun, and overwritten before anything was in": (0, look(OTHER, OVERWRITE), BatchDecision("commit", None)),
    "begun, and the first batch is only in what a cleanup noted": (
        1,
        look(OTHER, OWN[0], OTHER),
        BatchDecision("commit", 6),
    ),
    "the next batch": (4, look(OWN[3]), BatchDecision("commit", 5)),
    "the next batch, others in between": (4, look(OWN[3], OTHER, FOREIGN), BatchDecision("commit", 5)),
    "after empty batches": (9, look(OWN[3]), BatchDecision("commit", 5)),
    "the tag did not move": (5, look(OWN[3], OTHER, OWN[4]), BatchDecision("commit", 7)),
    "the same batch": (3, look(OWN[3]), BatchDecision("skip", 5)),
    "the same batch, the tag did not move": (4, look(OWN[3], OTHER, OWN[4], OTHER), BatchDecision("skip", 7)),
    "in, although versions are gone": (4, look(OWN[3], ..., OWN[4], ...), BatchDecision("skip", 7)),
    "gone before the last one": (5, look(OWN[3], ..., OWN[4], OTHER), BatchDecision("commit", 7)),
    "overwritten before the last one": (5, look(OWN[3], OVERWRITE, OWN[4]), BatchDecision("commit", 7)),
    "complete mode": (5, look(by(Q, 4, "Overwrite")), BatchDecision("commit", 5)),
    "taken back": (
        5,
        look(OWN[3], OWN[4], OWN[4], by(Q, 4, "Delete", **{TAKEN_BACK: "7"})),
        BatchDecision("commit", 8),
    ),
}
REFUSED = {
    "the tag is gone": (1, look(None), "tag 'stream-q', which records"),
    "the tag is elsewhere": (1, BranchLook(Watermark(None, 5, True, OWN[0]), {}, 5), "is on branch 'main'"),
    "its version is gone": (1, BranchLook(Watermark(BRANCH, 5, False, None), {}, 5), "version 5, where tag"),
    "its version is gone, first batch": (
        0,
        BranchLook(Watermark(BRANCH, 5, False, None), {}, 5),
        "version 5, where tag",
    ),
    "another table": (1, look(OTHER), "no longer belongs to the query"),
    "another query's": (1, look(FOREIGN), "no longer belongs to the query"),
    "cleaned up": (4, look(OWN[3], ..., OTHER), "version 6 is gone"),
    "cleaned up, many": (4, look(OWN[3], ..., ..., ..., ..., ..., ..., OTHER), "version 6, 7, 8, 9, 10 and 1 more are"),
    "cleaned up, first batch": (0, look(OTHER, ..., OTHER), "version 6 is gone"),
    "a version that does not say": (4, look(OWN[3], None), "version 6 is gone"),
    "overwritten": (4, look(OWN[3], OTHER, OVERWRITE), "version 7 replaced all rows"),
    "a checkpoint made anew": (0, look(OWN[3]), "batch 3 of it is already in.* the checkpoint is new"),
    "a checkpoint brought back": (4, look(OWN[3], OTHER, OWN[5]), "batch 5 of it is already in"),
    "restored": (4, look(OWN[3], RESTORE), "version 6 replaced all rows"),
}


@pytest.mark.parametrize(("number", "seen", "decision"), TABLE.values(), ids=TABLE)
def test_decision(number, seen, decision):
    assert decide(Batch("u", BRANCH, Q, number), seen) == decision


@pytest.mark.parametrize(("number", "seen", "why"), REFUSED.values(), ids=REFUSED)
def test_refusal_and_the_way_on(number, seen, why):
    with pytest.raises(Refused, match=why) as refused:
        decide(Batch("u", BRANCH, Q, number), seen)
    assert "Nothing was changed" in refused.value.message
    assert (
        f"LanceTable.for_path('u', branch='ingest').streams.resume('q', last_batch={number - 1})" in refused.value.hint
    )


DOUBLED = {
    "none": (look(OWN[3], OWN[4], OTHER, OWN[5]), None),
    "the tag's own": (look(OWN[3], OTHER, OWN[3]), (5, 7)),
    "twice after the tag": (look(OWN[3], OWN[4], OWN[4]), (6, 7)),
    "an older one, late": (look(OWN[3], OWN[4], OWN[3]), (6, 7)),
    "of another query": (look(OWN[3], FOREIGN, FOREIGN), None),
    "taken back": (look(OWN[3], OWN[4], OWN[4], by(Q, 4, "Delete", **{TAKEN_BACK: "7"}), OWN[5]), None),
    "twice, one of them taken back": (
        look(OWN[3], OWN[3], by(Q, 3, "Delete", **{TAKEN_BACK: "6"}), OWN[4], OWN[4]),
        (8, 9),
    ),
}


@pytest.mark.parametrize(("seen", "expected"), DOUBLED.values(), ids=DOUBLED)
def test_a_batch_that_is_in_twice(seen, expected):
    assert doubled(seen, Q) == expected


def test_names_of_a_query():
    assert (sink_tag("a-1"), source_tag("a-1", None)) == ("stream-a-1", "reader-a-1")
    assert source_tag("a-1", "exp/a") == "reader-a-1-exp.a"
    for wrong in ("a/b", "é", "a..b", ""):
        with pytest.raises(InvalidOption, match="cannot be the id of a query"):
            sink_tag(wrong)


def test_the_id_in_a_checkpoint():
    assert parse_query_id(b'{"id":"0a-b"}', "c") == "0a-b"
    for wrong in (b"", b"[]", b"{}", b'{"id":1}', b'{"id":""}', b"\xff"):
        with pytest.raises(CorruptData, match="contains no query id"):
            parse_query_id(wrong, "c")


@pytest.mark.parametrize(
    ("newer", "start", "head", "alike"),
    [
        ([OWN[3]], 6, 6, True),
        ([OTHER, OWN[0], Transaction(1, "u", "Delete"), Transaction(1, "u", "Rewrite")], 5, 9, True),
        ([Transaction(1, "u", "UpdateConfig"), Transaction(1, "u", "UpdateBases")], 5, 7, True),
        ([OTHER, OVERWRITE, OTHER], 5, 8, False),
        ([OTHER, OVERWRITE, OTHER], 7, 8, True),
        ([RESTORE], 5, 6, False),
        ([Transaction(1, "u", "Project")], 5, 6, False),
        ([OTHER, ...], 5, 7, False),
        ([OTHER, None], 5, 7, False),
        ([OTHER], 5, 7, False),
    ],
)
def test_an_append_may_start_later_after_changes_that_leave_the_columns(newer, start, head, alike):
    assert is_like(look(OWN[3], *newer).newer, start, head) == alike
