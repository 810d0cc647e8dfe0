"""Protected branches and expiry from a Spark session: the writer, changes of rows, SQL's statements."""

import lance
import pytest
from support.frames import numbers, save

from lance_spark import LanceTable
from lance_spark.errors import Refused

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]


def test_a_protected_main_takes_merges_only(spark, uri):
    save(numbers(spark, 0, 3), uri)
    table = LanceTable.for_path(uri, spark=spark)
    table.branches.create("work", expire_after="30d", owner="ml")
    save(numbers(spark, 10, 12), uri, branch="work")
    table.branches.alter("main", protected=True)
    with pytest.raises(Exception, match="Branch 'main' is protected"):
        save(numbers(spark, 20, 21), uri)
    with pytest.raises(Refused, match="protected"):
        table.delete("id = 0")
    with pytest.raises(Exception, match="Branch 'main' is protected"):
        table.write(numbers(spark, 20, 21))
    table.branches.merge("work")
    assert sorted(row.id for row in table.to_df().collect()) == [0, 1, 2, 10, 11]
    assert lance.dataset(uri).version == 2
    assert [entry.state for entry in table.expire_refs().entries] == ["kept"]
    assert table.reflog("main").rows[0][2].startswith("merge")
