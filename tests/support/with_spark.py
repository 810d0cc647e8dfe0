"""What every installation with Spark does, in a classic session: run it in an empty directory.

Writes, reads, merges rows and adds a column, which takes Spark's functions on Arrow batches. Prints the versions that
it ran with.
"""

from __future__ import annotations

import importlib
import os
import sys


def main() -> None:
    """The story. Raises AssertionError if an answer is wrong."""
    from pyspark.sql import SparkSession

    from lance_spark import LanceTable

    builder = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    uri = os.path.abspath("numbers.lance")
    spark.range(1000).withColumnRenamed("id", "n").write.format("lance").mode("append").save(uri)
    table = LanceTable.for_path(uri=uri, spark=spark)
    table.branches.create("exp")
    source = spark.createDataFrame([(1000,), (5,)], "n long")
    merge = table.checkout(branch="exp").merge(source, on="n")
    assert merge.when_not_matched_insert_all().execute().rows_inserted == 1
    main_branch = table.checkout(branch="main")
    assert spark.read.format("lance").load(uri).where("n >= 995").count() == 5
    at_exp = spark.read.format("lance").option("branch", "exp").load(uri).toPandas()
    assert at_exp["n"].max() == 1000  # type: ignore[index]
    assert main_branch.delete("n < 10").rows_deleted == 10
    main_branch.add_columns({"twice": "2 * n"})
    assert [row["twice"] for row in table.to_df(filter="n = 999").collect()] == [1998]
    print(*(f"{name} {importlib.import_module(name).__version__}" for name in ("pyspark", "pandas", "pyarrow")))
    print("Python", sys.version.split()[0])
    spark.stop()


if __name__ == "__main__":
    main()
