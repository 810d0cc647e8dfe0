"""Rewrites in another order, on main, branches and clones, beside other commits; pylance reads the result."""

from contextlib import suppress
from functools import partial

import lance
import numpy as np
import pyarrow as pa
import pytest
from support.feeds import feed
from support.killed import killed_at
from support.local_datasets import contents, written_since
from support.meanwhile import meanwhile
from support.processes import PATIENCE, processes
from support.row_changes import changing_table, check_table, rows_of
from support.row_changes import written as prepared_change
from support.small_fragments import add_indexes, append, check_rows, fragmented, rows

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, InvalidOption, NotCommittable, Refused
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.optimize import optimize as clustering
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.rows.action_rules import DELETE, UPDATE
from lance_spark.rows.rows import finish
from lance_spark.storage.resolving import resolve

ENGINE = LocalRunner(1)


def cluster(location, branch=None, sort_by=None, zorder=None, **options):
    return optimize(location, branch, OptimizeOptions(sort_by=sort_by, zorder=zorder, **options), ENGINE)


@pytest.fixture(params=[True, False], ids=["stable", "plain"])
def stable(request):
    return request.param


@pytest.fixture
def location(uri, stable):
    return fragmented(uri, stable)


@pytest.fixture
def flat(uri, stable):
    """Main alone: eight fragments, in each of them every k."""
    lance.write_dataset(rows(range(10)), uri, enable_stable_row_ids=stable)
    append(uri, 10, 7)
    add_indexes(uri)
    return DatasetLocation.at(uri)


def ids_of(root):
    return lance.dataset(root).to_table(columns=["id"])["id"].to_pylist()


def ranges(root, column):
    """The least and the greatest value of each fragment."""
    found = []
    for fragment in lance.dataset(root).get_fragments():
        values = fragment.to_table(columns=[column])[column].to_pylist()
        found.append((min(values), max(values)))
    return found


def test_rows_are_sorted_and_found_by_every_index(flat, stable):
    lance.dataset(flat.uri).delete("id IN (3, 44)")
    before = lance.dataset(flat.uri).to_table(with_row_id=True).sort_by("id")
    told = []
    result = cluster(flat, sort_by=["k", "id"], target_rows=20, progress=told.append)
    expected = sorted((key for key in range(80) if key not in (3, 44)), key=lambda key: (key % 5, key))
    assert ids_of(flat.uri) == expected
    assert (result.fragments_removed, result.fragments_added, result.rows, result.commits) == (8, 4, 78, 1)
    assert result.plan.depth > 6
    assert result.depth == pytest.approx(1)
    assert [each.done for each in told] == [0, 0, 8]
    assert told[-1].bytes == result.bytes
    check_rows(flat.uri, expected)
    now = lance.dataset(flat.uri).to_table(with_row_id=True).sort_by("id")
    if stable:
        assert now == before
    assert set(result.uncovered) <= {"id_idx", "k_idx", "s_idx", "v_idx"}
    assert "id_idx" in result.uncovered
    lance.dataset(flat.uri).optimize.optimize_indices()
    check_rows(flat.uri, expected)
    assert cluster(flat, sort_by=["k", "id"], target_rows=20).commits == 0


def test_stable_rows_keep_when_they_were_created(uri):
    fragmented(uri, True)
    columns = ["id", "_rowid", "_row_created_at_version"]
    before = lance.dataset(uri).to_table(columns=columns).sort_by("id")
    cluster(DatasetLocation.at(uri), sort_by="k", target_rows=20)
    assert lance.dataset(uri).to_table(columns=columns).sort_by("id") == before


