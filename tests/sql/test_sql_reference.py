"""Every statement of Spark's SQL reference on a catalog of ours: it works, or is refused with the page's sentence."""

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from support.kinds import SPARK
from support.sql_reference import STATEMENTS, on_spark_4_0

pytestmark = pytest.mark.spark


@pytest.mark.when(newest=0.02, oldest=0)
@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.text)
def test_a_statement_works_or_says_why_not(lake, spark, statement):
    statement = statement if SPARK == "newest" else on_spark_4_0(statement)
    spark.sql("CREATE TABLE lake.ns1.t (id INT, v STRING)")
    spark.sql("INSERT INTO lake.ns1.t VALUES (1, 'a'), (2, 'b')")
    spark.sql("CREATE TABLE lake.ns1.u AS SELECT 2 AS id, 'z' AS v")
    try:
        spark.sql(statement.text).collect()
        said = ""
    except (PySparkException, Py4JJavaError) as error:
        said = str(error)
    finally:
        spark.sql("CLEAR CACHE")
        spark.sql("USE spark_catalog.default")
        spark.catalog.dropTempView("made")
    assert statement.refused in said if statement.refused else not said
    assert "INTERNAL_ERROR" not in said
