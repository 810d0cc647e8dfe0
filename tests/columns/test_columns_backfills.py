"""Columns with values, as they are computed and committed: what pylance reads, whatever others do meanwhile."""

import json
import time
from decimal import Decimal
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.backfills import LocalValues, negated
from support.local_datasets import contents, make_dataset, numbers, written_since
from support.processes import PATIENCE, processes

from lance_spark.columns import column_files
from lance_spark.columns.column_files import check_whole
from lance_spark.columns.columns import add_filled_columns, alter_columns, fill_columns_by_groups, update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions, FilledFile, RecordPlace
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import AlreadyExists, Conflict, CorruptData, SchemaMismatch
from lance_spark.format.evolution import AddColumn, DropColumn, RenameColumn
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.refs.refs import create_branch
from lance_spark.rows.rows import delete_where
from lance_spark.storage.datasets import pin_latest

LOCAL = LocalRunner(2)
INCREMENTAL = BackfillOptions(incremental=True)


@pytest.fixture(params=[False, True], ids=["plain", "stable row ids"])
def location(request, uri):
    """Three fragments of ten, an index, one row deleted, and a branch in which another one is deleted."""
    make_dataset(uri, numbers(10), numbers(10, 10), numbers(10, 20), enable_stable_row_ids=request.param)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).delete("id = 3")
    found = DatasetLocation.at(uri)
    create_branch(found, "exp", RefSpec())
    lance.dataset(found.branch_uri("exp")).delete("id = 14")
    return found


def now(location, branch):
    dataset = lance.dataset(location.branch_uri(branch))
    dataset.validate()
    return dataset


def values(location, branch, name="y", filter=None):
    found = now(location, branch).to_table(filter=filter)
    return dict(zip(found["id"].to_pylist(), found[name].to_pylist(), strict=True))


def add(location, branch, computed=None, **options):
    computed = computed or LocalValues(location, negated("y"), y=pa.int32())
    return add_filled_columns(location, branch, computed, BackfillOptions(**options))


def append(location, branch, first, **more):
    rows = numbers(5, first)
    for name, value in more.items():
        rows = rows.append_column(name, pa.array([value] * 5, pa.int32()))
    lance.write_dataset(rows, location.branch_uri(branch), mode="append")


def test_columns_come_with_all_their_values_in_one_version(location, branch):
    before, files = now(location, branch).version, contents(location.uri)
    vectors = pa.list_(pa.float32(), 2)
    inner = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    computed = LocalValues(
        location,
        lambda batch: {
            "s": [{"a": value, "b": ["x"]} for value in batch["id"].to_pylist()],
            "v": [[value, 1] for value in batch["id"].to_pylist()],
        },
        v=vectors,
        s=inner,
    )
    result = add(location, branch, computed, message="embed")
    dataset = now(location, branch)
    assert dataset.version == before + 1 == result.version.version
    assert dataset.schema == pa.schema([("id", pa.int64()), ("v", vectors), ("s", inner)])
    found = dataset.to_table().to_pylist()
    assert len(found) == (29 if branch is None else 28)
    assert all(row["v"] == [row["id"], 1] and row["s"] == {"a": row["id"], "b": ["x"]} for row in found)
    assert dataset.to_table(filter="id = 17")["v"].to_pylist() == [[17, 1]]
    assert (result.fragments, result.resumed, result.rows) == (3, 0, 30)
    assert str(result).startswith(f"v, s of {branch or 'main'}@{dataset.version}: 3 fragments, 30 rows, ")
    root = "" if branch is None else "tree/exp/"
    new = written_since(files, location.uri)
    assert all(path.startswith(root) for path in new)
    assert sum(path.startswith(f"{root}data/") for path in new) == 3
    assert not [path for path in new if "_backfill" in path]


