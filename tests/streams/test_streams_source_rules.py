"""How far a batch goes, what a commit means to a stream, offsets as JSON, and the options."""

import json
from datetime import datetime, timezone

import pytest

from lance_spark.core.refs import PinnedVersion
from lance_spark.core.table_options import (
    StreamReadOptions,
    parse_stream_options,
    refuse_stream_options,
    split_stream_options,
)
from lance_spark.errors import CorruptData, InvalidOption, Refused
from lance_spark.streams.source_rules import (
    NO_LIMITS,
    CommitMeaning,
    Effect,
    Limits,
    PartSize,
    StreamOffset,
    StreamPlace,
    VersionSize,
    batch_start,
    begun,
    meaning,
    next_place,
    parse_offset,
    refusal,
    resume_after_loss,
    unbegun,
)

pytestmark = pytest.mark.pure


def version(number, *sizes, blocked=False):
    return VersionSize(number, [PartSize(1, size) for size in sizes], blocked)


THREE = (version(1, 10, 20, 30), version(2), version(3, 40), version(4, 50, 60))


@pytest.mark.parametrize(
    ("start", "limits", "end"),
    [
        (StreamPlace(1), NO_LIMITS, StreamPlace(5)),
        (StreamPlace(5), NO_LIMITS, StreamPlace(5)),
        (StreamPlace(1), Limits(files=1), StreamPlace(1, 1)),
        (StreamPlace(1, 1), Limits(files=1), StreamPlace(1, 2)),
        # The last part of a version is given, and then what follows without rows.
        (StreamPlace(1, 2), Limits(files=1), StreamPlace(3)),
        (StreamPlace(1), Limits(files=3), StreamPlace(3)),
        (StreamPlace(1), Limits(files=4), StreamPlace(4)),
        (StreamPlace(1), Limits(files=5), StreamPlace(4, 1)),
        (StreamPlace(1), Limits(files=99), StreamPlace(5)),
        # The first part is read however large it is, and no further one beyond the limit.
        (StreamPlace(1), Limits(size=1), StreamPlace(1, 1)),
        (StreamPlace(1), Limits(size=10), StreamPlace(1, 1)),
        (StreamPlace(1), Limits(size=29), StreamPlace(1, 1)),
        (StreamPlace(1), Limits(size=30), StreamPlace(1, 2)),
        (StreamPlace(1), Limits(size=60), StreamPlace(3)),
        (StreamPlace(1), Limits(size=99), StreamPlace(3)),
        (StreamPlace(1), Limits(size=100), StreamPlace(4)),
        (StreamPlace(1, 2), Limits(size=70), StreamPlace(4)),
        # Versions without rows do not count.
        (StreamPlace(1), Limits(versions=1), StreamPlace(3)),
        (StreamPlace(1), Limits(versions=2), StreamPlace(4)),
        (StreamPlace(1, 1), Limits(versions=1), StreamPlace(3)),
        (StreamPlace(2), Limits(versions=1), StreamPlace(4)),
        (StreamPlace(1), Limits(versions=3), StreamPlace(5)),
        # The narrowest limit wins.
        (StreamPlace(1), Limits(files=2, size=1000, versions=9), StreamPlace(1, 2)),
        (StreamPlace(1), Limits(files=9, size=60, versions=9), StreamPlace(3)),
        (StreamPlace(1), Limits(files=9, size=1000, versions=1), StreamPlace(3)),
        (StreamPlace(4, 2), Limits(files=1), StreamPlace(5)),
    ],
)
def test_where_a_batch_ends(start, limits, end):
    assert next_place(start, [entry for entry in THREE if entry.version >= start.version], limits) == end


def test_a_batch_ends_before_a_version_that_blocks_and_takes_no_more_than_it_needs():
    blocked = (version(1, 5), version(2, blocked=True), version(3, 5))
    assert next_place(StreamPlace(1), blocked, NO_LIMITS) == StreamPlace(2)
    assert next_place(StreamPlace(2), blocked[1:], NO_LIMITS) == StreamPlace(2)
    assert next_place(StreamPlace(1), iter([version(1, 5, 5)]), Limits(files=1)) == StreamPlace(1, 1)
    taken = []

    def lazily():
        for entry in THREE:
            taken.append(entry.version)
            yield entry

    assert next_place(StreamPlace(1), lazily(), Limits(files=2)) == StreamPlace(1, 2)
    assert taken == [1]


