"""Check: whether everything that the versions of a Lance dataset name exists, for main, branches, tags and clones.

The same as ``python -m lance_spark.jobs.fsck``; with ``--help`` for what it takes.
"""

import sys

from lance_spark.jobs.fsck import main, parser

__all__ = ["main", "parser"]

if __name__ == "__main__":
    sys.exit(main())
