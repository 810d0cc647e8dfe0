"""Both ways to read, and a catalog in SQL for the tests of test_sql_*.py."""

from __future__ import annotations

import os
from collections.abc import Iterator

import lance
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from lance_spark import LanceCatalog, LanceTable, capabilities, register, unregister
from lance_spark.jvm.switches import SWITCH
from support.kinds import CLASSIC, CONNECT, takes_clients
from support.local_datasets import make_dataset, numbers
from support.service_lakes import ServiceLake, place
from support.sql_changes import CHANGES, ROWS, SOURCE, table

NATIVE, PLAIN = "native", "plain"
WAYS = [
    pytest.param(NATIVE, CLASSIC, id=NATIVE, marks=pytest.mark.when(spark="newest")),
    pytest.param(PLAIN, CLASSIC, id=PLAIN, marks=pytest.mark.when(newest=0.4, oldest=0.6)),
]
"""On the oldest Spark test_native_*.py has the native way; of the plain way each Spark has its part every day."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The ways of ``both_ways``, and the session of tests that run on Spark Connect as well."""
    clients = takes_clients(metafunc)
    if "both_ways" in metafunc.fixturenames:
        ways = [pytest.param(PLAIN, CLASSIC, id=PLAIN)] if os.environ.get(SWITCH) == "0" else WAYS
        ways = [*ways, pytest.param(CONNECT, CONNECT, id=CONNECT)] if clients else ways
        metafunc.parametrize(("both_ways", "spark"), ways, indirect=True, scope="module")
    elif clients and "spark" in metafunc.fixturenames:
        ways = [pytest.param(CLASSIC, id=pytest.HIDDEN_PARAM), pytest.param(CONNECT, id=CONNECT)]
        metafunc.parametrize("spark", ways, indirect=True, scope="module")


def none_active() -> SparkSession:
    """``SparkSession.active`` of a process that has started no session."""
    raise PySparkRuntimeError("NO_ACTIVE_OR_DEFAULT_SESSION")


@pytest.fixture(scope="module")
def both_ways(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the tests of a file twice: with the native way, and with the environment variable that switches it off.

    At night they run a third time: natively on Spark Connect.
    """
    unregister(spark)
    with pytest.MonkeyPatch.context() as environment:
        if request.param == PLAIN:
            environment.setenv(SWITCH, "0")
        register(spark, catalog="lance" if request.param == CONNECT else None)
        assert capabilities(spark).native == (request.param != PLAIN)
        yield request.param
        assert capabilities(spark).native == (request.param != PLAIN)
    unregister(spark)


@pytest.fixture
def lake(spark: SparkSession, lake_of: ServiceLake) -> Iterator[LanceCatalog]:
    """Catalog ``lake`` of the session, with namespace ns1 and nothing in it; and the catalog ``lance`` of paths."""
    catalog = lake_of.connect(spark=spark)
    lake_of.create_namespace("ns1")
    unregister(spark)
    lake_of.register(spark, "lake")
    register(spark)
    yield catalog
    spark.catalog.setCurrentCatalog("spark_catalog")
    unregister(spark)


@pytest.fixture
def lake_flights(lake: LanceCatalog) -> LanceTable:
    """Table ns1.flights: ids 0 to 4 in version 1, 0 to 9 in version 2 and tag v2013, one more on branch exp/delays."""
    uri, where = place(lake, "flights")
    make_dataset(uri, numbers(5), numbers(5, 5))
    lake.register_table("ns1.flights", where)
    table = lake.table("ns1.flights")
    table.tags.create("v2013")
    table.branches.create("exp/delays")
    lance.write_dataset(numbers(1, 10), lance.dataset(uri).checkout_version(("exp/delays", None)), mode="append")
    return table


@pytest.fixture
def target(spark: SparkSession, lake: LanceCatalog) -> Iterator[str]:
    """Table ns1.t in three fragments, with rows deleted between the others; a branch, a tag; the views to compare with.

    View ``model`` has the table's rows, and ``src`` those of most sources.
    """
    uri, where = place(lake, "t")
    make_dataset(uri, table(ROWS[:3]), table([(-1, "x", 0, 0.0, None), *ROWS[3:5]]), table(ROWS[5:]))
    lance.dataset(uri).delete("id = -1")
    lake.register_table("ns1.t", where)
    lake.table("ns1.t").branches.create("exp")
    lake.table("ns1.t").tags.create("before")
    spark.createDataFrame(table(ROWS)).createOrReplaceTempView("model")
    spark.createDataFrame(CHANGES, SOURCE).createOrReplaceTempView("src")
    yield uri
    for view in ("model", "src"):
        spark.catalog.dropTempView(view)
