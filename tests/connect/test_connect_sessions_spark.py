"""Many clients of one server, one after the other and beside each other: nothing stays, and nothing crosses over."""

import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.connect_clients import client, connect_server, end_workers, helper_process

from lance_spark import register

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", day=0)]

SESSIONS, SETTLED = 200, 80
GROWTH = 64
"""Mebibytes that a process may grow by after it has settled: a session that stays takes one or more."""
OPENED = 100
"""Files, such as connections, that a process may have more by then: a session opens some of each kind."""


@pytest.fixture(scope="module")
def address(spark):
    with connect_server(spark) as address:
        yield address


def resident(process):
    with open(f"/proc/{process}/status") as file:
        return int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1]) // 1024


def open_files(process):
    return len(os.listdir(f"/proc/{process}/fd"))


def living(spark):
    """Sessions for which the process beside the server is asked to remember something."""
    shared = spark.sparkContext._jvm.java.lang.System.getProperties()["lance_spark.helper"]
    return len(shared["kept"])


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="this system does not tell")
def test_sessions_one_after_the_other_leave_no_memory(spark, address, tmp_path):
    sizes, files = [], []
    for number in range(SESSIONS):
        with client(address) as session:
            register(session, catalog="lake", root=f"{tmp_path}/lake")
            if not number:
                session.sql("CREATE NAMESPACE lake.ns")
                session.sql("CREATE TABLE lake.ns.t AS SELECT id, id % 7 AS k FROM range(100)")
            if number % 5 == 0:
                session.sql("UPDATE lake.ns.t SET k = 1 WHERE id = 3").collect()
            assert session.sql("SELECT count(*) FROM lake.ns.t").first()[0] == 100
        end_workers(spark)  # of which a night of sessions would have a thousand
        helper = helper_process(spark)
        sizes.append(resident(helper.pid()))
        files.append([open_files(each) for each in (helper.pid(), helper.toHandle().parent().get().pid())])
    assert living(spark) <= 2  # the last one, until the next look
    assert sizes[-1] - sizes[SETTLED] < GROWTH, sizes[::20]
    assert [last - settled < OPENED for last, settled in zip(files[-1], files[SETTLED], strict=True)] == [True] * 2, (
        files[::20]
    )


def test_beside_each_other_sessions_keep_their_own_catalogs_settings_and_zones(address, tmp_path):
    zones = ["UTC", "America/New_York", "Asia/Kolkata", "Pacific/Auckland"]

    def work(number):
        with client(address) as session:
            register(session, catalog="lake", root=f"{tmp_path}/lake{number}")
            session.conf.set("spark.sql.session.timeZone", zones[number])
            session.conf.set("spark.sql.caseSensitive", str(number % 2 == 0).lower())
            session.sql("CREATE NAMESPACE lake.ns")
            session.sql("CREATE TABLE lake.ns.t (id BIGINT, at TIMESTAMP)")
            for each in range(5):
                session.sql(f"INSERT INTO lake.ns.t VALUES ({number * 100 + each}, TIMESTAMP '2026-01-02 03:04:05')")
                session.sql(f"UPDATE lake.ns.t SET at = TIMESTAMP '2026-01-02 0{number}:00:00' WHERE id % 100 = 0")
            rows = session.sql("SELECT id, unix_timestamp(at) AS seconds FROM lake.ns.t ORDER BY id").collect()
            wanted = session.sql(
                f"SELECT unix_timestamp(TIMESTAMP '2026-01-02 0{number}:00:00'),"
                " unix_timestamp(TIMESTAMP '2026-01-02 03:04:05')"
            ).first()
            upper = "SELECT ID FROM lake.ns.t"
            try:
                folds = session.sql(upper).count() == 5
            except Exception as problem:  # noqa: BLE001 - asserted below
                folds = str(problem)
            return rows, tuple(wanted), folds

    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(work, range(4))]
    for number, (rows, (first, others), folds) in enumerate(found):
        assert [row.id for row in rows] == [number * 100 + each for each in range(5)]
        assert [row.seconds for row in rows] == [first, *[others] * 4]
        assert folds is True if number % 2 else "UNRESOLVED_COLUMN" in folds
