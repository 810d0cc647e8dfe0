"""``python -m lance_spark.cli.catalog`` is ``lance-catalog``."""

from __future__ import annotations

import sys

from lance_spark.cli.catalog.main import main

if __name__ == "__main__":
    sys.exit(main())
