"""Which statements are looked at before Spark gets them."""

import pytest

from lance_spark.spark.jvm.statements import may_change_rows, with_all_rows

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
    assert may_change_rows(text) is CASES[text]


def test_something_is_put_behind_a_merge():
    end = "\nWHEN NOT MATCHED BY SOURCE AND false THEN DELETE"
    merge = "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT *"
    assert with_all_rows(f"{merge} ;\n") == f"{merge} {end}"
    assert with_all_rows(f"{merge} -- so") == f"{merge} -- so{end}"
    assert with_all_rows(f"{merge}; -- so") is None
