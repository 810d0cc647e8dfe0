"""Which statements are looked at before Spark gets them, and what they ask for."""

from datetime import timedelta

import pytest

from lance_spark.errors import InvalidOption, Refused
from lance_spark.layout.layout_rules import LayoutChange, parse
from lance_spark.native.row_statements import with_all_rows
from lance_spark.sql import statement_rules as rules

pytestmark = pytest.mark.pure

CASES = {
    "UPDATE t SET a = 1": True,
    "  delete from t": True,
    "Merge Into t": True,
    "-- one\n--two\nUPDATE t SET a = 1": True,
    "/* a */ /* b /* c */ -- d */UPDATE t SET a = 1": True,
    "WITH s AS (SELECT 1) MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE": True,
    "WITH s AS (SELECT 'delete')\nSELECT * FROM s": True,
    "WITH s AS (SELECT deleted, updates FROM x) SELECT * FROM s": False,
    "SELECT 1 -- UPDATE": False,
    "UPDATES": False,
    "-- UPDATE t SET a = 1": False,
    "/* UPDATE t SET a = 1": False,
    "INSERT INTO t SELECT 1": False,
    "EXPLAIN UPDATE t SET a = 1": False,
    "": False,
    "(SELECT 1)": False,
}


@pytest.mark.parametrize("text", CASES)
def test_what_may_change_rows(text):
    assert rules.may_change_rows(text) is CASES[text]


def test_something_is_put_behind_a_merge():
    end = "\nWHEN NOT MATCHED BY SOURCE AND false THEN DELETE"
    merge = "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT *"
    assert with_all_rows(f"{merge} ;\n") == f"{merge} {end}"
    assert with_all_rows(f"{merge} -- so") == f"{merge} -- so{end}"
    assert with_all_rows(f"{merge}; -- so") is None


OPENED = {
    "DESCRIBE HISTORY lake.ns1.flights": ("DESCRIBE HISTORY", ("lake", "ns1", "flights")),
    "desc history `a``b`.`x@exp/delays` LIMIT 3;": ("DESCRIBE HISTORY", ("a`b", "x@exp/delays")),
    "-- so\n/* a /* b */ */ Optimize lance.`/data/x.lance@exp` -- and so": ("OPTIMIZE", ("lance", "/data/x.lance@exp")),
    "VACUUM IDENTIFIER('lake.`x.y`') DRY RUN": ("VACUUM", ("lake", "x.y")),
    "VACUUM '/data/x.lance'": ("VACUUM", ("/data/x.lance",)),
    "RESTORE TABLE t TO VERSION AS OF 3": ("RESTORE", ("t",)),
    "restore t version as of 3": ("RESTORE", ("t",)),
    "ALTER TABLE a.t CREATE OR REPLACE TAG x": ("ALTER TABLE", ("a", "t")),
    "alter table t drop branch if exists x": ("ALTER TABLE", ("t",)),
}
SPARKS = [
    "",
    "SELECT 'VACUUM t'",
    "/* VACUUM t */ SELECT 1",
    "DESCRIBE t",
    "DESCRIBE EXTENDED history",
    "DESCRIBE HISTORY",
    "DESC NAMESPACE lake.ns1",
    "OPTIMIZER t",
    "ANALYZE TABLES IN lake.ns1 COMPUTE STATISTICS",
    "VACUUM",
    "VACUUM IDENTIFIER(:gone)",
    "ALTER TABLE t DROP COLUMN tag",
    "ALTER TABLE t ADD COLUMN branch INT",
    "ALTER TABLE t REPLACE COLUMNS (tag INT)",
    "ALTER TABLE t ADD PARTITION (day = 1)",
    "ALTER TABLE t DROP PARTITION (field = 1)",
    "ALTER TABLE t CLUSTER BY (a)",
    "ALTER TABLE t SET TBLPROPERTIES ('tag' = 'create tag')",
    "ALTER VIEW t RENAME TO tag",
    "ALTER TABLE t",
    "EXPLAIN OPTIMIZE t",
]


