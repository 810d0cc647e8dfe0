"""When an update writes columns, and when rows."""

import pytest

from lance_spark.columns.fill_rules import set_where
from lance_spark.rows.action_rules import UpdateSize, columns_are_cheaper, columns_may_be_cheaper

pytestmark = pytest.mark.pure

WIDE = UpdateSize(stored_bytes=2_000_000_000, rows=1_000_000, column_width=8)
NARROW = UpdateSize(stored_bytes=24_000_000, rows=1_000_000, column_width=8)


@pytest.mark.parametrize(
    ("size", "matched", "columns"),
    [
        (WIDE, 1_000_000, True),
        (WIDE, 10_000, True),
        (WIDE, 7_000, False),  # 14 MB of rows: too little to think about
        (UpdateSize(2_000_000_000, 1_000_000, column_width=64), 10_000, False),
        (NARROW, 1_000_000, True),
        (NARROW, 500_000, False),
        (UpdateSize(0, 0, 8), 0, False),
    ],
)
def test_columns_are_written_where_that_is_clearly_less(size, matched, columns):
    assert columns_are_cheaper(size, matched) is columns


def test_rows_are_counted_only_where_columns_can_be_cheaper():
    assert columns_may_be_cheaper(WIDE)
    assert not columns_may_be_cheaper(UpdateSize(stored_bytes=1_000_000, rows=10, column_width=8))


def test_rows_that_do_not_match_keep_their_values():
    assert set_where({"a": "b + 1"}, None) == {"a": "b + 1"}
    assert set_where({"a`b": "c"}, "d > 1") == {"a`b": "CASE WHEN (d > 1) THEN (c) ELSE `a``b` END"}
