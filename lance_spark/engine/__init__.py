"""Engines that run work over many items: threads of this process, or Spark."""
