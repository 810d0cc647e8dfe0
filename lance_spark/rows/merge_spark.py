"""MERGE: matches rows of a source with rows of a table, and updates, deletes or inserts them.

Clauses come in as users write them. What comes out is a change of rows for the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name for it
from pyspark.sql import types as st
from pyspark.sql.types import StructField, StructType

from lance_spark.columns.columns import alter_columns
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.words import Hinting
from lance_spark.engine.session_spark import engine_of
from lance_spark.engine.types_spark import declared_defaults, quoted, showing_defaults, to_arrow, wire_schema
from lance_spark.engine.workers_spark import plainly
from lance_spark.errors import AlreadyExists, InvalidOption
from lance_spark.format.kept_types import is_plain
from lance_spark.format.schema import ROW_ADDRESS, row_width
from lance_spark.rows import action_rules
from lance_spark.rows.action_rules import Case, ChangeResult, Clause, Found
from lance_spark.rows.evolution_rules import added_columns
from lance_spark.rows.row_files import Lookup, rows_outside, with_matches
from lance_spark.rows.spark import RowChange, TargetRows, assigned, change_rows, check_condition, expression
from lance_spark.scan.fragment_reads import stored_schema
from lance_spark.session.caches import refreshing
from lance_spark.session.narrow_query import probe
from lance_spark.storage.datasets import pin_latest

if TYPE_CHECKING:
    Values = Mapping[str, object]  # SQL as a text, a Column, or a constant
    Condition = str | Column

_MARK, _CLAUSE = "__source_row", "__clause"
_EVOLUTIONS = 5
"""How often others may add the same columns first."""


@dataclass(frozen=True, repr=False)
class RowMerge(Hinting):
    """A row merge under construction; :meth:`execute` runs it.

    Conditions and values are SQL, or Columns, over ``target.`` and ``source.``. The first clause of a row's case whose
    condition is true applies.
    """

    spark: SparkSession
    location: DatasetLocation
    branch: str | None
    source: DataFrame
    on: str | Column | tuple[str, ...]
    """A condition, or key columns that both sides have. Null keys match nothing."""
    clauses: tuple[Clause, ...] = ()
    evolves: bool = False
    """Whether columns that only the source has are added to the table."""
    after: Callable[[DatasetLocation, ChangeResult], None] | None = None
    """Called with the result once it is committed."""

    def __repr__(self) -> str:
        on = ", ".join(self.on) if isinstance(self.on, tuple) else self.on
        clauses = ", ".join(clause.words for clause in self.clauses) or "no clause yet"
        return f"<RowMerge on {on}: {clauses}; execute() runs it>"

    def __dir__(self) -> list[str]:
        """Clauses and ``execute``: what completion should show."""
        return [name for name in dir(type(self)) if name.startswith(("when_", "with_", "execute", "__"))]

    def when_matched_update_all(self, condition: Condition | None = None) -> RowMerge:
        """Set all columns that the source has; other columns of the target stay."""
        return self._with("matched", action_rules.UPDATE, condition)

    def when_matched_update(self, set: Values, condition: Condition | None = None) -> RowMerge:
        """Set these columns, given as expressions by name."""
        return self._with("matched", action_rules.UPDATE, condition, set)

    def when_matched_delete(self, condition: Condition | None = None) -> RowMerge:
        return self._with("matched", action_rules.DELETE, condition)

    def when_not_matched_insert_all(self, condition: Condition | None = None) -> RowMerge:
        """Insert the source's row; columns that the source lacks have their default, or are null."""
        return self._with("not matched", action_rules.INSERT, condition)

    def when_not_matched_insert(self, values: Values, condition: Condition | None = None) -> RowMerge:
        """Insert a row of these values, expressions of the source by the target's column.

        Other columns have their default, or are null.
        """
        return self._with("not matched", action_rules.INSERT, condition, values)

    def when_not_matched_by_source_update(self, set: Values, condition: Condition | None = None) -> RowMerge:
        """Set columns of rows of the target that no row of the source matches."""
        return self._with("not matched by source", action_rules.UPDATE, condition, set)

    def when_not_matched_by_source_delete(self, condition: Condition | None = None) -> RowMerge:
        """Delete rows of the target that no row of the source matches."""
        return self._with("not matched by source", action_rules.DELETE, condition)

    def with_schema_evolution(self) -> RowMerge:
        """Add the columns, and the fields of structs, that only the source has, and clauses set, to the table.

        They get a version of their own before the merge; rows that it does not change have nulls in them. If the merge
        then fails, they stay, without values. Types stay as they are.
        """
        return replace(self, evolves=True)

    withSchemaEvolution = with_schema_evolution  # noqa: N815 - Delta's and Spark's spelling

    @refreshing
    def execute(self, message: str | None = None, retries: int = 0) -> ChangeResult:
        """Run the merge as one version, with this commit message.

        If others changed the same rows meanwhile, it is recomputed up to ``retries`` times. Raises InvalidOption,
        NotFound and SchemaMismatch for invalid arguments, Refused if several source rows match one row, and Conflict;
        then nothing was changed.
        """
        if self.evolves:
            action_rules.check_clauses(self.clauses)
            self._evolve_table()
        done = change_rows(self.spark, self.change(), message, retries)
        if self.after is not None:
            self.after(self.location, done)
        return done

    def _evolve_table(self) -> None:
        """Add all columns that the table lacks. Raises Refused, and the errors of ``alter_columns``."""
        left = _EVOLUTIONS
        while True:
            pin = pin_latest(self.location, self.branch)
            table = stored_schema(self.location, pin)
            added = added_columns(table, self._given_columns(pin, table.names))
            if not added:
                return
            left -= 1
            try:
                alter_columns(self.location, self.branch, added, engine_of(self.spark))
            except AlreadyExists:  # another merge added the same column
                if not left:
                    raise

    def _given_columns(self, pin: PinnedVersion, known: Sequence[str]) -> list[pa.Field]:
        """The columns that clauses set, with the types of their values."""
        writing = [clause for clause in self.clauses if clause.action != action_rules.DELETE]
        whole = self.source.schema if any(clause.values is None for clause in writing) else StructType()
        found = {field.name: field for field in to_arrow(whole)}
        new = {
            name: expression(value)
            for clause in writing
            for name, value in (clause.values or {}).items()
            if name not in known and name not in found
        }
        if new:
            target = probe(self.spark, TargetRows(self.spark, self.location).schema(pin))
            joined = self._joined(target, action_rules.join_of(self.clauses))
            typed = joined.select(*(value.alias(name) for name, value in new.items())).schema
            found |= {field.name: field for field in to_arrow(typed)}
        return list(found.values())

    def change(self) -> RowChange:
        """The merge in the form the engine takes. Raises InvalidOption for invalid clauses."""
        action_rules.check_clauses(self.clauses)
        merge = self._spelled()
        return RowChange(
            location=self.location,
            branch=self.branch,
            verb=action_rules.MERGING,
            actions=merge._actions,
            meets=merge._meets,
            inserts_by_key=action_rules.inserts(self.clauses),
            key=merge.on if isinstance(merge.on, tuple) else (),
            sets=merge._sets,
        )

    def _spelled(self) -> RowMerge:
        """The merge with the table's spelling of names, unless case matters to Spark.

        A column `ID` of the source would count as one that the table lacks, and its values would be lost.
        """
        if self.spark.conf.get("spark.sql.caseSensitive") == "true":
            return self
        table = stored_schema(self.location, pin_latest(self.location, self.branch)).names
        named = action_rules.spelled(self.source.columns, table)
        source = self.source
        if any(name != other for name, other in named.items()):
            source = source.toDF(*(named[name] for name in source.columns))
        on = self.on
        if isinstance(on, tuple):
            keys = action_rules.spelled(on, table)
            on = tuple(keys[name] for name in on)
        clauses = tuple(_renamed(clause, table) for clause in self.clauses)
        return replace(self, source=source, on=on, clauses=clauses)

    @property
    def _sets(self) -> frozenset[str]:
        updates = [clause for clause in self.clauses if clause.action == action_rules.UPDATE]
        named = [self.source.columns if clause.values is None else clause.values for clause in updates]
        return frozenset(name for names in named for name in names)

    def _with(self, case: Case, action: int, condition: Condition | None, values: Values | None = None) -> RowMerge:
        if values is not None and not (values and isinstance(values, Mapping)):
            raise InvalidOption(f"A clause for rows {case} sets no column.", hint="Give {'column': 'expression'}.")
        if condition is not None:
            check_condition(condition)
        return replace(self, clauses=(*self.clauses, Clause(case, action, condition, values)))

    def _actions(self, pin: PinnedVersion) -> DataFrame:
        rows = TargetRows(self.spark, self.location)
        known = showing_defaults(rows.schema(pin), stored_schema(self.location, pin))
        fields = {field.name: field for field in known}
        for clause in self.clauses:
            action_rules.check_columns(list(clause.values or ()), list(fields))
        self._check_sides(rows.schema(pin))
        kept = rows.kept(pin, self._sets)
        how = action_rules.join_of(self.clauses)

        def query(target: DataFrame) -> DataFrame:
            return self._merged(self._joined(target, how), fields, kept)

        # Rows of the table that no source row matches cannot be found by the source's keys.
        if isinstance(self.on, tuple) and len(self.on) == 1 and how in ("inner", "right"):
            source, (key,) = self._marked(), self.on
            columns = rows.needed(pin, query) if is_worth_it(rows, pin, source, key) else None
            if columns is not None:
                return self._merged(looked_up(rows, pin, source, key, columns), fields, kept)
        return rows.select(pin, query)

    def _check_sides(self, schema: StructType) -> None:
        """Raise Spark's error for a clause that names the side without its rows: every value would be null."""
        sides = {
            "not matched": self.source.alias(action_rules.SOURCE),
            "not matched by source": probe(self.spark, schema).alias(action_rules.TARGET),
        }
        for clause in self.clauses:
            given = [*(clause.values or {}).values(), *([] if clause.condition is None else [clause.condition])]
            if clause.case in sides and given:
                sides[clause.case].select(*map(expression, given)).schema  # noqa: B018 - Spark analyzes it

    def _marked(self) -> DataFrame:
        """The source, with a mark by which an outer join distinguishes its rows from missing ones."""
        return self.source.withColumn(_MARK, F.lit(True))

    def _merged(self, joined: DataFrame, fields: Mapping[str, StructField], kept: frozenset[str]) -> DataFrame:
        index = reduce(
            lambda found, entry: found.when(self._applies(entry[1]), F.lit(entry[0])),
            enumerate(self.clauses),
            F.when(F.lit(False), F.lit(-1)),
        )
        values = self._values(joined, fields, kept)
        chosen = joined.withColumn(_CLAUSE, index).where(F.col(_CLAUSE).isNotNull())
        operation = _by_clause([F.lit(clause.action) for clause in self.clauses])
        columns = [_by_clause([own[name] for own in values]).alias(name) for name in fields]
        return chosen.select(
            operation.alias(action_rules.OPERATION),
            F.col(f"{action_rules.TARGET}.{ROW_ADDRESS}").alias(ROW_ADDRESS),
            *columns,
        )

    def _joined(self, target: DataFrame, how: str) -> DataFrame:
        source = self._marked().alias(action_rules.SOURCE)
        if isinstance(self.on, tuple):
            condition = reduce(
                lambda left, right: left & right,
                [quoted(name, action_rules.TARGET) == quoted(name, action_rules.SOURCE) for name in self.on],
            )
        else:
            condition = expression(self.on)
        return target.alias(action_rules.TARGET).join(source, condition, how)

    def _applies(self, clause: Clause) -> Column:
        here, there = F.col(f"{action_rules.TARGET}.{ROW_ADDRESS}"), F.col(f"{action_rules.SOURCE}.{_MARK}")
        case = {
            "matched": here.isNotNull() & there.isNotNull(),
            "not matched": here.isNull(),
            "not matched by source": there.isNull(),
        }[clause.case]
        return case if clause.condition is None else case & expression(clause.condition)

    def _values(
        self, joined: DataFrame, fields: Mapping[str, StructField], kept: frozenset[str]
    ) -> list[Mapping[str, Column]]:
        """The value each clause gives each column; no entry if the engine keeps the current value.

        Clauses that set a column to the same value share one Column. Each Column costs calls to the JVM, of which a
        table of 1,000 columns would have 10,000: none is made that no clause needs.
        """

        @cache
        def nothing(name: str) -> Column:
            return F.lit(None).cast(fields[name].dataType)

        @cache
        def default(name: str) -> Column:
            return F.expr(told[name]).cast(fields[name].dataType) if name in told else nothing(name)

        @cache
        def old(name: str) -> Column:
            return nothing(name) if name in kept else quoted(name, action_rules.TARGET)

        told = declared_defaults(StructType([*fields.values()]))
        whole = {name: quoted(name, action_rules.SOURCE) for name in self.source.columns if name in fields}
        wholes: Mapping[int, Mapping[str, Column]] = dict.fromkeys((action_rules.INSERT, action_rules.UPDATE), whole)
        if any(clause.values is None and clause.action != action_rules.DELETE for clause in self.clauses):
            wholes = self._fitted(joined, whole, fields, kept)
        found: list[Mapping[str, Column]] = []
        for clause in self.clauses:
            if clause.action == action_rules.DELETE:
                found.append({name: nothing(name) for name in fields})
                continue
            given = wholes[clause.action]
            if clause.values is not None:
                given = assigned(joined, {name: expression(value) for name, value in clause.values.items()}, fields)
            other = old if clause.action == action_rules.UPDATE else default
            found.append({name: given[name] if name in given else other(name) for name in fields})
        return found

    def _fitted(
        self,
        joined: DataFrame,
        whole: Mapping[str, Column],
        fields: Mapping[str, StructField],
        kept: frozenset[str],
    ) -> dict[int, Mapping[str, Column]]:
        """The source's columns in the types of the table, for each action that takes all of them."""
        given = {field.name: field.dataType for field in self.source.schema}
        found: dict[int, Mapping[str, Column]] = {}
        if not self.evolves:
            return dict.fromkeys((action_rules.INSERT, action_rules.UPDATE), assigned(joined, whole, fields, given))
        for action in (action_rules.INSERT, action_rules.UPDATE):
            values, known = dict(whole), dict(given)
            for name in whole:
                wanted = fields[name].dataType
                if isinstance(wanted, StructType) and wanted != given[name]:
                    updates = action == action_rules.UPDATE and name not in kept
                    before = quoted(name, action_rules.TARGET) if updates else None
                    values[name] = aligned(whole[name], (known.pop(name), wanted), before)
            found[action] = assigned(joined, values, fields, known)
        return found

    def _meets(self, pin: PinnedVersion, fragments: Sequence[int]) -> bool:
        rows = TargetRows(self.spark, self.location).fragments(pin, fragments)
        return not self._joined(rows, "inner").isEmpty()


