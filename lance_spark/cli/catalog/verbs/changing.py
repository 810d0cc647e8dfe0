"""The verbs that change namespaces, names and rows of tables."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from lance_spark.cli.catalog.session import CatalogSession, branch_option, location_of, name_json, removed_json
from lance_spark.cli.output import confirm
from lance_spark.cli.program import dry_run_option, verb, yes_option
from lance_spark.core.storage_options import pairs_of
from lance_spark.core.texts import counted
from lance_spark.errors import InvalidOption

if TYPE_CHECKING:
    from lance_spark.catalog.name_rules import Removed
    from lance_spark.catalog.removing import DropPlan


@verb("create")
@click.argument("name")
@click.option("-t", "--table", is_flag=True, help="Declare a table without data: the first write brings its columns.")
@click.option("--parents", is_flag=True, help="Also create the namespaces above; no error if it exists.")
@click.option("-p", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property (repeatable).")
@branch_option
@dry_run_option
@click.pass_obj
def create(
    session: CatalogSession, name: str, table: bool, parents: bool, properties: tuple[str, ...], dry_run: bool
) -> None:
    """Create a namespace, or a table with --table.

    A table is declared: its name is taken, and data can be written to its directory.
    """
    given = pairs_of("-p", properties, "owner=me")
    if table and parents:
        raise InvalidOption("--table and --parents cannot be combined.", hint="Create the namespace first.")
    if table:
        _table(session, name, given, dry_run)
    else:
        _namespace(session, name, given, parents=parents, dry_run=dry_run)


def _table(session: CatalogSession, name: str, properties: dict[str, str], dry_run: bool) -> None:
    from lance_spark.catalog.tables import declare, plan_table

    plan = plan_table(session.new_catalog, name, properties)
    identifier, location = plan.identifier, None if dry_run else declare(plan).location.uri
    session.did(
        "create",
        dry_run,
        f"Table '{identifier}' would be created, without data."
        if dry_run
        else f"Table '{identifier}' was created, without data. Write it to {location}.",
        kind="table",
        **name_json(identifier),
        location=location,
        properties=properties,
        created=True,
    )


def _namespace(session: CatalogSession, name: str, properties: dict[str, str], parents: bool, dry_run: bool) -> None:
    from lance_spark.catalog.lookup import create_namespace, namespace_exists, plan_namespace
    from lance_spark.catalog.name_rules import Identifier, identify_namespace

    catalog = session.new_catalog
    identifier = identify_namespace(name)
    above = [Identifier(identifier.parts[:count]) for count in range(1, len(identifier.parts))] if parents else []
    missing = [parent for parent in above if not namespace_exists(catalog, parent)]
    created = True
    if parents and namespace_exists(catalog, identifier):
        created = False
    elif not dry_run:
        for parent in missing:
            create_namespace(catalog, parent, exist_ok=True)
        created = create_namespace(catalog, identifier, properties, exist_ok=parents)
    else:
        # Nothing can conflict below a missing namespace.
        plan_namespace(catalog, missing[0] if missing else identifier, None if missing else properties)
    verb_text = "would be created" if dry_run else "was created"
    lines = [f"Namespace '{namespace}' {verb_text}." for namespace in (*missing, identifier)]
    session.did(
        "create",
        dry_run,
        "\n".join(lines) if created else f"Namespace '{identifier}' already exists and is unchanged.",
        kind="namespace",
        **name_json(identifier),
        parents=[str(parent) for parent in missing],
        properties=properties,
        created=created,
    )


@verb("alter")
@click.argument("name")
@click.option("-p", "--property", "put", multiple=True, metavar="KEY=VALUE", help="Set a property (repeatable).")
@click.option("-u", "--unset", multiple=True, metavar="KEY", help="Remove a property (repeatable).")
@branch_option
@dry_run_option
@click.pass_obj
def alter(session: CatalogSession, name: str, put: tuple[str, ...], unset: tuple[str, ...], dry_run: bool) -> None:
    """Set and remove properties of a table or namespace.

    NAME "" is the root namespace.
    """
    from lance_spark.catalog.lookup import describe_namespace, describe_table
    from lance_spark.catalog.name_rules import TABLE
    from lance_spark.catalog.overview import kind_of
    from lance_spark.catalog.tables import alter, plan_alteration

    given = pairs_of("-p", put, "owner=me")
    if not given and not unset:
        raise InvalidOption("There is nothing to alter.", hint="Give -p KEY=VALUE, or -u KEY.")
    if both := set(given) & set(unset):
        raise InvalidOption(f"Property '{min(both)}' cannot be both set and removed.")
    kind = kind_of(session.catalog, name)
    plan = plan_alteration(session.catalog, kind, name, given, unset)
    after = plan.after
    if not dry_run:
        alter(plan)
        describe = describe_table if kind == TABLE else describe_namespace
        after = describe(session.catalog, name).properties
    identifier = plan.change.identifier
    whose = f"{kind.capitalize()} '{identifier}'" if identifier.parts else "The root namespace"
    lines = [f"{whose} {'would have' if dry_run else 'has'} these properties:"]
    lines += [f"  {key} = {value}" for key, value in sorted(after.items())] or ["  none"]
    said = "\n".join(lines)
    session.did("alter", dry_run, said, kind=kind, **name_json(identifier), was=plan.before, properties=after)


@verb("rename")
@click.argument("old")
@click.argument("new")
@branch_option
@dry_run_option
@click.pass_obj
def rename(session: CatalogSession, old: str, new: str, dry_run: bool) -> None:
    """Rename a table, or move it.

    NEW may be in another namespace. Only the name changes; data, versions and properties stay. One exception, unless
    the mode is v2: a table in the directory OLD.lance of the root. Its files are first copied to a new directory.
    """
    from lance_spark.catalog.removing import plan_rename, rename

    plan = plan_rename(session.catalog, old, new)
    left = None if dry_run else rename(plan).left_behind
    source, target = plan.table.identifier, plan.target
    text = f"Table '{source}' {'would be' if dry_run else 'was'} renamed to '{target}'"
    if plan.moves:
        text += "; its files would be copied to a new directory" if dry_run else "; its files are in a new directory"
    said = f"{text}." + (f"\nFiles that could not be copied stayed in {left}." if left else "")
    session.did("rename", dry_run, said, old=str(source), new=str(target), files_copied=plan.moves, left_behind=left)


@verb("rm")
@click.argument("name")
@click.option("--cascade", is_flag=True, help="Drop a namespace with everything in it.")
@click.option("--force", is_flag=True, help="Also drop tables that a clone reads or a tag of the lake pins.")
@branch_option
@dry_run_option
@yes_option
@click.pass_obj
def rm(session: CatalogSession, /, name: str, cascade: bool, force: bool, dry_run: bool, yes: bool) -> None:
    """Drop a table with its files, or a namespace.

    A namespace must be empty, unless --cascade is given. To keep the files, use deregister.
    """
    from lance_spark.catalog.name_rules import NAMESPACE
    from lance_spark.catalog.overview import kind_of
    from lance_spark.catalog.removing import drop, plan_drop, plan_namespace_drop

    catalog = session.catalog
    is_namespace = kind_of(catalog, name) == NAMESPACE
    plan = plan_namespace_drop(catalog, name, cascade, force) if is_namespace else plan_drop(catalog, name, force)
    if cascade and not is_namespace:
        raise InvalidOption(f"'{plan.identifier}' is a table; --cascade is for namespaces.", hint="Leave it out.")
    removed = plan.tables
    if not dry_run:
        confirm(_sentence(plan, "will be", removed), yes, "\n".join(_lines(session, plan, removed)))
        removed = tuple(sorted(drop(plan), key=lambda table: table.identifier))
    lines = [*_lines(session, plan, removed), _sentence(plan, "would be" if dry_run else "was", removed)]
    session.did(
        "rm",
        dry_run,
        "\n".join(lines),
        kind=plan.kind,
        **name_json(plan.identifier),
        namespaces=[str(namespace) for namespace in plan.namespaces],
        tables=[removed_json(catalog, table) for table in removed],
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


@verb("register")
@click.argument("name")
@click.argument("location", required=False)
@click.option("-p", "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property (repeatable).")
@dry_run_option
@click.pass_obj
def register(
    session: CatalogSession, name: str, location: str | None, properties: tuple[str, ...], dry_run: bool
) -> None:
    """Register a directory with a table in the catalog.

    LOCATION is relative to ROOT, or a full URI below it. Without LOCATION, it is the one directory with the table's
    name. The data stays where it is.
    """
    from lance_spark.catalog.tables import plan_registration, register

    catalog, given = session.catalog, pairs_of("-p", properties, "owner=me")
    plan = plan_registration(catalog, name, location, given)
    if not dry_run:
        register(plan)
    identifier, path = plan.change.identifier, plan.change.location
    place = location_of(catalog, path)
    said = f"Table '{identifier}' {'would be' if dry_run else 'was'} registered; its data is in {place}."
    session.did("register", dry_run, said, **name_json(identifier), location=place, path=path, properties=given)


@verb("deregister")
@click.argument("name")
@dry_run_option
@click.pass_obj
def deregister(session: CatalogSession, name: str, dry_run: bool) -> None:
    """Remove a table from the catalog; keep its data.

    Prints the command that puts the table back, with its properties. Does not ask for confirmation, as nothing is lost.
    """
    from lance_spark.catalog.tables import deregister, plan_deregistration

    catalog = session.catalog
    plan = plan_deregistration(catalog, name)
    removed = plan.removed if dry_run else deregister(plan)
    place = location_of(catalog, removed.path) or removed.path
    verb_text = "would be" if dry_run else "was"
    lines = [f"Table '{plan.table.identifier}' {verb_text} deregistered; its data stays in {place}."]
    if not dry_run and removed.path is not None:
        lines.append(f"  {session.typed} {_back(removed)}   puts it back")
    session.did("deregister", dry_run, "\n".join(lines), **removed_json(catalog, removed))


def _back(removed: Removed) -> str:
    words = ["register", str(removed.identifier), removed.path or ""]
    for key, value in sorted(removed.properties.items()):
        words += ["-p", f"{key}={value}"]
    return shlex.join(words)


@verb("migrate")
@dry_run_option
@click.pass_obj
def migrate(session: CatalogSession, dry_run: bool) -> None:
    """Give a row to tables that are only directories.

    All in one commit. No data is moved, and jobs that only know V1 can continue. Run it again for the tables that they
    create meanwhile. Afterwards, --mode v2 finds every table without listing directories.
    """
    from lance_spark.catalog.migrate import migrate

    catalog = session.catalog
    if not catalog.reads_manifest:
        raise InvalidOption("A migration to V2 cannot be done in V1 mode.", hint="Leave --mode out.")
    migration = migrate(catalog, dry_run)
    session.did(
        "migrate",
        dry_run,
        str(migration),
        tables=[name_json(identifier) for identifier in migration.tables],
        registered_before=migration.registered,
        skipped=[{"directory": skipped.directory, "why": skipped.why} for skipped in migration.skipped],
    )
