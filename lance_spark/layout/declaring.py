"""The layout that a version declares, in its configuration, and changes of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import InvalidOption, LanceSparkWarning, Refused
from lance_spark.layout.layout_rules import (
    BUCKET,
    CLUSTER_BY,
    IDENTITY,
    NO_LAYOUT,
    PARTITION_BY,
    TableLayout,
    Transform,
    check,
    declared,
    misfit,
)
from lance_spark.storage.commits import check_unprotected
from lance_spark.storage.datasets import open_pinned, pin_latest
from lance_spark.storage.failures import translated
from lance_spark.storage.followers import check_writable


def read_layout(location: DatasetLocation, pin: PinnedVersion) -> TableLayout:
    """The layout of a version; none if it declares one that its columns no longer allow."""
    layout, reason = look(location, pin)
    return NO_LAYOUT if reason is not None else layout


def look(location: DatasetLocation, pin: PinnedVersion) -> tuple[TableLayout, str | None]:
    """The layout that a version declares, and why it cannot be obeyed; None if it can."""
    dataset = open_pinned(location, pin)
    with translated(location, "reading the layout"):
        settings = dict(dataset.config())
        details = None if PARTITION_BY in settings else dataset.mem_wal_index_details()
        schema = dataset.schema
        names = {field.id(): field.name() for field in dataset.lance_schema.fields()}
    try:
        layout = declared(settings)
    except InvalidOption as unreadable:
        return NO_LAYOUT, unreadable.message
    if not layout.partition and details is not None:
        layout = TableLayout(_sharded(details, names), layout.cluster, layout.curve, foreign=True)
    return layout, misfit(layout, schema) if layout else None


def warn_of_misfit(location: DatasetLocation, pin: PinnedVersion) -> None:
    """Warn if a version declares a layout that its columns no longer allow, as after a change by another tool."""
    layout, reason = look(location, pin)
    if reason is not None:
        warnings.warn(
            f"{location.uri} declares the layout {layout}, which is not obeyed: {reason}. Declare it again: t.layout.",
            LanceSparkWarning,
            stacklevel=2,
        )


def _sharded(details: Mapping[str, object], names: Mapping[int, str]) -> tuple[Transform, ...]:
    """The key of a table that the JVM connector partitioned: its sharding spec of one field."""
    specs = details.get("sharding_specs")
    fields = specs[-1].get("fields", ()) if isinstance(specs, list) and specs else ()
    found = []
    for each in fields:
        sources, transform = each.get("source_ids", ()), each.get("transform")
        if len(sources) != 1 or sources[0] not in names:
            return ()
        if transform == IDENTITY:
            found.append(Transform(IDENTITY, names[sources[0]]))
        elif transform == BUCKET:
            found.append(Transform(BUCKET, names[sources[0]], int(each["parameters"]["num_buckets"])))
    return tuple(found)


def declare(location: DatasetLocation, branch: str | None, layout: TableLayout) -> PinnedVersion:
    """Make it the layout of a branch (None for main), for what is written from now on; returns the version.

    Raises InvalidOption for a layout that the columns do not allow, Refused for one that the JVM connector declared,
    NotFound, Conflict.
    """
    return change_layout(location, branch, lambda *_: layout)


def change_layout(
    location: DatasetLocation,
    branch: str | None,
    change: Callable[[TableLayout, Sequence[str]], TableLayout],
    dry_run: bool = False,
) -> PinnedVersion:
    """Make another layout of that of a branch, as :func:`declare` does.

    ``change`` gets the layout, and the names of columns. Without a difference, and in a dry run, there is no version.
    """
    check_writable(location, branch)
    check_unprotected(location, branch)
    head = pin_latest(location, branch)
    now, _ = look(location, head)
    dataset = open_pinned(location, head)
    layout = change(now, dataset.schema.names)
    if now.foreign and layout.partition != now.partition:
        raise Refused(
            f"The JVM connector partitioned {location.uri} by {now.partition_text}, and that stays as it is.",
            hint="Copy the table, CREATE TABLE ... PARTITIONED BY (...) AS SELECT, to partition it otherwise.",
        )
    check(layout, dataset.schema)
    kept = layout.settings() if not now.foreign else {CLUSTER_BY: layout.cluster_text or None}
    put = {key: value for key, value in kept.items() if value is not None}
    with translated(location, "declaring the layout"):
        present = dataset.config()
        if dry_run or all(present.get(key) == value for key, value in kept.items()):
            return head
        gone = [key for key, value in kept.items() if value is None and key in present]
        if put:
            dataset.update_config(put)
        if gone:
            dataset.delete_config_keys(gone)
    return pin_latest(location, branch)


def check_unnamed(location: DatasetLocation, pin: PinnedVersion, columns: frozenset[str], doing: str) -> None:
    """Raise Refused if the layout of a version names one of the columns, which would be dropped or changed."""
    layout, _ = look(location, pin)
    named = [name for name in layout.columns if name in columns]
    if named:
        raise Refused(
            f"Cannot {doing} column '{named[0]}': the table's layout names it, {layout}. Nothing was changed.",
            hint=hints.of("Declare another layout first: ", hints.change_layout(), "."),
        )


def fits(layout: TableLayout, schema: pa.Schema) -> bool:
    """Whether rows with these columns can be divided by the layout."""
    return bool(layout) and misfit(layout, schema) is None
