"""Rows deleted, updated, merged and replaced on Spark's executors, on main and on branches; pylance reads them."""

import dataclasses
from datetime import date, datetime, timedelta
from decimal import Decimal

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from support.local_datasets import contents, written_since
from support.merge_cases import PLACES
from support.row_changes import changing_table, check_table, row_ids, rows_of, some

from lance_spark import LanceTable, register
from lance_spark.errors import Conflict, InvalidOption, NoSuchName, NotFound, Refused, SchemaMismatch
from lance_spark.format.transactions import MESSAGE
from lance_spark.rows.spark import change_rows, deletion, update

pytestmark = [pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(spark="newest", sample=0.1, newest=0.6)]


@pytest.fixture(params=PLACES[:2], ids=["stable branch", "plain main"])
def place(request):
    return request.param


@pytest.fixture
def branch(place):
    return place[0]


@pytest.fixture
def stable(place):
    return place[1]


@pytest.fixture
def location(uri, branch, stable):
    return changing_table(uri, branch, stable)


@pytest.fixture
def table(spark, location, branch):
    whole = LanceTable.for_path(location.uri, spark=spark)
    return whole if branch is None else whole.checkout(branch=branch)


def source(spark, *rows, columns="id bigint, x int, day string"):
    return spark.createDataFrame([*rows], columns)


def test_a_delete_keeps_what_the_condition_is_not_true_for(table, location, branch):
    before = rows_of(location, branch)
    result = table.delete("id % 5 = 0", message="bye")
    assert str(result) == f"{branch or 'main'}@{table.version}: 6 rows deleted, 0 updated, 0 inserted; 3 files, 0 B"
    check_table(location, branch, [row for row in before if row["id"] is None or row["id"] % 5])
    transaction = lance.dataset(location.branch_uri(branch)).read_transaction(table.version)
    assert type(transaction.operation).__name__ == "Delete"
    assert transaction.transaction_properties[MESSAGE] == "bye"
    assert not table.delete("id % 5 = 0").changed
    assert table.version == result.version.version


CONSTANTS = {
    "n": (np.int64(7), 7),
    "d": (date(2026, 1, 31), date(2026, 1, 31)),
    "x": (2.5, 2.5),
    "e": (10**20, Decimal(10**20)),
    "b": (b"\x00'", b"\x00'"),
    "l": ([1, None], [1, None]),
    "y": (True, True),
    "t": (None, None),
    "f": ("concat('q', 'r')", "qr"),
}


def test_a_value_that_is_no_text_is_a_constant(spark, uri):
    types = [pa.int32(), pa.date32(), pa.float32(), pa.decimal128(25, 0), pa.binary(), pa.list_(pa.int64()), pa.bool_()]
    schema = pa.schema([*zip(CONSTANTS, [*types, pa.string(), pa.string()], strict=True)])
    lance.write_dataset(pa.Table.from_pylist([{"t": "old"}], schema), uri)
    t = LanceTable.for_path(uri, spark=spark)
    t.update({name: given for name, (given, _) in CONSTANTS.items()})
    assert lance.dataset(uri).to_table().to_pylist() == [{name: kept for name, (_, kept) in CONSTANTS.items()}]
    one = spark.createDataFrame([(7,)], "n int")
    t.merge(one, on="n").when_matched_update({"x": 1, "t": None}).execute()
    assert lance.dataset(uri).to_table(columns=["x", "t"]).to_pylist() == [{"x": 1.0, "t": None}]
    with pytest.raises(InvalidOption, match="cannot have the value NaT"):
        t.update({"d": pd.NaT})
    with pytest.raises(InvalidOption, match="cannot have the value"):
        t.update({"n": object()})
    with pytest.raises(SchemaMismatch, match="cannot hold"):
        t.update({"n": 2**40})


