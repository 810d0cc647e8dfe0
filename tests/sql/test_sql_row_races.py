"""What the engine is told of a statement: the actions of a version, and what it needs when others commit meanwhile."""

from dataclasses import replace

import lance
import pytest
from support.local_datasets import pin
from support.sql_changes import asked, changed, stored, table

from lance_spark import errors
from lance_spark.format.schema import ROW_ADDRESS
from lance_spark.format.transactions import MESSAGE
from lance_spark.native import row_statements
from lance_spark.rows.action_rules import OPERATION

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0.1)]

ALL = "SELECT * FROM model"


def test_what_was_committed_meanwhile_is_seen(spark, target, monkeypatch):
    """The engine asks for the actions of the version that it is to commit on, which is not the one first looked at."""
    changing, analyze = row_statements.change_rows, row_statements.RowStatement.analyze
    analyzed = []

    def counted(self, pins):
        analyzed.append([pin.version for pin in pins.values()])
        return analyze(self, pins)

    monkeypatch.setattr(row_statements.RowStatement, "analyze", counted)
    changed(spark, "UPDATE lake.ns1.t SET v = v")
    assert analyzed == [[]]

    def later(session, change, *how):
        lance.write_dataset(table([(2000, "g", 1, 0.0, None)]), target, mode="append")
        return changing(session, change, *how)

    monkeypatch.setattr(row_statements, "change_rows", later)
    assert changed(spark, "UPDATE lake.ns1.t SET v = (SELECT max(id) FROM lake.ns1.t) WHERE length(k) = 1")[0] == 7
    expected = "SELECT id, k, if(k IS NULL, v, 2000), d, s FROM model UNION ALL VALUES (2000, 'g', 2000, 0D, NULL)"
    assert stored(target) == asked(spark, expected)


MEETINGS = {
    "UPDATE lake.ns1.t SET v = 1 WHERE length(k) = 1": (True, False),
    "DELETE FROM lake.ns1.t WHERE v % 2 = 1": (True, False),
    "MERGE INTO lake.ns1.t t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 1": (True, False),
    "MERGE INTO lake.ns1.t t USING src s ON t.id = s.id WHEN MATCHED AND false THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)": (True, False),
    "MERGE INTO lake.ns1.t t USING src s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id) -- so": (
        True,
        False,
    ),
    "MERGE INTO lake.ns1.t t USING src s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE": (True, True),
}


@pytest.mark.parametrize("statement", MEETINGS)
def test_whether_a_change_meets_rows_that_were_added(spark, target, statement, monkeypatch):
    found = []

    def kept(_session, change, *_how):
        found.append(change)
        raise errors.Conflict("kept")

    monkeypatch.setattr(row_statements, "change_rows", kept)
    with pytest.raises(errors.Conflict):
        spark.sql(statement)
    answers = []
    for row in ((100, "g", 1, 0.0, None), (3000, "long", 2, 0.0, None)):
        lance.write_dataset(table([row]), target, mode="append")
        fragment = lance.dataset(target).get_fragments()[-1].fragment_id
        answers.append(found[0].meets(pin(target), [fragment]))
    assert tuple(answers) == MEETINGS[statement]
    assert found[0].inserts_by_key == ("NOT MATCHED THEN" in statement)


def after_the_first_look(monkeypatch, commit):
    """Let somebody commit once the engine has computed what to do."""
    changing = row_statements.change_rows

    def meanwhile(session, change, *how):
        def actions(version):
            found = change.actions(version).localCheckpoint()
            commit()
            return found

        return changing(session, replace(change, actions=actions), *how)

    monkeypatch.setattr(row_statements, "change_rows", meanwhile)


@pytest.mark.parametrize("clause", ["WHEN MATCHED THEN UPDATE SET v = s.v ", ""])
def test_a_key_that_somebody_inserts_meanwhile_is_a_conflict(spark, target, clause, monkeypatch):
    merge = f"MERGE INTO lake.ns1.t t USING {{source}} s ON t.id = s.id {clause}"
    statement = f"{merge} WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    rows = [[(5000, "g", 1, 0.0, None)], [(101, "g", 1, 0.0, None)]]
    after_the_first_look(monkeypatch, lambda: lance.write_dataset(table(rows.pop(0)), target, mode="append"))
    assert changed(spark, statement, source=spark.table("src").where("id = 100"))[2] == 1
    before = stored(target)
    with pytest.raises(errors.Conflict):
        spark.sql(statement, source=spark.table("src"))
    assert rows == []
    assert len(stored(target)) == len(before) + 1


def test_rows_that_somebody_changes_meanwhile_are_a_conflict(spark, target, monkeypatch):
    after_the_first_look(monkeypatch, lambda: lance.dataset(target).delete("id = 0"))
    with pytest.raises(errors.Conflict):
        spark.sql("UPDATE lake.ns1.t SET v = 1 WHERE length(k) = 1")
    assert stored(target) == asked(spark, f"{ALL} WHERE id > 0")


def test_the_session_says_how_often_it_is_computed_again_and_with_which_message(spark, target, monkeypatch):
    others = [lambda: lance.dataset(target).delete("id = 0"), lambda: lance.dataset(target).delete("id = 1")]
    after_the_first_look(monkeypatch, lambda: others and others.pop(0)())
    spark.sql("SET spark.lance.retries = 2")
    spark.sql("SET spark.lance.commit.message = nightly run")
    try:
        assert changed(spark, "UPDATE lake.ns1.t SET v = 1 WHERE length(k) = 1") == (4, 0, 0)
        changed(spark, "DELETE FROM lake.ns1.t WHERE id = 2")
        changed(spark, "DELETE FROM lake.ns1.t WHERE id + 0 = 3")
        versions = range(lance.dataset(target).version - 2, lance.dataset(target).version + 1)
        found = [lance.dataset(target).read_transaction(version).transaction_properties for version in versions]
        assert [each[MESSAGE] for each in found] == ["nightly run"] * 3
        spark.conf.set("spark.lance.retries", "often")
        with pytest.raises(errors.InvalidOption, match=r"spark\.lance\.retries is 'often'"):
            spark.sql("DELETE FROM lake.ns1.t")
    finally:
        spark.conf.unset("spark.lance.retries")
        spark.conf.unset("spark.lance.commit.message")
    assert stored(target) == asked(spark, "SELECT id, k, if(k IS NULL, v, 1), d, s FROM model WHERE id > 3")


SETS = {
    "UPDATE lake.ns1.t SET v = 1, k = k WHERE id > 3": {"v"},
    "UPDATE lake.ns1.t SET v = id, s.a = 5 WHERE id + 1 > 3": {"v", "s"},
    "UPDATE lake.ns1.t SET v = id": None,
    "DELETE FROM lake.ns1.t WHERE id + 1 > 3": None,
    "MERGE INTO lake.ns1.t t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 1": None,
    "MERGE INTO lake.ns1.t t USING src s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)": None,
}


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("statement", SETS)
def test_an_update_of_some_rows_names_the_columns_that_it_sets(spark, target, statement, monkeypatch):
    """The others are read where rows are written, and not carried there."""
    found = []

    def kept(_session, change, *_how):
        found.append(change)
        raise errors.Conflict("kept")

    monkeypatch.setattr(row_statements, "change_rows", kept)
    with pytest.raises(errors.Conflict):
        spark.sql(statement)
    wanted = SETS[statement]
    assert found[0].sets == wanted
    columns = {"id", "k", "v", "d", "s"}
    carried = set(found[0].actions(pin(target)).columns) - {OPERATION, ROW_ADDRESS}
    assert carried == (columns if wanted is None else columns & wanted)
