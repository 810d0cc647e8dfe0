"""docs/reference/sql-coverage.md shows the statements as the tests run them."""

from pathlib import Path

import pytest
from support.sql_reference import STATEMENTS

pytestmark = pytest.mark.pure

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sql-coverage.md"


def test_the_page_has_the_statements():
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("| ``")]
    assert shown == [statement.row for statement in STATEMENTS]