def test_a_curve_makes_ranges_of_both_columns_narrow(uri):
    random = np.random.default_rng(5)
    for number in range(16):
        table = pa.table(
            {
                "id": range(number * 64, number * 64 + 64),
                "x": random.integers(0, 10**9, 64),
                "name": [f"n{value:09}" for value in random.integers(0, 10**9, 64)],
            }
        )
        lance.write_dataset(table, uri, mode="append" if number else "create")
    before = lance.dataset(uri).to_table().sort_by("id")
    result = cluster(DatasetLocation.at(uri), zorder=["x", "name"], target_rows=64)
    assert lance.dataset(uri).to_table().sort_by("id") == before
    assert result.plan.depth > 13
    assert result.depth < 7  # 4 is the least
    found = ranges(uri, "name")
    reads = [sum(low <= f"n{value:09}" <= high for low, high in found) for value in range(0, 10**9, 10**7)]
    assert np.mean(reads) < 8  # all of them had to be read before, 4 are the least
    assert cluster(DatasetLocation.at(uri), zorder=["x", "name"], target_rows=64).commits == 0


@pytest.mark.parametrize("order", [{"sort_by": ["day", "id"]}, {"zorder": ["day", "id"]}], ids=str)
def test_columns_that_are_not_null_are_sorted(uri, order):
    """As Spark writes ``spark.range``; beside another column that may be null."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("day", pa.int64())])
    values = np.random.default_rng(3).permutation(4_000)
    for first in range(0, 4_000, 1_000):
        ids = values[first : first + 1_000]
        made = pa.table({"id": ids, "day": ids * 7 % 1_000}, schema=schema)
        lance.write_dataset(made, uri, schema=schema, mode="append" if first else "create")
    done = cluster(DatasetLocation.at(uri), target_rows=1_000, **order)
    assert done.depth < 3
    assert sorted(ids_of(uri)) == list(range(4_000))
    assert lance.dataset(uri).schema == schema


def test_a_dry_run_changes_nothing_and_says_what_it_would_do(flat):
    before = contents(flat.uri)
    result = cluster(flat, sort_by=["k"], target_rows=20, dry_run=True)
    assert written_since(before, flat.uri) == set()
    assert "would rewrite 8 of 8 fragments by k, as 4; 80 rows" in str(result)
    assert "8.0" in str(result.plan)


def test_only_new_rows_are_rewritten_the_next_time(flat):
    cluster(flat, sort_by=["k", "id"], target_rows=10)
    settled = {fragment.fragment_id for fragment in lance.dataset(flat.uri).get_fragments()}
    append(flat.uri, 80, 2)
    result = cluster(flat, sort_by=["k", "id"], target_rows=10)
    assert result.fragments_removed == 2
    assert settled <= {fragment.fragment_id for fragment in lance.dataset(flat.uri).get_fragments()}
    check_rows(flat.uri, range(100))


def test_a_branch_sorts_its_own_rows_and_with_own_only_false_all(location):
    root, main = location.branch_uri("exp"), contents(location.uri)
    result = cluster(location, "exp", sort_by="k", target_rows=20)
    assert (result.fragments_removed, result.plan.inherited) == (4, 4)
    assert not [path for path in written_since(main, location.uri) if not path.startswith("tree/exp/")]
    check_rows(root, range(80))
    result = cluster(location, "exp", sort_by="k", target_rows=20, own_only=False)
    assert (result.fragments_removed, result.plan.inherited) == (4, 0)
    assert ranges(root, "k") == [(0, 2), (2, 4)] * 2
    check_rows(root, range(80))
    check_rows(location.uri, range(40))


def test_where_takes_some_fragments(flat):
    assert cluster(flat, sort_by="k", target_rows=10, where="id < 20").fragments_removed == 2
    check_rows(flat.uri, range(80))


def test_the_change_feed_has_nothing_to_tell(flat):
    begin = lance.dataset(flat.uri).version
    cluster(flat, sort_by="k", target_rows=20)
    assert feed(flat.uri, since=begin, key=("id",)) == []


@pytest.fixture
def between(monkeypatch):
    """What happens once rows were written, and before they are committed."""
    return partial(meanwhile, monkeypatch, clustering, "finish")


@pytest.mark.parametrize(
    ("act", "lost"),
    [
        (lambda uri: lance.dataset(uri).delete("id = 7"), {7}),
        (lambda uri: lance.dataset(uri).update({"k": "k"}, where="id = 7"), set()),
        (lambda uri: append(uri, 80, 1), set()),
        (lambda uri: lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=20), set()),
        (lambda uri: lance.dataset(uri).create_scalar_index("id", "ZONEMAP", name="z"), set()),
    ],
    ids=["deleted", "updated", "appended", "compacted", "indexed"],
)
def test_what_others_commit_meanwhile_is_kept(flat, between, act, lost):
    expected = {*range(80)} - lost
    between(lambda: act(flat.uri))
    result = cluster(flat, sort_by=["k", "id"], target_rows=20)
    assert (result.commits, result.conflicts) == (1, ())
    now = set(ids_of(flat.uri))
    assert now == expected or now == expected | {*range(80, 90)}
    check_rows(flat.uri, now)


def test_a_clustering_that_is_overtaken_twice_leaves_no_file(flat, between):
    between(*(lambda key=key: lance.dataset(flat.uri).delete(f"id = {key}") for key in (7, 8)))
    data = {path for path in contents(flat.uri) if path.startswith("data/")}
    result = cluster(flat, sort_by="k", target_rows=20)
    assert (result.commits, result.conflicts) == (0, (tuple(range(8)),))
    assert {path for path in contents(flat.uri) if path.startswith("data/")} == data
    check_rows(flat.uri, {*range(80)} - {7, 8})


@pytest.mark.parametrize("branch", [None, "exp"])
def test_a_change_of_rows_that_began_before_is_computed_again(uri, stable, branch):
    """Followed by their order, as through a compaction, other rows would be deleted."""
    location = changing_table(uri, branch, stable)
    change = prepared_change(location, branch, [(UPDATE, {"id": 14, "x": 50, "day": "mon"}), (DELETE, {"id": 25})])
    before = rows_of(location, branch)
    assert cluster(location, branch, sort_by=["x", "id"], own_only=False).commits == 1
    with pytest.raises(Conflict, match="deleted or rewritten"):
        finish(change)
    check_table(location, branch, before)


@pytest.mark.parametrize("sorts", ["main", "exp"])
def test_a_merge_takes_it(location, stable, sorts):
    root = location.branch_uri("exp")
    branch = None if sorts == "main" else "exp"
    cluster(location, branch, sort_by="k", target_rows=20, own_only=False)
    if stable and sorts == "exp":  # old rows keep their ids, new ones get others, and both are in one fragment
        with pytest.raises(NotCommittable, match="mixes rows from before the base"):
            merge(location, resolve(location, RefSpec("exp")), None, MergeOptions(), ENGINE)
        check_rows(location.uri, range(40))
        return
    merge(location, resolve(location, RefSpec("exp")), None, MergeOptions(), ENGINE)
    check_rows(location.uri, range(80))
    check_rows(root, range(80))


@pytest.mark.parametrize("sorts", ["main", "exp"])
def test_a_merge_with_rows_that_the_other_side_deleted(location, sorts):
    deletes = location.branch_uri("exp") if sorts == "main" else location.uri
    lance.dataset(deletes).delete("id = 7")
    cluster(location, None if sorts == "main" else "exp", sort_by="k", target_rows=20, own_only=False)
    merge(location, resolve(location, RefSpec("exp")), None, MergeOptions(), ENGINE)  # by their values
    check_rows(location.uri, {*range(80)} - {7})


def test_what_cannot_be_sorted(flat, uri, monkeypatch):
    for wrong, told in (({"sort_by": "v"}, "has no order"), ({"zorder": ["k", "nothing"]}, "no column 'nothing'")):
        with pytest.raises(InvalidOption, match=told):
            cluster(flat, **wrong)
    monkeypatch.setattr(clustering, "_MOST_LOCAL", 100)
    with pytest.raises(Refused, match="memory of one process"):
        cluster(flat, sort_by="k")
    check_rows(flat.uri, range(80))


def test_blobs_are_refused(tmp_path):
    uri = str(tmp_path / "blobs.lance")
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table([pa.array([1, 2]), pa.array([b"x", b"y"])], pa.schema([pa.field("id", pa.int64()), field]))
    lance.write_dataset(table, uri)
    with pytest.raises(Refused, match="holds blobs"):
        cluster(DatasetLocation.at(uri), sort_by="id")


def test_every_type_comes_back_as_it_was(uri):
    count = 40
    numbers = [(key * 7) % count for key in range(count)]
    table = pa.table(
        {
            "id": pa.array(numbers, pa.int16()),
            "d": pa.array([None if key % 9 == 0 else key for key in numbers], pa.float64()),
            "when": pa.array(numbers, pa.timestamp("ns", "UTC")),
            "dec": pa.array(numbers, pa.int32()).cast(pa.decimal128(12, 2)),
            "word": pa.array([f"w{key % 3}" for key in numbers]).dictionary_encode(),
            "list": [[key] * (key % 3) for key in numbers],
            "struct": [{"a": key, "b": None} if key % 4 else None for key in numbers],
            "large": pa.array(["x" * key for key in numbers], pa.large_string()),
            "bytes": pa.array([bytes([key]) for key in numbers], pa.binary(1)),
            "yes": [key % 2 == 0 for key in numbers],
        }
    )
    for start in range(0, count, 10):
        lance.write_dataset(table.slice(start, 10), uri, mode="append" if start else "create")
    before = lance.dataset(uri).to_table().sort_by("id")
    for order in ({"sort_by": "d"}, {"sort_by": ["yes", "when"]}, {"zorder": ["dec", "large"]}):
        assert cluster(DatasetLocation.at(uri), target_rows=20, **order).rows == count
        assert lance.dataset(uri).to_table().sort_by("id") == before
    cluster(DatasetLocation.at(uri), target_rows=20, sort_by="d")
    values = lance.dataset(uri).to_table(columns=["d"])["d"].to_pylist()
    assert values[-5:] == [None] * 5
    assert values[:-5] == sorted(values[:-5])


def test_a_clustering_killed_before_its_commit_changes_nothing(flat):
    version = lance.dataset(flat.uri).version
    with killed_at(clustering, "finish"):
        cluster(flat, sort_by="k", target_rows=20)
    assert lance.dataset(flat.uri).version == version
    assert cluster(flat, sort_by="k", target_rows=20).commits == 1
    check_rows(flat.uri, range(80))


def sorting(uri):
    for order in (["k", "id"], ["id"], ["s", "id"]):
        cluster(DatasetLocation.at(uri), "exp", sort_by=order, target_rows=20, own_only=False)


def compacting(uri):
    for target in (20, 40):
        optimize(DatasetLocation.at(uri), "exp", OptimizeOptions(target_rows=target, own_only=False), LocalRunner(1))


def deleting(root, ids):
    for key in ids:
        done = False
        while not done:
            with suppress(OSError):  # pylance's conflict with a rewrite
                lance.dataset(root).delete(f"id = {key}")
                done = True


@pytest.mark.when(day=0)
@pytest.mark.slow
def test_orders_compactions_deletions_and_appends_at_once(uri, stable):
    location = fragmented(uri, stable, 6, 6)
    root, gone = location.branch_uri("exp"), list(range(3, 120, 13))
    jobs = [(sorting, (uri,)), (compacting, (uri,)), (deleting, (root, gone)), (append, (root, 120, 4))]
    team = [processes().Process(target=run, args=given) for run, given in jobs]
    for process in team:
        process.start()
    for process in team:
        process.join(PATIENCE)
    assert [process.exitcode for process in team] == [0, 0, 0, 0]
    check_rows(root, {*range(160)} - {*gone})
    check_rows(uri, range(60))
