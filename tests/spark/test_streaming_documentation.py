"""The examples of docs/streaming.md run as they stand, and give what they say."""

import json
import re
from pathlib import Path

import pytest

import lance_spark
from lance_spark import register
from lance_spark.spark.registering import unregister

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

PAGE = Path(__file__).parents[2] / "docs" / "streaming.md"


def told(code, spark):
    """The names of an example that was run, among them what it printed beside what the page says about it."""
    code = re.sub(
        r"^print\((.*)\) +# (.*)$", lambda line: f"said.append((str({line[1]}), {line[2]!r}))", code, flags=re.MULTILINE
    )
    names = {"spark": spark, "said": []}
    exec(code, names)
    assert all(found == said or found.startswith(said.removesuffix("...")) for found, said in names["said"]), names
    return names


def test_the_examples_run_in_their_order(spark, tmp_path, request):
    request.addfinalizer(lambda: unregister(spark))
    register(spark)
    rows = [{"id": key, "status": "new"} for key in range(10, 30)]
    changes = [{"id": key, "status": "paid"} for key in range(10, 15)]
    for name, lines in (("incoming", rows), ("changes", changes)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.json").write_text("\n".join(map(json.dumps, lines)))
    uri = str(tmp_path / "events.lance")
    spark.range(10).selectExpr("id", "'old' as status").write.format("lance").mode("append").save(uri)
    examples = re.findall(r"<!-- streaming -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    code = "".join(examples)
    for name in ("incoming", "changes", "checkpoints/events", "checkpoints/changes", "events.lance"):
        code = code.replace(f'"{name}"', repr(str(tmp_path / name)))
    names = told(code, spark)
    assert len(names["said"]) == 4
    t = names["t"]
    more = lance_spark.upsert_batches(t.checkout(branch="ingest"), key="id", query_id="later")
    more(spark.createDataFrame([(77, "new")], "id bigint, status string"), 0)
    assert t.count_rows() == 30
    with pytest.raises(ValueError, match="the audit refused"):
        names["publish"](t, lambda candidate: candidate.count_rows() < 0)
    assert t.count_rows() == 30
    names["publish"](t, lambda candidate: candidate.count_rows() == 31)
    assert t.count_rows("status = 'paid'") == 5
    assert t.count_rows() == 31
    assert [branch.name for branch in t.branches.list()] == ["ingest"]


@pytest.mark.nightly  # six batches, which are merges: by day those of the examples above
def test_the_example_on_real_text_runs_and_gives_what_it_says(spark, tmp_path, request):
    request.addfinalizer(lambda: unregister(spark))
    (code,) = re.findall(r"<!-- releases -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    code, found = re.subn(
        r'"(incoming|ec2\.lance|news\.parquet|checkpoints/\w+)"', lambda name: repr(str(tmp_path / name[1])), code
    )
    assert found == 12
    assert len(told(code, spark)["said"]) == 6