@pytest.mark.parametrize("text", OPENED)
def test_the_table_that_a_statement_is_about(text):
    found = rules.opened(text)
    assert (found.verb, found.table, found.is_path) == (*OPENED[text], "'/data" in text)


@pytest.mark.parametrize("text", SPARKS)
def test_other_statements_are_left_to_spark(text):
    assert rules.opened(text) is None


def test_many_comments_take_no_time():
    assert rules.opened("/* a */ " * 10_000 + "SELECT 1") is None


READ = {
    "DESCRIBE HISTORY t": rules.DescribeHistory(),
    "DESCRIBE HISTORY t LIMIT 5 ;": rules.DescribeHistory(5),
    "OPTIMIZE t": rules.Optimize(),
    "OPTIMIZE t WHERE day > '2026-01-01' AND (a = 1 OR zorder.by = 2)": rules.Optimize(
        "day > '2026-01-01' AND (a = 1 OR zorder.by = 2)"
    ),
    "OPTIMIZE t WHERE a = ';' -- b\n zorder by (a, `b c`)": rules.Optimize("a = ';'", 0, ("a", "b c")),
    "OPTIMIZE t ZORDER BY a, b": rules.Optimize(None, 0, ("a", "b")),
    "ANALYZE TABLE t COMPUTE STATISTICS": rules.Analyze(),
    "ANALYZE TABLE t COMPUTE STATISTICS NOSCAN": rules.Analyze(),
    "analyze table t compute statistics for columns a, `b c` ;": rules.Analyze(("a", "b c")),
    "ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS": rules.Analyze(None),
    "VACUUM t": rules.Vacuum(),
    "VACUUM t RETAIN 36 HOURS": rules.Vacuum(timedelta(hours=36)),
    "vacuum t dry run retain 0.5 hours": rules.Vacuum(timedelta(minutes=30), True),
    "VACUUM t FULL RETAIN 7 DAYS": rules.Vacuum(timedelta(days=7)),
    "RESTORE TABLE t TO VERSION AS OF 3": rules.Restore("3"),
    "RESTORE t VERSION AS OF 'v2013'": rules.Restore("v2013"),
    "RESTORE TABLE t TO TIMESTAMP AS OF '2026-01-31 12:00:00'": rules.Restore(None, "'2026-01-31 12:00:00'"),
    "RESTORE TABLE t TIMESTAMP AS OF now() - INTERVAL 1 HOUR;": rules.Restore(None, "now() - INTERVAL 1 HOUR"),
    "ALTER TABLE t CREATE BRANCH exp": rules.AlterRef("CREATE", False, "exp"),
    "ALTER TABLE t CREATE BRANCH IF NOT EXISTS exp/delays AS OF VERSION 7 RETAIN 7 DAYS "
    "WITH SNAPSHOT RETENTION 2 SNAPSHOTS": rules.AlterRef(
        "CREATE", False, "exp/delays", True, "7", timedelta(days=7), 2
    ),
    "ALTER TABLE t CREATE OR REPLACE TAG `v 1` AS OF VERSION 'exp@3' RETAIN 1 DAY": rules.AlterRef(
        "CREATE OR REPLACE", True, "v 1", False, "exp@3", timedelta(days=1)
    ),
    "ALTER TABLE t REPLACE TAG v1.2 AS OF VERSION 3": rules.AlterRef("REPLACE", True, "v1.2", version="3"),
    "ALTER TABLE t DROP BRANCH IF EXISTS 'exp'": rules.AlterRef("DROP", False, "exp", True),
    "ALTER TABLE t DROP TAG 2013": rules.AlterRef("DROP", True, "2013"),
    "ALTER TABLE t PARTITIONED BY (days(ts), bucket(8, `odd``id`), c)": LayoutChange(
        "PARTITIONED BY", parse("days(ts), bucket(8, `odd``id`), c", None).partition
    ),
    "alter table t partitioned by none;": LayoutChange("PARTITIONED BY"),
    "ALTER TABLE t PARTITIONED BY (none)": LayoutChange("PARTITIONED BY", parse("none", None).partition),
    "ALTER TABLE t ADD PARTITION FIELD bucket(id, 16)": LayoutChange("ADD", parse("bucket(16, id)", None).partition),
    "ALTER TABLE t DROP PARTITION FIELD day(ts)": LayoutChange("DROP", parse("days(ts)", None).partition),
    "ALTER TABLE t REPLACE PARTITION FIELD days(ts) WITH hours(ts)": LayoutChange(
        "REPLACE", parse("days(ts), hours(ts)", None).partition
    ),
    "ALTER TABLE t WRITE ORDERED BY a, `b c` ASC, d NULLS LAST": LayoutChange(
        "CLUSTER BY", parse("a, `b c`, d", None).partition
    ),
    "ALTER TABLE t WRITE UNORDERED": LayoutChange("CLUSTER BY"),
}


