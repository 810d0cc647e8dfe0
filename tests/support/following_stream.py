"""A process with a streaming query that may be killed at any time.

Each batch replaces its own directory: a batch that is run again does not count twice, but one with other rows does.
"""

import sys

from pyspark.sql import DataFrame, SparkSession

from lance_spark import register


def main(dataset: str, checkpoint: str, out: str, trigger: str) -> None:
    """Follow the dataset one file at a time; with ``now`` until nothing is new."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.streaming.minBatchesToRetain", "2")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)

    def keep(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(f"{out}/{batch}")

    stream = spark.readStream.format("lance").option("checkpointLocation", checkpoint)
    if trigger != "now":
        stream = stream.option("max_files_per_trigger", "1")
    writer = stream.load(dataset).writeStream.option("checkpointLocation", checkpoint).foreachBatch(keep)
    query = (writer.trigger(availableNow=True) if trigger == "now" else writer).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
