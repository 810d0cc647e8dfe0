"""The constraints that a version declares, in its configuration, and changes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import AlreadyExists, Conflict, InvalidOption, NotFound, Refused, SchemaMismatch
from lance_spark.format.python_values import python_rows, python_value
from lance_spark.storage.commits import attempts, overtaken
from lance_spark.storage.datasets import delete_config, open_pinned, pin_latest, update_config
from lance_spark.storage.failures import translated
from lance_spark.storage.followers import check_writable
from lance_spark.write.constraint_rules import (
    PREFIX,
    Check,
    Constraint,
    check_name,
    checks_of,
    declared,
    naming,
)

EXAMPLES = 3
"""Rows that an error names."""
_LONGEST = 60


def constraints_of(location: DatasetLocation, pin: PinnedVersion) -> tuple[Constraint, ...]:
    dataset = open_pinned(location, pin)
    with translated(location, "reading constraints"):
        return declared(dataset.config())


def checks_at(location: DatasetLocation, pin: PinnedVersion, schema: pa.Schema) -> tuple[Check, ...]:
    """The constraints of a version, for rows that will have these columns.

    Raises Refused if one cannot be checked: it names a column that is gone, or another writer declared it.
    """
    found = constraints_of(location, pin)
    try:
        return checks_of(found, schema) if found else ()
    except InvalidOption as unfit:
        raise Refused(
            f"{unfit.message} It is declared by {location.uri}; nothing was written.",
            hint=hints.of("Drop the constraint, or write the column that it names: ", hints.drop_constraint(), "."),
        ) from None


def check_batch(location: DatasetLocation, checks: Iterable[Check], batch: pa.RecordBatch) -> None:
    """Raise SchemaMismatch, which names some rows, if rows break a constraint."""
    for check in checks:
        broken = check.broken(batch)
        if len(broken):
            raise breaking(location, check, [*shown_rows(check, batch, broken)], "Nothing was written.")


def breaking(location: DatasetLocation, check: Check, rows: list[str], outcome: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"Rows break {check.constraint} of {location.uri}: {'; '.join(rows[:EXAMPLES])}. {outcome}",
        hint=hints.of("Change these rows, or drop the constraint: ", hints.drop_constraint(), "."),
    )


def shown_rows(check: Check, batch: pa.RecordBatch, broken: pa.Array) -> Iterator[str]:
    """Some rows, by the columns that a constraint names."""
    names = [name for name in check.columns if name in batch.schema.names]
    for row in python_rows(batch.select(names or batch.schema.names[:1]).take(broken[:EXAMPLES])):
        row |= {name: python_value(value) for name, value in check.constants.items() if name not in names}
        shown = [name for name in check.columns if name in row] if names else check.columns
        yield ", ".join(f"{name} = {_short(row.get(name))}" for name in shown)


def _short(value: object) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def rows_breaking(
    location: DatasetLocation, pin: PinnedVersion, check: Check, fragments: Iterable[int] | None = None
) -> Iterator[str]:
    """Rows of a version, or of some of its fragments, that break a constraint. Reads the columns that it names.

    Those that the version lacks are null.
    """
    dataset = open_pinned(location, pin)
    with translated(location, "reading the columns of a constraint"):
        parts = None if fragments is None else [dataset.get_fragment(key) for key in fragments]
        if parts is not None and not parts:
            return
        known = [name for name in check.columns if name in dataset.schema.names]
        for batch in dataset.scanner(columns=known, fragments=parts, with_row_address=not known).to_batches():
            broken = check.broken(batch)
            yield from shown_rows(check, batch, broken)
            if len(broken) > EXAMPLES:
                yield f"and {len(broken) - EXAMPLES:,} more"


def add_constraint(location: DatasetLocation, branch: str | None, name: str, condition: str) -> PinnedVersion:
    """Declare a constraint on a branch (None for main), for what is written from now on; returns the version.

    All present rows are checked first, and once more those that others added meanwhile. Raises InvalidOption for a
    condition that is not understood, SchemaMismatch for rows that break it, AlreadyExists, Refused, Conflict.
    """
    check_name(name)
    check_writable(location, branch)
    constraint = Constraint(name, condition.strip())
    for _ in attempts():
        head = pin_latest(location, branch)
        schema = open_pinned(location, head).schema
        known = [each.name for each in constraints_of(location, head) if each.name.lower() == name.lower()]
        if known:
            there = f"{location.uri} has a constraint '{known[0]}'."
            raise AlreadyExists(there, hint="Drop it first, or choose another name.")
        check = Check(constraint, schema)
        found = list(_some(rows_breaking(location, head, check)))
        if found:
            raise breaking(location, check, found, "The constraint was not added.")
        if pin_latest(location, branch) != head:
            continue
        update_config(location, branch, {PREFIX + name: constraint.condition})
        made = pin_latest(location, branch)
        late = list(_some(rows_breaking(location, made, check))) if made.version > head.version + 1 else []
        if late:
            delete_config(location, branch, [PREFIX + name])
            raise breaking(location, check, late, "They were written meanwhile, so the constraint was taken back.")
        return made
    raise overtaken(branch)


def _some(rows: Iterator[str]) -> Iterator[str]:
    for _, row in zip(range(EXAMPLES), rows, strict=False):
        yield row


def drop_constraint(location: DatasetLocation, branch: str | None, name: str, if_exists: bool = False) -> PinnedVersion:
    """Declare a constraint no more. Raises NotFound, Refused, Conflict."""
    check_writable(location, branch)
    head = pin_latest(location, branch)
    found = constraints_of(location, head)
    known = [each.name for each in found if each.name.lower() == name.lower()]
    if not known:
        if if_exists:
            return head
        listed = ", ".join(each.name for each in found) or "none"
        raise NotFound(f"{location.uri} has no constraint '{name}'.", hint=f"Its constraints are: {listed}.")
    delete_config(location, branch, [PREFIX + each for each in known])
    return pin_latest(location, branch)


def check_free(location: DatasetLocation, pin: PinnedVersion, columns: Iterable[str], doing: str) -> None:
    """Raise Refused if a constraint names one of the columns, which would be changed without a check of the rows."""
    found = constraints_of(location, pin)
    named = naming(found, open_pinned(location, pin).schema, columns) if found else None
    if named is not None:
        raise Refused(
            f"Cannot {doing}: {named} of {location.uri} names it. Nothing was changed.",
            hint=hints.of("Drop the constraint first, and add it again afterwards: ", hints.drop_constraint(), "."),
        )


def with_columns(schema: pa.Schema, others: pa.Schema) -> pa.Schema:
    """The columns of rows, and those of their table that they lack."""
    return pa.schema([*schema, *(field for field in others if schema.get_field_index(field.name) < 0)])


def check_none_since(location: DatasetLocation, start: PinnedVersion, head: PinnedVersion) -> None:
    """Raise Conflict if a constraint was added since a job started, which so did not check its rows."""
    if start != head:
        check_none_new(location, start, constraints_of(location, head))


def check_none_new(location: DatasetLocation, start: PinnedVersion, now: Iterable[Constraint]) -> None:
    """The same, with the constraints that there are now."""
    new = {*now} - {*constraints_of(location, start)}
    if new:
        raise Conflict(
            f"{min(new, key=str)} was added to {location.uri} since the job started, which did not check its rows. "
            "Nothing was written.",
            hint="Run it again.",
        )