def test_what_others_do_meanwhile_is_kept_and_gets_values(location, branch):
    computed = LocalValues(location, negated("y"), y=pa.int32())

    def meanwhile():
        append(location, branch, 100)
        lance.dataset(location.branch_uri(branch)).delete("id = 27")

    computed.meanwhile = meanwhile
    add(location, branch, computed)
    found = values(location, branch)
    assert all(value == -key for key, value in found.items())
    assert 104 in found
    assert 27 not in found
    assert computed.done == [0, 1, 2, 3]


def test_rows_that_are_appended_meanwhile_stay_null_if_that_was_asked(location, branch):
    computed = LocalValues(location, negated("y"), y=pa.int32())
    computed.meanwhile = lambda: append(location, branch, 100)
    add(location, branch, computed, new_rows="null")
    found = values(location, branch)
    assert all(value == (None if key >= 100 else -key) for key, value in found.items())
    assert computed.done == [0, 1, 2]


@pytest.mark.parametrize("new_rows", ["fill", "null"])
def test_fragments_that_are_compacted_meanwhile_are_computed_again(location, new_rows):
    computed = LocalValues(location, negated("y"), y=pa.int32())
    computed.meanwhile = lambda: lance.dataset(location.uri).optimize.compact_files()
    add(location, None, computed, new_rows=new_rows)
    assert all(value == -key for key, value in values(location, None).items())
    assert computed.done[:3] == [0, 1, 2]
    assert len(computed.done) == 4


def test_a_row_that_comes_back_meanwhile_has_its_value(location):
    computed = LocalValues(location, negated("y"), y=pa.int32())
    computed.meanwhile = lambda: lance.dataset(location.uri, version=4).restore()  # before the deletion of 3
    add(location, None, computed)
    assert values(location, None)[3] == -3
    assert computed.done == [0, 1, 2, 0]


def test_an_append_under_way_goes_on_and_its_rows_have_nulls(location):
    start = lance.dataset(location.uri)
    fragments = lance.fragment.write_fragments(numbers(2, 100), start, mode="append")
    add(location, None)
    operation = lance.LanceOperation.Append(fragments)
    lance.LanceDataset.commit(location.uri, operation, read_version=start.version, max_retries=0)
    assert values(location, None, filter="id > 28") == {29: -29, 100: None, 101: None}


def test_a_column_that_values_are_computed_from_may_not_become_another_one(location):
    computed = LocalValues(location, negated("y"), y=pa.int32())

    def meanwhile():
        alter_columns(location, None, [RenameColumn(("id",), "key")], LOCAL)
        alter_columns(location, None, [AddColumn(("id",), pa.int64())], LOCAL)

    computed.meanwhile = meanwhile
    with pytest.raises(Conflict, match="Column 'id' was altered"):
        add(location, None, computed)
    assert now(location, None).schema.names == ["key", "id"]


def test_a_column_that_another_process_adds_first_is_an_error(location):
    computed = LocalValues(location, negated("y"), y=pa.int32())
    computed.meanwhile = lambda: alter_columns(location, None, [AddColumn(("y",), pa.int32())], LOCAL)
    with pytest.raises(AlreadyExists, match="'y'"):
        add(location, None, computed)


@pytest.mark.parametrize("change", [lambda values: values[1:], lambda values: [*values, 1]], ids=["short", "long"])
def test_a_function_that_returns_another_number_of_rows_is_an_error_that_counts(location, change):
    before = contents(location.uri)
    computed = LocalValues(location, lambda batch: {"y": change(batch["id"].to_pylist())}, y=pa.int32())
    with pytest.raises(SchemaMismatch, match=r"returned [35] values of 'y' for 4 rows of fragment 0"):
        add(location, None, computed)
    assert not {path for path in written_since(before, location.uri) if not path.startswith("data/")}
    assert now(location, None).schema.names == ["id"]


def test_a_file_that_lacks_a_row_is_not_committed(location):
    """pylance would commit it, and could not read the table any more."""
    short = lance.fragment.write_fragments(numbers(9), location.uri, mode="overwrite")
    file = FilledFile(0, json.dumps(short[0].to_json()["files"][0]), "[[0]]", 10, 1)
    with pytest.raises(CorruptData, match="9 of 10 rows"):
        check_whole(location, None, file)