@pytest.mark.parametrize("condition", [None, True, False, 1, {"id": 1}, ["id = 1"], float("nan")], ids=repr)
def test_what_is_no_condition_changes_nothing(spark, uri, condition):
    lance.write_dataset(pa.table({"id": [1, 2]}), uri)
    t, one = LanceTable.for_path(uri, spark=spark), spark.createDataFrame([(3,)], "id bigint")
    verbs = [lambda: t.delete(condition), lambda: t.overwrite(one, condition)]
    verbs += [lambda: t.merge(one, on=condition).when_not_matched_insert_all().execute()] * (condition != ["id = 1"])
    if condition is not None:  # without one, all rows are meant
        verbs += [
            lambda: t.update({"id": "5"}, condition),
            lambda: t.merge(one, on="id").when_matched_delete(condition),
        ]
    for verb in verbs:
        with pytest.raises(InvalidOption, match="A condition is SQL as a text, or a Column"):
            verb()
    assert lance.dataset(uri).to_table().to_pydict() == {"id": [1, 2]}


NAMES = {
    "update": lambda t, _one: t.update({5: "id"}),
    "add": lambda t, _one: t.add_columns({5: "id"}),
    "drop": lambda t, _one: t.drop_columns(["id", 5]),
    "read": lambda t, _one: t.to_df(columns=["id", 5]),
    "keys": lambda t, one: t.merge(one, on=["id", 5]),
    "clause": lambda t, one: t.merge(one, on="id").when_matched_update(5),
    "values": lambda t, one: t.merge(one, on="id").when_matched_update({5: "id"}).execute(),
}


@pytest.mark.parametrize("verb", NAMES)
def test_what_is_no_name_is_refused(spark, uri, verb):
    lance.write_dataset(pa.table({"id": [1, 2], "x": [1, 2]}), uri)
    with pytest.raises(InvalidOption):
        NAMES[verb](LanceTable.for_path(uri, spark=spark), spark.createDataFrame([(1,)], "id bigint"))
    assert lance.dataset(uri).version == 1


def test_an_update_keeps_ids_and_indexes(table, location, branch, stable):
    before, known = rows_of(location, branch), row_ids(location, branch)
    advisory = table.spark.conf.get("spark.sql.adaptive.advisoryPartitionSizeInBytes")
    result = table.update({"x": "x * 10 + id", "day": "concat(day, '!')"}, where="id % 3 = 0")
    assert (result.rows_updated, result.rows_deleted, result.rows_inserted) == (9, 0, 0)
    hit = [row["id"] for row in before if row["id"] is not None and row["id"] % 3 == 0]
    expected = [
        {"id": row["id"], "x": row["x"] * 10 + row["id"], "day": row["day"] + "!"} if row["id"] in hit else row
        for row in before
    ]
    check_table(location, branch, expected)
    if stable:
        assert row_ids(location, branch) == known
        moved = lance.dataset(location.branch_uri(branch)).scanner(
            columns=["id"], filter=f"_row_last_updated_at_version = {result.version.version}"
        )
        assert sorted(moved.to_table()["id"].to_pylist()) == sorted(hit)
    assert table.update({"x": "-1"}, where="id % 3 = 0 OR id = 20").rows_updated == 10
    check_table(location, branch, [{**row, "x": -1} if row["id"] in (*hit, 20) else row for row in expected])
    assert table.spark.conf.get("spark.sql.adaptive.advisoryPartitionSizeInBytes") == advisory


def test_all_rows_of_fragments_may_go(table, location, branch):
    rows = table.delete("id < 20").rows_deleted
    assert rows == 18
    check_table(location, branch, [row for row in rows_of(location, branch) if row["id"] is None or row["id"] >= 20])
    assert table.update({"x": "1"}).rows_updated == 11
    assert table.delete("true").rows_deleted == 11
    assert rows_of(location, branch) == []
    assert table.merge(source(table.spark, (1, 1, "a")), on="id").when_not_matched_insert_all().execute().rows_inserted
    check_table(location, branch, [{"id": 1, "x": 1, "day": "a"}])


