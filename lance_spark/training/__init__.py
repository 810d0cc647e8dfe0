"""Frozen sets for training loops. What needs torch is in ``lance_spark.training.torch``, and nowhere else."""