def test_a_call_that_failed_goes_on_where_it_was(location, branch):
    failing = LocalValues(location, negated("y", until=20), y=pa.int32())
    with pytest.raises(RuntimeError, match="out of memory"):
        add(location, branch, failing)
    assert now(location, branch).schema.names == ["id"]
    again = LocalValues(location, negated("y"), y=pa.int32())
    told = []
    result = add(location, branch, again, progress=told.append)
    assert again.done == [2]
    assert (result.fragments, result.resumed) == (3, 2)
    assert [(each.done, each.fragments, each.rows) for each in told] == [(2, 3, 20), (3, 3, 30)]
    assert str(told[0]).startswith("y: 2 of 3 fragments, 20 rows, ")
    assert all(value == -key for key, value in values(location, branch).items())


def records(location):
    found = list(Path(location.uri, "_backfill").rglob("*.json"))
    assert len(found) == 2
    return found


def other_identity(location, computed):
    computed.identity = "another function"


def a_deletion(location, computed):
    delete_where(location, None, "id in (7, 17)", LOCAL)


def other_values(location, computed):
    function = LocalValues(location, lambda batch: {"id": batch["id"]}, id=pa.int64())
    update_filled_columns(location, None, function, BackfillOptions())


def a_short_file(location, computed):
    """Records are believed after a look at the files."""
    for path in records(location):
        short = lance.fragment.write_fragments(numbers(9), location.uri, mode="overwrite")
        file = json.dumps(short[0].to_json()["files"][0])
        path.write_text(json.dumps({**json.loads(path.read_text()), "file": file}))


def a_file_that_is_gone(location, computed):
    for path in records(location):
        Path(location.uri, "data", json.loads(json.loads(path.read_text())["file"])["path"]).unlink()


def damage(location, computed):
    for path in records(location):
        path.write_text(path.read_text()[:20])


@pytest.mark.parametrize(
    "between", [other_identity, a_deletion, other_values, a_short_file, a_file_that_is_gone, damage]
)
def test_what_is_not_sure_to_be_the_same_is_computed_again(location, between):
    with pytest.raises(RuntimeError):
        add(location, None, LocalValues(location, negated("y", until=20), y=pa.int32()))
    again = LocalValues(location, negated("y"), y=pa.int32())
    between(location, again)
    add(location, None, again)
    assert again.done == [0, 1, 2]
    assert all(value == -key for key, value in values(location, None).items())


@pytest.mark.parametrize("options", [{"resume": False}, {"resume": "model 2"}])
def test_a_new_beginning_can_be_asked_for(location, options):
    with pytest.raises(RuntimeError):
        add(location, None, LocalValues(location, negated("y", until=20), y=pa.int32()))
    again = LocalValues(location, negated("y"), y=pa.int32())
    add(location, None, again, **options)
    assert again.done == [0, 1, 2]


def test_old_records_do_not_count_as_a_cleanup_may_be_about_to_delete_the_files(location, monkeypatch):
    with pytest.raises(RuntimeError):
        add(location, None, LocalValues(location, negated("y", until=20), y=pa.int32()))
    later = time.time() + column_files.USED_FOR + 1
    monkeypatch.setattr(column_files.time, "time", lambda: later)
    again = LocalValues(location, negated("y"), y=pa.int32())
    add(location, None, again)
    assert again.done == [0, 1, 2]


def run(uri, branch, verb):
    location = DatasetLocation.at(uri)
    computed = LocalValues(location, negated("y", until=20, die=True), y=pa.int32())
    if verb == "incremental":
        fill_columns_by_groups(location, branch, computed, INCREMENTAL, LOCAL)
    else:
        add(location, branch, computed)


