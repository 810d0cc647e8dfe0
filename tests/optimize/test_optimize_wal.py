"""Rows that wait in pylance's write-ahead log: said, kept, passed over by no verb, and brought into the table."""

import uuid
import warnings
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.dataset import MergeInsertBuilder
from lance.mem_wal import LsmScanner, ShardSnapshot
from support.killed import killed_at

from lance_spark import LanceTable
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.cli.main import main
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import LanceSparkWarning, Refused
from lance_spark.refs.refs import rename_branch
from lance_spark.remotes.fetch import Remote
from lance_spark.rows.rows import truncate
from lance_spark.scan.fragment_reads import fragment_sizes
from lance_spark.storage.mem_wal import waiting_rows
from lance_spark.storage.resolving import dataset_at
from lance_spark.workspace.status import status

KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), False, metadata=KEY), pa.field("x", pa.int64())])


def rows(ids, x):
    return pa.table({"id": ids, "x": [x] * len(ids)}, SCHEMA)


def head(uri, branch=None):
    return lance.dataset(uri) if branch is None else lance.dataset(uri).checkout_version((branch, None))


def put(uri, shard, *steps, branch=None):
    """A step is (ids, x), or only ids to delete."""
    with head(uri, branch).mem_wal_writer(shard) as writer:
        for step in steps:
            if isinstance(step, tuple):
                writer.put(rows(*step))
            else:
                writer.delete(pa.table({"id": pa.array(step, pa.int64())}))


@pytest.fixture
def table(uri):
    lance.write_dataset(rows(list(range(5)), 0), uri)
    lance.dataset(uri).initialize_mem_wal()
    return LanceTable.for_path(uri)


def content(uri, branch=None):
    return {row["id"]: row["x"] for row in head(uri, branch).to_table().to_pylist()}


def merged(uri, shards):
    """What pylance reads with the log."""
    snapshots = []
    for shard in shards:
        snapshot, generations = ShardSnapshot(shard), sorted(Path(uri, "_mem_wal", shard).glob("*_gen_*"), key=number)
        for path in generations:
            snapshot = snapshot.with_sstable(number(path), path.name)
        snapshots.append(snapshot.with_current_generation(len(generations) + 1))
    found = LsmScanner.from_snapshots(head(uri), snapshots).project(["id", "x"]).to_table()
    return {row["id"]: row["x"] for row in found.to_pylist()}


def number(path):
    return int(path.name.rpartition("_")[2])


def test_waiting_rows_are_told_and_kept(table, uri):
    put(uri, str(uuid.uuid4()), ([3, 4, 5], 1))
    pin = table._pin()
    found = waiting_rows(dataset_at(uri, None), pin)
    assert (found.rows, len(found.tables), found.logged) == (3, 1, ())
    with pytest.warns(LanceSparkWarning, match="3 rows of .* wait in pylance's write-ahead log"):
        fragment_sizes(dataset_at(uri, None), PinnedVersion(None, pin.version))
    (finding,) = [each for each in table.fsck().findings if each.code == "rows-wait"]
    assert (finding.path, finding.refs, finding.rows, finding.severity) == ("_mem_wal", ("main",), 3, "warning")
    files = {path for path in Path(uri, "_mem_wal").rglob("*") if path.is_file()}
    lance.write_dataset(rows([9], 9), uri, mode="overwrite")
    policy = CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(0))
    table.cleanup(policy).apply()
    (finding,) = [each for each in table.fsck().findings if each.code == "rows-wait"]
    assert "restore a version from before" in finding.detail
    assert {path for path in Path(uri, "_mem_wal").rglob("*") if path.is_file()} == files


def verbs(table, tmp_path):
    elsewhere = str(tmp_path / "elsewhere.lance")
    table.branches.create("other", version=1)
    return {
        "shallow": lambda: table.clone(elsewhere),
        "deep": lambda: table.clone(elsewhere, kind="deep", follow=False),
        "plain": lambda: table.clone(elsewhere, follow=False),
        "merge": lambda: table.branches.merge("main", into="other"),
        "push": lambda: table.remotes.push(Remote("away", dataset_at(elsewhere, None))),
        "restore": lambda: table.restore(1),
        "truncate": lambda: truncate(table.location, None),
    }