def _renamed(clause: Clause, table: Sequence[str]) -> Clause:
    if clause.values is None:
        return clause
    named = action_rules.spelled([*clause.values], table)
    return replace(clause, values={named[name]: value for name, value in clause.values.items()})


def aligned(value: Column, types: tuple[st.DataType, st.DataType], old: Column | None) -> Column:
    """A struct in the form of the table's, given both types: fields that the source lacks keep their old value."""
    given, wanted = types
    if given == wanted or not (isinstance(given, StructType) and isinstance(wanted, StructType)):
        return value
    known = {field.name.lower(): field for field in given}
    fields = []
    for field in wanted:
        inside = None if old is None else old.getField(field.name)
        there = known.get(field.name.lower())
        if there is not None:
            found = aligned(value.getField(there.name), (there.dataType, field.dataType), inside)
        else:
            found = F.lit(None).cast(field.dataType) if inside is None else inside
        fields.append(found.alias(field.name))
    return F.when(value.isNotNull(), F.struct(*fields))


def _by_clause(values: Sequence[Column]) -> Column:
    """The value of the row's clause, in as few function calls as possible: there are clauses times columns."""
    first, *others = values
    if all(value is first for value in others):
        return first
    found = F.when(F.col(_CLAUSE) == 0, first)
    for position, value in enumerate(others, 1):
        found = found.when(F.col(_CLAUSE) == position, value)
    return found


