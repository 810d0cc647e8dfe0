"""What the documentation says is true: the examples of README run as they stand, and the first error reads so."""

import ast
import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

pytestmark = [pytest.mark.spark]

ROOT = Path(__file__).parents[2]


def blocks(path, language="python"):
    """The code of a page's blocks in one language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / path).read_text(), re.DOTALL)


def test_the_examples_of_the_readme_run_in_their_order_and_give_what_they_say(spark, tmp_path):
    """Those without Spark are run by tests/store/test_without_spark.py."""
    text = (ROOT / "README.md").read_text()
    examples = re.findall(r"<!-- (first example|with spark) -->\n```python\n(.*?)```", text, re.DOTALL)
    assert [kind for kind, _ in examples] == ["first example", "with spark", "with spark"]
    assert text.index("<!-- first example -->") < text.index("```python")
    names = {"spark": spark}
    checked = []
    for _, example in examples:
        code = re.sub(r'"(flights\.lance|lake)"', lambda match: repr(str(tmp_path / match[1])), example)
        exec(code, names)
        for expression, expected in re.findall(r"^(\w.*\))  # ([\d\[].*)$", code, re.MULTILINE):
            assert eval(expression, names) == ast.literal_eval(expected), expression
            checked.append(expected)
    assert checked == ["143", "1000", "1500", "1000", "['air_flights']"]


def test_a_write_without_a_mode_ends_as_the_page_says_and_the_page_says_what_helps(spark, uri):
    fails, helps = blocks("docs/when-something-goes-wrong.md")[:2]
    quoted = " ".join(blocks("docs/when-something-goes-wrong.md", "")[0].split())
    names = {"df": spark.range(3)}
    with pytest.raises(AnalysisException) as caught:
        exec(fails.replace('"flights.lance"', repr(uri)), names)
    assert str(caught.value).startswith(quoted)
    exec(helps.replace('"flights.lance"', repr(uri)), names)
    assert spark.read.format("lance").load(uri).count() == 3
