"""Times as S3 lists them are read as botocore reads them."""

from datetime import datetime, timezone

import pytest
from botocore.utils import parse_timestamp

from lance_spark.core.location import DatasetLocation
from lance_spark.storage.files import open_filesystem, s3_time

pytestmark = pytest.mark.pure

TIMES = (
    "2026-11-22T08:13:28.000Z",
    "2026-11-22T08:13:28.999Z",
    "2026-11-22T08:13:28Z",
    "2024-02-29T23:59:59.001Z",
    "Sun, 22 Nov 2026 08:13:28 GMT",
    "2026-11-22T08:13:28.123456Z",
    "2026-11-22T10:13:28+02:00",
    "1795335208",
    1795335208,
    "0001-01-01T00:00:00.000Z",
)


@pytest.mark.parametrize("text", TIMES)
def test_a_time_is_the_same_moment(text):
    assert s3_time(text) == parse_timestamp(text)
    assert s3_time(text).tzinfo is not None


@pytest.mark.parametrize("text", ["2026-13-22T08:13:28.000Z", "yesterday, perhaps", "2026-02-30T00:00:00Z"])
def test_what_is_no_time_is_an_error_as_it_was(text):
    with pytest.raises(ValueError, match=r".+"):
        s3_time(text)


def test_an_s3_file_system_uses_it_and_is_the_same_one_each_time():
    location = DatasetLocation.at("s3://bucket/t", {"aws_region": "us-east-1"})
    filesystem = open_filesystem(location)
    factory = filesystem.session.get_component("response_parser_factory")
    parsed = factory.create_parser("rest-xml")._timestamp_parser("2026-11-22T08:13:28.000Z")
    assert parsed == datetime(2026, 11, 22, 8, 13, 28, tzinfo=timezone.utc)
    assert factory.create_parser("rest-xml")._timestamp_parser is s3_time
    assert open_filesystem(location) is filesystem
