"""Records as release 0.1.0 stored them: each is read, and written again byte by byte, as its readers may be older."""

import json
from pathlib import Path

import pytest

from lance_spark.catalog import publish_rules
from lance_spark.core.records import reflog, repair_record
from lance_spark.core.records.stored_json import UNREADABLE, read_as
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import CorruptData
from lance_spark.frozen.draw_rules import Lineage

pytestmark = pytest.mark.pure


def published(kind):
    return lambda text: publish_rules.decode(kind, text, "n"), kind.encode, 1


STORED = json.loads(Path(__file__).with_name("stored_records.json").read_text())
CODECS = {
    "change of tag": (lambda text: reflog.decode("id", text), reflog.encode, 2),
    "deleted branch": (lambda text: reflog.decode("id", text), reflog.encode, 2),
    "journal": published(publish_rules.Journal),
    "journal with preference": published(publish_rules.Journal),
    "outcome": published(publish_rules.PublishOutcome),
    "verdict": published(publish_rules.PublishVerdict),
    "lineage": (lambda text: Lineage.from_json(text.decode()), lambda value: value.to_json().encode(), None),
    "repair": (repair_record.read_record, lambda value: value.to_json().encode(), 2),
}
"""By record: how it is read and written, and how far its JSON is indented."""
each_record = pytest.mark.parametrize("name", CODECS)


def stored(name, /, **changes):
    return json.dumps({**STORED[name], **changes}, indent=CODECS[name][2]).encode()


@each_record
def test_a_stored_record_is_read_and_written_as_it_was(name):
    decode, encode, _ = CODECS[name]
    written = encode(decode(stored(name)))
    if name == "repair":  # its steps say what they did once, when they are planned
        without = [{key: value for key, value in step.items() if key != "says"} for step in STORED[name]["steps"]]
        found = json.loads(written)
        assert [{key: value for key, value in step.items() if key != "says"} for step in found["steps"]] == without
        assert {**found, "steps": 0} == {**STORED[name], "steps": 0}
    else:
        assert written == stored(name)


@each_record
def test_a_field_of_another_type_is_corrupt(name):
    decode, _, _ = CODECS[name]
    for field in STORED[name].keys() - {"files"}:
        for wrong in ([[[]]], {"x": [1]}, 1.5):
            with pytest.raises(CorruptData):
                decode(stored(name, **{field: wrong}))
    for text in (b"", b"[]", b"null", b'"x"', b"{}", b"[" * 100_000):
        with pytest.raises(CorruptData):
            decode(text)


@pytest.mark.parametrize("name", ["journal", "outcome", "verdict", "lineage"])
def test_a_record_without_a_format_refuses_what_it_does_not_know(name):
    """A newer release may decide by it."""
    with pytest.raises(CorruptData):
        CODECS[name][0](stored(name, newer=1))


@pytest.mark.parametrize("name", ["change of tag", "repair"])
def test_a_record_with_a_format_is_read_beside_what_a_newer_release_adds(name):
    decode, _, _ = CODECS[name]
    assert decode(stored(name, newer=1)) == decode(stored(name))
    with pytest.raises(CorruptData):
        decode(stored(name, format=2))


@pytest.mark.parametrize("value", [["exp", 7], ["exp", "7", None], ["exp", True, None], [1, 7, None], "exp", None])
def test_a_version_has_its_three_parts(value):
    with pytest.raises(UNREADABLE):
        read_as(PinnedVersion, value)
    assert read_as(PinnedVersion, ["exp", 7, None]) == read_as(PinnedVersion, {"branch": "exp", "version": 7})