@pytest.mark.when(day={"verb": ["deep", "merge", "restore", "truncate"]})
@pytest.mark.parametrize("verb", ["shallow", "deep", "plain", "merge", "push", "restore", "truncate"])
def test_no_verb_passes_waiting_rows_over(table, uri, tmp_path, verb):
    do = verbs(table, tmp_path)[verb]
    put(uri, str(uuid.uuid4()), ([7], 1))
    said = r"1 row of 'main' waits in pylance's write-ahead log \(MemWAL\), in no version: "
    with pytest.raises(Refused, match=said) as refused:
        do()
    assert "t.compact_wal()" in refused.value.hint
    assert "Nothing was changed" in refused.value.message
    assert not Path(tmp_path, "elsewhere.lance").exists()
    table.compact_wal()
    do()


def test_a_branch_with_waiting_rows_is_not_deleted(table, uri):
    table.branches.create("exp")
    put(uri, str(uuid.uuid4()), ([7], 1), branch="exp")
    with pytest.raises(Refused, match="1 row of 'exp' wait"):
        table.branches.delete("exp")
    result = table.checkout(branch="exp").compact_wal()
    assert (result.tables, result.rows_written) == (1, 1)
    assert content(uri, "exp")[7] == 1
    assert 7 not in content(uri)
    table.branches.delete("exp")


def test_a_branch_with_waiting_rows_is_not_renamed(table, uri):
    table.branches.create("exp")
    put(uri, str(uuid.uuid4()), ([7], 1), branch="exp")
    with pytest.raises(Refused, match="1 row of 'exp' wait"):
        rename_branch(table.location, "exp", "new")


def test_whoever_looks_at_a_table_is_told_of_waiting_rows(table, uri):
    assert (table.log().note, status(table.location, None).note) == (None, None)
    put(uri, str(uuid.uuid4()), ([3, 7], 1))
    told = "2 rows of 'main' wait in pylance's write-ahead log (MemWAL), in no version: t.compact_wal()"
    assert told in str(table.log())
    assert "rows wait in no version" in repr(table)
    assert told in str(table)
    assert "MemWAL" in table._repr_html_()
    assert told in status(table.location, None).note
    table.compact_wal()
    assert "MemWAL" not in f"{table.log()}{table!r}{status(table.location, None).note}"


def test_the_shell_tells_of_waiting_rows(table, uri, capsys):
    put(uri, str(uuid.uuid4()), ([7], 1))
    for verb in ("status", "log"):
        assert main(["-C", uri, verb]) == 0
        assert "1 row of 'main' waits" in "".join(capsys.readouterr()), verb


def test_a_fetch_tells_of_rows_that_wait_at_the_remote(table, uri, tmp_path):
    clone = table.clone(str(tmp_path / "clone.lance"))
    shard = str(uuid.uuid4())
    put(uri, shard, ([7], 1))
    (note,) = clone.remotes.pull("origin").fetched.notes
    assert note.startswith("1 row of 'origin/main' waits")
    assert "1 row of 'origin/main' waits" in str(clone.remotes.pull("origin"))
    put(clone.location.uri, str(uuid.uuid4()), ([8], 1))
    with pytest.raises(Refused, match="1 row of 'main' waits"):
        clone.remotes.pull("origin", reset=True)
    table.compact_wal()
    put(uri, shard, ([9], 1))
    (note,) = clone.remotes.fetch("origin").notes
    assert note.startswith("1 row of 'origin/main' waits")


@pytest.mark.parametrize(
    ("change", "values"),
    [
        (lambda dataset: dataset.drop_columns(["x"]), [{"id": 1}, {"id": 2}, {"id": 7}]),
        (
            lambda dataset: dataset.add_columns(pa.field("y", pa.int64())),
            [{"id": 1, "x": 5, "y": None}, {"id": 2, "x": 0, "y": None}, {"id": 7, "x": 5, "y": None}],
        ),
    ],
)
def test_what_waits_fits_columns_that_were_added_or_dropped_since(uri, change, values):
    lance.write_dataset(rows([1, 2], 0), uri)
    lance.dataset(uri).initialize_mem_wal()
    put(uri, str(uuid.uuid4()), ([1, 7], 5))
    change(lance.dataset(uri))
    LanceTable.for_path(uri).compact_wal()
    assert sorted(lance.dataset(uri).to_table().to_pylist(), key=lambda row: row["id"]) == values


