"""``LanceTable.near_duplicates`` as Spark jobs."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name for it

from lance_spark.actions.duplicates import plan_texts
from lance_spark.spark.runner import SparkRunner
from lance_spark.store.search_duplicates import (
    KEY,
    KEYS,
    ONE,
    ONES,
    OTHER,
    OTHERS,
    PAIRS,
    DuplicatesWork,
    compare_pairs,
    pair_rows,
    sign_texts,
)


def duplicates(spark: SparkSession, work: DuplicatesWork) -> DataFrame:
    """The pairs.

    Texts are read once for their signatures. Then rows that share a key come together, and only the texts of these are
    read again, by their ids. Rows with the same parts are compared as one.
    """
    runner = SparkRunner(spark, "near_duplicates")
    plan = plan_texts(work, runner.parallelism)
    keys = runner.flat_map("sign texts", plan.partitions, partial(sign_texts, work, plan.scan), KEYS)
    together = keys.repartition(KEY).sortWithinPartitions(KEY)
    pairs = runner.map("find pairs", together, partial(pair_rows, work.pairing), PAIRS)
    # Two rows share several keys; whichever it was, all rows with the same parts were there.
    once = pairs.groupBy(ONE, OTHER).agg(F.first(ONES).alias(ONES), F.first(OTHERS).alias(OTHERS))
    return runner.map("compare pairs", once, partial(compare_pairs, work), work.wire)
