"""Tags of a whole lake on S3: the requests that they cost."""

from collections import Counter
from datetime import datetime, timezone

import lance
import pytest
from support.local_datasets import numbers

from lance_spark.catalog.lake import at_ref, create_ref, delete_ref, list_refs
from lance_spark.catalog.lake_rules import TAG
from lance_spark.catalog.lookup import create_namespace, open_catalog, open_table
from lance_spark.catalog.tables import declare_table
from lance_spark.core.refs import RefSpec

pytestmark = pytest.mark.s3

NOW = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)


def test_a_table_costs_two_requests(bucket, storage, faulty, storage_through):
    root = f"s3://{bucket}/lake"
    catalog = open_catalog(root, storage, "v2")
    create_namespace(catalog, "ns")
    names = [f"ns.t{number}" for number in range(6)]
    for name in names:
        declared = declare_table(catalog, name)
        lance.write_dataset(numbers(3), declared.location.uri, storage_options=storage)
    through = open_catalog(root, storage_through, "v2")
    faulty.seen.clear()
    create_ref(through, TAG, "v1", NOW)
    of_tables = Counter("LIST" if each.listing else each.method for each in faulty.seen if "ns$t" in each.key)
    assert of_tables == {"LIST": len(names), "PUT": len(names)}
    location, pin = open_table(at_ref(through, TAG, "v1"), "ns.t3", RefSpec())
    assert pin.version == 1
    assert [*lance.dataset(location.uri, storage_options=storage).tags.list()] == [
        tag.pin_tag for tag in list_refs(catalog, TAG)
    ]
    delete_ref(through, TAG, "v1")
    assert lance.dataset(location.uri, storage_options=storage).tags.list() == {}
