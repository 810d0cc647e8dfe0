"""What audits said: at the review of a branch that a publish of tables looked at, and at a transaction's version."""

import os
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.shown_lakes import write
from support.shown_pages import Tags, opened, text_of

from lance_spark import LanceCatalog, LanceTable
from lance_spark.catalog.leftovers import find_leftovers
from lance_spark.catalog.publish_rules import audit_id, is_of_tables
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Refused
from lance_spark.format.versions import AUDIT, Trace, read_trace
from lance_spark.merge.transaction import transaction
from lance_spark.storage.datasets import locate

LATER = timedelta(days=30)


@pytest.fixture
def lake(tmp_path):
    """Two tables with a branch of one name, which has a row more."""
    lake = LanceCatalog(f"{tmp_path}/lake")
    for name in ("a", "b"):
        write(lake, name, pa.table({"id": [1]}))
        uri = lake.describe_table(name).location.uri
        lance.dataset(uri).create_branch("etl")
        lance.write_dataset(pa.table({"id": [2]}), f"{uri}/tree/etl", mode="append")
    return lake


def reviewed(lake, table):
    return " ".join("".join(Tags(text_of(opened(catalog=lake.catalog), f"merge?t={table}&source=etl")).words).split())


def test_the_review_of_a_tables_branch_says_what_the_audit_of_its_publish_said(lake):
    assert "Audit" not in reviewed(lake, "a")
    with pytest.raises(Refused):
        lake.publish("etl", audit=lambda _: False)
    for table in ("a", "b"):
        assert "The last audit failed." in reviewed(lake, table)
        assert "The audit failed; nothing was published." in reviewed(lake, table)
    uri = lake.describe_table("a").location.uri
    lance.write_dataset(pa.table({"id": [3]}), f"{uri}/tree/etl", mode="append")
    assert "The branch has changed since the last audit, which failed." in reviewed(lake, "a")
    assert "The last audit failed." in reviewed(lake, "b")
    lake.publish("etl", audit=lambda tables: sorted(tables) == ["a", "b"])
    assert "The last audit passed." in reviewed(lake, "a")


def test_the_record_goes_once_no_table_has_the_branch_and_is_of_no_later_one(lake):
    lake.publish("etl", audit=lambda _: True)
    (record,) = Path(lake.catalog.manifest.uri, "_lake/audits").iterdir()
    os.utime(record, (10**9, 10**9))
    late = datetime.now(timezone.utc) + LATER
    for name in ("a", "b"):
        assert find_leftovers(lake.catalog, late) == []
        location = lake.describe_table(name).location
        LanceTable.for_path(location.uri).branches.delete("etl")
    assert [one.path for one in find_leftovers(lake.catalog, late)] == [f"_lake/audits/{record.name}"]
    record.write_text(re.sub(r'"made": *"[^"]*"', '"made":"2020-01-01T00:00:00+00:00"', record.read_text()))
    LanceTable.for_path(location.uri).branches.create("etl")
    assert "Audit" not in reviewed(lake, "b")


@pytest.mark.parametrize("of", ["tables", "lake"])
def test_without_an_audit_none_is_said_to_have_passed(lake, of):
    if of == "tables":
        lake.publish("etl")
    else:
        lake.branches.create("nightly")
        write(lake.checkout(branch="nightly"), "a", pa.table({"id": [9]}))
        lake.branches.merge("nightly")
    assert not Path(lake.catalog.manifest.uri, "_lake/audits").exists()


def test_the_version_of_a_transaction_says_that_its_audit_passed(tmp_path):
    uri = f"{tmp_path}/t.lance"
    lance.write_dataset(pa.table({"id": [1, 2]}), uri)
    for audit, number in ((lambda _: True, 1), (None, 2)):
        with transaction(locate(uri), RefSpec(), LocalRunner(), audit) as ref:
            lance.dataset(f"{uri}/tree/{ref.branch}").delete(f"id = {number}")
    client = opened(location=locate(uri))
    found = lance.dataset(uri).version
    pages = [text_of(client, f"version?ref=main@{at}") for at in (found - 1, found)]
    said = ["The audit of its transaction passed" in page for page in pages]
    assert said == [True, False]


@pytest.mark.pure
def test_what_an_audit_is_recorded_by():
    assert audit_id("etl", "0a") == "0a"
    assert re.fullmatch("[0-9a-f]{64}", audit_id("é/x", ""))
    assert (is_of_tables(audit_id("etl", "")), is_of_tables("0a1b2c3d")) == (True, False)
    made = Trace("merge", PinnedVersion("exp", 3), audited=True)
    assert read_trace(made.properties(None)).audited
    assert AUDIT not in Trace("merge", made.source).properties(None)
