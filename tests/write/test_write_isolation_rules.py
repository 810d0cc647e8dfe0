"""What an overwrite would take back, and which versions count as changes: tables of data."""

import pyarrow as pa
import pytest

from lance_spark.core.isolation import (
    ANY,
    SERIALIZABLE,
    WRITE_SERIALIZABLE,
    Statement,
    isolation_level,
    parse_statement,
)
from lance_spark.errors import InvalidOption
from lance_spark.format.transactions import Transaction
from lance_spark.format.versions import ACTION, MERGE, REORDERED, REPLACES, RESTORE
from lance_spark.write.isolation_rules import changing, replacing, undone

pytestmark = pytest.mark.pure

A, B = pa.field("a", pa.int64()), pa.field("b", pa.string())
STRUCT = pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string())])


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        ([A, B], [A, B], None),
        ([A, B], [A], "'b' was dropped"),
        ([A], [A, B], "'b' was added"),
        ([A, B], [A, pa.field("c", pa.string())], "'b' was dropped or renamed"),
        ([A, B], [B, A], "reordered"),
        ([A], [pa.field("a", pa.float64())], "'a' was altered"),
        ([A], [pa.field("a", pa.int64(), nullable=False)], "'a' was altered"),
        ([pa.field("a", pa.int64(), nullable=False)], [A], "'a' was altered"),
        ([A], [A.with_metadata({"comment": "of"})], "'a' was altered"),
        ([A.with_metadata({"comment": "of"})], [A.with_metadata({"comment": "on"})], "'a' was altered"),
        ([pa.field("s", STRUCT)], [pa.field("s", pa.struct([STRUCT.field(0)]))], "'s' was altered"),
        (
            [pa.field("s", STRUCT)],
            [pa.field("s", pa.struct([STRUCT.field(0), STRUCT.field(1).with_nullable(False)]))],
            "'s' was altered",
        ),
        (
            [pa.field("l", pa.list_(A))],
            [pa.field("l", pa.list_(A.with_metadata({"comment": "of"})))],
            "'l' was altered",
        ),
    ],
)
def test_which_change_of_columns_an_overwrite_would_take_back(before, now, change):
    found = undone(pa.schema(before), pa.schema(now))
    assert found is None if change is None else change in found


def test_metadata_of_all_columns_counts():
    assert undone(pa.schema([A]), pa.schema([A], metadata={"k": "v"})) is not None


def made(operation, **properties):
    return Transaction(1, "id", operation, properties)


@pytest.mark.parametrize(
    ("transaction", "changes", "replaces"),
    [
        (made("Append"), True, False),
        (made("Delete"), True, False),
        (made("Update"), True, False),
        (made("Update", **{REORDERED: "true"}), False, False),
        (made("Merge"), True, False),
        (made("Project"), True, False),
        (made("DataReplacement"), True, False),
        (made("Overwrite"), True, True),
        (made("Restore"), True, True),
        (made("Update", **{REPLACES: "true"}), True, True),
        (made("Update", **{REPLACES: "false"}), True, False),
        (made("Update", **{ACTION: RESTORE}), True, True),
        (made("Update", **{ACTION: MERGE}), True, False),
        (made("Rewrite"), False, False),
        (made("ReserveFragments"), False, False),
        (made("CreateIndex"), False, False),
        (made("UpdateConfig"), False, False),
        (made("Unknown"), True, False),
        (None, True, True),
    ],
)
def test_what_a_version_may_have_changed(transaction, changes, replaces):
    between = {5: made("CreateIndex"), 6: transaction}
    assert changing(between, [5, 6]) == (6 if changes else None)
    assert replacing(between, [5, 6]) == (6 if replaces else None)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        (None, None),
        ("serializable", SERIALIZABLE),
        ("Serializable", SERIALIZABLE),
        ("write_serializable", WRITE_SERIALIZABLE),
        ("WriteSerializable", WRITE_SERIALIZABLE),
    ],
)
def test_levels_are_spelled_as_elsewhere(text, level):
    assert isolation_level(text) == level


def test_an_unknown_isolation_level_is_refused():
    with pytest.raises(InvalidOption, match="write_serializable"):
        isolation_level("snapshots")


@pytest.mark.parametrize(
    ("reads", "version"),
    [
        (None, None),
        ((), None),
        ((("/other", None, 3),), None),
        ((("/t", "exp", 3),), None),
        ((("/t", None, 3),), 3),
        ((("/t", None, 5), ("/t", None, 3), ("/other", None, 1)), 3),
        (((ANY, None, 4),), 4),
    ],
)
def test_what_a_statement_read_of_a_branch(reads, version):
    statement = Statement(7, reads)
    assert parse_statement(statement.as_text()) == statement
    assert statement.read_of("/t", None) == version
