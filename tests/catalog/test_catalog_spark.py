"""LanceCatalog, and the data source's ``catalog`` option: tables by their names."""

import os
import pickle

import lance
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace
from support.frames import ids, numbers, refused

from lance_spark import LanceCatalog
from lance_spark.errors import AlreadyExists, Conflict, InvalidOption, NotFound, Refused, SchemaMismatch

pytestmark = [
    pytest.mark.spark,
    pytest.mark.when(oldest=0.15, newest=0.45),
    pytest.mark.usefixtures("both_ways"),
]


@pytest.fixture
def cat(spark, tmp_path):
    """An empty catalog with namespaces ns1 and ns1.ns2."""
    made = LanceCatalog(str(tmp_path / "lake"), spark=spark)
    made.create_namespace("ns1", {"owner": "ops"})
    made.create_namespace("ns1.ns2")
    return made


def put(cat, name, first=0, last=3):
    """A table written by pylance."""
    rows = pa.table({"id": pa.array(range(first, last), pa.int64())})
    lance.write_dataset(rows, cat.declare_table(name).location.uri)


def load(spark, cat, name, **options):
    return spark.read.format("lance").options(catalog=cat.catalog.uri, **options).load(name)


def save(frame, cat, name, mode="append", **options):
    frame.write.format("lance").mode(mode).options(catalog=cat.catalog.uri, **options).save(name)


def directories(cat):
    return {found for found in os.listdir(cat.catalog.uri) if found != "__manifest"}


def test_a_table_is_written_and_read_by_its_name_in_every_spelling(spark, cat):
    cat.write_table(numbers(spark, 0, 5, 2), "ns1.ns2.flights")
    cat.table("ns1.ns2.flights").branches.create("exp")
    save(numbers(spark, 9, 10), cat, "ns1.ns2.flights", branch="exp")
    assert ids(load(spark, cat, "ns1.ns2.flights", branch="exp")) == [0, 1, 2, 3, 4, 9]
    assert ids(cat.table("ns1.ns2.flights", branch="exp").to_df(filter="id > 3")) == [4, 9]
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW flights_of_exp USING lance "
        f"OPTIONS (catalog '{cat.catalog.uri}', path 'ns1.ns2.flights', branch 'exp')"
    )
    assert spark.sql("SELECT max(id) FROM flights_of_exp").collect() == [(9,)]
    spark.catalog.dropTempView("flights_of_exp")
    theirs = DirectoryNamespace(root=cat.catalog.uri)
    found = lance.dataset(namespace_client=theirs, table_id=["ns1", "ns2", "flights"])
    assert sorted(found.to_table()["id"].to_pylist()) == [0, 1, 2, 3, 4]


@pytest.mark.when(spark="newest")
def test_the_modes_of_a_write(spark, cat):
    name = "ns1.flights"
    save(numbers(spark, 0, 2), cat, name)
    save(numbers(spark, 2, 3), cat, name)
    with refused(AlreadyExists, f"'{name}'", "append"):
        save(numbers(spark, 7, 8), cat, name, create_table=True)
    assert ids(load(spark, cat, name)) == [0, 1, 2]
    save(numbers(spark, 4, 5), cat, name, mode="overwrite")
    with pytest.raises(AlreadyExists, match=name):
        cat.write_table(numbers(spark, 7, 8), name)
    cat.write_table(numbers(spark, 7, 8), name, mode="ignore")
    cat.write_table(numbers(spark, 5, 6), name, mode="append", commit_message="why")
    assert ids(cat.table(name).to_df()) == [4, 5]
    with pytest.raises(InvalidOption, match="'upsert' is not a save mode"):
        cat.write_table(numbers(spark, 7, 8), name, mode="upsert")


@pytest.mark.when(spark="newest")
def test_a_failed_job_gives_the_name_back(spark, cat):
    def fail(batches):
        yield from batches
        raise ValueError("own fault")

    failing = numbers(spark, 0, 3).mapInArrow(fail, "id bigint")
    with pytest.raises(Exception, match="own fault"):
        cat.write_table(failing, "flights")
    assert (cat.table_exists("flights"), directories(cat)) == (False, set())
    with pytest.raises(Exception, match="own fault"):
        save(failing, cat, "ns1.flights")
    assert (cat.table_exists("ns1.flights"), directories(cat)) == (False, set())


