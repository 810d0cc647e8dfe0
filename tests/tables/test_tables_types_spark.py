"""Every type of Spark through every verb, in each way to read: schema, values and answers are those of Parquet."""

from dataclasses import replace

import pytest
from support.spark_types import IN_PYTHON, SHAPES, Columns, Place, check, every_type, known_kinds

from lance_spark.native import scan

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0)]


@pytest.fixture(scope="module")
def all_columns(spark, tmp_path_factory):
    with every_type(spark, tmp_path_factory.mktemp("kinds")) as made:
        yield made


def answers(place, model):
    """What SQL says about each column that can be compared, against Parquet."""
    columns = place.columns
    both = (place.load(), columns.frame(model))
    kinds = [(name, kind) for name, kind in zip(columns.names, columns.kinds, strict=True) if kind.ordered]
    measures = []
    for name, kind in kinds:
        measures += [f"count(DISTINCT {name})", f"count({name})"]
        # Of values that a collation takes for one, Spark returns any.
        measures += [] if kind.collated else [f"min({name})", f"max({name})"]
    one, other = (str(frame.selectExpr(*measures).collect()) for frame in both)
    assert one == other
    for name, kind in kinds:
        if kind.collated or kind.sql.startswith(("CHAR", "VARCHAR", "TIME(", "INTERVAL")):
            condition = f"{name} = {kind.values()[1]}"
            mine, theirs = (sorted(row.id for row in frame.where(condition).collect()) for frame in both)
            assert mine == theirs, condition


@pytest.mark.when(day={"verb": ["save"]})
@pytest.mark.parametrize("verb", IN_PYTHON)
def test_all_types_through_a_verb(both_ways, all_columns, tmp_path, verb):
    place = Place(all_columns, "", str(tmp_path / "t.lance"), tmp_path)
    check(place, IN_PYTHON[verb](place))


@pytest.mark.when(day=0)
@pytest.mark.parametrize("rows", [10_000, 0], ids=["by the driver", "in tasks"])
def test_what_sql_says_about_all_types(both_ways, all_columns, tmp_path, monkeypatch, rows):
    monkeypatch.setattr(scan, "LOCAL_ROWS", rows)
    monkeypatch.setattr(scan, "SMALL_ROWS", rows)
    place = Place(all_columns, "", str(tmp_path / "t.lance"), tmp_path)
    model = IN_PYTHON["save"](place)
    check(place, model)
    answers(place, model)


@pytest.mark.when(day=0)
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "bare"])
def test_all_types_inside_others(both_ways, spark, all_columns, tmp_path, shape):
    """MERGE rewrites whole rows, of which some values are kept."""
    columns = Columns.of(spark, [SHAPES[shape](kind) for kind in known_kinds(spark)], tmp_path)
    place = Place(columns, "", str(tmp_path / "t.lance"), tmp_path)
    for verb in ("merge", "optimize with an order"):
        again = replace(place, path=f"{place.path}{verb[0]}")
        check(again, IN_PYTHON[verb](again))
    columns.drop()
