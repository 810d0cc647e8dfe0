"""What the documentation says is true: the examples of README run as they stand, and the first error reads so."""

import ast
import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from support import torch_stand_in
from support.type_table import TABLE

from lance_spark import unregister

with torch_stand_in.installed():
    import lance_spark.training.torch  # noqa: F401 - for the example, which must not leave the stand-in behind

pytestmark = [pytest.mark.spark, pytest.mark.less_on("oldest", 0.3)]

ROOT = Path(__file__).parents[2]


def blocks(path, language="python"):
    """The code of a page's blocks in one language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / path).read_text(), re.DOTALL)


def test_the_examples_of_the_readme_run_in_their_order_and_give_what_they_say(spark, tmp_path, request):
    """Those without Spark are run by tests/store/test_without_spark.py."""
    text = (ROOT / "README.md").read_text()
    examples = re.findall(r"<!-- (first example|with spark) -->\n```python\n(.*?)```", text, re.DOTALL)
    assert [kind for kind, _ in examples] == ["first example", "with spark", "with spark"]
    assert text.index("<!-- first example -->") < text.index("```python")
    names = {"spark": spark}
    request.addfinalizer(lambda: unregister(spark))
    checked = []
    for _, example in examples:
        code = re.sub(r'(?<=["`])(flights\.lance|lake)(?=["`@])', lambda match: str(tmp_path / match[1]), example)
        exec(code, names)
        for expression, expected in re.findall(r"^(\w.*[)\]])  # ([\d\[].*)$", code, re.MULTILINE):
            assert eval(expression, names) == ast.literal_eval(expected), expression
            checked.append(expected)
    assert checked == ["71", "143", "1000", "1500", "1000", "['air_flights']", "999"]


def test_the_example_of_sql_runs_and_gives_what_it_says(spark, tmp_path):
    text = (ROOT / "docs" / "catalogs.md").read_text()
    code = "".join(re.findall(r"<!-- sql -->\n```python\n(.*?)```", text, re.DOTALL))
    code = code.replace('"lake")', f"{str(tmp_path / 'lake')!r})").replace("three.lance", str(tmp_path / "three.lance"))
    code = re.sub(r"^(\w.*)  # (\d+)$", r"said.append((\1, \2))", code, flags=re.MULTILINE)
    names = {"spark": spark, "said": []}
    unregister(spark)
    try:
        exec(code, names)
    finally:
        unregister(spark)
    assert [found for found, _ in names["said"]] == [said for _, said in names["said"]]
    assert len(names["said"]) == 7


def test_the_example_of_changing_rows_runs_and_gives_what_it_says(spark, tmp_path):
    text = (ROOT / "docs" / "changing-rows.md").read_text()
    code = re.search(r"<!-- rows -->\n```python\n(.*?)```", text, re.DOTALL)[1]
    code = code.replace("late.lance", str(tmp_path / "late.lance"))
    code = re.sub(
        r"^(?:print\((.*)\)|(t\.count.*\))) +# (.*)$", r"said.append((str(\1\2), '\3'))", code, flags=re.MULTILINE
    )
    names = {"spark": spark, "said": []}
    exec(code, names)
    assert len(names["said"]) == 3
    for found, said in names["said"]:
        assert found == said or found.startswith(said.removesuffix("...")), (found, said)


@pytest.mark.less_on("oldest", 0.15)
@pytest.mark.parametrize(
    ("page", "name", "dataset", "lines"),
    [
        ("optimizing", "optimize", "events.lance", 4),
        ("optimizing", "order", "flights.lance", 3),
        ("indexes", r"\w+", "indexed.lance", 4),
        ("searching", "searching", "airports.lance", 4),
        pytest.param("searching", "documents", "calls.lance", 7, marks=pytest.mark.nightly),
        ("training-sets", "frozen", "planes.lance", 6),
        ("training-sets", "digits", "digits.lance", 5),
    ],
)
def test_the_example_of_a_page_of_upkeep_runs_and_gives_what_it_says(spark, tmp_path, page, name, dataset, lines):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    code = re.search(rf"<!-- {name} -->\n```python\n(.*?)```", text, re.DOTALL)[1]
    code = code.replace(dataset, str(tmp_path / dataset))
    code = re.sub(
        r"^print\((.*)\) +# (.*)$", lambda line: f"said.append((str({line[1]}), {line[2]!r}))", code, flags=re.MULTILINE
    )
    names = {"spark": spark, "said": []}
    exec(code, names)
    assert len(names["said"]) == lines
    for found, said in names["said"]:
        assert found == said or found.startswith(said.removesuffix("...")), (found, said)


def test_a_write_without_a_mode_ends_as_the_page_says_and_the_page_says_what_helps(spark, uri):
    fails, helps = blocks("docs/when-something-goes-wrong.md")[:2]
    quoted = " ".join(blocks("docs/when-something-goes-wrong.md", "")[0].split())
    names = {"df": spark.range(3)}
    with pytest.raises(AnalysisException) as caught:
        exec(fails.replace('"flights.lance"', repr(uri)), names)
    assert str(caught.value).startswith(quoted)
    exec(helps.replace('"flights.lance"', repr(uri)), names)
    assert spark.read.format("lance").load(uri).count() == 3


ON_THE_PAGE = {
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "fixed_size_binary": "fixed-size binary",
    "fixed_size_list": "fixed-size list (vector)",
    "timestamp": "timestamp without zone (s, ms, us, ns)",
    "decimal256": "decimal256 up to p = 38",
}
"""What docs/types.md calls a type that Arrow calls otherwise; a decimal's digits and a list's items left out."""


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_the_page_about_types_says_what_spark_shows_for_what_is_stored(row):
    arrow = re.match(r"\w+", str(row.lance))[0]
    zoned = arrow == "timestamp" and row.lance.tz is not None
    name = "timestamp with zone" if zoned else ON_THE_PAGE.get(arrow, arrow)
    rows = re.findall(r"^\| (.+?) \| (.+?) \| ", (ROOT / "docs" / "types.md").read_text(), re.MULTILINE)
    lines = [(types(left), types(right)) for left, right in rows]
    found = [(place, left, right) for left, right in lines for place in places(name, left)]
    assert len(found) == 1, f"docs/types.md has {name} {len(found)} times"
    place, left, right = found[0]
    shown = right[place] if len(right) == len(left) else right[0]
    assert shown == "its values' type" or re.match(r"[a-z_ ]+", row.spark)[0] == re.match(r"[a-z_ ]+", shown)[0].strip()


def types(cell):
    """The types that a cell of the table lists."""
    return [kind.strip() for kind in re.split(r",(?![^(]*\))", cell)]


def places(name, kinds):
    """Where a list of types has this one, which may be followed by its parameters."""
    return [place for place, kind in enumerate(kinds) if kind == name or kind.startswith(f"{name}(")]


@pytest.mark.one_spark
def test_the_example_of_a_stream_runs_and_gives_what_it_says(spark, tmp_path):
    text = (ROOT / "docs" / "streaming-source.md").read_text()
    code = re.search(r"<!-- stream -->\n```python\n(.*?)```", text, re.DOTALL)[1]
    code = re.sub(r'"(events\.\w+|checkpoints/events)"', lambda match: repr(str(tmp_path / match[1])), code)
    code = re.sub(r"^(\w.*)  # (\d+)$", r"said.append((\1, \2))", code, flags=re.MULTILINE)
    names = {"spark": spark, "said": []}
    try:
        exec(code, names)
    finally:
        unregister(spark)
    assert names["said"] == [(1000, 1000), (1200, 1200)]
