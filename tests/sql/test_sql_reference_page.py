"""docs/reference/sql-coverage.md shows the statements as the tests run them."""

from pathlib import Path

import pytest
from support.sql_reference import ON_SPARK_4_0, STATEMENTS, on_spark_4_0

pytestmark = pytest.mark.pure

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sql-coverage.md"


def test_the_page_has_the_statements():
    newest, oldest = (
        [line for line in part.splitlines() if line.startswith("| ``")]
        for part in PAGE.read_text().split("## On Spark 4.0")
    )
    assert newest == [statement.row for statement in STATEMENTS]
    assert oldest == [on_spark_4_0(statement).row for statement in STATEMENTS if statement.text in ON_SPARK_4_0]
    assert len(oldest) == len(ON_SPARK_4_0)
