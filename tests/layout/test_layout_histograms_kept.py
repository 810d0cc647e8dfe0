"""Histograms without Spark: measured when they are asked for, and handed on with the other statistics."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import LanceTable
from lance_spark.layout import statistic_rules

ROWS = np.arange(4000)


def rows(first=0):
    numbers = ROWS + first
    return pa.table({"id": numbers, "k": np.where(numbers % 100 < 95, numbers % 10, numbers), "c": numbers.astype(str)})


@pytest.fixture
def t(tmp_path):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(), uri, max_rows_per_file=1000)
    return LanceTable.for_path(uri)


def append(t, first):
    lance.write_dataset(rows(first), t.location.uri, mode="append", max_rows_per_file=1000)


def found(report):
    return report.measured, {each.col_name for each in report.columns if each.histogram}


def test_histograms_are_measured_where_they_are_missing(t):
    assert found(t.analyze()) == (4, set())
    assert found(t.analyze("k", histograms=True)) == (4, {"k"})
    assert found(t.analyze("k", "c", histograms=True)) == (0, {"k"})
    assert found(t.analyze(histograms=True)) == (4, {"id", "k"})
    append(t, 4000)
    assert found(t.analyze("k")) == (4, {"k"})  # a column that has one keeps it


def test_histograms_are_handed_on(t):
    t.analyze("k", histograms=True)
    append(t, 4000)
    t.analyze("k")
    t.optimize(target_rows=100_000)
    assert len(lance.dataset(t.location.uri).get_fragments()) == 1
    assert found(t.analyze("k")) == (0, {"k"})
    t.branches.create("exp")
    assert found(t.checkout(branch="exp").analyze("k")) == (0, {"k"})
    append(t, 8000)
    assert t.maintain().apply()
    assert found(t.analyze("k"))[1] == {"k"}


def test_many_files_of_statistics_become_one_that_has_all(t):
    for at in range(1, 36):
        append(t, 4000 * at)
        assert found(t.analyze("k", histograms=at % 2 == 1))[1] == {"k"}
    files = [*Path(t.location.uri, "_facts").glob("*.statistics")]
    assert len(files) <= 33
    groups = [group for file in files for group in statistic_rules.decoded_groups(file.read_bytes())]
    assert all(each.columns[1].distribution is not None for each in groups)
    assert found(t.analyze("k")) == (0, {"k"})
