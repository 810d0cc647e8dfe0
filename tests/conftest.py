"""Fixtures shared by all tests. Spark is started once per run, and only when a test asks for it."""

from __future__ import annotations

import os
import random
import sys
from functools import lru_cache
from importlib.metadata import version
from itertools import groupby
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

settings.register_profile(
    "default",
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    # The same examples every time: a change must not fail for what an earlier one broke.
    derandomize=True,
    database=None,
)
settings.register_profile("nightly", settings.get_profile("default"), max_examples=1000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m -Xmn256m"
_SPARK = "oldest" if version("pyspark").startswith("4.0.") else "newest"
_LONGEST_FIRST = ("connect", "spark", "property", "cli", "s3", "store", "unit")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """For runs with several processes (``--dist loadgroup --no-loadscope-reorder``).

    One process has all tests that need the Spark session, as every session takes a JVM that has to warm up. Other
    files stay whole. What takes long begins first, so that no process is alone with it at the end.
    """
    if os.environ.get("HYPOTHESIS_PROFILE") != "nightly":
        _leave_out(items)
    for item in items:
        group = "spark" if "spark" in item.fixturenames else item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: _turn(item.path.parent.name))


def pytest_collection_finish(session):
    """pytest 9.2 ignored the groups of pytest-xdist 3.8 without a word, and the tests took twice as long."""
    if getattr(session.config.option, "loadgroup", False) and not all("@" in item.nodeid for item in session.items):
        raise pytest.UsageError("This pytest ignores the groups of pytest-xdist; see pyproject.toml.")


def _leave_out(items):
    """Of tests marked ``sampled(part)`` keep that part of the cases: always the same ones, and every value of each
    parameter at least once; of those marked ``less_on(spark, part)`` on that Spark. The other cases, and what is marked
    ``nightly``, are run at night.
    """
    kept, left_out = [], []
    for _, group in groupby(items, lambda item: item.nodeid.partition("[")[0]):
        every = list(group)
        cases = [case for case in every if case.get_closest_marker("nightly") is None]
        marker = cases[0].get_closest_marker("sampled") if cases else None
        chosen = cases if marker is None else _sample(cases, marker.args[0])
        chosen = [case for case in chosen if _is_for_this_spark(case)]
        kept += [case for case in every if case in chosen]
        left_out += [case for case in every if case not in chosen]
    if left_out:
        left_out[0].config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _sample(cases, part):
    shuffled = random.Random(cases[0].originalname).sample(cases, len(cases))
    seen, chosen, others = set(), [], []
    for case in shuffled:
        values = {(name, repr(value)) for name, value in case.callspec.params.items()}
        (others if values <= seen else chosen).append(case)
        seen |= values
    return chosen + others[: max(0, round(part * len(cases)) - len(chosen))]


def _is_for_this_spark(case):
    """What the other Spark has all cases of runs here with some of them: always the same ones."""
    parts = [mark.args[1] for mark in case.iter_markers("less_on") if mark.args[0] == _SPARK]
    return all(random.Random(case.name).random() < part for part in parts)


def _turn(directory):
    return _LONGEST_FIRST.index(directory) if directory in _LONGEST_FIRST else -1


@pytest.fixture(scope="session")
def spark():
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
    yield session
    session.stop()


@pytest.fixture(autouse=True, scope="module")
def _each_file_begins_plain(request):
    """Handles and catalogs let a session read natively from then on: no file of tests is to depend on another one."""
    yield
    if request.path in _files_with_spark(request.session):
        _unregister(request.getfixturevalue("spark"))


@lru_cache(1)
def _files_with_spark(session):
    """Looked for once: there are 300 files, and 12,000 tests."""
    return {item.path for item in session.items if "spark" in item.fixturenames}


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