@pytest.mark.when(spark="newest")
def test_a_table_that_is_dropped_while_it_is_written_is_a_conflict_and_leaves_nothing(spark, cat):
    def during(batches):
        yield from batches
        cat.drop_table("ns1.flights")

    with pytest.raises(Conflict, match="during the write"):
        cat.write_table(numbers(spark, 0, 3).mapInArrow(during, "id bigint"), "ns1.flights")
    assert (cat.list_tables("ns1"), directories(cat)) == ([], set())


@pytest.mark.when(spark="newest")
def test_what_cannot_be_written_is_refused_in_our_own_words(spark, cat):
    with pytest.raises(NotFound, match="no namespace 'ns3'") as caught:
        cat.write_table(numbers(spark, 0, 1), "ns3.flights")
    assert caught.value.hint == "Create it first: lake.create_namespace('ns3')."
    with pytest.raises(InvalidOption, match="has no branch 'exp'"):
        cat.write_table(numbers(spark, 0, 1), "flights", branch="exp")
    put(cat, "flights")
    with pytest.raises(SchemaMismatch, match="Column 'id' is string"):
        cat.write_table(spark.createDataFrame([("x",)], "id string"), "flights", mode="append")
    assert ids(cat.table("flights").to_df()) == [0, 1, 2]


@pytest.mark.when(spark="newest")
@pytest.mark.parametrize(
    ("options", "name", "error", "words"),
    [
        ({}, "ns1.flight", NotFound, ("'ns1.flight'", "ns1.flights", "lake")),
        ({}, "ns1.empty", NotFound, ("no data yet",)),
        ({}, "s3://bucket/flights.lance", InvalidOption, ("it is a path", "load('ns1.flights')")),
        ({"catalog_mode": "v3"}, "ns1.flights", InvalidOption, ("'v3'", "compatibility")),
        ({"catalog_mode": "v1"}, "ns1.flights", Refused, ("V1",)),
        ({"branch": "exp"}, "ns1.flights", NotFound, ("'exp'",)),
    ],
    ids=str,
)
def test_a_read_of_what_is_not_there_tells_what_is_meant(spark, cat, options, name, error, words):
    put(cat, "ns1.flights")
    cat.declare_table("ns1.empty")
    with refused(error, *words):
        load(spark, cat, name, **options)


@pytest.mark.when(spark="newest")
def test_views_let_sql_ask_all_tables(spark, cat):
    put(cat, "my-table")
    put(cat, "ns1.ns2.flights", 1, 9)
    cat.declare_table("ns1.empty")
    assert cat.register_views(spark) == ["my-table", "ns1_ns2_flights"]
    joined = "SELECT sum(id) FROM ns1_ns2_flights JOIN `my-table` USING (id)"
    assert spark.sql(joined).collect() == [(3,)]
    lance.write_dataset(pa.table({"id": [0]}), cat.describe_table("ns1.ns2.flights").location.uri, mode="append")
    assert spark.sql("SELECT count(*) FROM ns1_ns2_flights").collect() == [(8,)]
    assert cat.register_views(namespace="ns1", prefix="lake_") == ["lake_ns1_ns2_flights"]
    assert cat.register_views(namespace="ns1", recursive=False) == []
    assert spark.sql("SELECT count(*) FROM lake_ns1_ns2_flights").collect() == [(9,)]
    put(cat, "ns1.ns2_flights")
    with pytest.raises(Refused, match="would both get the view 'other_ns1_ns2_flights'"):
        cat.register_views(spark, prefix="other_")
    assert not spark.catalog.tableExists("`other_my-table`")
    for view in ("my-table", "ns1_ns2_flights", "lake_ns1_ns2_flights"):
        spark.catalog.dropTempView(view)


