"""Turns what a user typed into a location. The only place that asks the local file system for a real path."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lance_spark.location import DatasetLocation, canonical_uri, check_scheme, is_relative, refused_relative
from lance_spark.options.storage import settled_endpoint

_SESSION = "SPARK_JOB_ARTIFACT_UUID"
"""Where Spark tells a Python process of its own whose artifacts it works with; "default" in classic sessions."""


def in_a_server() -> bool:
    """Whether this is a Python process of a Spark Connect server.

    Spark lets it work in a temporary directory of the session. So it does for a classic one that was given artifacts.
    """
    return os.environ.get(_SESSION, "default") != "default"


def check_absolute(uri: str) -> None:
    """Raise InvalidOption for a relative path on a server, whose directory nobody knows."""
    if is_relative(uri) and in_a_server():
        raise refused_relative(uri)


def check_typed(uri: str) -> None:
    """Raise InvalidOption for what was typed and nobody would find: an unknown scheme, a relative path on a server."""
    check_scheme(uri)
    check_absolute(uri)


def locate_typed(uri: str, storage_options: Mapping[str, str] | None = None) -> DatasetLocation:
    """The canonical location of what a user typed. Raises as :func:`check_typed` and :func:`locate`."""
    check_typed(uri)
    return locate(uri, storage_options)


def locate(uri: str, storage_options: Mapping[str, str] | None = None) -> DatasetLocation:
    """The canonical location of a dataset; see :func:`lance_spark.location.canonical_uri`."""
    canonical, options = canonical_uri(uri, os.path.realpath), storage_options or {}
    return DatasetLocation.at(canonical, settled_endpoint(options) if canonical.startswith("s3://") else options)
