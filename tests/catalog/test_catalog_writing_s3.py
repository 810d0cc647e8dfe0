"""Tables of a catalog on S3: made and read by their names, given back by a failed job, and one winner."""

import pyarrow as pa
import pytest
from support.s3_tables import IDS, given, objects, read, rows

from lance_spark.catalog.lookup import create_namespace, locate_table, open_catalog, table_exists
from lance_spark.catalog.removing import drop_table
from lance_spark.errors import Conflict
from lance_spark.tables.write import begin, finish, give_up, plan_write
from lance_spark.write.data_files import write_rows

pytestmark = pytest.mark.s3

NAMES = ("my table", "ns.tä")
"""One whose directory has the name that V1 gives it, and one whose directory is a hash."""


@pytest.fixture
def catalog(bucket, storage):
    made = open_catalog(f"s3://{bucket}/lake", storage)
    create_namespace(made, "ns")
    return made


def prepare(catalog, name, ids):
    job = begin(plan_write(given(name, catalog.root.storage_options, catalog=catalog.uri), IDS, overwrite=False))
    return job, write_rows(job, [pa.record_batch({"id": pa.array(ids, pa.int64())})])


def left(client, bucket):
    return {key for key in objects(client, bucket) if not key.startswith("lake/__manifest/")}


def test_a_table_is_made_written_to_and_read_by_its_name(catalog, storage):
    for name in NAMES:
        assert [finish(*prepare(catalog, name, ids)) for ids in ([1, 2], [3])] == [1, 2]
        assert read(name, storage, catalog=catalog.uri) == [1, 2, 3]
        assert rows(locate_table(catalog, name).uri, storage) == [1, 2, 3]


def test_a_failed_job_and_a_dropped_table_leave_nothing(catalog, client, bucket):
    for name in NAMES:
        give_up(*prepare(catalog, name, [1]))
        assert (table_exists(catalog, name), left(client, bucket)) == (False, set())
        job = prepare(catalog, name, [1])
        drop_table(catalog, name)
        with pytest.raises(Conflict, match="during the write"):
            finish(*job)
        assert (table_exists(catalog, name), left(client, bucket)) == (False, set())


def test_of_two_that_make_one_table_one_does(catalog, storage):
    for name in NAMES:
        first, second = prepare(catalog, name, [1]), prepare(catalog, name, [2])
        finish(*second)
        with pytest.raises(Conflict, match="first"):
            finish(*first)
        assert rows(locate_table(catalog, name).uri, storage) == [2]
