"""Procedures in SQL: named arguments, defaults, rows, errors."""

from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException

from lance_spark import errors
from lance_spark.refs.refs import alter_tag

pytestmark = [pytest.mark.on_services, pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(oldest=0.2)]


def call(spark, text):
    return [row.asDict() for row in spark.sql(f"CALL {text}").collect()]


def test_a_branch_is_made_written_merged_and_dropped(spark, lake_flights):
    made = call(spark, "lake.system.create_branch(table => 'ns1.flights', name => 'fix', from => 'v2013')")
    assert [row["name"] for row in made] == ["fix"]
    merged = call(spark, "lake.system.merge_branch('ns1.flights', 'exp/delays', message => 'delays')")
    assert [(row["into"], row["rows_added"]) for row in merged] == [("main", 1)]
    assert lance.dataset(lake_flights.location.uri).count_rows() == 11
    call(spark, "lake.system.create_tag(table => 'ns1.flights', name => 'done')")
    call(spark, "lake.system.drop_branch(table => 'ns1.flights', name => 'fix')")
    dataset = lance.dataset(lake_flights.location.uri)
    assert (sorted(dataset.branches.list()), sorted(dataset.tags.list())) == (["exp/delays"], ["done", "v2013"])
    call(spark, "lake.system.drop_tag('ns1.flights', 'v2013')")
    call(spark, "lake.system.drop_tag('ns1.flights', 'done')")
    cleaned = call(
        spark,
        f"lance.system.cleanup(table => '{lake_flights.location.uri}', retain_versions => 1, commit_window => '0s')",
    )
    assert cleaned
    assert {row["outcome"] for row in cleaned} == {"would be deleted"}
    assert lance.dataset(lake_flights.location.uri).checkout_version(1).count_rows() == 5


def test_optimize(spark, lake_flights):
    (done,) = call(spark, "lake.system.optimize(table => 'ns1.flights', target_rows => 100)")
    assert (done["branch"], done["fragments_removed"], done["fragments_added"], done["rows"]) == ("main", 2, 1, 10)
    assert done["conflicts"] == done["indexes_rehomed"] == []
    (done,) = call(spark, "lake.system.optimize('ns1.flights', branch => 'exp/delays', own_only => false)")
    assert (done["branch"], done["rows"]) == ("exp/delays", 11)
    dataset = lance.dataset(lake_flights.location.branch_uri("exp/delays"))
    assert [fragment.count_rows() for fragment in dataset.get_fragments()] == [11]


def test_a_table_may_be_named_with_its_catalog(spark, lake_flights):
    call(spark, "lake.system.create_tag('lake.ns1.flights', 'named', 'exp/delays')")
    assert lake_flights.tags["named"].branch == "exp/delays"
    with pytest.raises(errors.NotFound):
        call(spark, "lake.system.drop_tag('other.ns1.flights', 'named')")
    spark.sql("CREATE NAMESPACE lake.lake")
    with pytest.raises(errors.NotFound):  # the namespace is meant
        call(spark, "lake.system.drop_tag('lake.ns1.flights', 'named')")


def test_fsck(spark, lake_flights):
    assert call(spark, "lake.system.fsck(table => 'ns1.flights', deep => true)") == []
    lost = sorted(Path(lake_flights.location.uri, "data").iterdir())[0]
    lost.unlink()
    found, *steps = call(spark, "lake.system.fsck('ns1.flights', repair => true, dry_run => true)")
    assert (found["code"], found["path"]) == ("data-missing", f"data/{lost.name}")
    assert {step["code"] for step in steps} == {"leave-out"}
    *_, record = call(spark, "lake.system.fsck('ns1.flights', repair => true)")
    lake_flights.undo_repair(record["path"])
    assert not [name for name in lance.dataset(lake_flights.location.uri).branches.list() if name.startswith("repair/")]


