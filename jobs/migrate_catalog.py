"""Migration of a catalog from V1 to V2: every table that is only a directory gets a row in ``__manifest``.

The same as ``python -m lance_spark.jobs.migrate_catalog``; with ``--help`` for what it takes.
"""

import sys

from lance_spark.jobs.migrate_catalog import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
