"""One text where a list of names is taken: it is one name, and not a list of its letters."""

import pyarrow as pa
import pytest
from support.local_datasets import make_dataset, numbers

from lance_spark import LanceCatalog, LanceTable
from lance_spark.columns.fill_rules import check_read
from lance_spark.errors import NotFound
from lance_spark.optimize.order_rules import ordering_of


@pytest.fixture
def table(tmp_path):
    uri = str(tmp_path / "table.lance")
    make_dataset(uri, numbers(5).append_column("flight", pa.array(range(5))))
    return LanceTable.for_path(uri)


def test_columns(table):
    assert ordering_of("flight", None).columns == ("flight",)
    assert check_read(pa.schema([("flight", pa.int64())]), "flight") == ("flight",)
    table.drop_columns("flight")
    with pytest.raises(NotFound, match="flight"):
        table.drop_columns("flight")


def test_settings_and_properties(table, tmp_path):
    table.branches.create("exp", owner="ada", retain_versions=3)
    after = table.branches.alter("exp", unset="owner")
    assert (after.owner, after.retain_versions) == (None, 3)
    table.tags.create("v1", owner="ada")
    assert table.tags.alter("v1", unset="owner").owner is None
    catalog = LanceCatalog(str(tmp_path / "lake"))
    catalog.create_namespace("ns", {"owner": "ada", "team": "ops"})
    assert dict(catalog.alter_namespace("ns", unset="owner").properties) == {"team": "ops"}


def test_branches_of_a_remote(table, tmp_path):
    table.branches.create("exp")
    clone = table.clone(str(tmp_path / "clone.lance"))
    assert clone.remotes.fetch(branches="exp") == clone.remotes.fetch(branches=["exp"])


def test_clones(table, tmp_path):
    clone = table.clone(str(tmp_path / "clone.lance"), follow=False, record=False)
    assert table.fsck(clones=clone.location.uri).findings == ()
    assert clone.location.uri in table.storage(clones=clone.location.uri).to_arrow()["ref"].to_pylist()
