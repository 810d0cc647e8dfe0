"""Columns added, dropped, renamed and altered on main and on branches; pylance reads what comes of it."""

import os
from decimal import Decimal
from functools import partial

import lance
import pyarrow as pa
import pytest
from support.local_datasets import contents, make_dataset, written_since
from support.meanwhile import meanwhile

from lance_spark.columns import columns
from lance_spark.columns.columns import alter_columns
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import AlreadyExists, Conflict, NotFound, Refused, SchemaMismatch, StorageFailure
from lance_spark.format.evolution import AddColumn, AlterColumn, DropColumn, RenameColumn
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.refs.refs import create_branch
from lance_spark.storage import commits
from lance_spark.storage.datasets import pin_latest

LOCAL = LocalRunner(2)
PERSON = pa.struct([pa.field("name", pa.string()), pa.field("age", pa.int32())])
SCHEMA = pa.schema([("id", pa.int32()), ("text", pa.string()), ("person", PERSON)])


def people(first, count):
    ids = range(first, first + count)
    return pa.table(
        {
            "id": list(ids),
            "text": [f"t{number}" for number in ids],
            "person": [{"name": f"n{number}", "age": number} if number % 3 else None for number in ids],
        },
        schema=SCHEMA,
    )


@pytest.fixture(params=[False, True], ids=["plain", "stable row ids"])
def location(request, uri):
    """Two fragments, one row of which is deleted, an index, and a branch with a fragment of its own."""
    make_dataset(uri, people(0, 5), people(5, 5), enable_stable_row_ids=request.param)
    lance.dataset(uri).create_scalar_index("text", "BTREE")
    lance.dataset(uri).delete("id = 3")
    found = DatasetLocation.at(uri)
    create_branch(found, "exp", RefSpec())
    lance.write_dataset(people(10, 2), found.branch_uri("exp"), mode="append")
    return found


def opened(location, branch):
    dataset = lance.dataset(location.branch_uri(branch))
    dataset.validate()
    return dataset


def rows(location, branch, **arguments):
    return opened(location, branch).to_table(**arguments).to_pylist()


def alter(location, branch, *changes, **arguments):
    return alter_columns(location, branch, changes, LOCAL, **arguments)


def test_every_kind_of_change_in_one_version(location, branch):
    before, files = rows(location, branch), contents(location.uri)
    version = pin_latest(location, branch).version
    made = alter(
        location,
        branch,
        AddColumn(("score",), pa.float64(), comment="out of ten"),
        AddColumn(("person", "email"), pa.string()),
        AlterColumn(("id",), type=pa.int64(), comment="the key"),
        RenameColumn(("text",), "words"),
        RenameColumn(("person", "name"), "full_name"),
        DropColumn(("person", "age")),
        message="evolve",
    )
    assert (made.version.branch, made.version.version) == (branch, version + 1)
    dataset = opened(location, branch)
    assert dataset.schema.field("id") == pa.field("id", pa.int64(), metadata={"comment": "the key"})
    assert dataset.schema.field("id").metadata == {b"comment": b"the key"}
    assert dataset.schema.names == ["id", "words", "person", "score"]
    assert dataset.schema.names == made.plan.schema.names
    expected = [
        {
            "id": row["id"],
            "words": row["text"],
            "person": row["person"] and {"full_name": row["person"]["name"], "email": None},
            "score": None,
        }
        for row in before
    ]
    assert dataset.to_table().to_pylist() == expected
    found = dataset.to_table(filter="words = 't4'").to_pylist()
    assert [row["id"] for row in found] == [4]
    assert "ScalarIndexQuery" in dataset.scanner(filter="words = 't4'").explain_plan()
    if branch:
        assert all(path.startswith("tree/exp/") for path in written_since(files, location.uri))


def test_only_a_wider_type_writes_data(location, branch):
    files = contents(location.uri)
    alter(location, branch, AddColumn(("n",), pa.int64()), DropColumn(("text",)), RenameColumn(("id",), "key"))
    alter(location, branch, AlterColumn(("key",), comment="k"))
    assert not [path for path in written_since(files, location.uri) if "/data/" in f"/{path}"]
    fragments = len(opened(location, branch).get_fragments())
    alter(location, branch, AlterColumn(("key",), type=pa.int64()))
    written = [path for path in written_since(files, location.uri) if "/data/" in f"/{path}"]
    assert len(written) == fragments


