"""The benchmark: lance_spark and its peers side by side, in one run. See ``python -m benchmarks --help``."""
