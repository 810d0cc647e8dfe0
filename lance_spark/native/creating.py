"""Creating, replacing, renaming and dropping tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from lance_spark.catalog.staging import Stage, TableDefinition, Way, make
from lance_spark.core.options import folded
from lance_spark.core.table_options import parse_write_options
from lance_spark.core.table_properties import optimize_write
from lance_spark.engine.types_spark import declared_defaults, to_arrow
from lance_spark.errors import AlreadyExists, NotFound, Refused
from lance_spark.format.column_defaults import with_defaults
from lance_spark.jvm import answers, names
from lance_spark.jvm.answers import Answer
from lance_spark.jvm.bridge import Bridge, from_java, java_error
from lance_spark.jvm.proxies import Implementation
from lance_spark.layout.layout_rules import NO_LAYOUT, TableLayout, arrangement, declared_by
from lance_spark.native.layouts import layout_of
from lance_spark.native.places import Place, Places, parts_of
from lance_spark.native.tables import WRITABLE, NativeWriteBuilder, check_options
from lance_spark.write.constraint_rules import Constraint, checks_of
from lance_spark.write.constraints import add_constraint

FORMAT = "lance"
_OWNER, _PROVIDER, _LOCATION, _MANAGED = "owner", "provider", "location", "is_managed_location"
_EXTERNAL = "external"
_NOT_KEPT = frozenset({_OWNER, _PROVIDER, _MANAGED, _EXTERNAL})
"""Properties that Spark sets by itself: the owner, the session's user, for everything that it creates."""
_OPTION = "option."
_CAPABILITIES = (
    "SUPPORT_COLUMN_DEFAULT_VALUE",
    "SUPPORT_TABLE_CONSTRAINT",  # since Spark 4.1
    # Refused here: Spark's own message would not say what to do instead.
    "SUPPORTS_CREATE_TABLE_WITH_GENERATED_COLUMNS",
    "SUPPORTS_CREATE_TABLE_WITH_IDENTITY_COLUMNS",
)


