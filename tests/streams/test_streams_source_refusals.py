"""What a new user of streams gets wrong: one sentence and a hint, before any task, from where Spark shows it."""

import lance
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from lance_spark.core.table_options import parse_read_options, parse_write_options, take_stream_options
from lance_spark.datasource.datasource import LanceDataSource
from lance_spark.errors import InvalidOption, NotFound

SCHEMA = StructType([StructField("id", LongType())])


@pytest.fixture(autouse=True)
def traceback(monkeypatch):
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")


@pytest.mark.parametrize(
    ("options", "error", "words", "hint"),
    [
        ({"version": "1"}, InvalidOption, "a stream continues", "starting_version"),
        ({"limit": "1"}, InvalidOption, "not for streams", "max_files_per_trigger"),
        ({"filter": "idd > 1"}, InvalidOption, "idd", None),
        ({"branch": "nosuch"}, NotFound, "no branch 'nosuch'", "main"),
    ],
)
def test_a_reader_that_cannot_be_says_why_when_it_is_asked(uri, options, error, words, hint):
    """Raised while it is made, Spark shows an error of its own: it stops a reader that it has not got."""
    lance.write_dataset(pa.table({"id": [1]}), uri)
    reader = LanceDataSource({"path": uri, **options}).streamReader(SCHEMA)
    reader.stop()
    if hasattr(reader, "getDefaultReadLimit"):
        reader.getDefaultReadLimit()
    with pytest.raises(error, match=words) as caught:
        reader.initialOffset()
    assert hint is None or hint in caught.value.hint
    with pytest.raises(error):
        reader.partitions({}, {})


@pytest.mark.parametrize(
    ("parse", "name", "words", "hint"),
    [
        (parse_read_options, "starting_versoin", "Unknown option", "Did you mean 'starting_version'?"),
        (parse_read_options, "max_file_per_trigger", "Unknown option", "Did you mean 'max_files_per_trigger'?"),
        (parse_read_options, "starting_version", "'starting_version' is for streams", "spark.readStream"),
        (parse_read_options, "colums", "Unknown option", "Did you mean 'columns'?"),
        (parse_write_options, "optimise_every", "Unknown option", "Did you mean 'optimize_every'?"),
        (parse_write_options, "checkpointlocation", "'checkpointLocation' is for streams", "df.writeStream"),
        (parse_write_options, "marge_schema", "Unknown option", "Did you mean 'merge_schema'?"),
    ],
)
def test_a_misspelt_option_and_one_of_streams(parse, name, words, hint):
    with pytest.raises(InvalidOption, match=words) as caught:
        parse({name: "1"})
    assert hint in caught.value.hint


def test_a_mode_that_is_none_of_a_stream():
    with pytest.raises(InvalidOption, match="append or upsert") as caught:
        take_stream_options({"path": "t", "mode": "overwrite"})
    assert "outputMode('complete')" in caught.value.hint


def test_a_version_that_is_not_there_names_those_that_are(uri):
    lance.write_dataset(pa.table({"id": [1]}), uri)
    reader = LanceDataSource({"path": uri, "starting_version": "77"}).streamReader(SCHEMA)
    with pytest.raises(NotFound, match="no version 77") as caught:
        reader._plan(None, reader._used.stream.limits)
    assert "Nearest versions: 1" in caught.value.hint