def test_new_columns_can_be_written_and_old_rows_have_nulls(location, branch):
    alter(location, branch, AddColumn(("n",), pa.int64()), AddColumn(("s",), pa.struct([pa.field("x", pa.int8())])))
    table = people(100, 1).append_column("n", pa.array([7], pa.int64()))
    table = table.append_column("s", pa.array([{"x": 1}], pa.struct([pa.field("x", pa.int8())])))
    lance.write_dataset(table, location.branch_uri(branch), mode="append")
    found = rows(location, branch, columns=["n", "s"])
    assert found[-1] == {"n": 7, "s": {"x": 1}}
    assert all(row == {"n": None, "s": None} for row in found[:-1])


def test_a_column_that_comes_back_under_its_old_name_is_empty(location, branch):
    alter(location, branch, DropColumn(("text",)))
    alter(location, branch, AddColumn(("text",), pa.string()))
    assert {row["text"] for row in rows(location, branch)} == {None}
    alter(location, branch, DropColumn(("text",)), AddColumn(("text",), pa.string()))
    assert {row["text"] for row in rows(location, branch)} == {None}


def test_nothing_to_do_makes_no_version(location, branch):
    head = pin_latest(location, branch)
    assert alter(location, branch, AlterColumn(("id",), type=pa.int32())).version == head
    assert alter(location, branch, DropColumn(("gone",), if_exists=True)).version == head
    assert pin_latest(location, branch) == head


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (DropColumn(("gone",)), NotFound),
        (AddColumn(("ID",), pa.int8()), AlreadyExists),
        (AlterColumn(("id",), type=pa.int8()), SchemaMismatch),
        (AddColumn(("n",), pa.int8(), position="FIRST"), Refused),
    ],
)
def test_a_refusal_changes_nothing(location, branch, change, error):
    files = contents(location.uri)
    with pytest.raises(error):
        alter(location, branch, RenameColumn(("text",), "words"), change)
    assert written_since(files, location.uri) == set()


def test_a_missing_branch_is_named_in_the_error(location):
    with pytest.raises(NotFound, match="no branch 'nothing'"):
        alter(location, "nothing", DropColumn(("text",)))


def test_drop_not_null(uri):
    make_dataset(uri, pa.table({"id": [1]}, schema=pa.schema([pa.field("id", pa.int64(), nullable=False)])))
    alter(DatasetLocation.at(uri), None, AlterColumn(("id",), nullable=True))
    lance.write_dataset(pa.table({"id": pa.array([None], pa.int64())}), uri, mode="append")
    assert [row["id"] for row in rows(DatasetLocation.at(uri), None)] == [1, None]


def test_the_types_that_can_be_widened(uri):
    """Values at the edges, nulls and deleted rows."""
    kinds = [
        ("i8", pa.int8(), pa.int16(), [-128, 127, None, 0]),
        ("i32", pa.int32(), pa.int64(), [-(2**31), 2**31 - 1, None, 0]),
        ("u8", pa.uint8(), pa.int16(), [0, 255, None, 1]),
        ("f16", pa.float16(), pa.float32(), [1.5, 0.0, None, -1.5]),
        ("f32", pa.float32(), pa.float64(), [float("inf"), -0.0, None, 1.5]),
        ("dec", pa.decimal128(5, 2), pa.decimal128(12, 3), [Decimal("999.99"), Decimal("-999.99"), None, Decimal(0)]),
    ]
    table = pa.table({name: pa.array(values, kind) for name, kind, _, values in kinds})
    make_dataset(uri, table)
    lance.dataset(uri).delete("i8 = 127")
    alter(DatasetLocation.at(uri), None, *(AlterColumn((name,), type=new) for name, _, new, _ in kinds))
    dataset = opened(DatasetLocation.at(uri), None)
    assert [field.type for field in dataset.schema] == [new for _, _, new, _ in kinds]
    expected = table.filter(pa.array([True, False, True, True])).cast(dataset.schema)
    assert dataset.to_table().equals(expected)


# concurrent commits


@pytest.fixture
def between(monkeypatch):
    return partial(meanwhile, monkeypatch, columns.column_files, "commit_columns")


