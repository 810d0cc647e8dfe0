"""Properties of tables and namespaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lance_spark.actions.catalog.lookup import describe_table, find_table
from lance_spark.actions.catalog.namespaces import describe_namespace
from lance_spark.actions.catalog.opening import need_manifest
from lance_spark.catalog.changes import refusal
from lance_spark.catalog.entries import check_properties
from lance_spark.catalog.model import Catalog, NamespaceInfo, TableInfo
from lance_spark.catalog.names import NAMESPACE, TABLE, Name, identify_namespace, identify_table
from lance_spark.catalog.properties import AlterProperties
from lance_spark.errors import Refused
from lance_spark.options.text import names_of
from lance_spark.store.catalog import manifest


@dataclass(frozen=True)
class Alteration:
    """Other properties for a table or a namespace, as it is now."""

    catalog: Catalog
    change: AlterProperties
    before: dict[str, str]

    @property
    def after(self) -> dict[str, str]:
        """The properties it would have."""
        return self.change.after(self.before)


def plan_alteration(
    catalog: Catalog, kind: str, name: Name, put: Mapping[str, str] | None = None, unset: str | Sequence[str] = ()
) -> Alteration:
    """Set and remove properties of a ``table`` or a ``namespace``, or of the root. Changes nothing.

    Raises NotFound, InvalidOption, and Refused for a table that is a directory only.
    """
    identifier = identify_table(name) if kind == TABLE else identify_namespace(name)
    change = AlterProperties(identifier, kind, check_properties(put), names_of(unset))
    need_manifest(catalog, change.doing)
    if kind != TABLE:
        return Alteration(catalog, change, describe_namespace(catalog, identifier).properties)
    entry = find_table(catalog, identifier, change.doing).entry
    if entry is None:
        raise refusal(
            Refused, change.doing, "it is a directory only, which has none", hint="Register it, or migrate the catalog."
        )
    return Alteration(catalog, change, entry.properties)


def alter(plan: Alteration) -> None:
    """Execute the plan. What another process put in the meantime stays, except for the same properties."""
    location, change = plan.catalog.manifest, plan.change
    if change.identifier.is_root:
        manifest.alter_root_properties(location, dict(change.put), tuple(change.unset))
    else:
        manifest.apply(location, change)


def alter_table(
    catalog: Catalog, name: Name, put: Mapping[str, str] | None = None, unset: str | Sequence[str] = ()
) -> TableInfo:
    """Plan and alter; returns the table as it is then."""
    alter(plan_alteration(catalog, TABLE, name, put, unset))
    return describe_table(catalog, name)


def alter_namespace(
    catalog: Catalog, name: Name, put: Mapping[str, str] | None = None, unset: str | Sequence[str] = ()
) -> NamespaceInfo:
    """Plan and alter; returns the namespace as it is then."""
    alter(plan_alteration(catalog, NAMESPACE, name, put, unset))
    return describe_namespace(catalog, name)
