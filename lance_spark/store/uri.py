"""Turns what a user typed into a location. The only place that asks the local file system for a real path."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lance_spark.location import DatasetLocation, canonical_uri
from lance_spark.options.storage import settled_endpoint


def locate(uri: str, storage_options: Mapping[str, str] | None = None) -> DatasetLocation:
    """The canonical location of a dataset; see :func:`lance_spark.location.canonical_uri`."""
    canonical, options = canonical_uri(uri, os.path.realpath), storage_options or {}
    return DatasetLocation.at(canonical, settled_endpoint(options) if canonical.startswith("s3://") else options)
