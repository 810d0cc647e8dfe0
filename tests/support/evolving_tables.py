"""Partitioned tables whose columns, layout, place and history change, and what each change has to leave.

What a statement has to leave is computed from a copy in Parquet, or from the rows that pylance found before.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions

from lance_spark.layout.fact_rules import sealed
from lance_spark.layout.key_rules import key_column, plain
from lance_spark.layout.layout_rules import IDENTITY, parse
from support.grouped_tables import LAYOUTS, Random, attempted
from support.random_conditions import CONSTANTS, condition, kind_of
from support.service_lakes import place

CLUSTERS = ("", "", "f", "c, x", "u, e", "ts", "w", "m, day", "b", "y", "id", "h", "i", "zorder(id, day)", "n", "o, v")
ZONES = ("UTC", "America/St_Johns", "Asia/Kathmandu", "Pacific/Apia")
WIDER = {"day": "bigint", "s": "int", "x": "decimal(8, 2)", "f": "double", "y": "decimal(20, 3)", "v": "bigint"}
ADDED = {
    "day": "INT DEFAULT 2",
    "c": "STRING DEFAULT 'ab '",
    "o": "BOOLEAN DEFAULT true",
    "x": "DECIMAL(6, 2) DEFAULT 0.5",
}
SWAPPED = (("day", "s"), ("c", "u"), ("d", "e"), ("x", "y"), ("ts", "m"), ("id", "v2"), ("day", "c"))
DYNAMIC = "spark.sql.sources.partitionOverwriteMode"
NEW = 10**9
"""Rows that a step writes have a ``v`` beyond a multiple of it."""


class Evolving(Random):
    """One table of the catalog ``lake``: :meth:`step` changes it, and checks what a statement says it does."""

    def __init__(self, spark: Any, lake: Any, name: str, choose: random.Random, directory: str) -> None:
        self.directory, self.written = directory, 0
        super().__init__(spark, lake, name, choose)
        self.changes: list[Callable[[], None]] = [
            self.append, self.append_by_another, self.delete_by_another, self.move_keys, self.update_by_another,
            self.compact_by_another, self.optimize, self.lose_facts, self.damage_facts, self.declare_another,
            self.analyze, self.rename_by_another, self.cluster, self.swap_names, self.drop_and_add, self.widen,
            self.widen_by_another, self.replace, self.work_on_a_branch, self.restore, self.go_on_in_a_clone,
            self.go_on_in_a_copy,
            self.facts_of_a_later_version, self.truncate_facts, self.overwrite_partitions, self.overwrite_partitions,
            self.overwrite_one_partition, self.add_another_case, self.add_other_units, self.overwrite_where,
            self.delete_where, self.delete_where, self.merge_and_delete, self.append_known,
        ]  # fmt: skip

    def step(self) -> None:
        change = self.choose.choice(self.changes)
        self.spark.conf.set("spark.sql.session.timeZone", self.choose.choice(ZONES))
        self.done.append(attempted(change))

    # --- What it is now

    @property
    def table(self) -> Any:
        return self.lake.table(f"ns1.{self.name}")

    def columns(self) -> list[tuple[str, str]]:
        """Names, and kinds for conditions."""
        schema = self.spark.table(f"lake.ns1.{self.name}").schema
        return [(each.name, kind_of(each.dataType.simpleString())) for each in schema]

    def copy(self, rows: pa.Table | None = None) -> Any:
        """Rows, those of the table by default, in Parquet, as pylance reads them."""
        self.written += 1
        path = os.path.join(self.directory, f"{self.name}-{self.written}.parquet")
        found = lance.dataset(self.uri).to_table() if rows is None else rows
        for at, field in enumerate(found.schema):  # Spark has microseconds
            if pa.types.is_timestamp(field.type) and field.type.unit != "us":
                cast = found.column(at).cast(pa.timestamp("us", field.type.tz))
                found = found.set_column(at, pa.field(field.name, cast.type), cast)
        pq.write_table(found, path)
        schema = self.spark.table(f"lake.ns1.{self.name}").schema
        return self.spark.read.schema(schema).parquet(path)

    def condition(self) -> str:
        """On columns of the layout, mostly."""
        now, columns = self.table.layout.describe(), self.columns()
        named = [each for each in columns if each[0] in parse(now.partition_by, now.cluster_by).columns]
        return condition(self.choose, named if named and self.choose.random() < 0.7 else columns)

    def shuffled(self) -> Any:
        """New rows: each column has values of the table, in another order."""
        rows = lance.dataset(self.uri).to_table()
        count = min(rows.num_rows, 25)
        made = {
            name: rows[name].take(pa.array(self.choose.choices(range(rows.num_rows), k=count), pa.int64()))
            for name in rows.column_names
        }
        self.written += 1
        if "v" in made:
            made["v"] = pa.array(range(NEW * self.written, NEW * self.written + count), pa.int64())
        return self.copy(pa.table(made, rows.schema))

    # --- Changes of columns and of the layout

    def without_layout(self, change: Callable[[], Any]) -> None:
        before = self.table.layout.describe()
        self.table.layout.partition_by()
        self.table.layout.cluster_by()
        try:
            change()
        finally:
            changed = parse(before.partition_by, before.cluster_by)
            self.table.layout.partition_by(*map(str, changed.partition))
            if changed.cluster and not changed.curve:
                self.table.layout.cluster_by(*changed.cluster)

    def cluster(self) -> None:
        chosen = parse("", self.choose.choice(CLUSTERS))
        if chosen.curve:
            self.table.layout.cluster_by(zorder=list(chosen.cluster))
        else:
            self.table.layout.cluster_by(*chosen.cluster)
        self.append_known()

    def swap_names(self) -> None:
        one, other = self.choose.choice(SWAPPED)
        self.without_layout(
            lambda: [
                self.table.rename_columns({one: "between"}),
                self.table.rename_columns({other: one}),
                self.table.rename_columns({"between": other}),
            ]
        )

    def drop_and_add(self) -> None:
        name = self.choose.choice([*ADDED])
        self.without_layout(
            lambda: [
                self.table.drop_columns(name),
                self.spark.sql(f"ALTER TABLE lake.ns1.{self.name} ADD COLUMN {name} {ADDED[name]}"),
            ]
        )

    def widen(self) -> None:
        name = self.choose.choice([*WIDER])
        self.without_layout(lambda: self.table.alter_columns({name: WIDER[name]}))

    def widen_by_another(self) -> None:
        name, kind = self.choose.choice([("day", pa.int64()), ("s", pa.int32()), ("u", pa.large_string())])
        lance.dataset(self.uri).alter_columns({"path": name, "data_type": kind})

    def replace(self) -> None:
        """The same rows with their columns in another order, and another layout."""
        names = [name for name, _ in self.columns()]
        self.choose.shuffle(names)
        self.copy().createOrReplaceTempView("rows_before")
        self.spark.sql(
            f"CREATE OR REPLACE TABLE lake.ns1.{self.name} PARTITIONED BY ({self.choose.choice(LAYOUTS)}) "
            f"AS SELECT {', '.join(names)} FROM rows_before"
        )

    def add_another_case(self) -> None:
        """A column whose name differs in its case alone, for a session that tells them apart."""
        if self.spark.conf.get("spark.sql.caseSensitive") == "true":
            lance.dataset(self.uri).add_columns({"DAY": "day + 1", "C": "concat(c, 'x')"})

    def add_other_units(self) -> None:
        """Columns in milliseconds and nanoseconds, as other writers have them."""
        made = {"q": 'Timestamp(Millisecond, Some("UTC"))', "z": "Timestamp(Nanosecond, None)"}
        source = {"q": "m", "z": "n"}
        lance.dataset(self.uri).add_columns({name: f"arrow_cast({source[name]}, '{made[name]}')" for name in made})
        self.table.layout.partition_by(
            self.choose.choice(["q", "z", "days(q)", "hours(z)", "bucket(4, q)", "bucket(4, z)", "years(q)"])
        )
        self.append_known()

    # --- Changes of its history and of its place

    def work_on_a_branch(self) -> None:
        self.written += 1
        name, table = f"exp{self.written}", self.table
        table.branches.create(name)
        exp = table.checkout(branch=name)
        if self.choose.random() < 0.5:
            exp.layout.partition_by(*map(str, parse(self.choose.choice(LAYOUTS), None).partition))
        self.insert(f"`{self.name}@{name}`")
        if self.choose.random() < 0.5:
            self.insert(self.name)
        if self.choose.random() < 0.3:
            self.spark.sql(f"DELETE FROM lake.ns1.`{self.name}@{name}` WHERE v % 5 = 2")
        table.branches.merge(name)

    def restore(self) -> None:
        versions = [each["version"] for each in lance.dataset(self.uri).versions()][1:]
        self.table.restore(self.choose.choice(versions))

    def go_on_in_a_clone(self) -> None:
        uri, where = place(self.lake, f"clone{self.written}{self.name}")
        self.table.clone(uri, follow=False)
        self.lake.register_table(f"ns1.clone{self.written}{self.name}", where)
        self.name = f"clone{self.written}{self.name}"

    def go_on_in_a_copy(self) -> None:
        """Facts of another place come along; those of files that only the original gets say nothing."""
        uri, where = place(self.lake, f"copy{self.written}{self.name}")
        shutil.copytree(self.uri, uri)
        self.append_known()
        self.lake.register_table(f"ns1.copy{self.written}{self.name}", where)
        self.name = f"copy{self.written}{self.name}"

    def facts_of_a_later_version(self) -> None:
        for file in self._facts()[:1]:
            file.with_name(f"later{self.written}.json").write_bytes(sealed({"files": {"a": 1}, "version": 2}))
            file.unlink()

    def truncate_facts(self) -> None:
        for file in self._facts()[:2]:
            content = file.read_bytes()
            file.with_name(f"cut{file.name}").write_bytes(content[: self.choose.randrange(len(content))])
            file.unlink()

    # --- Statements, and the rows that they have to leave

    def insert(self, name: str) -> None:
        self.shuffled().createOrReplaceTempView("rows_of_now")
        self.spark.sql(f"INSERT INTO lake.ns1.{name} SELECT * FROM rows_of_now")

    def append_known(self) -> None:
        before = self.marks()
        self.insert(self.name)
        assert self.marks() - before == self.marks(self.spark.table("rows_of_now"))

    def marks(self, rows: Any = None) -> Counter[Any]:
        """Those of a frame, or of the table. Not of whole rows: Spark 4.0.0 collects none that have a collation."""
        if rows is not None:
            return Counter(row.v for row in rows.select("v").collect())
        return Counter(lance.dataset(self.uri).to_table(columns=["v"])["v"].to_pylist())

    def keys(self) -> list[tuple[Any, Any]]:
        """The key and the mark of each row."""
        rows = lance.dataset(self.uri).to_table().combine_chunks()
        partition = parse(self.table.layout.describe().partition_by, None).partition
        parts = [plain(key_column(each, rows[each.column].chunk(0))) for each in partition]
        return [((tuple(map(repr, key))), mark) for *key, mark in zip(*parts, rows["v"].to_pylist(), strict=True)]

    def overwrite_partitions(self) -> None:
        before = self.keys()
        self.shuffled().where(f"v % 3 = {self.choose.randrange(3)}").createOrReplaceTempView("rows_of_now")
        new = self.marks(self.spark.table("rows_of_now"))
        self.spark.conf.set(DYNAMIC, "dynamic")
        try:
            self.spark.sql(f"INSERT OVERWRITE lake.ns1.{self.name} SELECT * FROM rows_of_now")
        finally:
            self.spark.conf.unset(DYNAMIC)
        after = self.keys()
        replaced = {key for key, mark in after if mark in new}
        kept = Counter(mark for key, mark in before if key not in replaced)
        assert Counter(mark for _, mark in after) == kept + new, self.told()

    def overwrite_one_partition(self) -> None:
        partition = parse(self.table.layout.describe().partition_by, None).partition
        name = self.choose.choice([each.column for each in partition if each.name == IDENTITY] or ["none"])
        kinds = dict(self.columns())
        if name in kinds and kinds[name] in ("whole", "text", "date", "decimal", "boolean"):
            value = self.choose.choice([each for each in CONSTANTS[kinds[name]] if "CAST" not in each] + ["NULL"])
            kept = self.marks(self.copy().where(f"NOT ({name} <=> {value})"))
            self.shuffled().createOrReplaceTempView("rows_of_now")
            new = self.marks(self.spark.table("rows_of_now"))
            others = ", ".join(other for other in kinds if other != name)
            self.spark.sql(
                f"INSERT OVERWRITE lake.ns1.{self.name} PARTITION ({name} = {value}) SELECT {others} FROM rows_of_now"
            )
            assert self.marks() == kept + new, (name, value, self.told())

    def overwrite_where(self) -> None:
        chosen, copy = self.condition(), self.copy()
        kept = self.marks(copy.where(f"NOT coalesce({chosen}, false)")) if "SELECT" not in chosen else None
        if kept is not None:
            new = self.shuffled().where(chosen)
            marks = self.marks(new)
            new.writeTo(f"lake.ns1.{self.name}").overwrite(functions.expr(chosen))
            assert self.marks() == kept + marks, (chosen, self.told())

    def delete_where(self) -> None:
        chosen, copy = self.condition(), self.copy()
        copy.createOrReplaceTempView("a")
        kept = self.marks(copy.where(f"NOT coalesce({chosen}, false)"))
        self.spark.table(f"lake.ns1.{self.name}").createOrReplaceTempView("a")
        self.spark.sql(f"DELETE FROM lake.ns1.{self.name} WHERE {chosen}")
        assert self.marks() == kept, (chosen, self.told())

    def merge_and_delete(self) -> None:
        key = self.choose.choice([name for name, _ in self.columns()])
        copy, chosen = self.copy(), f"v % 4 = {self.choose.randrange(4)}"
        copy.where(chosen).createOrReplaceTempView("some_rows")
        copy.createOrReplaceTempView("every_row")
        joined = f"SELECT DISTINCT {key} FROM some_rows WHERE {key} IS NOT NULL"
        kept = self.spark.sql(f"SELECT v FROM every_row e LEFT ANTI JOIN ({joined}) s ON e.{key} = s.{key}")
        self.spark.sql(
            f"MERGE INTO lake.ns1.{self.name} t USING ({joined}) s ON t.{key} = s.{key} WHEN MATCHED THEN DELETE"
        )
        assert self.marks() == self.marks(kept), (key, self.told())

    def told(self) -> Any:
        return self.layout, self.table.layout.describe(), self.done