ADD, DROP = AddColumn(("n",), pa.int64()), DropColumn(("person",))
RENAME, WIDEN = RenameColumn(("text",), "words"), AlterColumn(("id",), type=pa.int64())


@pytest.mark.parametrize("change", [ADD, DROP, RENAME, WIDEN], ids=["add", "drop", "rename", "widen"])
def test_rows_appended_deleted_and_updated_meanwhile_are_kept(location, branch, between, change):
    place = location.branch_uri(branch)
    before = {row["id"] for row in rows(location, branch)}
    done = []

    def event(number, act):
        def happen():
            act()
            done.append(number)

        return happen

    between(
        event(50, lambda: lance.write_dataset(people(50, 1), place, mode="append")),
        event(1002, lambda: lance.dataset(place).update({"id": "id + 1000"}, where="id = 2")),
        event(-1, lambda: lance.dataset(place).delete("id = 1")),
    )
    alter(location, branch, change)
    assert done[:2] == [50, 1002]  # a deletion may be combined with the last attempt, or come too late
    expected = before - {2} | {50, 1002}
    assert {row["id"] for row in rows(location, branch)} == expected - ({1} if -1 in done else set())


def test_a_compaction_meanwhile_is_kept(location, branch, between):
    between(lambda: lance.dataset(location.uri).optimize.compact_files())
    before = rows(location, None)
    alter(location, None, WIDEN)
    assert rows(location, None) == before


def test_files_of_attempts_in_vain_go(location, branch, between):
    """Only what the committed version names is left: a cast fragment that was compacted away leaves nothing."""
    between(lambda: lance.dataset(location.branch_uri(branch)).update({"id": "id + 1000"}, where="id = 2"))
    before = set(contents(location.uri))
    alter(location, branch, WIDEN)
    named = {
        os.path.basename(file.path)
        for version in lance.dataset(location.branch_uri(branch)).versions()
        for fragment in lance.dataset(location.branch_uri(branch), version=version["version"]).get_fragments()
        for file in fragment.metadata.files
    }
    new = {os.path.basename(path) for path in set(contents(location.uri)) - before if "/data/" in f"/{path}"}
    assert new <= named


def test_the_second_of_two_equal_changes_is_refused(location, branch, between):
    place = location.branch_uri(branch)
    between(lambda: lance.dataset(place).add_columns(pa.field("n", pa.int8())))
    with pytest.raises(AlreadyExists):
        alter(location, branch, ADD)
    between(lambda: lance.dataset(place).drop_columns(["person"]))
    with pytest.raises(NotFound):
        alter(location, branch, DROP)


def stage_append(location, branch, table):
    """A job of pylance that has written its files and is about to commit."""
    dataset = lance.dataset(location.branch_uri(branch))
    fragments = lance.fragment.write_fragments(table, dataset, mode="append")

    def commit():
        return lance.LanceDataset.commit(
            location.branch_uri(branch),
            lance.LanceOperation.Append(fragments),
            read_version=dataset.version,
            max_retries=0,
        )

    return commit


def test_an_append_under_way_goes_on_when_columns_are_only_added(location, branch):
    commit = stage_append(location, branch, people(50, 1))
    alter(location, branch, ADD)
    commit()
    assert rows(location, branch)[-1] == {**people(50, 1).to_pylist()[0], "n": None}


@pytest.mark.parametrize("change", [DROP, RENAME, WIDEN], ids=["drop", "rename", "widen"])
def test_an_append_under_way_is_told_of_other_changes(location, branch, change):
    """Combined with a wider type, its values would read as null."""
    commit = stage_append(location, branch, people(50, 1))
    alter(location, branch, change)
    with pytest.raises(Exception, match="conflict"):
        commit()


def test_an_append_under_way_never_fills_a_later_column(location, branch):
    """pylance gives away the id of a dropped column again: the values would come back under another name."""
    alter(location, branch, AddColumn(("n",), pa.int64()))
    commit = stage_append(location, branch, people(50, 1).append_column("n", pa.array([7], pa.int64())))
    alter(location, branch, DropColumn(("n",)))
    alter(location, branch, AddColumn(("other",), pa.int64()))
    with pytest.raises(Exception, match="conflict"):
        commit()
    assert {row["other"] for row in rows(location, branch)} == {None}


