"""Every type of Spark through every statement: schema and values are those of Parquet, or the type is refused."""

from dataclasses import replace

import pytest
from pyspark.errors import PySparkException
from support.spark_types import IN_SQL, REFUSED, Place, check, every_type

from lance_spark.errors import LanceSparkError, SchemaMismatch

pytestmark = [
    pytest.mark.on_services,
    pytest.mark.spark,
    pytest.mark.on_connect,
    pytest.mark.when(spark="newest", sample=0.1),
]


@pytest.fixture(scope="module")
def all_columns(spark, tmp_path_factory):
    with every_type(spark, tmp_path_factory.mktemp("kinds")) as made:
        yield made


@pytest.mark.when(day={"verb": ["MERGE"]})
@pytest.mark.parametrize("verb", IN_SQL)
def test_all_types_through_a_statement(lake, all_columns, tmp_path, verb):
    place = Place(all_columns, "lake.ns1.t", "", tmp_path)
    model = IN_SQL[verb](place)
    check(replace(place, path=lake.table("ns1.t").location.uri), model)


@pytest.mark.when(day={"expression": ["map()"]})
@pytest.mark.parametrize("expression", REFUSED.values(), ids=REFUSED)
def test_a_type_that_is_not_kept_is_refused_in_the_language_of_the_caller(lake, spark, tmp_path, expression):
    with pytest.raises(SchemaMismatch, match="Column 'c"):
        spark.sql(f"CREATE TABLE lake.ns1.t AS SELECT {expression} AS c")
    with pytest.raises((PySparkException, LanceSparkError), match="Column 'c"):
        spark.sql(f"SELECT {expression} AS c").write.format("lance").mode("append").save(str(tmp_path / "t.lance"))
    assert not (tmp_path / "t.lance").exists()