@pytest.mark.parametrize("text", READ)
def test_every_form_of_a_statement_is_parsed(text):
    assert rules.parse(rules.opened(text)) == READ[text]


def test_parameters_stand_for_numbers_texts_and_names():
    named = {"t": "lake.flights", "h": 36, "v": "v2013"}
    found = rules.opened("VACUUM IDENTIFIER(:t) RETAIN :h HOURS", named)
    assert (found.table, rules.parse(found, named)) == (("lake", "flights"), rules.Vacuum(timedelta(hours=36)))
    assert rules.parse(rules.opened("RESTORE t VERSION AS OF :v", named), named) == rules.Restore("v2013")
    found = rules.opened("OPTIMIZE IDENTIFIER(?) WHERE a > ? AND b < ?", ["t", 1, 2])
    assert rules.parse(found, ["t", 1, 2]) == rules.Optimize("a > ? AND b < ?", 1)
    found = rules.opened("ALTER TABLE IDENTIFIER(?) PARTITIONED BY (bucket(?, id))", ["t", 8])
    assert rules.parse(found, ["t", 8]) == LayoutChange("PARTITIONED BY", parse("bucket(8, id)", None).partition)
    with pytest.raises(InvalidOption, match=r":gone.*no value"):
        rules.parse(rules.opened("VACUUM t RETAIN :gone HOURS", named), named)
    with pytest.raises(InvalidOption, match="number or a text"):
        rules.parse(rules.opened("VACUUM t RETAIN ? HOURS", [None]), [None])


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("DESCRIBE HISTORY t LIMIT many", "at 'many'"),
        ("DESCRIBE HISTORY t LIMIT '-1'", "'-1' is not a whole number"),
        ("OPTIMIZE t WHERE", "at its end"),
        ("OPTIMIZE t ZORDER BY (a", "at its end"),
        ("OPTIMIZE t SORT BY a", "at 'SORT'"),
        ("VACUUM t RETAIN 7", "'7 ' is not a span"),
        ("VACUUM t RETAIN 7 MOONS", "not a span"),
        ("VACUUM t RETAIN 99999999999999999999 HOURS", "not a span"),
        ("VACUUM t LITE", "at 'LITE'"),
        ("VACUUM t; VACUUM u", "at ';'"),
        ("RESTORE TABLE t", "at its end"),
        ("RESTORE TABLE t TO VERSION 3", "at 'VERSION'"),
        ("ALTER TABLE t CREATE BRANCH", "at its end"),
        ("ALTER TABLE t PARTITIONED BY", "at its end"),
        ("ALTER TABLE t PARTITIONED BY id", "at 'id'"),
        ("ALTER TABLE t PARTITIONED BY ()", "at ')'"),
        ("ALTER TABLE t PARTITIONED BY (a b)", "at 'b'"),
        ("ALTER TABLE t PARTITIONED BY (bucket(8, id", "at its end"),
        ("ALTER TABLE t PARTITIONED BY (bucket(1.5, id))", "'1.5' is not a whole number"),
        ("ALTER TABLE t ADD PARTITION FIELD a, b", "at ','"),
        ("ALTER TABLE t REPLACE PARTITION FIELD a", "at its end"),
        ("ALTER TABLE t WRITE a", "at 'a'"),
        ("ALTER TABLE t CREATE TAG x AS OF VERSION 3 WITH SNAPSHOT RETENTION 2 SNAPSHOTS", "at 'WITH'"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_form(text, where):
    with pytest.raises(InvalidOption) as refusal:
        rules.parse(rules.opened(text))
    assert where in refusal.value.message
    assert refusal.value.hint.startswith("Its form is: ")


@pytest.mark.parametrize(
    ("text", "said", "instead"),
    [
        ("ADD PARTITION FIELD bucket(8, id) AS shard", "bucket(8, id) cannot have another name", "Leave AS out"),
        ("REPLACE PARTITION FIELD a WITH b AS c", "b cannot have another name", "Leave AS out"),
        ("WRITE DISTRIBUTED BY PARTITION", "WRITE DISTRIBUTED cannot be declared", "CLUSTER BY (a, b)"),
        ("WRITE LOCALLY ORDERED BY a", "WRITE LOCALLY cannot be declared", "CLUSTER BY (a, b)"),
        ("WRITE ORDERED BY a DESC", "in no other order", "CLUSTER BY (a, b)"),
        ("WRITE ORDERED BY a ASC NULLS FIRST", "in no other order", "CLUSTER BY (a, b)"),
        ("WRITE ORDERED BY bucket(8, id)", "in no other order", "ZORDER BY"),
        ("PARTITIONED BY (a.b)", "a field inside of a column", "Name whole columns"),
        ("PARTITIONED BY (foo(id))", "cannot be partitioned by foo", "bucket(n, column)"),
        ("PARTITIONED BY (bucket(0, id))", "must be 1 to 1024", ""),
    ],
)
def test_what_has_no_counterpart_is_refused_with_the_statement_that_has(text, said, instead):
    with pytest.raises((Refused, InvalidOption)) as refusal:
        rules.parse(rules.opened(f"ALTER TABLE t {text}"))
    assert said in refusal.value.message
    assert instead in (refusal.value.hint or "")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("CREATE VIEW lake.ns.v AS SELECT 1", ("lake", "ns", "v")),
        ("/* a */ create or\nreplace view `v.1` (a COMMENT 'x') AS SELECT 1", ("v.1",)),
        ("CREATE VIEW IF NOT EXISTS ns.v AS SELECT 1", ("ns", "v")),
        ("CREATE VIEW IDENTIFIER('lake.ns.v') AS SELECT 1", ("lake", "ns", "v")),
        ("CREATE VIEW IDENTIFIER(:name) AS SELECT 1", None),
        ("CREATE VIEW", None),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", None),
        ("CREATE OR REPLACE GLOBAL TEMP VIEW v AS SELECT 1", None),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", None),
        ("CREATE TABLE view AS SELECT 1", None),
        ("SELECT 'CREATE VIEW v'", None),
    ],
)
def test_the_view_that_a_statement_would_make(text, named):
    assert rules.view_to_create(text) == named


@pytest.mark.parametrize(
    ("said", "value"),
    [
        (r"'it\'s'", "it's"),
        (r"'a\\b'", "a\\b"),
        (r"'\n\t\Z'", "\n\t\x1a"),
        (r"'\u0041\U0001F600'", "A\U0001f600"),
        (r"'\101\0'", "A\0"),
        (r"'\%\_'", r"\%\_"),
        (r"'\8\q'", "8q"),
        (r"r'\u0041'", r"\u0041"),
    ],
)
def test_escapes_in_texts_mean_what_they_mean_to_spark(said, value):
    (token,) = rules.tokens(said)
    assert (token.kind, token.value) == ("text", value)
