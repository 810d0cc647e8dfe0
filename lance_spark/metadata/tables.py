"""The columns of each metadata table."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lance_spark.metadata.files import FILES, FRAGMENTS
from lance_spark.metadata.indexes import INDEXES
from lance_spark.metadata.refs import BRANCHES, TAGS, VERSIONS

SCHEMAS: Mapping[str, pa.Schema] = {
    "branches": BRANCHES,
    "tags": TAGS,
    "versions": VERSIONS,
    "fragments": FRAGMENTS,
    "files": FILES,
    "indexes": INDEXES,
}
"""By name, as :data:`lance_spark.metadata.names.METADATA_TABLES`."""
