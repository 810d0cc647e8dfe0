"""Values of rows as pages show them: folded, as pictures, with what differs marked."""

import datetime

import pytest
from support.shown_lakes import HOSTILE, png

from lance_spark.core.texts import visible
from lance_spark.ui.cell_rules import LARGEST_IMAGE, LONGEST, cell, equal, image_kind, pairs

pytestmark = pytest.mark.pure
PICTURE = png((1, 2, 3))
NAN = float("nan")


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "null", "null"),
        (True, "text", "true"),
        (3, "number", "3"),
        (1.5, "number", "1.5"),
        (NAN, "number", "nan"),
        ("", "text", ""),
        ("short", "text", "short"),
        (b"", "bytes", "0 bytes"),
        (b"abc", "bytes", "3 bytes: 61 62 63"),
        (datetime.date(2026, 1, 2), "text", "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.timezone.utc), "text", "2026-01-02 03:04:00+00:00"),
        (datetime.timedelta(seconds=1), "text", "0:00:01"),
        ([1, 2], "nested", "[1, 2]"),
        ({"a": b"xy", "b": [None]}, "nested", '{"a": "<2 bytes>", "b": [null]}'),
        (PICTURE, "image", f"PNG image, {len(PICTURE)} B"),
    ],
)
def test_a_value_has_a_kind_and_a_text(value, kind, text):
    found = cell(value)
    assert (found.kind, found.text) == (kind, text)


def test_a_long_text_folds_and_keeps_its_beginning():
    found = cell("x" * 10_000)
    assert len(found.text) < 200
    assert "10,000 characters" in found.text
    assert found.full == "x" * 10_000
    assert len(cell("y" * 10**6).full) < LONGEST + 50


def test_several_lines_fold():
    found = cell("one\ntwo")
    assert found.text.startswith("one…")
    assert found.full == "one\ntwo"


@pytest.mark.parametrize("values", [[0.0] * 9, [NAN] * 9, [float("inf"), *[1.0] * 20], [0.1 * n for n in range(2_000)]])
def test_floats_in_a_row_are_a_vector_with_a_picture(values):
    found = cell(values)
    assert found.kind == "vector"
    assert f"{len(values):,} floats" in found.text
    points = [tuple(map(float, point.split(","))) for point in found.points.split()]
    assert 2 <= len(points) <= 64
    assert all(0 <= x <= 96 and 0 <= y <= 20 for x, y in points)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PICTURE, "image/png"),
        (PICTURE[:-1], None),
        (PICTURE[:40] + b"X" + PICTURE[41:], None),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"\xff\xd8\xff\xe0 jpeg \xff\xd9", "image/jpeg"),
        (b"\xff\xd8\xff\xe0 cut", None),
        (b"GIF89a gif ;", "image/gif"),
        (b"GIF89a cut", None),
        (b"RIFF\x08\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\xff\x00\x00\x00WEBPVP8 ", None),
        (b"<svg onload='alert(1)'></svg>", None),
        (b"", None),
    ],
)
def test_only_whole_pictures_without_scripts_are_shown_as_such(content, kind):
    assert image_kind(content) == kind
    assert cell(content).image.startswith(f"data:{kind};base64,") if kind else not cell(content).image


def test_a_large_picture_is_not_put_into_the_page():
    found = cell(png((1, 2, 3)) + b"")
    assert found.image
    large = b"\xff\xd8\xff" + b"\1" * LARGEST_IMAGE + b"\xff\xd9"
    assert "too large" in cell(large).text
    assert not cell(large).image


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (NAN, NAN, True),
        ({"a": [NAN]}, {"a": [NAN]}, True),
        ({"a": 1}, {"b": 1}, False),
        (1, 1.0, False),
        (True, 1, False),
        ([1, 2], [1], False),
        (None, "", False),
    ],
)
def test_equal_values(one, other, same):
    assert equal(one, other) is same


def test_cells_that_differ_have_both_values():
    found = pairs({"id": 1, "a": 1, "gone": 5}, {"id": 1, "a": 2, "new": None}, ["id", "a", "gone", "new"])
    assert [each.changed for each in found] == [False, True, True, True]
    assert (found[1].before.text, found[1].after.text) == ("1", "2")
    assert not any(each.changed for each in pairs(None, {"id": 1}, ["id"]))


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_the_user_stay_what_they_are(text):
    found = cell(text)
    assert (found.full or found.text) == visible(text)


def test_what_nobody_would_see_is_spelled_out():
    assert cell("abc\u202egnp.exe").text == r"abc\u202egnp.exe"
    assert cell("a\x00b\x1b[31m").text == r"a\u0000b\u001b[31m"
    assert cell("tab\tstays").text == "tab\tstays"
