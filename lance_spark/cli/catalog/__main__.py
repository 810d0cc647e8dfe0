"""``python -m lance_spark.cli.catalog`` is ``lance-catalog``."""

from __future__ import annotations

import sys

from lance_spark.cli.start import lance_catalog

if __name__ == "__main__":
    sys.exit(lance_catalog())
