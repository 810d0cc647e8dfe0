"""The verbs of a table that change rows, and ``changes``, the rows that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from lance_spark.changes.changes import Point, find_ends
from lance_spark.changes.feed_rules import FeedOptions, Images
from lance_spark.changes.frames_spark import changes_frame
from lance_spark.core.options import FRAME_HINT, check_frame, is_frame, names_of
from lance_spark.core.refs import MAIN
from lance_spark.core.storage_options import PREFIX
from lance_spark.core.table_options import answer_replace_where
from lance_spark.engine.session_spark import START_ONE, needed_session
from lance_spark.errors import InvalidOption, WrongArguments
from lance_spark.optimize.automatic import compact_after, compact_written
from lance_spark.session.caches import refreshing
from lance_spark.spark.refs import Handle
from lance_spark.spark.registering import register_handle, writer_to
from lance_spark.tables.local_write import write_arrow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lance_spark.rows.action_rules import ChangeResult
    from lance_spark.rows.merge_spark import RowMerge

_NEEDED = f"{START_ONE} Without Spark, pylance changes rows of main."


class RowVerbs(Handle):
    """Changes of rows; each is one version of the handle's branch. Refused at a tag or version.

    Concurrent commits are kept. If they changed the same rows, the change is recomputed on the newest version, up to
    ``retries`` times, and then raises Conflict. Conditions and values are Spark's SQL, or Columns.
    """

    @refreshing
    def delete(self, where: str | Column, message: str | None = None, retries: int = 0) -> ChangeResult:
        """Delete the rows for which a condition is true. Files are not rewritten.

        Raises InvalidOption for an empty condition, NotFound, Refused and Conflict; then nothing was changed.
        """
        spark, branch = self._where("delete from")
        from lance_spark.rows.spark import change_rows, deletion

        return change_rows(spark, deletion(spark, (self.location, branch), where), message, retries)

    @refreshing
    def update(
        self,
        set: Mapping[str, object],
        where: str | Column | None = None,
        message: str | None = None,
        retries: int = 0,
    ) -> ChangeResult:
        """Set columns, by name, of the rows for which a condition is true, or of all.

        A new value is SQL as a text, a Column, or a constant that is no text. Values are cast to the column's type.
        If the columns are narrow and the rows much wider, only files with these columns are written. Raises
        SchemaMismatch for a value that does not fit, InvalidOption for one that Spark has no type for, NotFound for an
        unknown column, Refused and Conflict; then nothing was changed.
        """
        if not isinstance(set, Mapping):
            raise InvalidOption(
                "An update takes the new values first, as a dict.", hint='t.update({"delay": "0"}, where="id = 3")'
            )
        names_of(set)
        spark, branch = self._where("update")
        from lance_spark.rows.spark import NarrowUpdate, change_rows, update

        in_sql = {name: value for name, value in set.items() if isinstance(value, str)}
        if in_sql and len(in_sql) == len(set) and (where is None or isinstance(where, str)):
            done = NarrowUpdate(spark, self.location, branch, in_sql, where).run(message)
            if done is not None:
                return done
        changed = change_rows(spark, update(spark, (self.location, branch), set, where), message, retries)
        compact_after(self.location, changed)
        return changed

    def merge(self, source: DataFrame, on: str | Column | Sequence[str] = ()) -> RowMerge:
        """A merge of a DataFrame's rows into the table. Add clauses to it, then run it with ``execute()``.

        ``on`` (required) is a column that both have, a list of such columns, or a condition over ``target.`` and
        ``source.``: ``t.merge(df, on="id").when_matched_update_all().when_not_matched_insert_all().execute()``.
        :meth:`LanceTable.branches` merges branches. Raises InvalidOption.
        """
        if not is_frame(source):
            branch = getattr(source, "branch", source)
            hint = f"A branch: t.branches.merge({branch!r})." if isinstance(branch, str) else FRAME_HINT
            raise InvalidOption("t.merge merges the rows of a DataFrame of Spark.", hint=hint)
        if isinstance(on, str | list | tuple) and not on:
            raise InvalidOption("The merge has no key.", hint="Name the column that both have: t.merge(df, on='id').")
        spark, branch = self._where("merge rows into")
        from lance_spark.rows.merge_spark import RowMerge
        from lance_spark.rows.spark import check_condition

        keys = _keys(on, source.columns)
        if not isinstance(keys, tuple):
            check_condition(keys)
        return RowMerge(spark, self.location, branch, source, keys, after=compact_after)

    @refreshing
    def write(self, df: object, mode: str = "append", **options: object) -> None:
        """Write a DataFrame to this handle's branch; options are those of the data source. Refused at a tag or version.

        Also a DataFrame of pandas, or a table, batches or a reader of pyarrow: this process writes those, in the types
        of the table and without a session.
        ``mode`` is "append", or "overwrite" for all rows; :meth:`overwrite` replaces the rows of a condition.
        """
        answer_replace_where(options)
        if isinstance(df, str):
            raise WrongArguments("t.write takes the rows first, then the mode.", hint="t.write(df, mode='append')")
        branch = self._moving_branch("write to")
        settings = {PREFIX + key: value for key, value in self.location.options}
        settings |= {key: str(value) for key, value in options.items()}
        if settings.setdefault("branch", branch or MAIN) != (branch or MAIN):
            raise InvalidOption(
                f"This handle writes to branch '{branch or MAIN}', but the option names branch '{options['branch']}'.",
                hint=f"t.checkout(branch={options['branch']!r}).write(df), or t.branches.create(...) before.",
            )
        if not is_frame(df):
            if mode not in ("append", "overwrite"):
                raise InvalidOption(f"'{mode}' is not a mode of t.write.", hint="Choose append or overwrite.")
            overwrite, given = mode == "overwrite", {**settings, "path": self.location.uri}
            write_arrow(given, df, overwrite, self.location, branch, None if overwrite else compact_written)
            return
        writer_to(self.location.uri, cast("DataFrame", df), mode, settings).save(self.location.uri)

    @refreshing
    def overwrite(
        self, df: DataFrame, where: str | Column, message: str | None = None, retries: int = 0
    ) -> ChangeResult:
        """Replace the rows for which a condition is true with those of a DataFrame, in one version.

        The DataFrame's rows must satisfy the condition as well. ``write(df, mode="overwrite")`` replaces all rows.
        Raises InvalidOption for an empty condition, SchemaMismatch, NotFound, Refused and Conflict; then nothing was
        changed.
        """
        check_frame("t.overwrite", df)
        from lance_spark.rows.spark import change_rows, replacement

        branch = self._moving_branch("write to")
        register_handle(df.sparkSession)
        change = replacement(df.sparkSession, (self.location, branch), df, where)
        changed = change_rows(df.sparkSession, change, message, retries)
        compact_after(self.location, changed)
        return changed

    def _where(self, what: str) -> tuple[SparkSession, str | None]:
        branch = self._moving_branch(what)
        spark = needed_session(self.spark, _NEEDED)
        register_handle(spark)
        return spark, branch


def _keys(on: str | Column | Sequence[str], columns: Sequence[str]) -> str | Column | tuple[str, ...]:
    if isinstance(on, str):
        return (on,) if on.lower() in [name.lower() for name in columns] else on
    return names_of(on) if isinstance(on, list | tuple) else on  # type: ignore[return-value]


# --- ``LanceTable.changes``: the rows that changed between two versions, as a DataFrame

_HINT = f"{START_ONE} Without Spark, lance-git diff --rows compares two versions."


class ChangeFeed(Handle):
    """The change feed of a handle."""

    def changes(
        self,
        since: Point,
        until: Point | None = None,
        columns: str | Sequence[str] | None = None,
        images: Images = "update",
        net: bool = False,
        key: str | Sequence[str] = (),
    ) -> DataFrame:
        """The rows that changed from version ``since`` to ``until``, by default this handle's version.

        A version is a number (0: before the first one), a ref (tag, branch, ``branch@7``) or a datetime. Rows have
        the columns of ``until``, ``_change_type`` (insert, delete, update_preimage, update_postimage),
        ``_commit_version``, ``_commit_timestamp`` and ``_commit_branch``. Stable row ids or the columns of ``key``, by
        default the table's key, identify updated rows; all others count as deleted and inserted. ``images``: "update"
        shows an updated row before and after, "post" only after, "none" as a delete and an insert. With ``net`` each
        row appears at most once, with all its changes combined. Only values of ``columns`` count as changes.

        Manifests are read now, rows when Spark runs. Across branches, the changes of ``since`` after the last common
        version are reverted first. Raises NotFound if a version in between is gone, Refused, InvalidOption.
        """
        spark = needed_session(self.spark, _HINT)
        options = FeedOptions(None if columns is None else names_of(columns), images, net, names_of(key))
        ends = find_ends(self.location, self._pin(), since, until)
        return changes_frame(spark, self.location, ends, options)