@pytest.mark.parametrize("rows", [[(1, 5, "a"), (1, 6, "b")], [(1, 5, "a"), (1, 5, "gone")]])
def test_two_rows_of_the_source_for_one_row_are_an_error(table, location, branch, rows):
    before = contents(location.uri)
    merge = table.merge(source(table.spark, *rows), on="id").when_matched_delete("source.day = 'gone'")
    with pytest.raises(Refused, match="match the row with id = 1: ") as caught:
        merge.when_matched_update_all().execute()
    assert "dropDuplicates" in caught.value.hint
    assert written_since(before, location.uri) == set()


def appended(location, branch):
    lance.write_dataset(some([77], x=9), location.branch_uri(branch), mode="append")
    return [{"id": 77, "x": 9, "day": "mon"}]


def deleted(location, branch):
    lance.dataset(location.branch_uri(branch)).delete("id IN (5, 16)")
    return []


def compacted(location, branch):
    dataset = lance.dataset(location.branch_uri(branch))
    inherited = [found.fragment_id for found in dataset.get_fragments() if found.metadata.files[0].base_id is not None]
    lance.write_dataset(some([78]), location.branch_uri(branch), mode="append")
    lance.dataset(location.branch_uri(branch)).optimize.compact_files(excluded_fragment_ids=inherited)
    return [{"id": 78, "x": 0, "day": "mon"}]


def updated(location, branch):
    lance.dataset(location.branch_uri(branch)).update({"day": "'later'"}, where="id = 6")
    return [{"id": 6, "x": 0, "day": "later"}]


def beside(change, location, branch, happens):
    """The change, and what another writer commits after its rows were read for the first time."""
    added = []

    def actions(pin):
        if not added:
            added.append(happens(location, branch))
        return change.actions(pin)

    return dataclasses.replace(change, actions=actions), added


@pytest.mark.parametrize("happens", [appended, deleted, compacted, updated])
def test_other_commits_in_between_are_kept(spark, table, location, branch, happens):
    before = rows_of(location, branch)
    change, added = beside(
        update(spark, (location, branch), {"x": "5"}, "id IN (1, 14, 22)"), location, branch, happens
    )
    assert change_rows(spark, change).rows_updated == 3
    now = {row["id"]: row for row in [*before, *added[0]]}
    for key in (5, 16) if happens is deleted else ():
        del now[key]
    check_table(location, branch, [{**row, "x": 5} if row["id"] in (1, 14, 22) else row for row in now.values()])


def test_a_change_of_the_same_rows_is_a_conflict_or_computed_again(spark, table, location, branch):
    def same(location, branch):
        lance.dataset(location.branch_uri(branch)).update({"x": "50"}, where="id = 1")

    start = table.version
    change, _ = beside(update(spark, (location, branch), {"x": "x + 1"}, "id < 3"), location, branch, same)
    before = contents(location.uri)
    with pytest.raises(Conflict, match="cannot be combined"):
        change_rows(spark, change)
    assert table.version == start + 1
    assert not [path for path in written_since(before, location.uri) if path.count(".lance") and not is_by(path, table)]
    change, _ = beside(update(spark, (location, branch), {"x": "x + 1"}, "id < 3"), location, branch, same)
    assert change_rows(spark, change, retries=1).rows_updated == 3
    found = {row["id"]: row["x"] for row in rows_of(location, branch)}
    assert (found[0], found[1], found[2]) == (1, 51, 1)


def is_by(path, table):
    """Whether a version names the file."""
    dataset = lance.dataset(table.location.branch_uri(table.ref.branch))
    return any(path.endswith(file.path) for found in dataset.get_fragments() for file in found.metadata.files)


def test_two_merges_that_insert_one_key(spark, table, location, branch):
    def merge():
        return table.merge(source(spark, (60, 1, "a")), on="id").when_matched_update_all().when_not_matched_insert_all()

    change, _ = beside(merge().change(), location, branch, lambda *_: merge().execute())
    with pytest.raises(Conflict, match="would have met"):
        change_rows(spark, change)
    change, _ = beside(merge().change(), location, branch, lambda *_: table.delete("id = 60"))
    assert change_rows(spark, change, retries=1).rows_inserted == 1
    change, _ = beside(merge().change(), location, branch, appended)
    assert change_rows(spark, change).rows_updated == 1
    assert [row["id"] for row in rows_of(location, branch)].count(60) == 1


