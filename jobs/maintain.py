"""Maintenance: keeps the tables of a lake fast, small and sound, on main and on every branch.

The same as ``python -m lance_spark.jobs.maintain``; with ``--help`` for what it takes.
"""

import sys

from lance_spark.jobs.maintain import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
