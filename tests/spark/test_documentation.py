"""What the documentation says first is true: its first example runs as it stands, and the first error reads so."""

import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

pytestmark = [pytest.mark.spark]

ROOT = Path(__file__).parents[2]


def blocks(path, language="python"):
    """The code of a page's blocks in one language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / path).read_text(), re.DOTALL)


def test_the_first_example_of_the_readme_runs_and_counts_what_it_says(spark, uri):
    text = (ROOT / "README.md").read_text()
    assert text.index("<!-- first example -->") < text.index("```python")
    example = blocks("README.md")[0].replace('"flights.lance"', repr(uri))
    counted = re.findall(r"(.*\.count\(\))  # (\d+)\n", example)
    assert len(counted) == 2
    names = {"spark": spark}
    exec(example, names)
    for expression, number in counted:
        assert eval(expression, names) == int(number)


def test_a_write_without_a_mode_ends_as_the_page_says_and_the_page_says_what_helps(spark, uri):
    fails, helps = blocks("docs/when-something-goes-wrong.md")[:2]
    quoted = " ".join(blocks("docs/when-something-goes-wrong.md", "")[0].split())
    names = {"df": spark.range(3)}
    with pytest.raises(AnalysisException) as caught:
        exec(fails.replace('"flights.lance"', repr(uri)), names)
    assert str(caught.value).startswith(quoted)
    exec(helps.replace('"flights.lance"', repr(uri)), names)
    assert spark.read.format("lance").load(uri).count() == 3