def test_storage_and_expire_refs(spark, lake_flights):
    listed = call(spark, "lake.system.storage(table => 'ns1.flights')")
    rows = {row["ref"]: row for row in listed if row["kind"] == "branch"}
    assert rows["exp/delays"]["owned_bytes"] > 0
    assert rows["main"]["by_kind"]["data"] > 0
    assert rows["main"]["freed_bytes"] is None
    alter_tag(lake_flights.location, "v2013", {"expire_after": "1s"})
    (told,) = call(spark, "lake.system.expire_refs(table => 'ns1.flights', dry_run => false)")
    assert (told["kind"], told["name"], told["outcome"]) == ("tag", "v2013", "warned of")
    assert told["expires"].year >= 2000
    assert "v2013" in lance.dataset(lake_flights.location.uri).tags.list()


def test_what_a_procedure_refuses(spark, lake_flights):
    with pytest.raises(errors.NotFound, match="v2013"):
        call(spark, "lake.system.create_branch(table => 'ns1.flights', name => 'b', from => 'v2012')")
    with pytest.raises(errors.AlreadyExists):
        call(spark, "lake.system.create_tag(table => 'ns1.flights', name => 'v2013')")
    with pytest.raises(errors.NotFound, match="merge_branch"):
        call(spark, "lake.system.merge_branches(table => 'ns1.flights')")
    with pytest.raises(errors.NotFound, match="system"):
        call(spark, "lake.create_branch(table => 'ns1.flights', name => 'b')")
    for text, condition in (
        ("create_branch(table => 'ns1.flights')", "REQUIRED_PARAMETER_NOT_FOUND"),
        ("create_branch(table => 'ns1.flights', names => 'b')", "UNRECOGNIZED_PARAMETER_NAME"),
    ):
        with pytest.raises(AnalysisException) as caught:
            call(spark, f"lake.system.{text}")
        assert caught.value.getCondition() == condition


def refused(spark, statement, kind=errors.Refused):
    with pytest.raises(kind) as caught:
        spark.sql(statement).collect()
    return caught.value.hint


def test_hints_are_statements_that_can_be_typed_next(spark, lake_flights, tmp_path):
    lake_flights.clone(str(tmp_path / "copy.lance"), follow=False)
    (tag,) = [tag.name for tag in lake_flights.tags.list(all=True) if tag.name.startswith("clone-")]
    hint = refused(spark, f"CALL lake.system.drop_tag(table => 'ns1.flights', name => '{tag}')")
    statement = f"CALL lake.system.drop_tag(table => 'ns1.flights', name => '{tag}', force => true)"
    assert hint == f"If that clone is gone for good: {statement}."
    assert [row.name for row in spark.sql(statement).collect()] == [tag]
    create = "CALL lake.system.create_branch(table => 'ns1.flights', name => 'exp/delays')"
    hint = refused(spark, create, errors.AlreadyExists)
    drop = "CALL lake.system.drop_branch(table => 'ns1.flights', name => 'exp/delays')"
    assert hint == f"To start again, delete it first: {drop}."
    spark.sql(drop).collect()
    spark.sql(create).collect()


def test_hints_name_python_where_sql_has_no_verb(spark, lake_flights):
    lake_flights.frozen.create("train")
    drop = "CALL lake.system.drop_tag(table => 'ns1.flights', name => 'train', force => true)"
    assert refused(spark, drop).startswith("t.frozen.delete('train') in Python deletes the frozen set")
    create = "CALL lake.system.create_tag(table => 'ns1.flights', name => 'v2013')"
    assert refused(spark, create, errors.AlreadyExists).endswith(
        "t.tags.move('v2013', branch=..., version=...) in Python."
    )
    lake_flights.branches.alter("main", protected=True)
    way = "To remove the protection: t.branches.alter('main', protected=False)"
    assert refused(spark, "DELETE FROM lake.ns1.flights WHERE id = 1").endswith(f"{way} in Python.")
    with pytest.raises(errors.Refused) as caught:
        lake_flights.delete("id = 1")
    assert caught.value.hint.endswith(f"{way}.")
