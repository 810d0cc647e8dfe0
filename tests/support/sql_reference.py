"""The statements of Spark's SQL reference on a catalog of Lance tables: what works, and what a refusal says."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Statement:
    """A statement about lake.ns1.t, whose columns are id and v, or about lake.ns1.u, which has the same."""

    text: str
    refused: str = ""
    """What the refusal says; empty if it works."""

    @property
    def row(self) -> str:
        """Its row in docs/reference/sql-coverage.md."""
        text = self.text.replace("|", "\\|")
        outcome = f"refused: {self.refused}" if self.refused else "works"
        return f"| `` {text} `` | {outcome} |"


# On the newest Spark, in the order of its reference: definitions, changes of rows, queries, auxiliary statements.
STATEMENTS = [
    Statement("CREATE NAMESPACE lake.made"),
    Statement("CREATE SCHEMA IF NOT EXISTS lake.made"),
    Statement("ALTER NAMESPACE lake.ns1 SET PROPERTIES ('a' = 'b')"),
    Statement("ALTER NAMESPACE lake.ns1 UNSET PROPERTIES ('a')"),
    Statement(
        "ALTER NAMESPACE lake.ns1 SET LOCATION 's3://bucket/t'",
        "Cannot change the location of a namespace",
    ),
    Statement("DROP NAMESPACE IF EXISTS lake.made"),
    Statement("DROP NAMESPACE lake.ns1 CASCADE"),
    Statement("CREATE TABLE lake.ns1.made (id INT)"),
    Statement("CREATE TABLE IF NOT EXISTS lake.ns1.t (id INT)"),
    Statement("CREATE TABLE lake.ns1.made (id INT) USING lance"),
    Statement(
        "CREATE TABLE lake.ns1.made (id INT) USING parquet",
        "Tables of this catalog are of format 'lance', not 'parquet'",
    ),
    Statement("CREATE TABLE lake.ns1.made (id INT NOT NULL COMMENT 'c') COMMENT 'c' TBLPROPERTIES ('a' = 'b')"),
    Statement("CREATE TABLE lake.ns1.made (id INT DEFAULT 5)"),
    Statement("CREATE TABLE lake.ns1.made (id INT DEFAULT 5 + 1)", "Column 'id' of type int32 cannot have the default"),
    Statement(
        "CREATE TABLE lake.ns1.made (id INT, d INT GENERATED ALWAYS AS (id + 1))",
        "Cannot create column 'd' GENERATED ALWAYS AS (id + 1): Spark computes it at most in an INSERT",
    ),
    Statement(
        "CREATE TABLE lake.ns1.made (id BIGINT GENERATED ALWAYS AS IDENTITY)",
        "Cannot create column 'id' GENERATED AS IDENTITY: two branches would give out the same numbers",
    ),
    Statement("CREATE TABLE lake.ns1.made (id INT) PARTITIONED BY (id)"),
    Statement("CREATE TABLE lake.ns1.made (id INT) CLUSTER BY (id)"),
    Statement("CREATE TABLE lake.ns1.made (id INT) CLUSTERED BY (id) INTO 4 BUCKETS"),
    Statement(
        "CREATE TABLE lake.ns1.made (id INT) LOCATION 's3://bucket/t'",
        "The catalog chooses the location of its tables",
    ),
    Statement(
        "CREATE TABLE lake.ns1.made (id INT, PRIMARY KEY (id))",
        "Cannot declare a constraint of the kind PrimaryKey",
    ),
    Statement("CREATE TABLE lake.ns1.made (id INT, CHECK (id > 0))"),
    Statement("CREATE TABLE lake.ns1.made (c CHAR(3), w VARCHAR(4))"),
    Statement("CREATE TABLE lake.ns1.made LIKE lake.ns1.t"),
    Statement("CREATE TABLE lake.ns1.made AS SELECT * FROM lake.ns1.t"),
    Statement("CREATE OR REPLACE TABLE lake.ns1.t AS SELECT 1 AS id"),
    Statement("REPLACE TABLE lake.ns1.t (id BIGINT)"),
    Statement(
        "CREATE EXTERNAL TABLE lake.ns1.made (id INT)",
        "Cannot create an external table",
    ),
    Statement(
        "CREATE VIEW lake.ns1.made AS SELECT * FROM lake.ns1.t",
        "Catalog lake does not support views",
    ),
    Statement("CREATE TEMPORARY VIEW made AS SELECT * FROM lake.ns1.t"),
    Statement("CREATE OR REPLACE TEMPORARY VIEW made AS SELECT * FROM lake.ns1.t"),
    Statement(
        "ALTER VIEW lake.ns1.t AS SELECT 1",
        "Catalog lake does not support views",
    ),
    Statement(
        "DROP VIEW lake.ns1.t",
        "Catalog lake does not support views",
    ),
    Statement(
        "CREATE MATERIALIZED VIEW lake.ns1.made AS SELECT * FROM lake.ns1.t",
        "Direct execution of a CREATE ... MATERIALIZED VIEW query",
    ),
    Statement(
        "CREATE FUNCTION lake.ns1.f AS 'org.example.F'",
        "Catalog lake does not support CREATE FUNCTION",
    ),
    Statement(
        "CREATE FUNCTION lake.ns1.f(x INT) RETURNS INT RETURN x + 1",
        "Catalog lake does not support CREATE FUNCTION",
    ),
    Statement(
        "DROP FUNCTION lake.ns1.f",
        "Catalog lake does not support DROP FUNCTION",
    ),
    Statement(
        "CREATE INDEX i ON lake.ns1.t (id)",
        "CreateIndex is not supported in this table lake.ns1.t",
    ),
    Statement(
        "DROP INDEX i ON lake.ns1.t",
        "DropIndex is not supported in this table lake.ns1.t",
    ),
    Statement("ALTER TABLE lake.ns1.t RENAME TO ns1.made"),
    Statement("ALTER TABLE lake.ns1.t ADD COLUMNS (w INT)"),
    Statement(
        "ALTER TABLE lake.ns1.t ADD COLUMN w INT COMMENT 'c' FIRST",
        "Cannot add column 'w' FIRST: columns of a Lance dataset keep their order",
    ),
    Statement("ALTER TABLE lake.ns1.t ADD COLUMN w INT DEFAULT 5"),
    Statement("ALTER TABLE lake.ns1.t DROP COLUMN v"),
    Statement("ALTER TABLE lake.ns1.t DROP COLUMN IF EXISTS nope"),
    Statement("ALTER TABLE lake.ns1.t RENAME COLUMN v TO w"),
    Statement("ALTER TABLE lake.ns1.t ALTER COLUMN id TYPE BIGINT"),
    Statement("ALTER TABLE lake.ns1.t ALTER COLUMN v COMMENT 'c'"),
    Statement(
        "ALTER TABLE lake.ns1.t ALTER COLUMN v AFTER id",
        "Cannot move column 'v' AFTER id: columns of a Lance dataset keep their order",
    ),
    Statement(
        "ALTER TABLE lake.ns1.t ALTER COLUMN id SET NOT NULL",
        "Cannot change nullable column to non-nullable: id",
    ),
    Statement("ALTER TABLE lake.ns1.t ALTER COLUMN id DROP NOT NULL"),
    Statement("ALTER TABLE lake.ns1.t ALTER COLUMN id SET DEFAULT 5"),
    Statement("ALTER TABLE lake.ns1.t ALTER COLUMN id DROP DEFAULT"),
    Statement("ALTER TABLE lake.ns1.t CHANGE COLUMN v v STRING COMMENT 'c'"),
    Statement(
        "ALTER TABLE lake.ns1.t REPLACE COLUMNS (id INT)",
        "Cannot replace the columns of a table",
    ),
    Statement(
        "ALTER TABLE lake.ns1.t ADD PARTITION (id = 1)",
        "Table `lake`.`ns1`.`t` does not support partition management",
    ),
    Statement(
        "ALTER TABLE lake.ns1.t DROP PARTITION (id = 1)",
        "Table `lake`.`ns1`.`t` does not support partition management",
    ),
    Statement(
        "ALTER TABLE lake.ns1.t PARTITION (id = 1) RENAME TO PARTITION (id = 2)",
        "Table `lake`.`ns1`.`t` does not support partition management",
    ),
    Statement(
        "ALTER TABLE lake.ns1.t RECOVER PARTITIONS",
        "ALTER TABLE ... RECOVER PARTITIONS is not supported for v2 tables",
    ),
    Statement("ALTER TABLE lake.ns1.t SET TBLPROPERTIES ('a' = 'b')"),
    Statement("ALTER TABLE lake.ns1.t UNSET TBLPROPERTIES ('a')"),
    Statement(
        "ALTER TABLE lake.ns1.t SET LOCATION 's3://bucket/t'",
        "Cannot change the location of a table",
    ),
    Statement(
        "ALTER TABLE lake.ns1.t SET SERDE 'x'",
        "is not supported for v2 tables",
    ),
    Statement("ALTER TABLE lake.ns1.t CLUSTER BY (id)"),
    Statement("ALTER TABLE lake.ns1.t DEFAULT COLLATION UTF8_LCASE"),
    Statement("ALTER TABLE lake.ns1.t ADD CONSTRAINT c CHECK (id > 0)"),
    Statement(
        "ALTER TABLE lake.ns1.t ADD CONSTRAINT pk PRIMARY KEY (id)",
        "Cannot declare a constraint of the kind PrimaryKey",
    ),
    Statement(
        "ALTER TABLE lake.ns1.t DROP CONSTRAINT c",
        "has no constraint 'c'",
    ),
    Statement("DROP TABLE lake.ns1.t"),
    Statement("DROP TABLE IF EXISTS lake.ns1.nope"),
    Statement("DROP TABLE lake.ns1.t PURGE"),
    Statement("TRUNCATE TABLE lake.ns1.t"),
    Statement(
        "TRUNCATE TABLE lake.ns1.t PARTITION (id = 1)",
        "Table `lake`.`ns1`.`t` does not support partition management",
    ),
    Statement(
        "MSCK REPAIR TABLE lake.ns1.t",
        "MSCK REPAIR TABLE is not supported for v2 tables",
    ),
    Statement("COMMENT ON TABLE lake.ns1.t IS 'c'"),
    Statement("COMMENT ON NAMESPACE lake.ns1 IS 'c'"),
    Statement("INSERT INTO lake.ns1.t VALUES (3, 'c')"),
    Statement("INSERT INTO lake.ns1.t (v, id) VALUES ('c', 3)"),
    Statement("INSERT INTO lake.ns1.t (id) VALUES (3)"),
    Statement("INSERT INTO lake.ns1.t BY NAME SELECT 'c' AS v, 3 AS id"),
    Statement("INSERT INTO lake.ns1.t TABLE lake.ns1.u"),
    Statement("INSERT INTO lake.ns1.t SELECT * FROM lake.ns1.u"),
    Statement("INSERT INTO lake.ns1.t VALUES (DEFAULT, 'c')"),
    Statement("INSERT INTO lake.ns1.t REPLACE WHERE id = 1 SELECT 1, 'x'"),
    Statement(
        "INSERT INTO lake.ns1.t PARTITION (id = 1) VALUES ('x')",
        "PARTITION clause cannot contain the non-partition column: `id`",
    ),
    Statement("INSERT OVERWRITE lake.ns1.t VALUES (3, 'c')"),
    Statement(
        "INSERT OVERWRITE lake.ns1.t PARTITION (id = 1) VALUES ('x')",
        "PARTITION clause cannot contain the non-partition column: `id`",
    ),
    Statement("UPDATE lake.ns1.t SET v = 'x' WHERE id = 1"),
    Statement("UPDATE lake.ns1.t SET v = DEFAULT"),
    Statement("DELETE FROM lake.ns1.t WHERE id = 1"),
    Statement("DELETE FROM lake.ns1.t WHERE id IN (SELECT id FROM lake.ns1.u)"),
    Statement("MERGE INTO lake.ns1.t t USING lake.ns1.u u ON t.id = u.id WHEN NOT MATCHED THEN INSERT *"),
    Statement(
        "MERGE WITH SCHEMA EVOLUTION INTO lake.ns1.t t USING (SELECT 2 AS id, 1 AS w) u ON t.id = "
        "u.id WHEN MATCHED THEN UPDATE SET *"
    ),
    Statement("SELECT * FROM lake.ns1.t VERSION AS OF 1"),
    Statement("SELECT * FROM lake.ns1.t TIMESTAMP AS OF current_timestamp()"),
    Statement("SELECT * FROM lake.ns1.t TABLESAMPLE (50 PERCENT)"),
    Statement("SELECT * FROM lake.ns1.t TABLESAMPLE (1 ROWS)"),
    Statement("SELECT * FROM lake.ns1.t CHANGES FROM VERSION 1 TO VERSION 2"),
    Statement("SELECT * FROM lake.ns1.t CHANGES FROM TIMESTAMP '2020-01-01' WITH (computeUpdates = 'true')"),
    Statement("TABLE lake.ns1.t"),
    Statement("WITH c AS (SELECT * FROM lake.ns1.t) SELECT * FROM c"),
    Statement("FROM lake.ns1.t |> WHERE id = 1 |> SELECT v"),
    Statement("EXPLAIN SELECT * FROM lake.ns1.t"),
    Statement("EXPLAIN EXTENDED SELECT * FROM lake.ns1.t"),
    Statement("EXPLAIN FORMATTED SELECT * FROM lake.ns1.t"),
    Statement("EXPLAIN COST SELECT * FROM lake.ns1.t"),
    Statement("EXPLAIN CODEGEN SELECT * FROM lake.ns1.t"),
    Statement("EXPLAIN UPDATE lake.ns1.t SET v = 'x'"),
    Statement("ANALYZE TABLE lake.ns1.t COMPUTE STATISTICS"),
    Statement("ANALYZE TABLE lake.ns1.t COMPUTE STATISTICS FOR ALL COLUMNS"),
    Statement("ANALYZE TABLE lake.ns1.t COMPUTE STATISTICS FOR COLUMNS id, v"),
    Statement(
        "ANALYZE TABLES IN lake.ns1 COMPUTE STATISTICS",
        "There is nothing to analyze",
    ),
    Statement("CACHE TABLE lake.ns1.t"),
    Statement("CACHE LAZY TABLE made AS SELECT * FROM lake.ns1.t"),
    Statement("UNCACHE TABLE lake.ns1.t"),
    Statement("CLEAR CACHE"),
    Statement("REFRESH TABLE lake.ns1.t"),
    Statement(
        "REFRESH FUNCTION lake.ns1.f",
        "Catalog lake does not support REFRESH FUNCTION",
    ),
    Statement("DESCRIBE NAMESPACE lake.ns1"),
    Statement("DESCRIBE NAMESPACE EXTENDED lake.ns1"),
    Statement("DESCRIBE TABLE lake.ns1.t"),
    Statement("DESCRIBE TABLE EXTENDED lake.ns1.t"),
    Statement(
        "DESCRIBE TABLE EXTENDED lake.ns1.t AS JSON",
        "DESCRIBE TABLE AS JSON is not supported for v2 tables",
    ),
    Statement("DESCRIBE TABLE lake.ns1.t v"),
    Statement(
        "DESCRIBE TABLE lake.ns1.t PARTITION (id = 1)",
        "Table `lake`.`ns1`.`t` does not support partition management",
    ),
    Statement("DESCRIBE QUERY SELECT * FROM lake.ns1.t"),
    Statement(
        "DESCRIBE FUNCTION lake.ns1.f",
        "Cannot resolve routine",
    ),
    Statement("DESCRIBE PROCEDURE lake.system.create_branch"),
    Statement("SHOW CATALOGS"),
    Statement("SHOW NAMESPACES IN lake"),
    Statement("SHOW SCHEMAS IN lake LIKE 'c*'"),
    Statement("SHOW CURRENT NAMESPACE"),
    Statement("SHOW TABLES IN lake.ns1"),
    Statement("SHOW TABLES IN lake.ns1 LIKE 't*'"),
    Statement("SHOW TABLE EXTENDED IN lake.ns1 LIKE 't*'"),
    Statement(
        "SHOW TABLE EXTENDED IN lake.ns1 LIKE 't' PARTITION (id = 1)",
        "Table `lake`.`ns1`.`t` does not support partition management",
    ),
    Statement(
        "SHOW VIEWS IN lake.ns1",
        "Catalog lake does not support views",
    ),
    Statement("SHOW COLUMNS IN lake.ns1.t"),
    Statement("SHOW CREATE TABLE lake.ns1.t"),
    Statement("SHOW TBLPROPERTIES lake.ns1.t"),
    Statement(
        "SHOW PARTITIONS lake.ns1.t",
        "Table `lake`.`ns1`.`t` does not support partition management",
    ),
    Statement("SHOW FUNCTIONS IN lake.ns1"),
    Statement("SHOW PROCEDURES IN lake.system"),
    Statement("CALL lake.system.create_branch(table => 'ns1.t', name => 'b')"),
    Statement("USE lake.ns1"),
    Statement("USE lake"),
    Statement("SET CATALOG lake"),
    Statement("USE spark_catalog.default"),
    Statement("EXECUTE IMMEDIATE 'SELECT * FROM lake.ns1.t WHERE id = ?' USING 1"),
    Statement(
        "EXECUTE IMMEDIATE 'DELETE FROM lake.ns1.t WHERE id % 2 = 0'",
        "Cannot change rows with a statement that does not come from spark.sql",
    ),
    Statement(
        "BEGIN DELETE FROM lake.ns1.t WHERE id % 2 = 0; END",
        "Cannot change rows with a statement that does not come from spark.sql",
    ),
    Statement(
        "CREATE STREAMING TABLE lake.ns1.made AS SELECT * FROM STREAM lake.ns1.t",
        "Direct execution of a CREATE ... STREAMING TABLE query",
    ),
    Statement("OPTIMIZE lake.ns1.t"),
    Statement("VACUUM lake.ns1.t"),
    Statement("DESCRIBE HISTORY lake.ns1.t"),
    Statement("RESTORE TABLE lake.ns1.t TO VERSION AS OF 1"),
    Statement("ALTER TABLE lake.ns1.t CREATE BRANCH b"),
    Statement("ALTER TABLE lake.ns1.t CREATE TAG g"),
    Statement("ALTER TABLE lake.ns1.t PARTITIONED BY (v, bucket(4, id))"),
    Statement("ALTER TABLE lake.ns1.t PARTITIONED BY NONE"),
    Statement("ALTER TABLE lake.ns1.t ADD PARTITION FIELD bucket(4, id)"),
    Statement("ALTER TABLE lake.ns1.t ADD PARTITION FIELD id AS shard", "Partition field id cannot have another name"),
    Statement("ALTER TABLE lake.ns1.t DROP PARTITION FIELD id", "The table is not partitioned by id"),
    Statement("ALTER TABLE lake.ns1.t REPLACE PARTITION FIELD id WITH v", "The table is not partitioned by id"),
    Statement("ALTER TABLE lake.ns1.t WRITE ORDERED BY id, v"),
    Statement("ALTER TABLE lake.ns1.t WRITE ORDERED BY id DESC", "in no other order"),
    Statement("ALTER TABLE lake.ns1.t WRITE UNORDERED"),
    Statement(
        "ALTER TABLE lake.ns1.t WRITE DISTRIBUTED BY PARTITION", "WRITE DISTRIBUTED cannot be declared by itself"
    ),
    Statement(
        "ALTER TABLE lake.ns1.t SET TBLPROPERTIES ('lance_spark.partition_by' = 'days(ts)')", "there is no column 'ts'"
    ),
]

# On Spark 4.0, what it answers otherwise: most of these statements are newer than it.
ON_SPARK_4_0 = {
    "CREATE TABLE lake.ns1.made (id INT, PRIMARY KEY (id))": "Syntax error at or near",
    "CREATE TABLE lake.ns1.made (id INT, CHECK (id > 0))": "Syntax error at or near",
    "CREATE TABLE lake.ns1.made LIKE lake.ns1.t": "Syntax error at or near",
    "ALTER VIEW lake.ns1.t AS SELECT 1": "Catalog `lake` does not support views",
    "DROP VIEW lake.ns1.t": "Catalog `lake` does not support views",
    "CREATE MATERIALIZED VIEW lake.ns1.made AS SELECT * FROM lake.ns1.t": "Syntax error at or near",
    "DROP FUNCTION lake.ns1.f": "Cannot resolve routine",
    "ALTER TABLE lake.ns1.t ADD CONSTRAINT c CHECK (id > 0)": "Syntax error at or near",
    "ALTER TABLE lake.ns1.t ADD CONSTRAINT pk PRIMARY KEY (id)": "Syntax error at or near",
    "ALTER TABLE lake.ns1.t DROP CONSTRAINT c": "Syntax error at or near",
    "INSERT INTO lake.ns1.t (id) VALUES (3)": "Cannot find data for the output column `v`",
    "MERGE WITH SCHEMA EVOLUTION INTO lake.ns1.t t USING (SELECT 2 AS id, 1 AS w) u ON t.id = u.id "
    "WHEN MATCHED THEN UPDATE SET *": "name `v` cannot be resolved",
    "SELECT * FROM lake.ns1.t CHANGES FROM VERSION 1 TO VERSION 2": "Syntax error at or near",
    "SELECT * FROM lake.ns1.t CHANGES FROM TIMESTAMP '2020-01-01' WITH (computeUpdates = 'true')": (
        "Syntax error at or near"
    ),
    "REFRESH FUNCTION lake.ns1.f": "Cannot resolve routine",
    "DESCRIBE TABLE lake.ns1.t PARTITION (id = 1)": "DESCRIBE does not support partition for v2 tables",
    "DESCRIBE PROCEDURE lake.system.create_branch": "The table or view `PROCEDURE` cannot be found",
    "SHOW PROCEDURES IN lake.system": "Syntax error at or near",
    "BEGIN DELETE FROM lake.ns1.t WHERE id % 2 = 0; END": "SQL Scripting is under development",
    "CREATE STREAMING TABLE lake.ns1.made AS SELECT * FROM STREAM lake.ns1.t": "Syntax error at or near",
}


def on_spark_4_0(statement: Statement) -> Statement:
    """The statement as it ends there."""
    return replace(statement, refused=ON_SPARK_4_0.get(statement.text, statement.refused))
