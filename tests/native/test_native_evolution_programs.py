"""Random programs that change columns and rows in turn: the rows are those of a model, whoever reads them."""

import random as randoms

import lance
import pytest
from pyspark.errors import PySparkException

from lance_spark.errors import LanceSparkError

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", day={"seed": [1, 2]})]
TABLE = "lake.ns1.t"
KINDS = {
    "plain": "",
    "partitioned": " PARTITIONED BY (p)",
    "hidden": " PARTITIONED BY (bucket(3, id), p)",
    "clustered": " CLUSTER BY (v)",
}


class Program:
    """Statements on a table, and the rows that it has after them."""

    def __init__(self, spark, lake, random):
        self.spark, self.lake, self.random = spark, lake, random
        self.rows: dict[int, dict] = {}
        self.defaults = {"id": None, "p": None, "v": None, "s": None}
        self.fields = ["x"]
        self.checked = random.random() < 0.5
        self.next = 0

    def begin(self, layout):
        self.layout = layout
        self.spark.sql(f"CREATE TABLE {TABLE} (id BIGINT, p INT, v INT, s STRUCT<x: INT>){layout}")
        if self.checked:
            self.spark.sql(f"ALTER TABLE {TABLE} ADD CONSTRAINT small CHECK (v < 1000000)")
        self.insert()

    def _new(self):
        self.next += 1
        return self.next

    def _add(self, name, default=None, value=None):
        self.defaults[name] = default
        for row in self.rows.values():
            row[name] = value

    def _put(self, row):
        full = {**self.defaults, **row}
        if full["s"] is not None:
            full["s"] = {**dict.fromkeys(self.fields), **full["s"]}
        self.rows[row["id"]] = full

    def insert(self):
        few = self.random.random() < 0.5
        ids = [self._new() for _ in range(6)]
        rows = ", ".join(f"({i}L, {i % 3}, {i * 10})" for i in ids)
        left = "(id, p)" if few else "(id, p, v)"
        self.spark.sql(f"INSERT INTO {TABLE} {left} SELECT {left[1:-1]} FROM VALUES {rows} AS s (id, p, v)")
        for i in ids:
            self._put({"id": i, "p": i % 3} if few else {"id": i, "p": i % 3, "v": i * 10})

    def insert_by_name(self):
        i = self._new()
        fields = ", ".join(f"'{name}', CAST(NULL AS INT)" for name in self.fields[1:])
        struct = f"named_struct('x', {i}{', ' if fields else ''}{fields})"
        self.spark.sql(f"INSERT INTO {TABLE} BY NAME SELECT {struct} AS s, {i}L AS id, 1 AS p")
        self._put({"id": i, "p": 1, "s": {"x": i}})

    def add_column(self):
        name, value = f"c{self._new()}", self.random.choice([None, 5, -3])
        self.spark.sql(f"ALTER TABLE {TABLE} ADD COLUMN {name} INT" + (f" DEFAULT {value}" if value else ""))
        self._add(name, value, value)

    def other_default(self):
        names = [name for name in self.defaults if name.startswith("c")]
        if names:
            name = self.random.choice(names)
            self.spark.sql(f"ALTER TABLE {TABLE} ALTER COLUMN {name} SET DEFAULT 99")
            self.defaults[name] = 99

    def drop_column(self):
        names = [name for name in self.defaults if name.startswith("c")]
        if names:
            name = self.random.choice(names)
            self.spark.sql(f"ALTER TABLE {TABLE} DROP COLUMN {name}")
            del self.defaults[name]
            for row in self.rows.values():
                del row[name]

    def add_field(self):
        name = f"f{self._new()}"
        self.spark.sql(f"ALTER TABLE {TABLE} ADD COLUMN s.{name} INT")
        self._field(name)

    def _field(self, name):
        self.fields.append(name)
        for row in self.rows.values():
            if row["s"] is not None:
                row["s"] = {**row["s"], name: None}

    def widen(self):
        statement = f"ALTER TABLE {TABLE} ALTER COLUMN v TYPE BIGINT"
        if self.checked or "(v)" in self.layout:
            with pytest.raises((PySparkException, LanceSparkError), match="names it"):
                self.spark.sql(statement)
        else:
            self.spark.sql(statement)

    def update(self):
        rest = self.random.randrange(3)
        self.spark.sql(f"UPDATE {TABLE} SET v = coalesce(v, 0) + 1, p = p + 1 WHERE id % 3 = {rest}")
        for i, row in self.rows.items():
            if i % 3 == rest:
                row.update(v=(row["v"] or 0) + 1, p=row["p"] + 1)

    def break_constraint(self):
        if self.checked and self.rows:
            with pytest.raises((PySparkException, LanceSparkError), match="small"):
                self.spark.sql(f"UPDATE {TABLE} SET v = 1000000 WHERE id = {min(self.rows)}")

    def delete(self):
        rest = self.random.randrange(7)
        self.spark.sql(f"DELETE FROM {TABLE} WHERE id % 7 = {rest} OR p = 9")
        self.rows = {i: row for i, row in self.rows.items() if i % 7 != rest and row["p"] != 9}

    def write_with_columns(self):
        i = self._new()
        name = f"w{i}"
        self.lake.table("ns1.t").write(self.spark.sql(f"SELECT {i}L AS id, 2 AS p, {i} AS {name}"), merge_schema=True)
        self._add(name)
        self._put({"id": i, "p": 2, name: i})

    def merge(self):
        old, new = self.random.choice([*self.rows] or [self._new()]), self._new()
        column, field = f"e{new}", f"g{new}"
        pick = f"FROM VALUES ({old}L), ({new}L) AS s (id)"
        others = "".join(f", '{name}', CAST(NULL AS INT)" for name in self.fields[1:])  # Spark wants all of them
        struct = f"named_struct('x', 8{others}, '{field}', 6)"
        source = f"SELECT id, 4 AS p, {struct} AS s, CAST(id AS INT) AS {column} {pick}"
        self.spark.sql(
            f"MERGE WITH SCHEMA EVOLUTION INTO {TABLE} t USING ({source}) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        self._add(column)
        self._field(field)
        for i in {old, new}:
            there = self.rows.get(i)
            self._put({**(there or {}), "id": i, "p": 4, "s": {"x": 8, field: 6}, column: i})

    def check(self, statements):
        expected = [self.rows[i] for i in sorted(self.rows)]
        for row in expected:
            row["s"] = None if row["s"] is None else {name: row["s"][name] for name in self.fields}
        found = [row.asDict(recursive=True) for row in self.spark.table(TABLE).orderBy("id").collect()]
        assert found == expected, statements
        dataset = lance.dataset(self.lake.table("ns1.t").location.uri)
        dataset.validate()
        assert dataset.to_table().sort_by("id").to_pylist() == expected, statements
        for where, keep in (("p = 1", lambda row: row["p"] == 1), ("v > 100", lambda row: (row["v"] or 0) > 100)):
            ids = [row.id for row in self.spark.sql(f"SELECT id FROM {TABLE} WHERE {where} ORDER BY id").collect()]
            assert ids == [row["id"] for row in expected if keep(row)], (where, statements)


STEPS = (
    "insert", "insert_by_name", "add_column", "other_default", "drop_column", "add_field", "widen", "update",
    "break_constraint", "delete", "write_with_columns", "merge",
)  # fmt: skip


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_rows_after_a_program_are_those_of_the_model(spark, lake, seed, kind, ansi):
    random = randoms.Random(f"{seed} {kind} {ansi}")
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        program = Program(spark, lake, random)
        program.begin(KINDS[kind])
        done = []
        for step in random.choices(STEPS, k=9):
            done.append(step)
            getattr(program, step)()
            program.check(done)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