def test_what_waits_for_a_renamed_column_stays_until_it_has_its_name(table, uri):
    put(uri, str(uuid.uuid4()), ([7], 5))
    lance.dataset(uri).alter_columns({"path": "x", "name": "z"})
    with pytest.raises(Refused, match="have 'x' as it was") as refused:
        table.compact_wal()
    assert "former names" in refused.value.hint
    assert lance.dataset(uri).count_rows() == 5
    lance.dataset(uri).alter_columns({"path": "z", "name": "x"})
    table.compact_wal()
    assert content(uri)[7] == 5


def test_a_key_by_position_matches_what_waits(uri):
    at = "lance-schema:unenforced-primary-key:position"
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), False, {at: "2"}),
            pa.field("b", pa.int64(), False, {at: "1"}),
            pa.field("x", pa.int64()),
        ]
    )
    lance.write_dataset(pa.table({"a": [1, 1], "b": [1, 2], "x": [0, 0]}, schema), uri)
    lance.dataset(uri).initialize_mem_wal()
    with lance.dataset(uri).mem_wal_writer(str(uuid.uuid4())) as writer:
        writer.put(pa.table({"a": [1, 2], "b": [2, 1], "x": [5, 5]}, schema))
    LanceTable.for_path(uri).compact_wal()
    found = sorted(tuple(row.values()) for row in lance.dataset(uri).to_table().to_pylist())
    assert found == [(1, 1, 0), (1, 2, 5), (2, 1, 5)]


STEPS = [
    [(([3, 4, 5], 1),)],
    [(([3, 4, 5], 1), [4]), (([4, 9], 2), [0, 5])],
    [([1, 2],)],
    [(([1], 1), ([1], 2), [1], ([1], 3))],
]


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("generations", STEPS, ids=str)
@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
def test_what_waits_is_brought_in_once(table, uri, generations, killed):
    one, other = (str(uuid.uuid4()) for _ in range(2))
    for steps in generations:
        put(uri, one, *steps)
    put(uri, other, ([100], 100))
    expected = merged(uri, [one, other])
    if killed:
        with killed_at(MergeInsertBuilder, "execute", 2):
            table.compact_wal()
    table.compact_wal()
    assert content(uri) == expected
    again = table.compact_wal()
    assert (again.tables, again.version) == (0, table._pin())
    assert not waiting_rows(dataset_at(uri, None), table._pin())
    with warnings.catch_warnings():
        warnings.simplefilter("error", LanceSparkWarning)
        fragment_sizes(dataset_at(uri, None), table._pin())
    assert "no SSTable of the write-ahead log waits" in str(again)


def test_a_log_whose_writer_is_at_work_is_told(table, uri):
    writer = lance.dataset(uri).mem_wal_writer(str(uuid.uuid4()))
    writer.put(rows([7], 1))
    found = waiting_rows(dataset_at(uri, None), table._pin())
    assert (found.tables, len(found.logged)) == ((), 1)
    result = table.compact_wal()
    assert len(result.logged) == 1
    assert "the log of 1 shard waits for its writer" in str(result)
    writer.close()
    assert table.compact_wal().rows_written == 1


def test_without_a_key_the_log_is_left_alone(uri):
    lance.write_dataset(pa.table({"x": [1]}), uri)
    lance.dataset(uri).initialize_mem_wal()
    with lance.dataset(uri).mem_wal_writer(str(uuid.uuid4())) as writer:
        writer.put(pa.table({"x": [2]}))
    with pytest.raises(Refused, match="matched by the table's primary key, which is missing"):
        LanceTable.for_path(uri).compact_wal()
    assert lance.dataset(uri).count_rows() == 1


def test_a_protected_branch_takes_no_waiting_rows(uri, table):
    put(uri, str(uuid.uuid4()), ([1, 7], 5))
    table.branches.alter("main", protected=True)
    with pytest.raises(Refused, match="Branch 'main' is protected"):
        table.compact_wal()
    assert content(uri) == dict.fromkeys(range(5), 0)
    table.branches.alter("main", protected=False)
    table.compact_wal()
    assert content(uri) == {0: 0, 1: 5, 2: 0, 3: 0, 4: 0, 7: 5}
