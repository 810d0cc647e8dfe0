"""``python -m lance_spark.cli`` is ``lance-git``."""

from __future__ import annotations

import sys

from lance_spark.cli.start import lance_git

if __name__ == "__main__":
    sys.exit(lance_git())
