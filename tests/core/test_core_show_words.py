"""Numbers, moments and names as people read them, and what never shows."""

from datetime import datetime, timedelta, timezone

import pytest

from lance_spark.core.texts import counted, few, masked, moment, one_line, readable

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (2**20, "1.0 MiB"),
        (5 * 2**40, "5.0 TiB"),
        (2**50, "1.0 PiB"),
        (2**62, "4,096.0 PiB"),
    ],
)
def test_bytes_are_shown_with_a_unit(size, text):
    assert readable(size) == text


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [((1, "file"), "1 file"), ((0, "file"), "0 files"), ((1200, "index", "indexes"), "1,200 indexes")],
)
def test_counts_have_a_plural(arguments, shown):
    assert counted(*arguments) == shown


def test_moments_are_in_utc():
    east = timezone(timedelta(hours=2))
    assert moment(datetime(2026, 1, 2, 1, 4, 5, 999, tzinfo=east)) == "2026-01-01 23:04:05 UTC"


@pytest.mark.parametrize(
    ("names", "shown"), [((), ""), (("a",), "a"), (("a", "b"), "a, b"), (("a", "b", "c", "d"), "a, b and 2 more")]
)
def test_a_few_names(names, shown):
    assert few(names, 2) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://bucket/t.lance", "s3://bucket/t.lance"),
        ("s3://AKIA:hush@bucket/t.lance", "s3://***@bucket/t.lance"),
        ("from https://me:hush@host:9000/a to b", "from https://***@host:9000/a to b"),
        ("https://hush@host/a", "https://***@host/a"),
        ("https://me:hu@sh@host/a", "https://***@host/a"),
        ("abfss://container@account.dfs.core.windows.net/t", "abfss://container@account.dfs.core.windows.net/t"),
        ("abfss://container:hush@account/t", "abfss://***@account/t"),
        ("https://host/t.lance?sig=hush&x=1", "https://host/t.lance?***"),
        ("'https://host?sig=hush', again", "'https://host?***', again"),
        ("s3://b/t#hush", "s3://b/t?***"),
        ("/data/who?.lance of main@3", "/data/who?.lance of main@3"),
    ],
)
def test_secrets_in_uris_are_masked(text, shown):
    assert masked(text) == shown


def test_a_cell_is_one_line_without_control_characters():
    assert one_line("a\nb\x1b[31m\tc") == "a b [31m c"