# --- A merge that finds its rows through an index on the key, if the source is small compared to the table


def is_worth_it(rows: TargetRows, pin: PinnedVersion, source: DataFrame, key: str) -> bool:
    """Whether to look up the source's keys one by one."""
    schema = rows.schema(pin)
    stored = stored_schema(rows.location, pin)
    if stored.get_field_index(key) < 0 or key not in source.columns or not _are_plain(source.columns, schema.names):
        return False
    if not is_plain(stored.field(key)) or not action_rules.can_be_looked_up(stored.field(key).type):
        return False
    if source.schema[key].dataType != schema[key].dataType:
        return False
    known = rows_outside(rows.location, pin, key)
    if known is None:
        return False
    try:
        given = wire_schema(source.schema)
    except PySparkException:
        return False  # a type that Spark cannot pass to Python functions
    # The table knows how long its vectors are. If they counted as short lists, a small source would look very large.
    width = row_width(
        stored.field(name) if stored.get_field_index(name) >= 0 else given.field(name) for name in given.names
    )
    explained = rows.spark.sql("EXPLAIN COST SELECT * FROM {source}", source=source).first()
    size = None if explained is None else action_rules.estimated_bytes(str(explained[0]))
    return size is not None and action_rules.uses_index(Found(known[0], known[1], size, width))


