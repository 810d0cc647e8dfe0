"""``t.storage()`` and ``t.fsck()`` as Spark jobs and without: the same answers, and DataFrames."""

from pathlib import Path

import pytest
from support.cleanup_datasets import busy

from lance_spark import LanceTable

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def table(spark, uri):
    return LanceTable.for_path(busy(uri), spark=spark)


def test_spark_and_threads_agree_on_what_refs_cost(table):
    on_spark, here = table.storage(run_on="spark"), table.storage(run_on="local")
    assert (on_spark.ran_on, here.ran_on) == ("spark", "local")
    assert on_spark.refs == here.refs
    assert on_spark.kinds == here.kinds
    assert on_spark.freed_by("dev", "dev/deep") == here.freed_by("dev", "dev/deep") > 0
    frame = here.to_df()
    assert "ref" in frame.columns
    assert frame.where("kind = 'tag'").select("ref", "freed_bytes").collect() == [("first", here.ref("first").freed)]


@pytest.mark.when(day={"deep": [True]})
@pytest.mark.parametrize("deep", [False, True], ids=["shallow", "deep"])
def test_spark_and_threads_agree_on_what_is_wrong(table, deep):
    assert table.fsck(deep, run_on="spark").findings == ()
    file = sorted(Path(table.location.uri, "tree", "dev", "data").iterdir())[0]
    content = file.read_bytes()
    file.write_bytes(bytes(len(content)) if deep else content[:-1])
    on_spark, here = table.fsck(deep, run_on="spark"), table.fsck(deep, run_on="local")
    assert (on_spark.ran_on, here.ran_on) == ("spark", "local")
    assert on_spark.findings == here.findings
    assert on_spark.files == here.files > 0
    (row,) = here.to_df().select("code", "severity").collect()
    assert row == ("data-damaged" if deep else "size-wrong", "error")
