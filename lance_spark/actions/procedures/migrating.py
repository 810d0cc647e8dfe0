"""The procedure that gives tables which are directories only their rows in the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lance_spark.actions.catalog.migrate import migrate
from lance_spark.actions.procedures.procedure import DRY_RUN, Context, Procedure, Rows


def _migrate(context: Context, given: Mapping[str, Any]) -> Rows:
    done = migrate(context.need_catalog("migrate"), given["dry_run"])
    for name in done.tables:
        yield {"table": str(name), "state": done.state}
    for skipped in done.skipped:
        yield {"table": skipped.directory, "state": "skipped", "reason": skipped.why}


MIGRATE = Procedure(
    "migrate",
    "Write all tables that are directories only (V1) into the catalog (V2), in one commit.",
    (DRY_RUN,),
    pa.schema([("table", pa.string()), ("state", pa.string()), ("reason", pa.string())]),
    _migrate,
)
