"""Searches of a handle: ``LanceTable.search``, ``nearest_join`` and ``near_duplicates``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.engine.lazy_spark import F, st
from lance_spark.engine.session_spark import (
    START_ONE,
    SparkRunner,
    as_dataframe,
    engine_of,
    needed_session,
    plain,
    with_metadata,
)
from lance_spark.engine.types_spark import LIST_SIZE_KEY, to_spark, wire_schema
from lance_spark.engine.workers_spark import plainly
from lance_spark.errors import InvalidOption, SchemaMismatch
from lance_spark.format.schema import unknown_column
from lance_spark.search.duplicate_rules import Shingling, Signer, banding, parse_pairing
from lance_spark.search.near_duplicates import (
    KEY,
    KEYS,
    ONE,
    ONES,
    OTHER,
    OTHERS,
    PAIRS,
    DuplicatesWork,
    compare_pairs,
    pair_rows,
    sign_texts,
)
from lance_spark.search.search import (
    OPERATION,
    PreparedSearch,
    carry_out,
    plan_texts,
    prepare_duplicates,
    prepare_join,
    prepare_search,
)
from lance_spark.search.search_rules import DISTANCE, check_name, parse_join, parse_search, parse_shown
from lance_spark.search.search_tasks import JoinWork, join_nearest
from lance_spark.spark.refs import Handle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HINT = f"{START_ONE} Without Spark, pylance searches: dataset.to_table(nearest=...)."
Columns = str | Sequence[str] | None


class Searching(Handle):
    """Searches of the version to which a handle currently points; later commits never change their DataFrames."""

    def search(
        self,
        vector: Any = None,
        text: Any = None,
        column: str | Sequence[str] | Mapping[str, float] | None = None,
        k: int = 10,
        filter: str | None = None,
        columns: Columns = None,
        **options: Any,
    ) -> DataFrame:
        """The k rows nearest to a vector, those that match a text best, or both; in order.

        ``column`` is the column of vectors, or the column or columns of text, as a dict with a factor for each. It can
        be omitted if there is only one. ``text`` is words, or a ``MatchQuery`` and the like. ``filter``
        is Lance's SQL. ``columns`` selects the columns of the result, by default all but blobs; it can include
        ``_rowid`` and ``_rowaddr``. The result also has ``_distance`` (with a vector), ``_score`` (with text: BM25) and
        ``_relevance_score`` (with both). Rows that no index covers are also found.

        ``vector`` is a list of numbers or a numpy array, possibly of bytes; several vectors if rows have several.

        ``options`` for vectors: metric (l2, cosine or dot, for bytes hamming; by default that of the index), nprobes
        (minimum number of index partitions to search), refine_factor (this many times k candidates are compared by
        exact distances), ef, use_index. For text: phrase, slop, fuzziness, operator ("or" or "and"). For both: rerank
        ("rrf"), candidates (rows of each), text_column. For all: prefilter (default True: the filter is applied first),
        fast (only rows that an index covers), run_on ("auto": small searches run at once in this process, others on
        executors when Spark runs).

        Raises InvalidOption, NotFound, SchemaMismatch, and Refused without a session, before any task starts.
        """
        spark = needed_session(self.spark, _HINT)
        run_on = options.pop("run_on", "auto")
        request = parse_search(vector, text, column, (k, filter, columns), options)
        prepared = prepare_search(self.location, self._pin(), request)
        shown = to_spark(prepared.schema)
        runner = engine_of(spark, run_on).for_work(OPERATION, prepared.size)
        return as_dataframe(spark, carry_out(prepared, wire_schema(shown), runner), shown)

    def nearest_join(
        self,
        query_column: str,
        column: str | None = None,
        k: int = 10,
        filter: str | None = None,
        columns: Columns = None,
        **options: Any,
    ) -> Callable[[DataFrame], DataFrame]:
        """For ``queries.transform(...)``: each row of a DataFrame next to each of the k rows nearest to its vector.

        ``query_column`` is the DataFrame's column of vectors; rows whose vector is null are omitted. The other
        arguments are those of :meth:`search`, as are the options for vectors, prefilter and fast. ``prefix`` is put
        before the names of this table's columns. ``tasks`` is how many tasks search side by side, by default one for
        each core.

        Raises the errors of :meth:`search`, InvalidOption for names that both sides have, and SchemaMismatch for a
        column without vectors. For a vector of another length it raises once Spark runs, unless the column's type has
        the length.
        """
        needed_session(self.spark, _HINT)
        prefix, tasks = options.pop("prefix", ""), options.pop("tasks", None)
        if tasks is not None and (isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1):
            raise InvalidOption(f"tasks must be a whole number, 1 or more, not {tasks!r}.")
        request = parse_join(column, (k, filter, columns), options)
        prepared = prepare_join(self.location, self._pin(), request)
        return NearestJoin(prepared, check_name(query_column), str(prefix), tasks)

    def near_duplicates(
        self,
        column: str,
        threshold: float = 0.9,
        columns: Columns = None,
        filter: str | None = None,
        shingles: str = "words",
        size: int = 3,
        **options: Any,
    ) -> DataFrame:
        """Pairs of rows whose texts are similar enough: ``left``, ``right`` (structs) and ``_similarity``.

        The similarity of two texts is the share of runs of ``size`` words, or characters, that both have (Jaccard, in
        lower case, without punctuation). Both structs have ``_rowid`` (``left`` has the smaller one) and ``columns``.
        Every pair is correct, since texts are compared. Of pairs exactly at ``threshold``, at least 99.5% are found; of
        more similar ones, more. A text without words is in no pair.

        ``options``: copies ("all", the default: equal rows also form pairs, n of them n * (n - 1) / 2; "first": each is
        paired only with the first of them, which represents them in other pairs), max_group (maximum number of rows
        that may all be alike, 5,000 by default, since the number of pairs grows with its square).

        Raises InvalidOption, NotFound, SchemaMismatch, and Refused without a session; and once Spark runs, Refused if
        more rows than max_group may be alike.
        """
        spark = needed_session(self.spark, _HINT)
        signer = Signer(Shingling(shingles, size), banding(threshold))
        pairing = parse_pairing(options)
        named = parse_shown(filter, columns) or ()
        work = prepare_duplicates(self.location, self._pin(), (check_name(column), named, filter), signer, threshold)
        return duplicates(spark, work._replace(row=wire_schema(to_spark(work.row)), pairing=pairing))


# --- Joining a DataFrame's vectors with their neighbors in a table


@dataclass(frozen=True)
class NearestJoin:
    """A function of a DataFrame, for ``transform``."""

    prepared: PreparedSearch
    column: str
    prefix: str
    tasks: int | None

    def __call__(self, queries: DataFrame) -> DataFrame:
        """The join. Raises NotFound, SchemaMismatch and InvalidOption."""
        prepared, field = self.prepared, self.prepared.field
        assert field is not None
        self._check(queries)
        shown = to_spark(prepared.schema)
        added = [st.StructField(self._name(each.name), each.dataType, each.nullable, each.metadata) for each in shown]
        whole = st.StructType([*queries.schema.fields, *added])
        search = replace(prepared.work, wire=wire_schema(shown))
        work = JoinWork(search, self.column, field, prepared.flat, tuple(each.name for each in added))
        given = wire_schema(queries.schema)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with plainly():
                yield from join_nearest(work, (plain(batch, given) for batch in batches))

        # Queries are few and small compared to the work for each: without this, one partition would become one task.
        tasks = self.tasks or SparkRunner(queries.sparkSession, "nearest_join").parallelism
        return with_metadata(queries.repartition(tasks).mapInArrow(run, whole), whole)

    def _name(self, name: str) -> str:
        return name if name == DISTANCE else self.prefix + name

    def _check(self, queries: DataFrame) -> None:
        fields = {field.name: field for field in queries.schema.fields}
        if self.column not in fields:
            raise unknown_column(self.column, list(fields))
        field = fields[self.column]
        assert self.prepared.field is not None
        if not isinstance(field.dataType, st.ArrayType) or not isinstance(field.dataType.elementType, st.NumericType):
            raise SchemaMismatch(
                f"Column '{self.column}' is {field.dataType.simpleString()} and does not hold vectors.",
                hint="Vectors are arrays of numbers, such as array<float>.",
            )
        told, size = field.metadata.get(LIST_SIZE_KEY), self.prepared.field.type.list_size
        if told is not None and str(told) != str(size):
            raise SchemaMismatch(
                f"Column '{self.column}' has vectors of {told} numbers, but '{self.prepared.field.name}' of {size}.",
                hint="Embed the queries with the model that was used for the column.",
            )
        mine = {name.lower() for name in fields}
        both = [name for name in map(self._name, self.prepared.schema.names) if name.lower() in mine]
        if both:
            raise InvalidOption(
                f"Both sides have a column '{both[0]}'.",
                hint="Give prefix='found_', or select columns of the table: columns=[...].",
            )


# --- ``LanceTable.near_duplicates`` as Spark jobs


def duplicates(spark: SparkSession, work: DuplicatesWork) -> DataFrame:
    """The pairs.

    Texts are read once for their signatures. Then rows that share a key are grouped, and only their texts are
    read again, by id. Rows with the same parts are compared as one.
    """
    runner = SparkRunner(spark, "near_duplicates")
    plan = plan_texts(work, runner.parallelism)
    keys = runner.flat_map("sign texts", plan.partitions, partial(sign_texts, work, plan.scan), KEYS)
    together = keys.repartition(KEY).sortWithinPartitions(KEY)
    pairs = runner.map("find pairs", together, partial(pair_rows, work.pairing), PAIRS)
    # Two rows can share several keys; under each of them, all rows with the same parts were present.
    once = pairs.groupBy(ONE, OTHER).agg(F.first(ONES).alias(ONES), F.first(OTHERS).alias(OTHERS))
    return runner.map("compare pairs", once, partial(compare_pairs, work), work.wire)