def test_a_row_that_came_to_match_is_met(spark, table, location, branch):
    def moves(location, branch):
        lance.dataset(location.branch_uri(branch)).update({"day": "'doomed'"}, where="id = 7")

    change, _ = beside(deletion(spark, (location, branch), "day = 'doomed'"), location, branch, moves)
    assert not change_rows(spark, change).changed  # nothing to delete when it was computed: it came before the update
    change, _ = beside(
        deletion(spark, (location, branch), "day = 'doomed' OR id = 1"), location, branch, lambda *_: None
    )
    assert change_rows(spark, change).rows_deleted == 2


def test_on_a_branch_nothing_is_written_elsewhere(spark, uri):
    location = changing_table(uri, "exp", stable=True)
    before = contents(uri)
    table = LanceTable.for_path(uri, spark=spark).checkout(branch="exp")
    table.delete("id = 1")
    table.update({"x": "100"}, where="id = 2 OR id = 25")
    table.merge(
        source(spark, (4, 4, "m"), (90, 9, "m")), on="id"
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    assert all(path.startswith("tree/exp/") for path in written_since(before, uri))
    main = rows_of(location, None)
    LanceTable.for_path(uri, spark=spark).branches.merge("exp")
    gone, new = [1, 2, 4], [{"id": 2, "x": 100, "day": "mon"}, {"id": 4, "x": 4, "day": "m"}]
    of_branch = [{"id": key, "x": 100 if key == 25 else 2, "day": "wed"} for key in range(20, 30)]
    expected = [row for row in main if row["id"] not in gone] + new + of_branch + [{"id": 90, "x": 9, "day": "m"}]
    check_table(location, None, expected)


def test_overwrite_of_the_rows_of_a_condition(spark, table, location, branch):
    before = rows_of(location, branch)
    new = source(spark, (1, 1, "tue"), (2, 2, "tue"))
    result = table.overwrite(new, where="day = 'tue'", message="tuesday")
    assert (result.rows_deleted, result.rows_inserted) == (10, 2)
    rest = [row for row in before if row["day"] != "tue"]
    check_table(location, branch, [*rest, {"id": 1, "x": 1, "day": "tue"}, {"id": 2, "x": 2, "day": "tue"}])
    assert table.log(1)
    with pytest.raises(Refused, match="does not satisfy the condition"):
        table.overwrite(source(spark, (1, 1, "wed")), where="day = 'tue'")
    with pytest.raises(InvalidOption, match="condition is empty"):
        table.overwrite(new, where=" ")


def test_a_merge_under_way_shows_what_can_be_typed_next(spark, table):
    merge = table.merge(source(spark, (1, 1, "mon")), on="id")
    assert str(merge) == "<RowMerge on id: no clause yet; execute() runs it>"
    assert str(merge.when_matched_update_all()) == "<RowMerge on id: when matched then update; execute() runs it>"
    assert {name.partition("_")[0] for name in dir(merge) if not name.startswith("_")} == {"when", "with", "execute"}
    with pytest.raises(NoSuchName, match="Did you mean 'when_matched_update_all'"):
        merge.whenMatchedUpdateAll()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t, _: t.merge("exp"), r"t\.branches\.merge\('exp'\)"),
        (lambda t, _: t.merge(t.checkout(branch="exp")), r"t\.branches\.merge\('exp'\)"),
        (lambda t, _: t.merge(pa.table({"id": [1]}), on="id"), r"spark\.createDataFrame"),
        (lambda t, frame: t.merge(frame), r"t\.merge\(df, on='id'\)"),
        (lambda t, _: t.overwrite([(1, 1, "mon")], where="id = 1"), "not a list of builtins"),
        (lambda t, _: t.update("id = 3", {"day": "'x'"}), r'where="id = 3"'),
        (lambda t, _: t.checkout(3), "version=3"),
        (lambda t, _: t.tags.create("v1", 3), "version=3"),
        (lambda t, _: t.cleanup("7d"), r"CleanupPolicy\(older_than=timedelta\(days=7\)\)"),
    ],
)
def test_what_people_try_first_is_answered(spark, table, call, words):
    with pytest.raises(InvalidOption, match=words):
        call(table, source(spark, (1, 1, "mon")))