@pytest.mark.parametrize("verb", ["whole", "incremental"])
def test_a_call_that_was_killed_goes_on_where_it_was(location, branch, verb):
    process = processes().Process(target=run, args=(location.uri, branch, verb))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == -9
    assert now(location, branch).schema.names == (["id"] if verb == "whole" else ["id", "y"])
    again = LocalValues(location, negated("y"), y=pa.int32())
    if verb == "incremental":
        assert set(values(location, branch, filter="id < 20").values()) > {-1, -19}
        fill_columns_by_groups(location, branch, again, INCREMENTAL, LOCAL)
    else:
        add(location, branch, again)
    assert again.done == [2]
    assert all(value == -key for key, value in values(location, branch).items())


def test_values_that_come_group_by_group_can_be_read_in_every_version(location, branch):
    before = now(location, branch).version
    computed = LocalValues(location, negated("y"), y=pa.int32())

    def meanwhile():
        append(location, branch, 100)
        append(location, branch, 200, y=1)

    computed.meanwhile = meanwhile
    told = []
    options = BackfillOptions(incremental=True, progress=told.append)
    result = fill_columns_by_groups(location, branch, computed, options, LOCAL)
    found = values(location, branch)
    assert all(value == (1 if key >= 200 else -key) for key, value in found.items())
    assert result.fragments == 4
    assert [each.done for each in told] == sorted(each.done for each in told)
    assert (told[-1].done, told[-1].fragments) == (4, 4)
    for version in range(before + 1, now(location, branch).version):
        dataset = lance.dataset(location.branch_uri(branch), version=version)
        dataset.validate()
        rows = dataset.to_table().to_pylist()
        assert all(row["y"] in (None, -row["id"], 1) for row in rows)


