"""What cleanups note for streams, as values: written, read, put together, and when they are not needed."""

import json

import pytest

from lance_spark.core.layout import last_noted, stream_note_path
from lance_spark.core.refs import RefTable, Tag
from lance_spark.format.stream_notes import BATCH, QUERY, Noted, decode_note, encode_note, joined, noted, updated
from lance_spark.format.transactions import MESSAGE, Transaction
from lance_spark.survey.chain_rules import first_sink, is_needed_note

pytestmark = pytest.mark.pure

OTHER, DELETE = Noted("Append", {}), Noted("Delete", {})
BATCH_3 = Noted("Append", {QUERY: "q", BATCH: "3"}, "u", (7, 8))
UNSEEN = BATCH_3._replace(added=None)


def test_a_note_says_what_it_was_given_and_others_versions_as_ranges():
    versions = {5: OTHER, 6: OTHER, 7: DELETE, 9: BATCH_3, 10: OTHER, 11: UNSEEN, 12: BATCH_3._replace(added=())}
    content = encode_note("id", versions)
    assert decode_note(content, "id") == versions
    assert json.loads(content)["versions"] == {"Append": [[5, 6], [9, 12]], "Delete": [[7, 7]]}
    assert decode_note(content, "another") is None


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"branch": 1},
        {"versions": [[1, 2]]},
        {"versions": {"Append": [[1]]}},
        {"queries": {"9": {}}},
        {"queries": {"9": {"properties": None, "uuid": "", "added": []}}},
        {"queries": None},
    ],
)
def test_a_note_of_another_shape_says_nothing(change):
    content = {**json.loads(encode_note("", {9: BATCH_3})), **change}
    assert decode_note(json.dumps(content).encode(), "") is None


def test_of_a_version_only_what_streams_need_is_noted():
    properties = {QUERY: "q", BATCH: "3", MESSAGE: "secret"}
    assert noted(Transaction(1, "u", "Append", properties), {8, 7}) == BATCH_3
    assert noted(Transaction(1, "u", "Append", {MESSAGE: "secret"})) == OTHER
    assert decode_note(encode_note("", {9: BATCH_3}), "")[9].transaction(9).properties == BATCH_3.properties


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ([], {}),
        ([{5: OTHER}, {6: DELETE}], {5: OTHER, 6: DELETE}),
        ([{5: OTHER, 6: OTHER}, {6: OTHER}], {5: OTHER, 6: OTHER}),
        ([{5: OTHER, 6: OTHER}, {6: DELETE}], {5: OTHER}),
        ([{5: OTHER}, {5: DELETE}, {5: OTHER}], {}),
        ([{9: BATCH_3}, {9: OTHER}], {}),
        ([{9: BATCH_3}, {9: BATCH_3._replace(uuid="v")}], {}),
        ([{9: BATCH_3}, {9: UNSEEN}], {9: BATCH_3}),
        ([{9: UNSEEN}, {9: BATCH_3}], {9: BATCH_3}),
    ],
)
def test_notes_together_say_what_none_of_them_contradicts(notes, expected):
    assert joined(notes) == expected


def test_what_is_read_now_counts_but_what_was_added_is_kept():
    assert updated({5: OTHER, 9: BATCH_3}, {5: DELETE, 9: UNSEEN, 10: OTHER}) == {5: DELETE, 9: BATCH_3, 10: OTHER}
    assert updated({9: BATCH_3}, {9: UNSEEN._replace(uuid="v")}) == {9: UNSEEN._replace(uuid="v")}


def test_a_note_is_needed_as_long_as_it_tells_of_versions_after_a_tag():
    path = stream_note_path("a/b", 9, "0" * 32)
    assert path == f"tree/a/b/_streams/9-{'0' * 32}.json"
    local = path.removeprefix("tree/a/b/")
    assert [is_needed_note(local, sink) for sink in (None, 8, 9, 10)] == [False, True, False, False]
    for other in (f"data/9-{'0' * 32}.json", "_streams/9.json", f"_streams/9-{'0' * 32}.json.x.tmp"):
        assert not is_needed_note(other, 1)
    assert last_noted("x") is None


def test_the_first_query_of_a_branch_is_the_one_whose_tag_is_lowest():
    tags = [Tag("stream-a", None, 4), Tag("stream-b", None, 3), Tag("stream-c", "x", 1), Tag("v1", None, 2)]
    refs = RefTable({}, {tag.name: tag for tag in tags})
    assert [first_sink(refs, branch) for branch in (None, "x", "y")] == [3, 1, None]
