"""The procedure that makes an older version the newest one again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lance_spark.actions.procedures.procedure import TABLE, Context, Parameter, Procedure, Rows, pin_of
from lance_spark.actions.restore import restore_version
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.runner.interface import Engine


def _restore(context: Context, given: Mapping[str, Any]) -> Rows:
    location = context.table(given["table"])
    return restore_rows(location, pin_of(location, given["ref"]), context.engine)


def restore_rows(location: DatasetLocation, pin: PinnedVersion, engine: Engine) -> Rows:
    """What a restore of a version made. Raises as ``restore_version``."""
    done = restore_version(location, pin, engine)
    yield {
        "branch": pin.branch or MAIN,
        "restored_version": pin.version,
        "version": done.version.version,
        "indexes_lacking": list(done.indexes_lacking),
    }


RESTORE = Procedure(
    "restore",
    "Make a version the newest one of its branch again, as a new version.",
    (TABLE, Parameter("ref", "STRING", "the version: a tag, 'exp@7' or a version of main", required=True)),
    pa.schema(
        [
            ("branch", pa.string()),
            ("restored_version", pa.int64()),
            ("version", pa.int64()),
            ("indexes_lacking", pa.list_(pa.string())),
        ]
    ),
    _restore,
)
