"""The procedures about what refs cost, and about refs whose time is over."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from lance_spark.actions.expiry import carry_out, plan_expiry
from lance_spark.actions.procedures.procedure import TABLE, Context, Parameter, Procedure, Rows
from lance_spark.actions.storage import storage
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.options.text import to_span
from lance_spark.refs.expiry_plan import KEPT, ExpiryOptions
from lance_spark.usage.report import USAGE


def _storage(context: Context, given: Mapping[str, Any]) -> Rows:
    report = storage(context.table(given["table"]), CleanupPolicy(), context.engine)
    yield from report.to_arrow().to_pylist()


STORAGE = Procedure(
    "storage",
    "Tell what each branch, tag and clone of a table costs, and what deleting it would free.",
    (TABLE,),
    USAGE,
    _storage,
)


def _expire(context: Context, given: Mapping[str, Any]) -> Rows:
    location, now = context.table(given["table"]), datetime.now(timezone.utc)
    options = ExpiryOptions(force=given["force"])
    if given["warn"] is not None:
        options = ExpiryOptions(to_span("warn", given["warn"]), force=given["force"])
    plan = plan_expiry(location, now, options)
    outcomes = {}
    if not given["dry_run"]:
        outcomes = {(each.kind, each.name): each for each in carry_out(location, plan, now).outcomes}
    for entry in plan.entries:
        if entry.state == KEPT and entry.record.expires_at is None:
            continue
        ended = outcomes.get(entry.key)
        yield {
            "kind": entry.record.kind,
            "name": entry.record.name,
            "at": entry.record.at,
            "expires": entry.record.expires_at,
            "state": entry.state,
            "outcome": None if ended is None else ended.outcome,
            "why": entry.why if ended is None else ended.why or entry.why,
        }


EXPIRE_REFS = Procedure(
    "expire_refs",
    "Warn of branches and tags whose time is over soon, and delete those that were warned of; says so unless told to.",
    (
        TABLE,
        Parameter("warn", "STRING", "how long a warning stands before its ref goes, such as '7d', which it is"),
        Parameter("force", "BOOLEAN", "whether branches go whose changes nothing else has", default=False),
        Parameter(
            "dry_run", "BOOLEAN", "false to warn and delete; else it only says what would become of refs", default=True
        ),
    ),
    pa.schema(
        [
            ("kind", pa.string()),
            ("name", pa.string()),
            ("at", pa.string()),
            ("expires", pa.timestamp("us", "UTC")),
            ("state", pa.string()),
            ("outcome", pa.string()),
            ("why", pa.string()),
        ]
    ),
    _expire,
)
