"""Fixtures shared by all tests. Spark is started once per run, and only when a test asks for it."""

import gc
import os
import sys
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
# Spark's daemons find tests/daemons/sitecustomize.py there, which makes the tests of errors four times faster, and
# every process finds tests/support.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (f"{Path(__file__).parent}/daemons", str(Path(__file__).parent), os.environ.get("PYTHONPATH")))
)

import pytest
from hypothesis import HealthCheck, settings
from support.command_line import make_flights
from support.connect_clients import connected_session
from support.kinds import CLASSIC, CONNECT, give_way, leave_out, take_share, take_turns

settings.register_profile(
    "default",
    deadline=None,
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    # The same examples every time: a change must not fail for what an earlier one broke.
    derandomize=True,
    database=None,
)
settings.register_profile("nightly", settings.get_profile("default"), max_examples=1000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m -Xmn256m"
pytest_plugins = ["support.s3_fixtures", "support.service_lakes", "support.spark_fixtures"]


def pytest_addoption(parser):
    parser.addoption("--share", default="1/1", help="runs every Nth test only, from the Kth on: K/N")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    leave_out(items)
    take_share(items, config.getoption("share"))
    take_turns(items)


def pytest_runtest_setup(item):
    give_way(item)


def pytest_collection_finish(session):
    """pytest 9.2 ignored the groups of pytest-xdist 3.8 without a word, and the tests took twice as long."""
    if getattr(session.config.option, "loadgroup", False) and not all("@" in item.nodeid for item in session.items):
        raise pytest.UsageError("This pytest ignores the groups of pytest-xdist; see pyproject.toml.")
    # Tens of thousands of collected tests stay until the end. To look through them for garbage again and again took an
    # eighth of the CPU time of tests that make small datasets.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(scope="session")
def classic():
    """A classic local session, shared by the whole run: starting the JVM costs four seconds.

    Tests run most code a few times only, so they are done before the JVM's better compiler has paid off. Its code of
    all tests takes more than the 48 MB which the JVM keeps for that alone: it would throw compiled code away, and
    compile it again. With room for classes from the beginning it collects no garbage only to make some.
    """
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("lance_spark tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.task.maxFailures", "1")
        .config("spark.driver.extraJavaOptions", JVM)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    _started.append(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark(classic, request):
    """The session of a test: the classic one, or a client of a Spark Connect server in its JVM (``on_connect``)."""
    if getattr(request, "param", CLASSIC) != CONNECT:
        yield classic
        return
    with connected_session(classic) as session:
        yield session


_started = []
"""The session, once there is one. To ask for the fixture would start a JVM in a process that has no Spark tests."""


@pytest.fixture(autouse=True, scope="module")
def _each_file_begins_plain():
    """Handles and catalogs let a session read natively from then on: no file of tests is to depend on another one."""
    yield
    for session in _started:
        _unregister(session)


@pytest.fixture(autouse=True)
def _each_test_leaves_the_session_as_it_was(request):
    """Whatever a test or its handles registered goes with it; what a fixture of the whole file did stays."""
    if "spark" not in request.fixturenames:
        yield
        return
    from lance_spark import capabilities

    spark = request.getfixturevalue("spark")
    before = capabilities(spark).native
    yield
    if not before:
        _unregister(spark)


def _unregister(spark):
    from lance_spark import capabilities, unregister

    if capabilities(spark).native:
        unregister(spark)


@pytest.fixture
def uri(tmp_path):
    """A path where a dataset may be made."""
    return str(tmp_path / "table.lance")


@pytest.fixture(params=[None, "exp"], ids=["main", "branch"])
def branch(request):
    return request.param


@pytest.fixture
def flights(tmp_path):
    """A workspace with a dataset that has branches and tags: see ``make_flights``."""
    return make_flights(tmp_path)
