"""The verbs of a table that change columns: ``ColumnVerbs``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.columns import columns as backfill
from lance_spark.columns.columns import AlterResult, alter_columns
from lance_spark.columns.fill_rules import FRAME, FUNCTION, SQL, Asked, BackfillOptions, parse_backfill_options
from lance_spark.core.options import names_of, path_segments
from lance_spark.engine.session_spark import START_ONE, RunOn, engine_of, needed_session
from lance_spark.errors import InvalidOption
from lance_spark.format.evolution import AlterColumn, ColumnChange, DropColumn, RenameColumn
from lance_spark.format.schema import number_type
from lance_spark.session.caches import refreshing
from lance_spark.spark.refs import Handle
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.followers import check_writable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from lance_spark.columns.fill_rules import BackfillResult, ComputedColumns

_SESSION = f"{START_ONE} Without Spark, pylance computes columns in one process."


class ColumnVerbs(Handle):
    """Changes of columns on a handle's branch. Each verb commits one version, or nothing."""

    def add_columns(
        self,
        values: Mapping[str, str],
        vector: Mapping[str, int] | None = None,
        blobs: str | Sequence[str] = (),
        **options: Any,
    ) -> BackfillResult:
        """Add columns with values in SQL: a dict of expressions over the columns of the same row, by new column.

        Executors compute them, and a column is not visible before it is complete. :meth:`add_columns_with` takes a
        function, :meth:`add_columns_from` a DataFrame. ``vector`` gives the lengths of arrays that are vectors, by
        column. ``blobs`` names a column whose values are URIs of objects elsewhere, or structs of uri, position and
        size: its blobs refer to them.

        ``options`` are incremental, new_rows, resume, progress and message. Raises AlreadyExists for an existing
        column, SchemaMismatch for values that do not fit, Conflict, Refused, InvalidOption.
        """
        return self._added(Asked(SQL, values, vector=vector, blobs=blobs), options)

    def add_columns_with(
        self,
        function: Callable[[pa.RecordBatch], Any] | type,
        schema: Any = None,
        columns: str | Sequence[str] | None = None,
        vector: Mapping[str, int] | None = None,
        blobs: str | Sequence[str] = (),
        **options: Any,
    ) -> BackfillResult:
        """Add columns with values that a function over Arrow batches, such as a model, computes on the executors.

        It gets a ``pyarrow.RecordBatch`` with ``columns`` (by default all but blobs), and returns a batch, a table or a
        dict of arrays with the columns of ``schema`` (DDL such as ``"emb array<float>"``, a StructType or an Arrow
        schema; required), one value for each row. Of a class, each Python worker creates one object to call, so that a
        model is loaded once.

        ``vector``, ``blobs`` and ``options`` are those of :meth:`add_columns`, and ``batch_size``, in rows. Raises its
        errors.
        """
        asked = Asked(FUNCTION, function, schema=schema, columns=columns, vector=vector, blobs=blobs)
        return self._added(asked, options)

    def add_columns_from(
        self,
        df: DataFrame,
        on: str | Sequence[str] | None = None,
        vector: Mapping[str, int] | None = None,
        blobs: str | Sequence[str] = (),
        **options: Any,
    ) -> BackfillResult:
        """Add a DataFrame's columns. ``on`` (required) names its key, one column or a list, which the table also has.

        Rows that the DataFrame lacks get nulls. ``vector``, ``blobs`` and ``options`` are those of :meth:`add_columns`.
        Raises its errors, and SchemaMismatch if a key occurs twice in the DataFrame.
        """
        return self._added(Asked(FRAME, df, on=on, vector=vector, blobs=blobs), options)

    def update_columns(self, values: Mapping[str, str], where: str | None = None, **options: Any) -> BackfillResult:
        """Replace the values of columns by SQL, a dict of expressions by column, in all rows and in one version.

        Only the files of these columns are rewritten, for all rows. With ``where``, a condition in SQL over the table's
        columns, only rows for which it is true get new values. Indexes stay correct. :meth:`update_columns_with` takes
        a function, :meth:`update_columns_from` a DataFrame; :meth:`update` rewrites the rows instead.

        ``options`` are those of :meth:`add_columns` without incremental. Raises NotFound for an unknown column,
        SchemaMismatch for values that do not fit, InvalidOption for an invalid condition, Conflict, Refused.
        """
        return self._updated(Asked(SQL, values, existing=True, where=where), options)

    def update_columns_with(
        self,
        function: Callable[[pa.RecordBatch], Any] | type,
        schema: Any = None,
        columns: str | Sequence[str] | None = None,
        where: str | None = None,
        **options: Any,
    ) -> BackfillResult:
        """Replace the values of columns by those of a function or class, as in :meth:`add_columns_with`.

        ``schema`` (required) can be a list of the columns' names. With ``where`` the function gets only the rows for
        which it is true. ``options`` and errors are those of :meth:`update_columns`, and ``batch_size``, in rows.
        """
        asked = Asked(FUNCTION, function, schema=schema, columns=columns, existing=True, where=where)
        return self._updated(asked, options)

    def update_columns_from(
        self, df: DataFrame, on: str | Sequence[str] | None = None, where: str | None = None, **options: Any
    ) -> BackfillResult:
        """Replace the values of columns by a DataFrame's, by key, as in :meth:`add_columns_from`.

        Rows that the DataFrame lacks, or for which ``where`` is not true, keep their values. ``options`` and errors are
        those of :meth:`update_columns`.
        """
        return self._updated(Asked(FRAME, df, on=on, existing=True, where=where), options)

    @refreshing
    def _added(self, asked: Asked, options: Mapping[str, Any]) -> BackfillResult:
        parsed = parse_backfill_options(options, asked)
        branch = self._moving_branch("add columns to")
        computed = self._values(branch, asked, parsed)
        if parsed.incremental:
            engine = engine_of(self.spark)
            return backfill.fill_columns_by_groups(self.location, branch, computed, parsed, engine)
        return backfill.add_filled_columns(self.location, branch, computed, parsed)

    @refreshing
    def _updated(self, asked: Asked, options: Mapping[str, Any]) -> BackfillResult:
        if asked.where is not None and not asked.where.strip():
            raise InvalidOption("where must be a condition in SQL.", hint='Such as where="day > 3", or omit it.')
        parsed = parse_backfill_options(options, asked)
        branch = self._moving_branch("update columns of")
        computed = self._values(branch, asked, parsed)
        return backfill.update_filled_columns(self.location, branch, computed, parsed)

    def drop_columns(self, columns: str | Sequence[str], message: str | None = None) -> AlterResult:
        """Drop columns; ``a.b`` is a field inside a struct. The values stay in older versions. Raises NotFound."""
        return self._altered([DropColumn(path_segments(name)) for name in names_of(columns)], message)

    def rename_columns(self, names: Mapping[str, str], message: str | None = None) -> AlterResult:
        """Rename columns, from old names to new ones; values and indexes stay. Raises NotFound, AlreadyExists."""
        return self._altered([RenameColumn(path_segments(old), new) for old, new in names.items()], message)

    def alter_columns(
        self,
        types: Mapping[str, str | pa.DataType | DataType] | None = None,
        comments: Mapping[str, str] | None = None,
        nullable: Mapping[str, bool] | None = None,
        message: str | None = None,
        run_on: RunOn = "auto",
        defaults: Mapping[str, str] | None = None,
    ) -> AlterResult:
        """Give columns wider types, comments or defaults ("" for none), or allow nulls in them, all in one version.

        A default is in SQL: a constant, such as ``"'new'"`` or ``"0"``, or ``"current_timestamp()"``. Rows that are
        written without the column have it from now on; rows that are there stay.

        A type is a name in SQL, such as ``bigint``, or one of Arrow's or Spark's. Only a change of type rewrites
        values, where ``run_on`` says, as for :meth:`cleanup`. Raises NotFound, SchemaMismatch for a type that could
        lose values, Refused for NOT NULL, InvalidOption for a default that the column cannot have.
        """
        changes: list[ColumnChange] = [
            AlterColumn(path_segments(name), type=_type(kind)) for name, kind in (types or {}).items()
        ]
        changes += [AlterColumn(path_segments(name), comment=text) for name, text in (comments or {}).items()]
        changes += [AlterColumn(path_segments(name), nullable=allowed) for name, allowed in (nullable or {}).items()]
        changes += [AlterColumn(path_segments(name), default=text) for name, text in (defaults or {}).items()]
        return self._altered(changes, message, run_on)

    @refreshing
    def _altered(self, changes: Sequence[ColumnChange], message: str | None, run_on: RunOn = "auto") -> AlterResult:
        branch = self._moving_branch("change columns of")
        return alter_columns(self.location, branch, changes, engine_of(self.spark, run_on), message)

    def _values(self, branch: str | None, asked: Asked, options: BackfillOptions) -> ComputedColumns:
        check_writable(self.location, branch)
        spark = needed_session(self.spark, _SESSION)
        from lance_spark.columns.spark import values_of  # after the check: this file needs PySpark

        pin = pin_latest(self.location, branch)
        values = values_of(spark, self.location, pin, asked, options)
        if not asked.existing and not options.incremental:
            backfill.check_new_columns(self.location, pin, values)
        return values


def _type(kind: Any) -> pa.DataType:
    if isinstance(kind, pa.DataType):
        return kind
    if isinstance(kind, str):
        return number_type(kind)
    if hasattr(kind, "simpleString"):
        return number_type(kind.simpleString())
    raise InvalidOption(f"{kind!r} is not a type.", hint="Write its name in SQL, such as 'bigint'.")
