"""From rows that went and came to changes."""

import pyarrow as pa
import pytest

from lance_spark.changes.feed_rules import Commit, FeedColumns, FeedOptions, FeedReading
from lance_spark.changes.image_rules import changes, pair, unpaired, updates
from lance_spark.core.location import DatasetLocation

pytestmark = pytest.mark.pure

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def reading(key=("id",), row_ids=False, below=None, **options):
    columns = FeedColumns(SCHEMA, 2, key)
    return FeedReading(DatasetLocation("/t"), columns, FeedOptions(**options), row_ids, below)


def commit(version):
    return Commit(version, 1_000_000 * version, "main")


def side(rows, how, recognizable=True):
    """Rows of (version, id, value) or, with row ids, (version, id, value, row id)."""
    batches = []
    for version in {row[0]: None for row in rows}:
        mine = [row for row in rows if row[0] == version]
        names = ["id", "v", *(["_rowid"] if how.row_ids else [])]
        kinds = [pa.int64(), pa.string(), pa.int64()]
        arrays = [pa.array([row[place + 1] for row in mine], kinds[place]) for place in range(len(names))]
        batches.append(unpaired(pa.RecordBatch.from_arrays(arrays, names), commit(version), how, recognizable))
    return pa.Table.from_batches(batches, how.columns.unpaired)


def paired(gone, came, how, recognizable=True):
    """Changes as (version, kind, id, value)."""
    table = pair(side(gone, how, recognizable), side(came, how, recognizable), how.options.images, how.columns.rows)
    assert table.schema == how.columns.rows
    rows = table.to_pylist()
    assert all(row["_commit_timestamp"].second == row["_commit_version"] for row in rows)
    return sorted(((row["_commit_version"], row["_change_type"], row["id"], row["v"]) for row in rows), key=str)


PRE, POST = "update_preimage", "update_postimage"


@pytest.mark.parametrize(
    ("gone", "came", "found"),
    [
        ([(2, 1, "a")], [], [(2, "delete", 1, "a")]),
        ([], [(2, 1, "a")], [(2, "insert", 1, "a")]),
        ([(2, 1, "a")], [(2, 1, "b")], [(2, POST, 1, "b"), (2, PRE, 1, "a")]),
        ([(2, 1, "a")], [(2, 1, "a")], []),
        ([(2, 1, "a")], [(2, 2, "a")], [(2, "delete", 1, "a"), (2, "insert", 2, "a")]),
        ([(2, 1, "a")], [(3, 1, "b")], [(2, "delete", 1, "a"), (3, "insert", 1, "b")]),
        ([(2, 1, "a")], [(3, 1, "a")], [(2, "delete", 1, "a"), (3, "insert", 1, "a")]),
        ([(2, None, "a")], [(2, None, "b")], [(2, "delete", None, "a"), (2, "insert", None, "b")]),
        ([(2, None, "a")], [(2, None, "a")], []),
        (
            [(2, 1, "a"), (2, 1, "b")],
            [(2, 1, "c")],
            [(2, "delete", 1, "a"), (2, "delete", 1, "b"), (2, "insert", 1, "c")],
        ),
        ([], [], []),
    ],
)
def test_rows_of_one_version_and_one_key_are_an_update(gone, came, found):
    assert paired(gone, came, reading()) == found


@pytest.mark.parametrize(
    ("gone", "came", "found"),
    [
        ([(3, 1, "a")], [(2, 1, "a")], []),
        ([(3, 1, "a")], [(2, 1, "a"), (3, 1, "b")], [(3, "insert", 1, "b")]),
        ([(2, 1, "a"), (3, 1, "b")], [(2, 1, "b"), (3, 1, "c")], [(3, POST, 1, "c"), (3, PRE, 1, "a")]),
        ([(2, 1, "a"), (3, 1, "b")], [(2, 1, "b")], [(3, "delete", 1, "a")]),
        ([(2, 1, "a")], [(4, 1, "b")], [(4, POST, 1, "b"), (4, PRE, 1, "a")]),
        ([(2, 1, "a"), (3, 1, "b")], [(2, 1, "b"), (3, 1, "a")], []),
        ([(2, 1, "a"), (2, 2, "x")], [(4, 1, "a")], [(2, "delete", 2, "x")]),
    ],
)
def test_the_net_of_all_versions(gone, came, found):
    assert paired(gone, came, reading(net=True)) == found


def test_only_the_later_image_or_none():
    gone, came = [(2, 1, "a"), (2, 3, "x")], [(2, 1, "b"), (2, 4, "y")]
    rest = [(2, "delete", 3, "x"), (2, "insert", 4, "y")]
    assert paired(gone, came, reading(images="post")) == [*rest, (2, POST, 1, "b")]
    plain = [(2, "delete", 1, "a"), (2, "delete", 3, "x"), (2, "insert", 1, "b"), (2, "insert", 4, "y")]
    assert paired(gone, came, reading(images="none")) == plain
    assert paired([(2, 1, "a")], [(2, 1, "a")], reading(images="none")) == []


def test_row_ids_tell_rows_apart():
    how = reading(key=(), row_ids=True)
    gone, came = [(2, 1, "a", 7), (2, 5, "e", 8)], [(2, 2, "b", 7), (2, 5, "e", 9)]
    update = [(2, POST, 2, "b"), (2, PRE, 1, "a")]
    assert paired(gone, came, how) == [(2, "delete", 5, "e"), (2, "insert", 5, "e"), *update]
    assert paired(gone, came, how, recognizable=False) == [(2, "delete", 1, "a"), (2, "insert", 2, "b")]


def test_row_ids_that_two_branches_gave_tell_nothing():
    how = reading(key=(), row_ids=True, below=7, net=True)
    gone, came = [(2, 1, "a", 6), (2, 2, "b", 7)], [(3, 1, "x", 6), (3, 3, "c", 7)]
    assert paired(gone, came, how) == [
        (2, "delete", 2, "b"),
        (3, "insert", 3, "c"),
        (3, POST, 1, "x"),
        (3, PRE, 1, "a"),
    ]


def test_without_a_key_only_equal_rows_belong_together():
    gone, came = [(2, 1, "a"), (2, 1, "a"), (2, 2, "b")], [(2, 1, "a"), (2, 2, "c")]
    assert paired(gone, came, reading(key=())) == [(2, "delete", 1, "a"), (2, "delete", 2, "b"), (2, "insert", 2, "c")]


def batch(*rows):
    return pa.RecordBatch.from_pylist([{"id": key, "v": value} for key, value in rows], SCHEMA)


def test_each_row_is_followed_by_what_it_became():
    before, after = batch((1, "a"), (2, "b")), batch((1, "x"), (2, "y"))
    (found,) = updates(before, after, commit(4), reading())
    assert [(row["_change_type"], row["v"]) for row in found.to_pylist()] == [
        (PRE, "a"), (POST, "x"), (PRE, "b"), (POST, "y"),
    ]  # fmt: skip
    (post,) = updates(before, after, commit(4), reading(images="post"))
    assert post["v"].to_pylist() == ["x", "y"]
    assert [each["_change_type"][0].as_py() for each in updates(before, after, commit(4), reading(images="none"))] == [
        "delete", "insert",
    ]  # fmt: skip


def test_columns_that_are_only_read_are_not_shown():
    columns = FeedColumns(SCHEMA, 1, ("v",))
    found = changes(batch((1, "a")), "insert", commit(4), columns)
    assert found.schema.names == ["id", "_change_type", "_commit_version", "_commit_timestamp", "_commit_branch"]
    assert found.to_pylist()[0]["_commit_branch"] == "main"
