"""A streaming query in a process of its own, to be killed: reads JSON files, writes to a branch, until all is read."""

import sys

from pyspark.sql import SparkSession

from lance_spark import register


def main(source: str, uri: str, checkpoint: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    stream = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).json(source)
    settings = {"branch": "ingest", "create_branch": "true", "optimize_every": "4", "checkpointLocation": checkpoint}
    writer = stream.writeStream.format("lance").options(**settings).trigger(availableNow=True)
    print("ready", flush=True)
    writer.start(uri).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