class Creating(Implementation):
    """The part of a catalog that is Spark's ``StagingTableCatalog``."""

    _name: str
    places: Places
    load_table: Callable[..., Any]
    _find: Callable[..., Place]

    def capabilities(self) -> Any:
        """What CREATE TABLE and ALTER TABLE may say."""
        found = self.bridge.new("java.util.HashSet")
        for each in self.bridge.call(f"{names.CATALOG_CAPABILITY}.values"):
            if str(each.toString()) in _CAPABILITIES:
                found.add(each)
        return found

    def create_table(self, ident: Any, given: Any, *others: Any) -> Any:
        """A table without rows. Columns come in three forms; each Spark converts its known ones to the last."""
        check_columns(given)
        if _is_columns(given):
            return self.default("createTable", ident, given, *others)
        schema, partitions, properties = _parts(given, others)
        declared = [] if others else [constraint_of(each) for each in _constraints(given)]
        checks_of(declared, to_arrow(from_java(schema)))  # before there is a table
        make(self._begin(ident, "create", schema, partitions, properties))
        for each in declared:
            place = self._find(ident, for_reading=False)
            add_constraint(place.location, place.branch_to_change("add a constraint"), each.name, each.condition)
        return self.load_table(ident)

    def create_table_like(self, ident: Any, given: Any, _source: Any) -> Any:
        """CREATE TABLE LIKE, since Spark 4.2: columns and properties come from Spark."""
        return self.create_table(ident, given)

    def stage_create(self, ident: Any, given: Any, *others: Any) -> Any:
        """A table created together with its rows."""
        return self._stage("stageCreate", "create", ident, given, others)

    def stage_replace(self, ident: Any, given: Any, *others: Any) -> Any:
        """An existing table that gets other columns and rows at once."""
        return self._stage("stageReplace", "replace", ident, given, others)

    def stage_create_or_replace(self, ident: Any, given: Any, *others: Any) -> Any:
        return self._stage("stageCreateOrReplace", "create or replace", ident, given, others)

    def _stage(self, method: str, way: Way, ident: Any, given: Any, others: tuple[Any, ...]) -> Any:
        check_columns(given)
        if _is_columns(given):
            return self.default(method, ident, given, *others)
        schema, partitions, properties = _parts(given, others)
        if not others and _constraints(given):
            raise Refused(
                "Cannot replace a table with one that declares constraints: rows and constraints take two versions. "
                "Nothing was changed.",
                hint="Replace the table without them, then ALTER TABLE ... ADD CONSTRAINT.",
            )
        stage = self._begin(ident, way, schema, partitions, properties)
        return NativeStagedTable(self.bridge, f"{self._name}.{ident.toString()}", schema, stage).java()

    def _begin(self, ident: Any, way: Way, schema: Any, partitions: Any, properties: Any) -> Stage:
        kept, options = self._settings(dict(properties))
        options = {**options, **layout_options(layout_of(partitions), way, options)}
        columns = from_java(schema)
        stored = with_defaults(to_arrow(columns), declared_defaults(columns))
        definition = TableDefinition(stored, kept, parse_write_options(options))
        with self._spark_says(ident, way):
            return self.places.stage(parts_of(ident), way, definition)

    def _settings(self, given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """The properties to keep, and the options of the write."""
        provider = given.get(_PROVIDER, FORMAT).lower()
        # saveAsTable without a format passes the session's default.
        if provider not in (FORMAT, str(self.bridge.spark.conf.get("spark.sql.sources.default")).lower()):
            raise other_format(provider)
        if _LOCATION in given:
            raise Refused(
                "The catalog chooses the location of its tables.",
                hint=f"Leave out LOCATION; for a path, use the catalog of paths: lance.`{given[_LOCATION]}`.",
            )
        if given.get(_EXTERNAL, "").lower() == "true":
            raise Refused(
                "Cannot create an external table: DROP TABLE deletes the files of every table of the catalog.",
                hint="Leave out EXTERNAL; or create the dataset by its path, which no catalog drops.",
            )
        options = {key[len(_OPTION) :]: value for key, value in given.items() if key.startswith(_OPTION)}
        check_options(options)
        left = {key: value for key, value in given.items() if key not in _NOT_KEPT and not key.startswith(_OPTION)}
        return {key: value for key, value in left.items() if options.get(key) != value}, options

    @contextmanager
    def _spark_says(self, ident: Any, way: Way) -> Iterator[None]:
        """Make Spark report an existing table, a missing table, or a missing namespace."""
        try:
            yield
        except AlreadyExists as taken:
            if not self.places.exists(parts_of(ident)):
                raise  # a namespace has the name
            raise java_error(self.bridge.new(names.TABLE_EXISTS, ident)) from taken
        except NotFound as missing:
            parts = parts_of(ident)
            if way == "replace" or len(parts) == 1 or self.places.explains(parts, False):
                raise  # Spark has already checked that a table to replace exists
            raise java_error(self.bridge.new(names.NO_SUCH_NAMESPACE, ident.namespace())) from missing

    def drop_table(self, ident: Any) -> bool:
        try:
            self.places.drop(parts_of(ident))
        except NotFound:
            return False
        return True

    def purge_table(self, ident: Any) -> bool:
        """The same: no dropped table is kept."""
        return self.drop_table(ident)

    def rename_table(self, old: Any, new: Any) -> None:
        """Rename a table, possibly into another namespace. A name alone stays in the table's namespace."""
        parts = parts_of(new)
        if len(parts) > 1 and parts[0] == self._name:
            parts = parts[1:]
        try:
            self.places.rename(parts_of(old), parts)
        except AlreadyExists as taken:
            raise java_error(self.bridge.new(names.TABLE_EXISTS, new)) from taken


def layout_options(layout: TableLayout, way: Way, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a write that declare a layout. A replaced table has no other one than the statement declares."""
    if not layout and (way == "create" or {"partition_by", "cluster_by"} & {folded_key(key) for key in options}):
        return {}
    return {"partition_by": layout.partition_text, "cluster_by": layout.cluster_text}


def folded_key(key: str) -> str:
    """An option's name, whether it is spelled as in Python or as in Java."""
    return {"partitionby": "partition_by", "clusterby": "cluster_by"}.get(folded(key), key)


def other_format(provider: str) -> Refused:
    return Refused(f"Tables of this catalog are of format '{FORMAT}', not '{provider}'.", hint="Leave out USING.")


def shown_properties(properties: Mapping[str, str], place: Place) -> dict[str, str]:
    """A table's properties for Spark, including those that it requests by its own names."""
    managed = {} if place.table is None else {_MANAGED: "true"}
    return {**properties, _PROVIDER: FORMAT, _LOCATION: place.location.uri, **managed}


def _is_columns(given: Any) -> bool:
    """Whether it is an array of Spark's columns: a default method converts it to a schema."""
    return bool(given.getClass().isArray())


def check_columns(given: Any) -> None:
    """Raise Refused for a generated or an identity column, of which a schema says nothing."""
    columns = given if _is_columns(given) else given.columns() if _is_table_info(given) else ()
    for each in columns:
        if each.generationExpression() is not None:
            raise Refused(
                f"Cannot create column '{each.name()}' GENERATED ALWAYS AS ({each.generationExpression()}): Spark "
                "computes it at most in an INSERT, and writes without Spark cannot. Nothing was created.",
                hint="Write the column with the rows; ALTER TABLE ... ADD CONSTRAINT ... CHECK (day >= start) compares "
                "it with others, and PARTITIONED BY (days(ts)) needs no column of its own.",
            )
        if each.identityColumnSpec() is not None:
            raise Refused(
                f"Cannot create column '{each.name()}' GENERATED AS IDENTITY: two branches would give out the same "
                "numbers. Nothing was created.",
                hint="Write uuid() into a column of texts: it is unique across branches. In a table with stable row "
                "ids, _rowid tells the rows of a branch apart.",
            )


def _is_table_info(given: Any) -> bool:
    """Whether it is what CREATE TABLE passes since Spark 4.1."""
    return bool(given.getClass().getSimpleName() == "TableInfo")


def _parts(given: Any, others: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Schema, partitions and properties; since Spark 4.1 they come as one ``TableInfo``."""
    if others:
        return (given, *others)
    return given.schema(), given.partitions(), given.properties()


def _constraints(given: Any) -> list[Any]:
    return [*given.constraints()] if _is_table_info(given) else []


def constraint_of(given: Any) -> Constraint:
    """Spark's constraint. Raises Refused for another one than a CHECK that is enforced."""
    kind = str(given.getClass().getSimpleName())
    if kind != "Check":
        raise Refused(
            f"Cannot declare a constraint of the kind {kind}: only CHECK is kept and enforced. Nothing was changed.",
            hint="Keys are not checked; rows that repeat one are found by GROUP BY ... HAVING count(*) > 1.",
        )
    if not given.enforced():
        raise Refused(
            f"Cannot declare constraint '{given.name()}' NOT ENFORCED: every constraint is. Nothing was changed.",
            hint="Leave NOT ENFORCED out.",
        )
    return Constraint(str(given.name()), str(given.predicateSql()))


# --- A table that is being created or replaced together with its rows


class NativeStagedTable(Implementation):
    """Spark's ``StagedTable``: it is written to, and then committed or aborted."""

    interfaces: ClassVar = (names.STAGED_TABLE, names.SUPPORTS_WRITE)

    def __init__(self, bridge: Bridge, name: str, schema: Any, stage: Stage) -> None:
        super().__init__(bridge)
        self._name, self._schema, self._stage = name, schema, stage
        self._written = False

    def name(self) -> str:
        return self._name

    def schema(self) -> Any:
        return self._schema

    def answered(self) -> dict[str, Answer]:
        """What Spark may do with it."""
        return {"capabilities": answers.capabilities(WRITABLE)}

    def new_write_builder(self, info: Any) -> Any:
        """The only write. It overwrites, even if Spark appends: existing rows have other columns."""
        self._written = True
        # Python's own types of CHAR and VARCHAR have no collation.
        stage, schema = self._stage, self.bridge.schema(from_java(self._schema))
        definition = self._stage.definition
        declared = definition.options
        layout = {"partition_by": declared.partition_by, "cluster_by": declared.cluster_by}
        options = {**stage.options, **{key: text for key, text in layout.items() if text is not None}}
        kept = declared_by(declared.partition_by, declared.cluster_by) or NO_LAYOUT
        arranged = arrangement(kept, definition.schema, optimize_write(definition.properties))
        return NativeWriteBuilder(self.bridge, info, options, schema, stage.replaces, arranged).truncate()

    def commit_staged_changes(self) -> None:
        """After the write, or instead of it: CREATE OR REPLACE TABLE without AS has none."""
        self._stage.commit(self._written)

    def abort_staged_changes(self) -> None:
        """Leave nothing of a new table; an existing one stays unchanged."""
        self._stage.abort()
