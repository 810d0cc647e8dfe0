"""Streams of a table by its name: what is refused before Spark is asked for anything."""

import pytest

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.core.table_options import take_stream_options
from lance_spark.errors import InvalidOption, Refused
from lance_spark.native.places import Place
from lance_spark.native.scan import TableStream

pytestmark = pytest.mark.pure

AT = DatasetLocation("/lake/t", ())
NAMED = {"catalog": "/lake", "catalog_mode": "v2", "path": "ns.t", "storage.secret": "hidden"}


@pytest.mark.parametrize(
    ("spec", "given", "error", "message", "hint"),
    [
        (RefSpec(tag="v1"), {}, Refused, "a tag never changes", "Name a branch"),
        (RefSpec(version=3), {}, Refused, "a version never changes", "Name a branch"),
        (
            RefSpec(branch="exp"), {"changes": "true"}, InvalidOption, "more columns than its table",
            "spark.readStream.format('lance').option('catalog', '/lake').option('branch', 'exp')"
            ".option('changes', 'true').load('ns.t')",
        ),
        (RefSpec(), {"maxFilesPerTrigger": "0"}, InvalidOption, "max_files_per_trigger", ""),
    ],
)  # fmt: skip
def test_refusals(spec, given, error, message, hint):
    with pytest.raises(error, match=message) as caught:
        TableStream(None, Place(AT, spec, options=NAMED), given).micro_batches(None, "checkpoint")
    assert hint in (caught.value.hint or "")
    assert "hidden" not in str(caught.value)


def test_a_stream_that_was_not_told_where_its_table_is_says_both_ways():
    with pytest.raises(InvalidOption, match="No dataset was named") as caught:
        take_stream_options({"checkpointLocation": "c"})
    assert "start(" in caught.value.hint
    assert "register(spark, catalog='lake'" in caught.value.hint
