"""Notes about merges in the metadata of branches."""

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.core.records.tracking import PREFIX, MergeNote, Node, merged_notes, with_note
from lance_spark.core.refs import Branch

pytestmark = pytest.mark.pure

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
IDENTITIES = st.one_of(st.just(""), st.uuids().map(str))


def branch(metadata):
    return Branch("exp", None, 1, NOW, metadata)


@given(IDENTITIES, st.integers(1, 2**40), IDENTITIES, st.integers(1, 2**40))
def test_a_note_reads_as_it_was_made(into, at, source, version):
    note = MergeNote(into, at, Node(source, version))
    metadata = with_note({"owner": "me"}, note)
    assert metadata["owner"] == "me"
    assert list(merged_notes([branch(metadata)])) == [note]


def test_only_the_last_merge_of_two_chains_is_kept():
    metadata = {}
    for note in (
        MergeNote("", 5, Node("one", 3)),
        MergeNote("", 9, Node("one", 8)),
        MergeNote("one", 9, Node("", 6)),
        MergeNote("", 7, Node("two", 3)),
    ):
        metadata = with_note(metadata, note)
    found = set(merged_notes([branch(metadata)]))
    assert found == {
        MergeNote("", 9, Node("one", 8)),
        MergeNote("one", 9, Node("", 6)),
        MergeNote("", 7, Node("two", 3)),
    }


def test_notes_of_all_branches_are_found():
    one, two = MergeNote("", 5, Node("one", 3)), MergeNote("", 6, Node("two", 3))
    assert list(merged_notes([branch(with_note({}, one)), branch({}), branch(with_note({}, two))])) == [one, two]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("owner", '{"at": 1, "source": 2}'),
        ("main.one", '{"at": 1, "source": 2}'),
        (f"{PREFIX}main", '{"at": 1, "source": 2}'),
        (f"{PREFIX}main.one", "no JSON"),
        (f"{PREFIX}main.one", "{}"),
        (f"{PREFIX}main.one", "[1]"),
        (f"{PREFIX}main.one", '{"at": null, "source": 2}'),
    ],
)
def test_what_is_no_note_is_passed_over(key, value):
    assert list(merged_notes([branch({key: value})])) == []