@pytest.mark.parametrize("spell", ["replace_where", "replaceWhere"])
def test_a_write_with_a_condition_names_the_verb_that_does_it(spark, table, location, spell):
    assert table.write(source(spark, (1, 1, "tue"))) is None
    before = rows_of(location, None)
    with pytest.raises(InvalidOption, match=r"overwrite\(df, where='id = 1'\)"):
        table.write(source(spark, (1, 1, "tue")), mode="overwrite", **{spell: "id = 1"})
    assert rows_of(location, None) == before


@pytest.mark.parametrize(
    ("values", "error", "said"),
    [
        ({"y": "1"}, NotFound, "no column 'y'"),
        ({"x": "id * 1000000000000"}, SchemaMismatch, "Column 'x' of type int cannot hold"),
        ({"x": "true"}, SchemaMismatch, "Column 'x' is int"),
        ({"x": "'seven'"}, SchemaMismatch, "cannot hold seven"),
        ({}, InvalidOption, "sets no column"),
    ],
)
def test_values_that_do_not_fit(spark, uri, values, error, said):
    location = changing_table(uri, "exp", stable=False)
    version = LanceTable.for_path(uri, spark=spark).checkout(branch="exp").version
    with pytest.raises(error, match=said):
        LanceTable.for_path(uri, spark=spark).checkout(branch="exp").update(values)
    assert lance.dataset(location.branch_uri("exp")).version == version


def test_values_are_cast(spark, uri):
    location = changing_table(uri, None, stable=False)
    table = LanceTable.for_path(uri, spark=spark)
    table.update({"x": "id * 1.5D", "day": "id"}, where="id = 7")
    assert [row for row in rows_of(location, None) if row["id"] == 7] == [{"id": 7, "x": 10, "day": "7"}]


def test_a_handle_that_stands_still_changes_nothing(spark, uri):
    changing_table(uri, None, stable=False)
    standing = LanceTable.for_path(uri, spark=spark).checkout(version=1)
    for change in (
        lambda: standing.delete("true"),
        lambda: standing.update({"x": "1"}),
        lambda: standing.merge(source(spark), on="id"),
    ):
        with pytest.raises(Refused, match="pinned to a tag or version"):
            change()


def test_nested_and_long_values_come_through(spark, uri):
    kind = pa.schema(
        [
            ("id", pa.int64()),
            ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
            ("v", pa.list_(pa.float32(), 3)),
            ("tags", pa.list_(pa.string())),
            ("when", pa.timestamp("us", tz="UTC")),
        ]
    )
    rows = [
        {"id": key, "s": {"a": key, "b": "t" * key}, "v": [key, 1, 2], "tags": ["a"] * key, "when": key * 10**6}
        for key in range(6)
    ]
    lance.write_dataset(pa.Table.from_pylist(rows, schema=kind), uri)
    table = LanceTable.for_path(uri, spark=spark)
    table.update({"tags": "array('new')"}, where="id = 2")
    changed = table.to_df().where("id = 3").selectExpr("id", "named_struct('a', 9, 'b', 'z') AS s", "v", "tags", "when")
    table.merge(changed, on="id").when_matched_update_all().execute()
    found = {row["id"]: row for row in lance.dataset(uri).to_table().to_pylist()}
    assert lance.dataset(uri).schema == kind
    assert found[2]["tags"] == ["new"]
    assert found[3]["s"] == {"a": 9, "b": "z"}
    assert found[3]["v"] == [3, 1, 2]


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.2 marked"])
@pytest.mark.parametrize("native", [True, False], ids=["native", "plain source"])
def test_blobs_of_rows_that_change_stay(spark, uri, version, native):
    blobs = [b"first", None, b"", b"x" * 100_000]
    marked = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    kind, values = (lance.blob_field("b"), lance.blob_array(blobs)) if version == "2.2" else (marked, blobs)
    schema = pa.schema([pa.field("id", pa.int64()), kind, pa.field("x", pa.int64())])
    lance.write_dataset(
        pa.table([pa.array([0, 1, 2, 3]), values, pa.array([0] * 4)], schema), uri, data_storage_version=version[:3]
    )
    schema = lance.dataset(uri).schema
    register(spark, native=native)
    table = LanceTable.for_path(uri, spark=spark)
    assert table.update({"x": "id + 1"}, where="id != 2").rows_updated == 3
    new = spark.createDataFrame([(0, bytearray(b"new")), (9, None)], "id long, b binary")
    assert (
        table.merge(new, on="id").when_matched_update_all().when_not_matched_insert_all().execute().rows_inserted == 1
    )
    found = lance.dataset(uri).to_table(blob_handling="all_binary").sort_by("id")
    assert found["b"].to_pylist() == [b"new", *blobs[1:], None]
    assert found["x"].to_pylist() == [1, 2, 0, 4, None]
    assert lance.dataset(uri).schema == schema


