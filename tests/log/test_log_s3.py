"""``log`` and ``diff`` on S3: few requests, and a fault is never a shorter history."""

import lance
import pytest
from support.s3_tables import write

from lance_spark.changes.diff import diff
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import StorageFailure
from lance_spark.log.log import log, show
from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.s3

VERSIONS = 25
"""More than a page of the listing, which has 20 keys here."""


@pytest.fixture
def long(table, storage):
    for version in range(VERSIONS):
        write(table, storage, [version])
    lance.dataset(table, storage_options=storage).create_branch("exp", 23, storage_options=storage)
    write(table, storage, [100, 101], branch="exp")
    return table


def manifests(faulty):
    return [each.key for each in faulty.seen if each.method == "GET" and each.key.endswith(".manifest")]


def test_a_log_and_a_diff(long, storage, storage_through, faulty):
    location = locate(long, storage_through)
    found = log(location, "exp", stat=True)
    assert [str(entry.pin) for entry in found] == ["exp@24", *(f"main@{version}" for version in range(23, 0, -1))]
    assert [entry.stat.rows_added for entry in found] == [2, *[1] * 23]
    assert found[0].heads == ("exp",)
    faulty.seen.clear()
    start = PinnedVersion(None, 22)
    assert [entry.version for entry in log(location, None, start, 3)] == [22, 21, 20]
    # One more is the newest version, which pylance opens.
    assert len(manifests(faulty)) <= 4
    faulty.seen.clear()
    told = diff(location, PinnedVersion(None, 25), PinnedVersion("exp", 24))
    assert (told.rows.added, told.rows.deleted) == (2, 2)
    assert len(manifests(faulty)) == len(faulty.seen) == 2
    compared = diff(location, PinnedVersion(None, 25), PinnedVersion("exp", 24), rows=True)
    assert [dict(each.after) for each in compared.examples if each.after] == [{"id": 100}, {"id": 101}]
    assert show(location, PinnedVersion("exp", 24)).entry.total_rows == 25


def test_a_fault_is_an_error(long, storage_through, faulty):
    location = locate(long, storage_through)
    faulty.rule = lambda request: "403 AccessDenied" if request.key.endswith("593.manifest") else None
    with pytest.raises(StorageFailure):
        log(location, None)
    with pytest.raises(StorageFailure):
        diff(location, PinnedVersion(None, 22), PinnedVersion(None, 25))