@pytest.mark.when(spark="newest")
def test_namespaces_and_tables_are_listed_in_pages_and_described(cat):
    for name in ("b", "a", "ns1.`x.y`", "ns1.ns2.c"):
        put(cat, name)
    assert cat.list_namespaces() == ["ns1"]
    assert cat.list_namespaces(recursive=True) == ["ns1", "ns1.ns2"]
    assert cat.list_namespaces("ns1", limit=1, after="ns1.ns1") == ["ns1.ns2"]
    everything = ["a", "b", "ns1.ns2.c", "ns1.`x.y`"]
    assert cat.list_tables(recursive=True) == everything
    assert (cat.list_tables(), cat.list_tables("ns1")) == (["a", "b"], ["ns1.`x.y`"])
    pages, after = [], None
    while page := cat.list_tables(recursive=True, limit=3, after=after):
        pages.append(page)
        after = page[-1]
    assert pages == [everything[:3], everything[3:]]
    assert cat.describe_namespace("ns1").properties == {"owner": "ops"}
    assert cat.alter_namespace("ns1", {"since": "2013"}, unset=["owner"]).properties == {"since": "2013"}
    assert cat.alter_namespace("", {"of": "root"}).properties == cat.describe_namespace().properties == {"of": "root"}
    assert cat.alter_table("a", {"x": "1"}).properties == cat.describe_table("a").properties == {"x": "1"}
    assert cat.create_namespace("ns1", exist_ok=True) is False
    with pytest.raises(NotFound, match="no such namespace"):
        cat.list_tables("ns9")


@pytest.mark.when(spark="newest")
def test_tables_are_renamed_moved_taken_out_put_back_and_dropped(cat):
    put(cat, "a")
    cat.rename_table("a", "ns1.b")
    handle = cat.table("ns1.b", version=1)
    cat.move_table("ns1.b", "ns1.ns2")
    taken = cat.deregister_table("ns1.ns2.b")
    assert (cat.list_tables(recursive=True), taken.data_kept) == ([], True)
    cat.register_table("c", taken.path)
    again = cat.table("c")
    assert (again.count_rows(), again.version, handle.version) == (3, 1, 1)
    with pytest.raises(Refused, match="not empty"):
        cat.drop_namespace("ns1")
    cat.drop_table("c")
    assert (cat.drop_namespace("ns1", cascade=True), cat.list_namespaces(), directories(cat)) == ((), [], set())
    assert not cat.namespace_exists("ns1")


@pytest.mark.when(spark="newest")
def test_directories_of_tables_are_migrated(spark, tmp_path):
    root = str(tmp_path / "old")
    lance.write_dataset(pa.table({"id": [1]}), f"{root}/t.lance")
    cat = LanceCatalog(root, spark=spark)
    assert (cat.list_tables(), LanceCatalog(root, mode="v2", spark=spark).list_tables()) == (["t"], [])
    assert "1 table would be registered" in str(cat.migrate(dry_run=True))
    assert "1 table registered" in str(cat.migrate())
    assert LanceCatalog(root, mode="v2", spark=spark).table("t").count_rows() == 1


@pytest.mark.when(spark="newest")
def test_a_catalog_goes_to_executors_without_its_session(spark, cat):
    put(cat, "ns1.flights")

    def rows_on_executor(batches):
        import lance
        import pyarrow as pa

        for _ in batches:
            uri = cat.describe_table("ns1.flights").location.uri
            yield pa.record_batch({"n": [lance.dataset(uri).count_rows()]})

    assert spark.range(0, 1, 1, 1).mapInArrow(rows_on_executor, "n bigint").collect() == [(3,)]
    again = pickle.loads(pickle.dumps(cat))
    assert again.table("ns1.flights").to_df(filter="id = 1").count() == 1


@pytest.mark.when(spark="newest")
def test_no_text_shows_a_storage_option(spark, tmp_path):
    cat = LanceCatalog(str(tmp_path / "lake"), {"aws_secret_access_key": "hush-hush"}, spark=spark)
    cat.write_table(numbers(spark, 0, 1), "t")
    with pytest.raises(AlreadyExists) as caught:
        cat.write_table(numbers(spark, 0, 1), "t")
    for text in (cat, cat.catalog, cat.describe_table("t"), cat.table("t"), caught.value, cat.migrate(dry_run=True)):
        assert "hush-hush" not in f"{text!r} {text}"
    assert "hush-hush" in str(pickle.loads(pickle.dumps(cat)).table("t").location.storage_options)