@pytest.mark.parametrize("limits", [Limits(files=1), Limits(size=1), Limits(versions=1), Limits(3, 45, 1), NO_LIMITS])
def test_batches_one_after_the_other_give_everything_once(limits):
    place, given = StreamPlace(1), []
    for _ in range(20):
        rest = [entry for entry in THREE if entry.version >= place.version]
        end = next_place(place, rest, limits)
        for entry in rest:
            first = place.file if entry.version == place.version else 0
            if entry.version < end.version:
                given += [(entry.version, at) for at in range(first, len(entry.parts))]
            elif entry.version == end.version:
                given += [(entry.version, at) for at in range(first, end.file)]
        place = end
    assert given == [(entry.version, at) for entry in THREE for at in range(len(entry.parts))]


def test_a_part_of_several_fragments_counts_as_so_many():
    wide = [VersionSize(1, [PartSize(5, 1), PartSize(5, 1)])]
    assert next_place(StreamPlace(1), wide, Limits(files=3)) == StreamPlace(1, 1)
    assert next_place(StreamPlace(1), wide, Limits(files=9)) == StreamPlace(1, 1)
    assert next_place(StreamPlace(1), wide, Limits(files=10)) == StreamPlace(2)


@pytest.mark.parametrize(
    ("effect", "found"),
    [
        (Effect(), CommitMeaning.NOTHING),
        (Effect(added=1), CommitMeaning.ROWS),
        (Effect(removed=1), CommitMeaning.CHANGE),
        (Effect(deleted=1), CommitMeaning.CHANGE),
        (Effect(rewritten=1), CommitMeaning.CHANGE),
        (Effect(added=1, removed=1), CommitMeaning.CHANGE),
        (Effect(added=1, deleted=1), CommitMeaning.CHANGE),
        (Effect(added=3, rewritten=2), CommitMeaning.CHANGE),
    ],
)
def test_a_commit_is_classified_by_its_effect(effect, found):
    assert meaning(effect) is found


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ("Delete", "deleted rows (Delete)"),
        ("Overwrite", "replaced the table (Overwrite)"),
        ("Update", "updated or deleted rows (Update)"),
        ("Restore", "older version of the table (Restore)"),
        ("DataReplacement", "changed values of a column (DataReplacement)"),
        ("Strange", "changed rows (Strange)"),
        (None, "changed rows, but"),
    ],
)
def test_a_refusal_says_what_happened_and_the_ways_on(operation, words):
    problem = refusal(PinnedVersion("exp", 7), operation)
    assert problem.message.startswith("Version exp@7 ")
    assert words in problem.message
    assert "skip_change_commits" in problem.hint
    assert "'changes'" in problem.hint


OFFSET = StreamOffset("c0ffee", 3, True, StreamPlace(3, 2), 1_795_374_840_173_933_533, 1)


def test_offsets_survive_json_and_are_the_same_text_each_time():
    assert parse_offset(json.loads(json.dumps(OFFSET.to_json()))) == OFFSET
    assert json.dumps(parse_offset(OFFSET.to_json()).to_json()) == json.dumps(OFFSET.to_json())
    assert parse_offset(unbegun()) is None
    assert unbegun() == unbegun()


@pytest.mark.parametrize(
    "change",
    [
        {"version": "3"},
        {"version": None},
        {"version": True},
        {"stamp": 5},
        {"stamp": "x"},
        {"snapshot": 1},
        {"line": 0},
    ],
)
def test_what_is_no_offset_is_refused(change):
    with pytest.raises(CorruptData, match="not from this source"):
        parse_offset({**OFFSET.to_json(), **change})
    with pytest.raises(CorruptData):
        parse_offset({"n": 1})


