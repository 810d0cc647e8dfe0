"""Copies inside of S3, where the size that a manifest names saves a look at the source."""

import pytest
from support.s3_tables import opened, write

from lance_spark.errors import NotFound
from lance_spark.storage.copying import copy_file
from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.s3


@pytest.mark.parametrize("told", [True, False])
def test_a_file_is_copied_once_and_one_that_is_gone_is_told(client, bucket, table, storage, told):
    write(table, storage, [1, 2])
    file = opened(table, storage).get_fragments()[0].metadata.files[0]
    path, size = f"data/{file.path}", file.file_size_bytes if told else 0
    source, target = locate(table, storage), locate(f"s3://{bucket}/copy.lance", storage)
    assert copy_file(source, path, target, path, size) == file.file_size_bytes
    copied = client.get_object(Bucket=bucket, Key=f"copy.lance/{path}")
    assert len(copied["Body"].read()) == file.file_size_bytes

    assert copy_file(source, path, target, path, size) == file.file_size_bytes
    assert client.head_object(Bucket=bucket, Key=f"copy.lance/{path}")["LastModified"] == copied["LastModified"]
    client.put_object(Bucket=bucket, Key=f"copy.lance/{path}", Body=b"half")
    copy_file(source, path, target, path, size)
    assert client.head_object(Bucket=bucket, Key=f"copy.lance/{path}")["ContentLength"] == file.file_size_bytes

    with pytest.raises(NotFound, match="no longer exists"):
        copy_file(source, "data/gone.lance", target, "data/gone.lance", size)
    assert "Contents" not in client.list_objects_v2(Bucket=bucket, Prefix="copy.lance/data/gone")
