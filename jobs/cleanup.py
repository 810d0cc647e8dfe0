"""Cleanup: removes old versions of a Lance dataset, and files that nothing needs, on main and all branches.

The same as ``python -m lance_spark.jobs.cleanup``; with ``--help`` for what it takes.
"""

import sys

from lance_spark.jobs.cleanup import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
