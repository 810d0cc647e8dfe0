"""Clients of one server with keys of their own for the same lake: what one may see, another does not."""

import pytest
from pyspark.errors import PySparkException
from support.connect_clients import client as connected
from support.connect_clients import connect_server
from support.vending import Gate

from lance_spark import LanceCatalog, register
from lance_spark.errors import LanceSparkError

pytestmark = [pytest.mark.spark, pytest.mark.s3, pytest.mark.when(spark="newest", day=0)]

ASKED = (
    "SELECT count(*) FROM lake.ns.t",
    "SHOW TABLES IN lake.ns",
    "UPDATE lake.ns.t SET id = 5",
    "INSERT INTO lake.ns.t VALUES (7)",
    "DESCRIBE HISTORY lake.ns.t",
    "OPTIMIZE lake.ns.t",
)


def keys(gate):
    """Keys that do not expire: whose end this package knows it asks for again."""
    found = gate.key()
    del found["expires_at_millis"]
    return found


def test_keys_of_one_client_open_nothing_for_another(spark, bucket, faulty):
    gate, root = Gate(faulty), f"s3://{bucket}/lake"
    good = keys(gate)
    bad = {**good, "aws_access_key_id": "AKIANOBODY"}
    with connect_server(spark) as address, connected(address) as first, connected(address) as second:
        register(first, catalog="lake", root=root, storage_options=good)
        first.sql("CREATE NAMESPACE lake.ns")
        first.sql("CREATE TABLE lake.ns.t AS SELECT id FROM range(3)")
        assert first.sql("SELECT count(*) FROM lake.ns.t WHERE id > 0").first()[0] == 2
        register(second, catalog="lake", root=root, storage_options=bad)
        for statement in ASKED:
            with pytest.raises((LanceSparkError, PySparkException)):
                second.sql(statement).collect()
            assert first.sql("SELECT count(*) FROM lake.ns.t WHERE id > 0").first()[0] == 2
        path = LanceCatalog(root, storage_options=good).table("ns.t").location.uri
        with pytest.raises((LanceSparkError, PySparkException)):
            second.read.format("lance").options(**{f"storage.{name}": bad[name] for name in bad}).load(path).collect()
    table = LanceCatalog(root, storage_options=good).table("ns.t")
    assert table.count_rows() == 3