@pytest.mark.parametrize("native", [True, False], ids=["native", "plain source"])
def test_values_that_spark_reads_as_other_types_come_back_as_they_were(spark, uri, native):
    kinds = {
        "u64": (pa.uint64(), 2**64 - 1),
        "u16": (pa.uint16(), 65_535),
        "half": (pa.float16(), 0.5),
        "nan": (pa.float64(), float("inf")),
        "zero": (pa.float64(), -0.0),
        "dec": (pa.decimal128(20, 3), Decimal("1.250")),
        "word": (pa.dictionary(pa.int32(), pa.string()), "w"),
        "day": (pa.date32(), date(1900, 1, 1)),
        "wall": (pa.timestamp("us"), datetime(1900, 1, 1, 0, 0, 1)),  # noqa: DTZ001 - without a zone
        "span": (pa.duration("us"), timedelta(days=1)),
        "large": (pa.large_string(), "l"),
        "fixed": (pa.binary(3), b"abc"),
        "map": (pa.map_(pa.string(), pa.int32()), [("k", 1)]),
        "vectors": (pa.list_(pa.list_(pa.float32(), 2)), [[1.0, 2.0]]),
    }
    schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in kinds.items())])
    rows = [{"id": 1, **{name: value for name, (_, value) in kinds.items()}}, {"id": 2}]
    lance.write_dataset(pa.Table.from_pylist(rows, schema=schema), uri)
    before = lance.dataset(uri).to_table().to_pylist()
    register(spark, native=native)
    table = LanceTable.for_path(uri, spark=spark)
    table.update({"id": "id + 10"})
    after = lance.dataset(uri).to_table()
    assert after.schema == schema
    assert repr(after.to_pylist()) == repr([{**row, "id": row["id"] + 10} for row in before])


def test_nanoseconds_that_spark_would_cut_off_end_an_update(spark, uri):
    lance.write_dataset(pa.table({"id": [1], "t": pa.array([1_000_000_001], pa.timestamp("ns"))}), uri)
    table = LanceTable.for_path(uri, spark=spark)
    with pytest.raises(SchemaMismatch, match="Column 't'"):
        table.update({"id": "2"})
    assert table.delete("id = 1").rows_deleted == 1


def test_a_null_for_a_column_that_forbids_it(spark, uri):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int32())])
    lance.write_dataset(pa.table({"id": [1, 2], "x": pa.array([1, 2], pa.int32())}, schema=schema), uri)
    table = LanceTable.for_path(uri, spark=spark)
    with pytest.raises(SchemaMismatch, match="Column 'id' holds a null"):
        table.update({"id": "CASE WHEN x = 1 THEN id END"})
    assert table.version == 1
