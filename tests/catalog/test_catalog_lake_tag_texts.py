"""Tags of a whole lake as texts: in the metadata of a table and of rows."""

from datetime import datetime, timezone

import pytest

from lance_spark.catalog.lake_rules import KEY, LakeTag, Pin, decode_pin, decode_tag
from lance_spark.errors import CorruptData

pytestmark = pytest.mark.pure

NOW = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)
TAG = LakeTag("v1", "0123abcd", NOW, 3, True)


def test_a_tag_survives_its_text():
    assert decode_tag(TAG.encode(), "v1") == TAG
    assert decode_tag(None, "v1") is None
    assert decode_pin({KEY: Pin(7).encode()}, "t") == Pin(7)
    assert decode_pin({"color": "red"}, "t") is None


@pytest.mark.parametrize(
    "text",
    ["", "7", "[]", "null", "{}", TAG.encode().replace("v1", "v2"), TAG.encode().replace("0123abcd", "../../x")],
)
def test_a_text_that_is_no_tag_is_told(text):
    with pytest.raises(CorruptData, match="tag 'v1' of the lake"):
        decode_tag(text, "v1")


@pytest.mark.parametrize("text", ["", "7", "[]", "null", "{}", '{"version": 0}', '{"version": "x"}', 7])
def test_a_text_that_is_no_pin_is_told(text):
    with pytest.raises(CorruptData, match="table 't' pins"):
        decode_pin({KEY: text}, "t")
