"""A client whose store refuses every look, of a server that has access to it."""

import lance
import pyarrow as pa
import pytest
from support.connect_clients import client, connect_server

from lance_spark import LanceTable, register
from lance_spark.errors import PermissionDenied
from lance_spark.spark import at_server_rules

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", day=0)]


@pytest.fixture
def denied(spark, uri, tmp_path, monkeypatch):
    """A client whose store refuses every look, of a server that has access: handles of a table and of a lake."""
    lance.write_dataset(pa.table({"id": range(5)}), uri)
    lance.write_dataset(pa.table({"id": range(5, 8)}), uri, mode="append")

    def refuse(*_arguments, **_named):
        raise PermissionDenied("The store refused.")

    with connect_server(spark) as address, client(address) as session:
        register(session, catalog="lake", root=f"{tmp_path}/lake")
        monkeypatch.setattr("lance_spark.storage.datasets.dataset_at", refuse)
        yield LanceTable.for_path(uri, spark=session)


def test_the_server_reads_and_for_all_else_the_statement_is_told(denied):
    assert (denied.count_rows(), denied.count_rows("id > 5"), denied.head(3).num_rows) == (8, 2, 3)
    assert denied.schema.names == ["id"]
    assert denied.checkout(version=1).to_df(columns=["id"], filter="id > 2").count() == 2
    assert denied.query(lambda frame: frame.where("id < 3")).count() == 3
    for verb, statement in (
        (lambda: denied.branches.create("exp"), at_server_rules.BRANCHES["create"]),
        (denied.optimize, at_server_rules.TABLE["optimize"]),
        (lambda: denied.version, at_server_rules.TABLE["version"]),
        (denied.log, at_server_rules.TABLE["log"]),
        (lambda: denied.delete("id = 1"), at_server_rules.TABLE["delete"]),
    ):
        with pytest.raises(PermissionDenied) as caught:
            verb()
        assert caught.value.hint == at_server_rules.instead_of(statement)
