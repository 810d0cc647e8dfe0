"""docs/reference/types.md shows the matrix of types and verbs as the tests have it."""

from pathlib import Path

import pytest
from support.spark_types import IN_PYTHON, IN_SQL, page_table

pytestmark = pytest.mark.pure

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "types.md").read_text()


def test_the_page_has_the_types_of_the_matrix():
    _, _, section = PAGE.partition("## Types through all verbs\n")
    shown = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    assert shown[1:] == page_table()


def test_the_page_names_the_verbs_of_the_matrix():
    text = " ".join(PAGE.split())
    assert f"Statements: {'; '.join(IN_SQL)}." in text
    assert f"Python, in each way to read: {'; '.join(IN_PYTHON)}." in text