def test_a_version_that_was_committed_and_cleaned_up_meanwhile_is_seen(location, branch, between, monkeypatch):
    """pylance passes over a missing version; the change is planned again on what that version left."""
    place = location.branch_uri(branch)

    def events():
        lance.write_dataset(people(50, 1), place, mode="append")
        lance.write_dataset(people(60, 1), place, mode="append")
        manifest = sorted(os.listdir(f"{place}/_versions"))[1]  # names count down: the newest but one
        os.remove(f"{place}/_versions/{manifest}")

    seen = []
    real = commits.open_newest
    monkeypatch.setattr(commits, "open_newest", lambda *arguments: seen.append(arguments) or real(*arguments))
    between(events)
    alter(location, branch, WIDEN)
    assert len(seen) == 2
    assert {50, 60} < {row["id"] for row in rows(location, branch)}


def test_if_others_commit_again_and_again_nothing_is_left_of_the_attempts(location, branch, between, monkeypatch):
    monkeypatch.setattr(columns, "attempts", lambda: iter([2, 1, 0]))
    place = location.branch_uri(branch)
    between(*[lambda: lance.write_dataset(people(50, 1), place, mode="append")] * 3)
    before = set(contents(location.uri))
    with pytest.raises(Conflict):
        alter(location, branch, WIDEN)
    new = [path for path in set(contents(location.uri)) - before if "/data/" in f"/{path}"]
    assert len(new) == 3  # the appended ones; all that was cast is gone
    assert opened(location, branch).schema.field("id").type == pa.int32()


def test_a_store_that_does_not_answer_at_the_commit_loses_nothing(location, branch, monkeypatch):
    """The commit may have arrived: what it names must stay."""
    real = columns.column_files.commit_columns

    def commit(*arguments):
        real(*arguments)
        raise StorageFailure("no answer")

    monkeypatch.setattr(columns.column_files, "commit_columns", commit)
    with pytest.raises(StorageFailure):
        alter(location, branch, WIDEN)
    assert opened(location, branch).schema.field("id").type == pa.int64()
    assert len(rows(location, branch)) == opened(location, branch).count_rows()


# branches


COMMENTED = AlterColumn(("text",), comment="what was said")


@pytest.mark.parametrize("change", [ADD, DROP, RENAME, COMMENTED], ids=["add", "drop", "rename", "comment"])
def test_a_change_on_a_branch_is_merged(location, change):
    alter(location, "exp", change)
    expected = {row["id"]: row for row in rows(location, "exp")}
    lance.write_dataset(people(70, 1), location.uri, mode="append")
    merge(location, pin_latest(location, "exp"), None, MergeOptions(), LOCAL)
    found = {row["id"]: row for row in rows(location, None)}
    assert found.keys() == expected.keys() | {70}
    assert {key: found[key] for key in expected} == expected
    schemas = [opened(location, branch).schema for branch in (None, "exp")]
    assert schemas[0].equals(schemas[1], check_metadata=True)


def test_a_change_on_a_branch_leaves_main_alone(location):
    before = rows(location, None)
    alter(location, "exp", ADD, DROP, RENAME, WIDEN)
    assert rows(location, None) == before
    assert opened(location, None).schema.names == SCHEMA.names


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("count", [0, 2])
def test_every_file_format_and_tables_without_rows(uri, version, count):
    lance.write_dataset(people(1, count), uri, data_storage_version=version)
    location = DatasetLocation.at(uri)
    for change in (WIDEN, RENAME, DropColumn(("person", "age"))):
        alter(location, None, change)
    adding = (ADD, AddColumn(("person", "email"), pa.string()))
    if version == "legacy" and count:
        with pytest.raises(Refused, match="every file has every column"):
            alter(location, None, *adding)
    else:
        alter(location, None, *adding)
    dataset = opened(location, None)
    assert dataset.schema.names[:3] == ["id", "words", "person"]
    assert dataset.schema.field("id").type == pa.int64()
    assert dataset.to_table(columns=["id", "words"]).to_pylist() == [
        {"id": number, "words": f"t{number}"} for number in range(1, 1 + count)
    ]
    assert dataset.to_table(columns=["person"]).num_rows == count