def _are_plain(source: Sequence[str], table: Sequence[str]) -> bool:
    """Whether columns beside the two sides, as structs, mean what they mean in a join."""
    folded = [name.lower() for name in source]
    return len({*folded}) == len(folded) and {action_rules.SOURCE, action_rules.TARGET}.isdisjoint(
        [*folded, *(name.lower() for name in table)]
    )


def looked_up(rows: TargetRows, pin: PinnedVersion, source: DataFrame, key: str, columns: Sequence[str]) -> DataFrame:
    """The source's rows, each next to the table's rows that have its key, in structs named as the sides of a merge.

    Columns that only one side has can be named without it, as in a join. The table's struct has these columns and
    the address.
    """
    table = rows.schema(pin)
    fields = [field for field in table if field.name in {*columns, key}]
    target = st.StructType([*(st.StructField(field.name, field.dataType) for field in fields)])
    target = target.add(ROW_ADDRESS, st.LongType())
    lookup = Lookup(rows.location, pin, key, wire_schema(target))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with plainly():
            yield from with_matches(lookup, (action_rules.SOURCE, action_rules.TARGET), batches)

    given = st.StructType([st.StructField(field.name, field.dataType) for field in source.schema])
    schema = st.StructType([st.StructField(action_rules.SOURCE, given), st.StructField(action_rules.TARGET, target)])
    found = source.mapInArrow(run, schema)
    own = [quoted(name, action_rules.SOURCE).alias(name) for name in source.columns if name not in table.names]
    theirs = [quoted(name, action_rules.TARGET).alias(name) for name in target.names if name not in source.columns]
    return found.select(action_rules.SOURCE, action_rules.TARGET, *own, *theirs)
