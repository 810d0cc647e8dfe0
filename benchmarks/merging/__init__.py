"""The benchmark of merges and of lance-git; see ``python -m benchmarks.merge --help``."""
