"""Frozen sets for training loops. Only ``lance_spark.training.torch`` needs torch."""
