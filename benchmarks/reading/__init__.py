"""Reading with plain DataFrame code: one module per part of ``python -m benchmarks.native``."""
