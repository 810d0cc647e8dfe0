"""``register`` makes Lance known to a session; ``unregister`` reverts that; ``capabilities`` describes the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lance_spark.core.calls import answering
from lance_spark.core.catalog_options import OWN_NAME
from lance_spark.engine.session_spark import check_places, is_connect
from lance_spark.errors import InvalidOption, Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

    from lance_spark.native.session import Room
    from lance_spark.session.capabilities import Capabilities

DEFAULT_CATALOG = "lance"
"""The catalog whose tables are paths."""


@answering
def register(  # noqa: PLR0913 - all but the session by name
    spark: SparkSession,
    name: str = "lance",
    catalog: str | None = None,
    root: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    native: bool = True,
    branch: str | None = None,
    tag: str | None = None,
    published: bool = False,
    impl: str | None = None,
    properties: Mapping[str, object] | None = None,
) -> None:
    """Make ``format("lance")`` known to a session and, in a classic one, let Spark plan into Lance and SQL find tables.

    ``name`` is another name for the format, for sessions where the JVM connector owns ``lance``. ``catalog`` is the
    name of a catalog for SQL: of the tables below ``root`` or, without one, of tables by their paths. With neither,
    there is the catalog ``lance`` of paths, unless the session has one of that name. With ``branch``, a
    branch of the whole lake, every statement happens there. With ``tag``, a tag of it, every table has the version
    that the tag pins, and nothing can be changed. With ``published``, each statement reads all tables as of the last
    publish of the lake that was complete when the statement began; nothing can be changed. Two DataFrames are two
    statements: for many, use ``LanceCatalog.checkout(published=True)``. ``impl`` and ``properties`` are those of a
    catalog service, as for ``LanceCatalog.connect``, in place of a root; with ``catalog`` alone, and for all catalogs
    without one, they come from ``spark.sql.catalog.NAME.impl`` and ``spark.sql.catalog.NAME.*``, if the session has
    them. ``native=False`` disables native planning. On
    Spark Connect, and wherever Spark lacks something for it, the plain data source gives the same answers (see
    ``capabilities``). Raises Refused for a catalog without native planning, and for the name of another catalog.
    """
    from lance_spark.datasource import datasource

    found = _of_service(spark, catalog, root, impl, properties)
    if found is not None:
        root, storage_options = _packed(*found, storage_options)
    elif catalog is None and root is None and not is_connect(spark):  # there, each look costs a request
        _register_configured(spark, name, storage_options, native)
    refs = _refs(catalog, root, branch, tag, published)
    if is_connect(spark):
        wanted = dict(refs, name=name, catalog=catalog, root=root, storage_options=dict(storage_options or {}))
        _at_server(spark, wanted, native)
        return
    datasource.register(spark, name)
    from lance_spark.native import session

    if not native:
        session.switch_off(spark, "it was registered with native=False.")
        return
    session.allow(spark)
    room = _switch_on(spark, name)
    if room is not None and catalog is not None:
        room.add_catalog(catalog, root, storage_options or {}, *refs)
    elif room is not None and DEFAULT_CATALOG not in room.catalogs and not room.taken(DEFAULT_CATALOG):
        room.add_catalog(DEFAULT_CATALOG, None, storage_options or {})
    elif room is None and catalog is not None:
        raise _no_catalog(capabilities(spark).reason)


def _refs(
    catalog: str | None, root: str | None, branch: str | None, tag: str | None, published: bool
) -> list[tuple[str, str]]:
    """The kind and the name of the ref of the lake; none or one. Raises InvalidOption."""
    if root is not None and catalog is None:
        raise InvalidOption("A root needs the name of a catalog.", hint="Give catalog='lake'.")
    known = (("branch", branch), ("tag", tag), ("published", "true" if published else None))
    refs = [(kind, ref) for kind, ref in known if ref is not None]
    if len(refs) > 1:
        both = " and ".join(kind for kind, _ in refs)
        raise InvalidOption(f"{both} exclude each other.", hint="Register two catalogs, each with one of them.")
    if refs and root is None:
        kind = refs[0][0]
        what = "published" if kind == "published" else f"A {kind}"
        raise InvalidOption(f"{what} belongs to the catalog of a root.", hint="Give root='s3://bucket/lake' as well.")
    return refs


_CONF = "spark.sql.catalog."


def _of_service(
    spark: SparkSession,
    catalog: str | None,
    root: str | None,
    impl: str | None,
    properties: Mapping[str, object] | None,
) -> tuple[str, Mapping[str, object]] | None:
    """The implementation and the properties of a catalog service: those given, or those of the session's settings.

    Raises InvalidOption for a root as well, and for properties without an implementation.
    """
    if impl is None and properties is not None:
        raise InvalidOption("Properties belong to an implementation.", hint="Give impl='rest' as well.")
    if impl is not None and (catalog is None or root is not None):
        hint = "register(spark, catalog='prod', impl='rest', properties={'uri': '...'})"
        raise InvalidOption("An implementation needs the name of a catalog, and takes no root.", hint=hint)
    if impl is not None:
        return impl, properties or {}
    return None if catalog is None or root is not None else configured(spark).get(catalog)


def configured(spark: SparkSession) -> dict[str, tuple[str, dict[str, object]]]:
    """The catalogs that a session's settings name with ``spark.sql.catalog.NAME.impl``, with their properties.

    Those with a class of their own, ``spark.sql.catalog.NAME``, belong to another connector.
    """
    settings = spark.conf.getAll
    found: dict[str, tuple[str, dict[str, object]]] = {}
    for key, value in settings.items():
        catalog, _, last = key.removeprefix(_CONF).partition(".")
        if key.startswith(_CONF) and last == "impl" and f"{_CONF}{catalog}" not in settings:
            prefix = f"{_CONF}{catalog}."
            given = {each.removeprefix(prefix): text for each, text in settings.items() if each.startswith(prefix)}
            found[catalog] = value, {each: text for each, text in given.items() if each != "impl"}
    return found


def _packed(
    impl: str, properties: Mapping[str, object], storage_options: Mapping[str, str] | None
) -> tuple[str, dict[str, str]]:
    """The root and the storage options of a service's catalog."""
    from lance_spark.catalog.lookup import open_service

    opened = open_service(impl, properties, storage_options)
    return opened.uri, dict(opened.root.options)


