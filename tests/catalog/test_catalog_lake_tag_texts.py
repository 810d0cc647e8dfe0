"""Tags of a whole lake as texts: in the metadata of a table and of rows."""

from datetime import datetime, timezone

import pytest

from lance_spark.catalog.lake_rules import KEY, TAG, LakeTag, Pin, decode_pin, decode_ref
from lance_spark.errors import CorruptData

pytestmark = pytest.mark.pure

NOW = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)
V1 = LakeTag("v1", "0123abcd", NOW, 3, True)


def test_a_tag_survives_its_text():
    assert decode_ref(TAG, V1.encode(), "v1") == V1
    assert decode_ref(TAG, None, "v1") is None
    assert decode_pin({KEY: Pin(7).encode()}, "t") == Pin(7)
    assert decode_pin({"color": "red"}, "t") is None


@pytest.mark.parametrize(
    "text",
    ["", "7", "[]", "null", "{}", V1.encode().replace("v1", "v2"), V1.encode().replace("0123abcd", "../../x")],
)
def test_a_text_that_is_no_tag_is_told(text):
    with pytest.raises(CorruptData, match="tag 'v1' of the lake"):
        decode_ref(TAG, text, "v1")


@pytest.mark.parametrize("text", ["", "7", "[]", "null", "{}", '{"version": -1}', '{"version": "x"}', 7])
def test_a_text_that_is_no_pin_is_told(text):
    with pytest.raises(CorruptData, match="table 't' pins"):
        decode_pin({KEY: text}, "t")