def test_an_offset_of_a_newer_release_is_refused():
    with pytest.raises(Refused, match="form 2"):
        parse_offset({"format": 2, "anything": 1})


@pytest.mark.parametrize(
    ("offset", "anchor"),
    [
        (begun("", 5, True, 1), 5),
        (begun("", 5, False, 1), 4),
        (begun("", 1, False, 0), 0),
        (begun("", 5, True, 1).at(StreamPlace(5, 1), 1), 5),
        (begun("", 5, True, 1).at(StreamPlace(6), 1), 5),
        (begun("", 5, True, 1).at(StreamPlace(6, 1), 1), 6),
        (begun("", 5, False, 1).at(StreamPlace(5, 1), 1), 5),
    ],
)
def test_the_version_that_an_offset_depends_on(offset, anchor):
    assert offset.anchor == anchor


def test_a_first_batch_and_one_after_a_loss_begin_where_their_end_says():
    first = begun("", 5, True, 9).at(StreamPlace(6), 9)
    assert batch_start(None, first) == begun("", 5, True, 0)
    further = first.at(StreamPlace(8), 10)
    assert batch_start(first, further) == first
    lost = begun("", 20, False, 11, losses=1).at(StreamPlace(22), 12)
    assert batch_start(further, lost) == begun("", 20, False, 0, losses=1)
    assert (resume_after_loss(1), resume_after_loss(2), resume_after_loss(9)) == (1, 3, 10)


def parsed(**options):
    return parse_stream_options(*split_stream_options(options))


def test_options():
    assert parsed() == StreamReadOptions()
    found = parsed(
        STARTINGVERSION="7", maxFilesPerTrigger="3", max_bytes_per_trigger="1g", failondataloss="no",
        query_id="q", checkpointlocation="/c", skipChangeCommits="yes", branch="main",
    )  # fmt: skip
    assert found == StreamReadOptions(
        starting_version=7, max_files=3, max_bytes=2**30, fail_on_data_loss=False, query_id="q", checkpoint="/c",
        skip_change_commits=True,
    )  # fmt: skip
    assert parsed(starting_version="v1.0").starting_version == "v1.0"
    assert parsed(starting_version=" Latest ").starting_version == "latest"
    moment = parsed(starting_timestamp="2026-01-31").starting_timestamp
    assert moment == datetime(2026, 1, 31, tzinfo=timezone.utc)
    assert parsed(changes="true", key="a,b", images="post").key == ("a", "b")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"starting_version": "0"}, "at least 1"),
        ({"starting_version": "-1"}, "at least 1"),
        ({"starting_version": "1", "starting_timestamp": "2026-01-01"}, "both choose where to begin"),
        ({"max_files_per_trigger": "0"}, "at least 1"),
        ({"max_versions_per_trigger": "x"}, "whole number"),
        ({"max_bytes_per_trigger": "0"}, "a size"),
        ({"maxFilesPerTrigger": "1", "max_files_per_trigger": "1"}, "given twice"),
        ({"changes": "maybe"}, "true or false"),
        ({"changes": "true", "skip_change_commits": "true"}, "contradict"),
        ({"changes": "true", "filter": "id > 1"}, "cannot be combined with"),
        ({"changes": "true", "with_row_id": "true"}, "cannot be combined with"),
        ({"images": "post"}, "for the change feed"),
        ({"key": "id"}, "for the change feed"),
        ({"changes": "true", "images": "pre"}, "images"),
        ({"version": "3"}, "a stream continues"),
        ({"tag": "v1"}, "a stream continues"),
        ({"timestampAsOf": "2026-01-01"}, "a stream continues"),
        ({"limit": "3"}, "not for streams"),
    ],
)
def test_options_that_cannot_be(options, words):
    with pytest.raises(InvalidOption, match=words):
        parsed(**options)


def test_a_read_that_is_no_stream_refuses_options_of_streams():
    refuse_stream_options({"branch": "main"})
    with pytest.raises(InvalidOption, match="is for streams"):
        refuse_stream_options({"startingversion": "1"})
