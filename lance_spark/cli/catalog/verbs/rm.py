"""``lance-catalog rm``: drops a table or a namespace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from lance_spark.cli.catalog.printing import location_of, name_json, removed_json
from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.output import confirm
from lance_spark.cli.program import dry_run_option, verb, yes_option
from lance_spark.core.show import counted
from lance_spark.errors import InvalidOption

if TYPE_CHECKING:
    from lance_spark.catalog.removing import DropPlan
    from lance_spark.catalog.rules import Removed


@verb("rm")
@click.argument("name")
@click.option("--cascade", is_flag=True, help="Drop a namespace with everything in it.")
@click.option("--force", is_flag=True, help="Also drop tables whose files a clone reads; the clone breaks.")
@dry_run_option
@yes_option
@click.pass_obj
def command(session: CatalogSession, /, name: str, cascade: bool, force: bool, dry_run: bool, yes: bool) -> None:
    """Drop a table with its files, or a namespace.

    A namespace must be empty, unless --cascade is given. To keep the files, use deregister.
    """
    from lance_spark.catalog.overview import kind_of
    from lance_spark.catalog.removing import drop, plan_drop, plan_namespace_drop
    from lance_spark.catalog.rules import NAMESPACE

    catalog = session.catalog
    is_namespace = kind_of(catalog, name) == NAMESPACE
    plan = plan_namespace_drop(catalog, name, cascade, force) if is_namespace else plan_drop(catalog, name, force)
    if cascade and not is_namespace:
        raise InvalidOption(f"'{plan.identifier}' is a table; --cascade is for namespaces.", hint="Leave it out.")
    removed = plan.tables
    if not dry_run:
        if not yes:
            click.echo("\n".join(_lines(session, plan, removed)), err=True)
        confirm(_sentence(plan, "will be", removed), yes)
        removed = tuple(sorted(drop(plan), key=lambda table: table.identifier))
    lines = [*_lines(session, plan, removed), _sentence(plan, "would be" if dry_run else "was", removed)]
    session.show(
        {
            "action": "rm",
            "kind": plan.kind,
            **name_json(plan.identifier),
            "namespaces": [str(namespace) for namespace in plan.namespaces],
            "tables": [removed_json(catalog, table) for table in removed],
            "dry_run": dry_run,
        },
        "\n".join(lines),
    )


def _lines(session: CatalogSession, plan: DropPlan, removed: Sequence[Removed]) -> Iterator[str]:
    """What is dropped, one item per line."""
    yield from (f"  namespace {namespace}" for namespace in plan.namespaces)
    for table in removed:
        place = location_of(session.catalog, table.path) or table.path or "nowhere"
        yield f"  table {table.identifier}: {place}{' (stays)' if table.data_kept else ''}"


def _sentence(plan: DropPlan, verb_text: str, tables: Sequence[Removed]) -> str:
    if plan.kind == "table":
        kept = tables[0].data_kept
        return (
            f"Table '{plan.identifier}' {verb_text} dropped"
            f"{'; its files stay' if kept else ', with all its versions and branches'}."
        )
    inside = [counted(len(plan.namespaces), "namespace")] if plan.namespaces else []
    inside += (
        [f"{counted(len(tables), 'table')} and all files of {'it' if len(tables) == 1 else 'them'}"] if tables else []
    )
    return f"Namespace '{plan.identifier}' {verb_text} dropped{', with ' if inside else ''}{' and '.join(inside)}."