def _register_configured(
    spark: SparkSession, name: str, storage_options: Mapping[str, str] | None, native: bool
) -> None:
    """Register the catalogs of the session's settings, if it can have catalogs."""
    for catalog, found in configured(spark).items() if native else ():
        root, storage = _packed(*found, storage_options)
        register(spark, name, catalog, root, storage)


def _at_server(spark: SparkSession, wanted: dict[str, Any], native: bool) -> None:
    """Register in the process beside a server of Spark Connect.

    To start the process takes seconds, so that only a catalog does. Raises Refused if it is unavailable.
    """
    from lance_spark.connect import client, hooks, messages
    from lance_spark.datasource import datasource

    if not native:
        _as_source(spark, wanted["name"])
        hooks.forget(spark)
        client.disconnect(spark, "it was registered with native=False.")
        return
    if wanted["catalog"] is None and client.current(spark) is None:
        _as_source(spark, wanted["name"])
        return
    if wanted["root"] is not None:
        check_places(spark, wanted["root"])
    connection = client.connect(spark)
    if connection is None:
        _as_source(spark, wanted["name"])
        raise _no_catalog(client.reason(spark))
    if "published" in wanted:
        wanted["published"] = True
    connection.state = connection.ask(messages.REGISTER, **wanted)
    datasource.note(spark, OWN_NAME, wanted["name"])  # the process has registered both: two requests less
    hooks.install(spark, wanted["name"])


def _as_source(spark: SparkSession, name: str) -> None:
    """Register the plain data source by name, and by the name that handles use."""
    from lance_spark.datasource import datasource

    datasource.register(spark, OWN_NAME)
    datasource.register(spark, name)


def _no_catalog(reason: str) -> Refused:
    return Refused(
        f"The session cannot have a catalog: {reason}",
        hint="LanceCatalog(root).register_views() creates views of its tables.",
    )


def register_handle(spark: SparkSession) -> None:
    """Register what handles need in a session: their own name of the format, read natively if possible."""
    if is_connect(spark):
        from lance_spark.datasource import datasource

        datasource.register(spark, OWN_NAME)
    else:
        _switch_on(spark, OWN_NAME)


def writer_to(target: str, frame: DataFrame, mode: str, settings: Mapping[str, str]) -> DataFrameWriter:
    """A writer of a DataFrame in this package's format, with what the write knows before it begins.

    Where Spark plans into Lance, it asks for that itself.
    """
    from lance_spark.datasource.datasource import register as register_format
    from lance_spark.datasource.reading import prepared

    register_format(frame.sparkSession, OWN_NAME)
    told: Mapping[str, str] = {}
    if not capabilities(frame.sparkSession).native:
        frame, told = prepared(frame, mode, {**settings, "path": target})
    return frame.write.format(OWN_NAME).mode(mode).options(**{**settings, **told})


def _switch_on(spark: SparkSession, name: str) -> Room | None:
    from lance_spark.datasource import datasource
    from lance_spark.native import session

    datasource.register(spark, OWN_NAME)
    room = session.enter(spark)
    if room is not None:
        from lance_spark.native.hooks import install

        install(spark, name)
    return room


@answering
def unregister(spark: SparkSession) -> None:
    """Remove catalogs and native reading from a session, and from those made from it.

    ``format("lance")`` stays as the plain data source.
    """
    if is_connect(spark):
        from lance_spark.connect import client, hooks

        hooks.forget(spark)
        client.disconnect(spark)
        return
    from lance_spark.native import session
    from lance_spark.native.hooks import forget

    session.leave(spark)
    forget()


@answering
def capabilities(spark: SparkSession) -> Capabilities:
    """How this session executes reads, and why."""
    if is_connect(spark):
        from lance_spark.connect import client

        return client.describe(spark)
    from lance_spark.native import session

    return session.describe(spark)
