"""Tables and namespaces of a catalog service: what it answers, as this package's values, and what is asked of it.

The service has the names, and says where a table is and with which credentials. Everything below a table's location is
as in a directory catalog. Nothing here needs, or reads, a ``__manifest``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from lance_spark import errors
from lance_spark.catalog.entry_rules import refusal
from lance_spark.catalog.name_rules import Catalog, Identifier, identify_table
from lance_spark.core.location import DatasetLocation, check_scheme, is_relative
from lance_spark.core.services import PROVIDER, Service, without_service
from lance_spark.storage.credentials import describe, remember
from lance_spark.storage.datasets import locate
from lance_spark.storage.services import ask, pages

_PAGE: int | None = None
"""How many names one request asks for: as many as the service likes to answer."""
_BOOKS = frozenset({"table_type", "managed_by", "empty_table"})
"""What ``lance-namespace-impls`` writes among the properties of each table: nobody set it."""
_DEEPEST = 32
"""Namespaces within each other: a service with more answers with the same ones at every depth."""


@dataclass(frozen=True)
class ServiceTable:
    location: DatasetLocation
    properties: dict[str, str] = field(default_factory=dict)
    managed: bool = False
    """Whether the service keeps its versions, and commits go through it."""

    def check_versions(self, doing: str) -> None:
        """Raise Refused if the service keeps the versions: only commits to main go through it."""
        if self.managed:
            why = "its catalog manages its versions (managed_versioning), and takes commits to main only"
            raise refusal(errors.Refused, doing, why, hint="Write to main.")


def find(catalog: Catalog, table: Identifier, doing: str) -> ServiceTable:
    """A table. Raises NotFound, also for a name of more parts than tables of the service can have."""
    try:
        answer = describe(_service(catalog), table.parts, doing)
    except errors.InvalidOption as told:
        if "must have exactly" not in told.message:  # Glue's tables: [database, table]
            raise
        raise errors.NotFound(told.message, hint=told.hint) from None
    return _table(catalog, table, answer, doing)


def _table(catalog: Catalog, table: Identifier, answer: Any, doing: str) -> ServiceTable:
    managed = answer.managed_versioning is True
    location = _location(catalog, table, answer, doing, managed)
    properties = {key: value for key, value in (answer.properties or {}).items() if key not in _BOOKS}
    return ServiceTable(location, properties, managed)


def _location(catalog: Catalog, table: Identifier, answer: Any, doing: str, managed: bool) -> DatasetLocation:
    """Where a table is. What opens it is not in the location, only who hands it out."""
    service, uri = _service(catalog), answer.location
    if not uri or is_relative(uri):
        raise errors.CorruptData(
            f"Cannot {doing}: the catalog {service.uri} answered without a location that is absolute.",
            hint="The table is damaged in the catalog. Nothing was read or written.",
        )
    vended = answer.storage_options
    try:
        check_scheme(uri)
        there = elsewhere(catalog, uri)
    except errors.InvalidOption as told:
        why = f"the catalog {service.uri} says that table '{table}' is where no dataset can be"
        raise refusal(errors.CorruptData, doing, f"{why}: {told.message}", hint=told.hint) from None
    if not vended and not managed:
        return there
    provider = service.provider(table.parts, there.uri, managed)
    remember(provider, vended or {})
    return DatasetLocation.at(there.uri, {**dict(there.options), PROVIDER: provider})


def elsewhere(catalog: Catalog, uri: str) -> DatasetLocation:
    """What is at a URI, for which the service hands out nothing."""
    return locate(uri, {**_service(catalog).storage, **without_service(dict(catalog.root.options))})


def list_tables(catalog: Catalog, within: Identifier, recursive: bool, doing: str) -> list[Identifier]:
    """The tables of a namespace, or also of those below it. Raises NotFound."""
    return sorted(_listed(catalog, "list_tables", "ListTablesRequest", within, recursive, doing))


def list_namespaces(catalog: Catalog, within: Identifier, recursive: bool, doing: str) -> list[Identifier]:
    """The namespaces of a namespace, or also nested ones. Raises NotFound."""
    found = sorted(_names(catalog, "list_namespaces", "ListNamespacesRequest", within, doing))
    if found and len(within.parts) >= _DEEPEST:
        raise errors.CorruptData(
            f"Cannot {doing}: the namespaces of the catalog {catalog.uri} never end: '{found[0]}'.",
            hint="It answers with the same namespaces at every depth. List one namespace, without those below it.",
        )
    if recursive:
        below = [list_namespaces(catalog, child, True, doing) for child in found]
        found = sorted([*found, *(each for several in below for each in several)])
    return found


def _listed(
    catalog: Catalog, operation: str, request: str, within: Identifier, recursive: bool, doing: str
) -> Iterator[Identifier]:
    yield from _names(catalog, operation, request, within, doing)
    for child in list_namespaces(catalog, within, True, doing) if recursive else ():
        yield from _names(catalog, operation, request, child, doing)


def _names(catalog: Catalog, operation: str, request: str, within: Identifier, doing: str) -> list[Identifier]:
    """All pages of one list. A service may answer a missing namespace with an empty list."""
    service, found = _service(catalog), dict[Identifier, None]()

    def page(token: str | None) -> Any:
        return ask(service, operation, request, doing, id=list(within.parts), limit=_PAGE, page_token=token)

    for answer in pages(service, doing, page):
        names = answer.tables if operation == "list_tables" else answer.namespaces
        found |= dict.fromkeys(within.child(name) for name in names if _can_have(service, within, name))
    if not found and not within.is_root:
        namespace_properties(catalog, within, doing)
    return list(found)


def _can_have(service: Service, within: Identifier, name: str) -> bool:
    with suppress(errors.InvalidName):
        return bool(identify_table(within.child(name)))
    text = f"The catalog {service.uri} has a name that cannot be read here, and is left out: {name!r}."
    warnings.warn(text, errors.LanceSparkWarning, stacklevel=2)
    return False


def namespace_properties(catalog: Catalog, namespace: Identifier, doing: str) -> dict[str, str]:
    """The properties of a namespace, or of the root. Raises NotFound."""
    try:
        answer = _ask(catalog, "describe_namespace", "DescribeNamespaceRequest", namespace, doing)
    except errors.LanceSparkError:
        if namespace.is_root:  # which is always there, described or not
            return {}
        raise
    return dict(answer.properties or {})


def create_namespace(catalog: Catalog, namespace: Identifier, properties: Mapping[str, str], doing: str) -> None:
    """Create a namespace. Raises AlreadyExists, NotFound for a missing parent."""
    given = {"properties": dict(properties)} if properties else {}
    _ask(catalog, "create_namespace", "CreateNamespaceRequest", namespace, doing, mode="Create", **given)


def drop_namespace(catalog: Catalog, namespace: Identifier, doing: str) -> None:
    """Drop an empty namespace. Raises NotFound, Refused."""
    _ask(catalog, "drop_namespace", "DropNamespaceRequest", namespace, doing, behavior="Restrict")


def declare(
    catalog: Catalog, table: Identifier, properties: Mapping[str, str], doing: str, location: str | None = None
) -> ServiceTable:
    """Take a name; the service says where the data goes. Raises AlreadyExists, NotFound."""
    given: dict[str, Any] = {"properties": dict(properties)} if properties else {}
    if location is not None:
        given["location"] = location
    _check_parent(catalog, table, doing)
    try:
        answer = _ask(catalog, "declare_table", "DeclareTableRequest", table, doing, vend_credentials=True, **given)
    except errors.Conflict:
        with suppress(errors.NotFound):
            find(catalog, table, doing)
            raise refusal(errors.AlreadyExists, doing, "another process has just created it") from None
        raise
    return _kept(catalog, table, properties, _declared(catalog, table, answer, doing))


def _declared(catalog: Catalog, table: Identifier, answer: Any, doing: str) -> ServiceTable:
    """A table whose name was just taken.

    A service may say only in a description where it is, which credentials open it, and that it keeps its versions.
    """
    if not answer.location:
        return find(catalog, table, doing)
    told = _table(catalog, table, answer, doing)
    if told.managed or answer.storage_options:
        return told
    try:
        described = find(catalog, table, doing)
    except errors.LanceSparkError:  # one that describes no table without data
        return told
    if described.location.uri != told.location.uri:
        why = f"the catalog took the name for {told.location.uri}, and says now that it is {described.location.uri}"
        raise refusal(errors.Conflict, doing, why, hint="Another process has just replaced it. Run it again.")
    return replace(told, location=described.location, managed=described.managed)


def _kept(catalog: Catalog, table: Identifier, properties: Mapping[str, str], told: ServiceTable) -> ServiceTable:
    """The table, with a warning if the service left out properties that it was given."""
    if not properties.items() <= told.properties.items():
        _warn(f"The catalog {catalog.uri} did not keep the properties of table '{table}'.")
    return told


def warn_of_kept(catalog: Catalog, table: Identifier, properties: Mapping[str, str]) -> None:
    """For a table that was replaced without properties: a service has no operation that takes old ones away."""
    if properties:
        _warn(f"The catalog {catalog.uri} keeps the properties that table '{table}' had: {', '.join(properties)}.")


def _warn(text: str) -> None:
    warnings.warn(text, errors.LanceSparkWarning, stacklevel=3)


def _check_parent(catalog: Catalog, table: Identifier, doing: str) -> None:
    """Raise NotFound for a missing namespace: a service may create a table that no list shows."""
    if not table.in_root:
        try:
            namespace_properties(catalog, table.parent, doing)
        except (errors.Refused, errors.InvalidOption):
            return  # it cannot describe them


def register(
    catalog: Catalog, table: Identifier, location: str, properties: Mapping[str, str], doing: str
) -> ServiceTable:
    """Give a dataset a name. Raises AlreadyExists, NotFound."""
    given = {"properties": dict(properties)} if properties else {}
    _check_parent(catalog, table, doing)
    try:
        _ask(catalog, "register_table", "RegisterTableRequest", table, doing, location=location, mode="Create", **given)
    except errors.Refused as lacking:
        if "register_table" not in lacking.message:
            raise
        return declare(catalog, table, properties, doing, location)  # of a place that it did not choose
    return _kept(catalog, table, properties, find(catalog, table, doing))


def deregister(catalog: Catalog, table: Identifier, doing: str) -> None:
    """Take a table out of the catalog; its data stays. Raises NotFound."""
    _ask(catalog, "deregister_table", "DeregisterTableRequest", table, doing)


def drop(catalog: Catalog, table: Identifier, doing: str) -> None:
    """Drop a table with its data. Raises NotFound, Refused."""
    try:
        _ask(catalog, "drop_table", "DropTableRequest", table, doing)
    except errors.Refused as lacking:
        if "does not support" not in lacking.message:
            raise
        hint = f"lake.deregister_table('{table}') takes its name out of the catalog; its files stay."
        raise errors.Refused(lacking.message, hint=hint) from None


def rename(catalog: Catalog, table: Identifier, new: Identifier, doing: str) -> None:
    """Give a table another name, possibly in another namespace. Raises NotFound, AlreadyExists."""
    given: dict[str, Any] = {"new_table_name": new.name}
    if new.parent != table.parent:
        given["new_namespace_id"] = list(new.parent.parts)
    _ask(catalog, "rename_table", "RenameTableRequest", table, doing, **given)


def lacks(catalog: Catalog, operation: str, doing: str) -> errors.Refused:
    """The error for what the interface of catalog services has no operation for."""
    why = f"the interface of catalog services has no operation {operation}"
    return errors.Refused(f"Cannot {doing}: {why}.", hint=f"Use the tool that manages the catalog {catalog.uri}.")


def _ask(catalog: Catalog, operation: str, request: str, identifier: Identifier, doing: str, **given: Any) -> Any:
    return ask(_service(catalog), operation, request, doing, id=list(identifier.parts), **given)


def _service(catalog: Catalog) -> Service:
    service = catalog.service
    assert service is not None
    return service