KINDS = {
    "vector": (pa.list_(pa.float32(), 2), lambda key: [key, 1.0]),
    "list": (pa.list_(pa.string()), lambda key: ["a"] * (key % 3)),
    "struct": (pa.struct([("a", pa.int64()), ("b", pa.string())]), lambda key: {"a": key, "b": None}),
    "text": (pa.string(), str),
    "decimal": (pa.decimal128(20, 2), lambda key: Decimal(key)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_others_rewrote_half_way_get_values_and_keep_those_they_have(location, kind):
    """A compaction writes nulls where there are no values yet, and a row that was given one keeps it."""
    stored, value = KINDS[kind]

    def function(batch):
        return {"y": [value(key) for key in batch["id"].to_pylist()]}

    computed = LocalValues(location, function, y=stored)

    def others():
        rows = numbers(2, 100).append_column("y", pa.array([value(7), None], stored))
        lance.write_dataset(rows, location.uri, mode="append")
        lance.dataset(location.uri).optimize.compact_files()

    def killed(progress):
        if progress.done == 1:
            others()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill_columns_by_groups(location, None, computed, BackfillOptions(incremental=True, progress=killed), LOCAL)
    fill_columns_by_groups(location, None, computed, INCREMENTAL, LOCAL)
    assert values(location, None) == {**{key: value(key) for key in [*range(30), 101] if key != 3}, 100: value(7)}


def test_other_values_take_the_place_of_the_old_ones_and_no_index_finds_these(location, branch):
    add(location, branch)
    uri = location.branch_uri(branch)
    lance.dataset(uri).create_scalar_index("y", "BTREE")
    before = now(location, branch)
    computed = LocalValues(location, lambda batch: {"y": [7 * key for key in batch["id"].to_pylist()]}, y=pa.int32())
    computed.meanwhile = lambda: delete_where(location, branch, "id = 20", LOCAL)
    result = update_filled_columns(location, branch, computed, BackfillOptions())
    assert result.version.version == before.version + 2
    assert values(location, branch, filter="y = -8") == {}
    assert values(location, branch, filter="y = 56") == {8: 56}
    assert values(location, branch, filter="id = 8") == {8: 56}
    lance.dataset(uri).optimize.optimize_indices()
    assert values(location, branch, filter="y = 56") == {8: 56}
    assert all(value == 7 * key for key, value in values(location, branch).items())
    assert computed.done == [0, 1, 2]
    if before.has_stable_row_ids:
        rows = now(location, branch).scanner(columns=["id", "_row_last_updated_at_version"]).to_table()
        assert set(rows["_row_last_updated_at_version"].to_pylist()) == {result.version.version}


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_a_column_without_nulls_stays_so_also_where_rows_are_deleted(uri, version):
    columns = pa.schema([("id", pa.int64()), pa.field("y", pa.int32(), nullable=False)])
    lance.write_dataset(
        pa.Table.from_arrays([pa.array(range(10)), pa.array(range(10), pa.int32())], schema=columns),
        uri,
        data_storage_version=version,
    )
    lance.dataset(uri).delete("id in (0, 4, 9)")
    location = DatasetLocation.at(uri)
    update_filled_columns(location, None, LocalValues(location, negated("y"), y=pa.int32()), BackfillOptions())
    assert values(location, None) == {key: -key for key in (1, 2, 3, 5, 6, 7, 8)}
    nulls = LocalValues(location, lambda batch: {"y": [None] * len(batch)}, y=pa.int32())
    nulls.schema = pa.schema([columns.field("y")])
    with pytest.raises(SchemaMismatch, match="'y' holds a null"):
        update_filled_columns(location, None, nulls, BackfillOptions())
    lance.dataset(uri).optimize.compact_files()
    assert values(location, None) == {key: -key for key in (1, 2, 3, 5, 6, 7, 8)}


def test_rows_that_are_appended_while_an_update_is_computed_are_updated_as_well(location, branch):
    add(location, branch)
    computed = LocalValues(location, lambda batch: {"y": [7 * key for key in batch["id"].to_pylist()]}, y=pa.int32())
    computed.meanwhile = lambda: append(location, branch, 100, y=1)
    update_filled_columns(location, branch, computed, BackfillOptions())
    assert all(value == 7 * key for key, value in values(location, branch).items())
    computed.meanwhile = lambda: append(location, branch, 200, y=1)
    computed.schema = pa.schema([("id", pa.int64())])
    computed.function = lambda batch: {"id": [-key for key in batch["id"].to_pylist()]}
    update_filled_columns(location, branch, computed, BackfillOptions(new_rows="null"))
    assert {key for key in values(location, branch) if key > 0} == set(range(200, 205))


def test_a_merge_into_main_brings_the_columns(location):
    add(location, "exp")
    computed = LocalValues(location, lambda batch: {"y": [7 * key for key in batch["id"].to_pylist()]}, y=pa.int32())
    update_filled_columns(location, "exp", computed, BackfillOptions())
    append(location, None, 100)
    merge(location, pin_latest(location, "exp"), None, MergeOptions(), LOCAL)
    found = values(location, None)
    assert all(value == (None if key >= 100 else 7 * key) for key, value in found.items())
    assert len(found) == 33
    assert values(location, None, filter="id = 8") == {8: 56}


def test_a_column_that_was_dropped_can_be_added_again(location, branch):
    add(location, branch)
    alter_columns(location, branch, [DropColumn(("y",))], LOCAL)
    computed = LocalValues(location, lambda batch: {"y": [1] * len(batch)}, y=pa.int64())
    add(location, branch, computed)
    assert set(values(location, branch).values()) == {1}


def test_a_table_without_rows_gets_the_column(uri):
    lance.write_dataset(numbers(0), uri)
    location = DatasetLocation.at(uri)
    assert add(location, None).fragments == 0
    assert now(location, None).schema.names == ["id", "y"]


def test_records_of_fragments_are_read_by_their_names(location):
    file = FilledFile(1, "{}", "[]", 10, 5)
    column_files.write_record(location, None, RecordPlace("call", {1: "one"}), file)
    read = column_files.read_records
    assert read(location, None, RecordPlace("call", {1: "one", 2: "two"})) == {1: file}
    assert read(location, None, RecordPlace("call", {2: "one"})) == {}
    assert read(location, None, RecordPlace("other", {1: "one"})) == {}
    column_files.forget_records(location, None, "call")
    assert read(location, None, RecordPlace("call", {1: "one"})) == {}
