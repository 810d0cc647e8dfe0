"""Change feeds of real datasets: what each operation of pylance and of this package leaves in manifests, and what the
feed makes of it. test_changes_histories.py has random histories, test_changes_spark.py Spark.
"""

import shutil
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.feeds import brief, feed, plan, replace_column, replayed, rewrite_column, state
from support.merge_datasets import clean_all, exp, forked, head, run, table
from support.remote_datasets import WAYS, fetched, made_clone, pulled
from support.shaped_datasets import SHAPES, blobs

from lance_spark.changes.changes import Bound, range_ends
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.merge.restore import restore
from lance_spark.refs.refs import create_tag
from lance_spark.storage.datasets import locate

each_kind = pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
COLUMNS = ("id", "v")


@pytest.fixture
def flat(uri, stable):
    """Rows 0 to 9, ten times themselves, in two fragments: version 1."""
    lance.write_dataset(table(0, 10), uri, max_rows_per_file=5, enable_stable_row_ids=stable)
    return uri


def update(stable, version, old, new):
    """An update as the feed has it: of a plain table without a key it is a delete and an insert."""
    kinds = ("pre", "pos") if stable else ("del", "ins")
    return [(version, kinds[0], *old), (version, kinds[1], *new)]


def same(found, *changes):
    assert brief(found) == sorted((change for several in changes for change in several), key=str)


@each_kind
def test_rows_that_came_and_went(flat, stable):
    lance.write_dataset(table(10, 12), flat, mode="append")
    lance.dataset(flat).delete("id IN (1, 10)")
    lance.dataset(flat).delete("id >= 5 AND id < 10")
    same(
        feed(flat, 1),
        [(2, "ins", 10, 100), (2, "ins", 11, 110), (3, "del", 1, 10), (3, "del", 10, 100)],
        [(4, "del", number, 10 * number) for number in range(5, 10)],
    )
    same(feed(flat, 2, 3), [(3, "del", 1, 10), (3, "del", 10, 100)])
    same(feed(flat, 3, 3))
    same(feed(flat, 1, 3, net=True), [(2, "ins", 11, 110), (3, "del", 1, 10)])


@each_kind
def test_updates_and_upserts(flat, stable):
    lance.dataset(flat).update({"v": "-1"}, "id IN (2, 7)")
    merge = lance.dataset(flat).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(pa.table({"id": pa.array([2, 20], pa.int64()), "v": pa.array([0, 0], pa.int64())}))
    same(
        feed(flat, 1),
        update(stable, 2, (2, 20), (2, -1)),
        update(stable, 2, (7, 70), (7, -1)),
        update(stable, 3, (2, -1), (2, 0)),
        [(3, "ins", 20, 0)],
    )
    told = feed(flat, 1, key=("id",))
    same(told, update(True, 2, (2, 20), (2, -1)), update(True, 2, (7, 70), (7, -1)), update(True, 3, (2, -1), (2, 0)),
         [(3, "ins", 20, 0)])  # fmt: skip
    after = [(2, "pos", 2, -1), (2, "pos", 7, -1), (3, "ins", 20, 0), (3, "pos", 2, 0)]
    same(feed(flat, 1, key=("id",), images="post"), after)
    same(feed(flat, 1, key=("id",), images="none"), update(False, 2, (2, 20), (2, -1)),
         update(False, 2, (7, 70), (7, -1)), update(False, 3, (2, -1), (2, 0)), [(3, "ins", 20, 0)])  # fmt: skip
    net = feed(flat, 1, key=("id",), net=True)
    same(net, update(True, 3, (2, 20), (2, 0)), update(True, 2, (7, 70), (7, -1)), [(3, "ins", 20, 0)])


@each_kind
def test_a_row_that_was_written_again_as_it_was_did_not_change(flat, stable):
    lance.dataset(flat).update({"v": "10 * id"}, "id < 3")
    merge = lance.dataset(flat).merge_insert("id").when_matched_update_all()
    merge.execute(table(2, 5))
    assert plan(flat, 1).to_pair
    same(feed(flat, 1))


@each_kind
def test_of_a_replaced_table_rows_that_are_the_same_are_no_changes(flat, stable):
    lance.write_dataset(table(8, 12), flat, mode="overwrite")
    gone = [(2, "del", number, 10 * number) for number in range(8)]
    same(feed(flat, 1), gone, [(2, "ins", 10, 100), (2, "ins", 11, 110)])
    same(feed(flat, 1, key=("id",)), gone, [(2, "ins", 10, 100), (2, "ins", 11, 110)])


@each_kind
def test_rows_that_only_moved_and_what_is_no_row_at_all(flat, stable):
    lance.dataset(flat).create_scalar_index("id", "BTREE")
    lance.dataset(flat).delete("id = 3")
    lance.dataset(flat).optimize.compact_files()
    lance.dataset(flat).optimize.optimize_indices()
    lance.dataset(flat).update_config({"a": "b"})
    lance.dataset(flat).alter_columns({"path": "v", "name": "w"})
    lance.dataset(flat).add_columns(pa.field("empty", pa.int64()))
    lance.dataset(flat).drop_columns(["empty"])
    found = feed(flat, 1)
    same(found, [(3, "del", 3, 30)])
    assert list(found[0])[:3] == ["id", "w", "_change_type"]
    assert len(plan(flat, 1).direct) == 1


@each_kind
def test_a_restored_version(flat, stable):
    lance.dataset(flat).update({"v": "-1"}, "id = 2")
    lance.dataset(flat).delete("id = 4")
    lance.dataset(flat, version=1).restore()
    same(
        feed(flat, 1),
        update(stable, 2, (2, 20), (2, -1)),
        [(3, "del", 4, 40), (4, "ins", 4, 40)],
        update(stable, 4, (2, -1), (2, 20)),
    )
    same(feed(flat, 1, net=True))
    restore(locate(flat), PinnedVersion(None, 3), LocalRunner())
    same(feed(flat, 4), [(5, "del", 4, 40)], update(stable, 5, (2, 20), (2, -1)))


@each_kind
def test_columns_that_are_written_in_place(flat, stable):
    """Rows are recognized by their places, so without a key, too."""
    lance.dataset(flat).delete("id = 1")
    replace_column(flat, 0, "v", [0, -7, 20, 31, None])
    ids = lance.dataset(flat).to_table(filter="id = 6", with_row_id=True)["_rowid"].to_pylist()
    rewrite_column(flat, 1, {ids[0]: 61})
    same(
        feed(flat, 2),
        update(True, 3, (3, 30), (3, 31)),
        update(True, 3, (4, 40), (4, None)),
        update(True, 4, (6, 60), (6, 61)),
    )
    same(feed(flat, 2, columns=("id",)))
    assert not plan(flat, 2, columns=("id",)).direct
    same(feed(flat, 1, net=True, key=("id",)), [(2, "del", 1, 10)], update(True, 3, (3, 30), (3, 31)),
         update(True, 3, (4, 40), (4, None)), update(True, 4, (6, 60), (6, 61)))  # fmt: skip


@each_kind
def test_a_new_column_counts_with_the_values_it_was_filled_with(flat, stable):
    """So the feed replays. Whoever does not want it leaves the column out: then nothing of it is read."""
    lance.dataset(flat).add_columns({"w": "nullif(v, 40)"})
    filled = [number for number in range(10) if number != 4]
    written = [update(True, 2, (n, 10 * n, None), (n, 10 * n, 10 * n)) for n in filled]
    same(feed(flat, 1), *written)
    assert not plan(flat, 1, columns=COLUMNS).direct
    lance.dataset(flat).drop_columns(["v"])
    lance.dataset(flat).alter_columns({"path": "w", "data_type": pa.int32()})
    lance.dataset(flat).delete("id = 4")
    written = [update(True, 2, (n, None), (n, 10 * n)) for n in filled]
    same(feed(flat, 1), *written, [(5, "del", 4, None)])
    assert len(feed(flat, 3)) == 1


@each_kind
def test_a_column_that_was_dropped_and_came_again_lost_its_values(flat, stable):
    """Nothing in the fragments shows it: the old values stay in their files."""
    lance.dataset(flat).drop_columns(["v"])
    lance.dataset(flat).add_columns(pa.field("v", pa.int64()))
    lost = [update(True, 2, (n, 10 * n), (n, None)) for n in range(10)]
    same(feed(flat, 1), *lost)
    lance.dataset(flat, version=1).restore()
    came = [update(True, 4, (n, None), (n, 10 * n)) for n in range(10)]
    same(feed(flat, 3), *came)
    same(feed(flat, 2), *came)
    same(feed(flat, 2, 1), *[update(True, 1, (n, None), (n, 10 * n)) for n in range(10)])
    same(feed(flat, 1, net=True, key=("id",)))


@each_kind
def test_a_merged_branch_comes_once_with_the_merge(uri, stable):
    forked(uri, stable)
    start = head(uri).version
    lance.write_dataset(table(30, 32), exp(uri).uri, mode="append")
    exp(uri).update({"v": "-1"}, "id = 3")
    exp(uri).delete("id = 15")
    head(uri).delete("id = 25")
    run(uri)
    merged = head(uri).version
    same(
        feed(uri, start),
        [(start + 1, "del", 25, 250), (merged, "ins", 30, 300), (merged, "ins", 31, 310), (merged, "del", 15, 150)],
        update(stable, merged, (3, 30), (3, -1)),
    )
    assert feed(uri, start)[-1]["_commit_branch"] == "main"


@each_kind
@pytest.mark.parametrize("net", [False, True], ids=["all", "net"])
def test_across_branches_what_the_begin_has_more_is_taken_back(uri, stable, net):
    forked(uri, stable)
    fork = head(uri).version
    lance.write_dataset(table(40, 42), uri, mode="append")
    head(uri).update({"v": "-1"}, "id IN (3, 40)")
    head(uri).update({"v": "-2"}, "id = 3")
    lance.write_dataset(table(50, 52), exp(uri).uri, mode="append")
    exp(uri).update({"v": "-3"}, "id IN (4, 50)")
    found = feed(uri, "main", "exp", net=net)
    at = exp(uri).version
    back = [(fork, "del", 40, -1), (fork, "del", 41, 410), *update(stable, fork, (3, -2), (3, 30))]
    forward = [(at - 1, "ins", 50, 500), (at - 1, "ins", 51, 510), *update(stable, at, (50, 500), (50, -3))]
    if net:
        forward = [(at, "ins", 50, -3), (at - 1, "ins", 51, 510)]
    same(found, back, forward, update(stable, at, (4, 40), (4, -3)))
    assert {row["_commit_branch"] for row in found} == {"main", "exp"}
    before, after = PinnedVersion(None, head(uri).version), PinnedVersion("exp", at)
    assert replayed(state(uri, before, COLUMNS), found, COLUMNS) == state(uri, after, COLUMNS)


def test_versions_below_a_fork_are_those_of_the_parent(uri):
    forked(uri)
    fork = head(uri).version
    lance.write_dataset(table(50, 51), exp(uri).uri, mode="append")
    found = feed(uri, 2, branch="exp")
    assert [(row["_commit_version"], row["_commit_branch"]) for row in found] == [(3, "main")] * 10 + [
        (fork + 1, "exp")
    ]
    same(feed(uri, fork, branch="exp"), [(fork + 1, "ins", 50, 500)])
    lance.write_dataset(table(60, 61), uri, mode="append")
    Path(uri, "_versions", f"{2**64 - 1 - fork:020}.manifest").unlink()
    same(feed(uri, f"exp@{fork}", branch="exp"), [(fork + 1, "ins", 50, 500)])
    same(feed(uri, "exp", f"exp@{fork}"), [(fork, "del", 50, 500)])
    with pytest.raises(NotFound, match=f"Version {fork} of 'main' is gone"):
        plan(uri, 3)


@each_kind
def test_before_the_first_version_there_is_nothing(flat, stable):
    lance.dataset(flat).delete("id > 0")
    same(feed(flat, 0), [(1, "ins", n, 10 * n) for n in range(10)], [(2, "del", n, 10 * n) for n in range(1, 10)])
    same(feed(flat, 0, net=True), [(1, "ins", 0, 0)])
    same(feed(flat, 0, 1), [(1, "ins", n, 10 * n) for n in range(10)])


def test_a_range_names_the_versions_that_have_the_changes(uri):
    forked(uri)
    fork = head(uri).version
    lance.write_dataset(table(50, 51), exp(uri).uri, mode="append")
    location, at = locate(uri), PinnedVersion("exp", fork + 1)
    ends = [
        ((Bound(1), None), (None, at)),
        ((Bound(fork), Bound(fork)), (fork - 1, PinnedVersion("exp", fork))),
        ((Bound(fork + 1, False), None), (fork + 1, at)),
        ((Bound("main"), None), (fork - 1, at)),
        ((Bound("main", False), Bound("exp")), (fork, at)),
    ]
    for (first, last), (since, until) in ends:
        found = range_ends(location, at, first, last)
        assert (found.since and found.since.version, found.until.branch, found.until.version) == (
            since,
            until.branch,
            until.version,
        )
    for first, last in [(Bound(4), Bound(2)), (Bound("exp"), Bound("main")), (Bound(fork + 3), None)]:
        with pytest.raises(Refused, match="did not lead"):
            range_ends(location, at, first, last)


def test_a_begin_may_be_a_tag_a_branch_or_a_moment(uri):
    forked(uri, index=False)
    create_tag(locate(uri), "t", RefSpec(version=2))
    inserted = [(3, "ins", number, 10 * number) for number in range(20, 30)]
    same(feed(uri, "t"), inserted)
    same(feed(uri, "main@2", "main"), inserted)
    times = {entry["version"]: entry["timestamp"].astimezone(timezone.utc) for entry in head(uri).versions()}
    same(feed(uri, times[2] + timedelta(microseconds=1)), inserted)
    same(feed(uri, (times[2] + timedelta(microseconds=1)).replace(tzinfo=None), branch="exp"), inserted)
    same(feed(uri, "t", "t"))
    with pytest.raises(NotFound, match="no version at or before"):
        feed(uri, datetime(2000, 1, 1, tzinfo=timezone.utc))


def test_back_to_an_older_version(uri):
    forked(uri, index=False)
    same(feed(uri, 3, 2), [(2, "del", number, 10 * number) for number in range(20, 30)])


@each_kind
def test_a_version_in_between_that_is_gone_is_named(flat, stable):
    for number in range(4):
        lance.dataset(flat).delete(f"id = {number}")
    create_tag(locate(flat), "old", RefSpec(version=1))
    Path(flat, "_versions", f"{2**64 - 1 - 3:020}.manifest").unlink()
    with pytest.raises(NotFound, match="Version 3 of 'main' is gone") as caught:
        plan(flat, "old")
    assert "since main@4" in caught.value.hint
    same(feed(flat, 4), [(5, "del", 3, 30)])
    clean_all(flat)
    with pytest.raises(NotFound, match="Version 4 of 'main' is gone"):
        plan(flat, "old")


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"since": -1}, InvalidOption, "not a version"),
        ({"since": 1, "until": 0}, InvalidOption, "not a version"),
        ({"since": 1.5}, InvalidOption, "not a version"),
        ({"since": 9}, NotFound, "no version 9"),
        ({"since": "nowhere"}, NotFound, "nowhere"),
        ({"since": 1, "columns": ("ID",)}, NotFound, "no column 'ID'"),
        ({"since": 1, "columns": ()}, InvalidOption, "empty"),
        ({"since": 1, "columns": ("id", "id")}, InvalidOption, "twice"),
        ({"since": 1, "key": ("nothing",)}, NotFound, "nothing"),
        ({"since": 1, "images": "before"}, InvalidOption, "before"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_read(uri, options, error, said):
    lance.write_dataset(table(0, 3), uri)
    with pytest.raises(error, match=said):
        plan(uri, **options)


def test_a_column_that_is_called_as_one_of_the_feed_is_refused_and_others_may_be_called_anything(uri):
    lance.write_dataset(pa.table({"c1": [0], "_change_type": ["a"], "local": [1], "c0": [2], "A": [4]}), uri)
    with pytest.raises(InvalidOption, match="_change_type"):
        plan(uri, 1)
    lance.dataset(uri).update({"local": "7"})
    chosen = ("c1", "local", "c0", "A")
    (gone, came) = feed(uri, 1, columns=chosen, key=("c1",))
    assert [gone[name] for name in chosen] == [0, 1, 2, 4]
    assert [came[name] for name in chosen] == [0, 7, 2, 4]


def test_without_a_common_version_there_is_no_way(uri):
    forked(uri)
    path = Path(uri, "_refs", "branches", "exp.json")
    path.write_text(path.read_text().replace('"metadata":{}', '"metadata":{"lance_spark.root":"1"}'))
    if "lance_spark.root" not in path.read_text():
        lance.dataset(uri).branches.replace_metadata("exp", {"lance_spark.root": "1"})
    with pytest.raises(Refused, match="no common version"):
        plan(uri, "main", "exp")


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs_are_left_out_but_another_size_is_a_change(uri, version):
    """A blob that was only written again, to another place, is none."""
    at = blobs(uri, version).version
    with pytest.raises(Refused, match="payload"):
        plan(uri, at, columns=("payload",))
    rows = lance.dataset(uri).to_table(filter="id = 2", columns=["id"])
    assert rows.num_rows == 2
    written = lance.dataset(uri)
    written.delete("id = 2")
    schema = written.schema
    values = [b"", b"longer"]
    blob = lance.blob_array(values) if version == "2.2" else pa.array(values, pa.large_binary())
    again = pa.table({"id": pa.array([2, 2], pa.int64()), "payload": blob}, schema=schema)
    lance.write_dataset(again, uri, mode="append")
    assert brief(feed(uri, at, net=True)) == [(at + 1, "del", 2), (at + 2, "ins", 2)]


@each_kind
def test_values_of_every_kind_nan_among_them(uri, stable):
    point = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "f": pa.array([float("nan"), 0.0, None]),
            "p": pa.array([{"x": 1, "y": ["a", None]}, None, {"x": None, "y": None}], point),
            "vec": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
        }
    )
    lance.write_dataset(rows, uri, enable_stable_row_ids=stable)
    lance.dataset(uri).update({"id": "id"})
    same(feed(uri, 1))
    lance.dataset(uri).update({"f": "CAST('NaN' AS double)"}, "id = 3")
    gone, came = (row for row in feed(uri, 1, key=("id",)))
    assert (gone["_change_type"], gone["f"], gone["p"]) == ("update_preimage", None, {"x": None, "y": None})
    assert came["f"] != came["f"]
    assert came["vec"] == [3.0, 4.0]


def test_only_what_changed_is_read(uri, monkeypatch):
    """One row of one fragment of a hundred: one piece, and none of the other fragments is opened."""
    lance.write_dataset(table(0, 1000), uri, max_rows_per_file=10)
    lance.dataset(uri).delete("id = 555")
    opened = []
    get = lance.LanceDataset.get_fragment
    monkeypatch.setattr(
        lance.LanceDataset, "get_fragment", lambda self, number: opened.append(number) or get(self, number)
    )
    same(feed(uri, 1), [(2, "del", 555, 5550)])
    assert set(opened) == {55}


@pytest.mark.parametrize("way", WAYS)
@each_kind
def test_what_a_fetch_and_a_pull_brought(uri, stable, way, tmp_path):
    forked(uri, stable, index=False)
    copy = str(tmp_path / "copy.lance")
    made_clone(uri, copy, way)
    before, ours = head(copy, "origin/main").version, head(copy).version
    head(uri).update({"v": "-1"}, "id = 3")
    head(uri).delete("id = 7")
    fetched(copy, uri)
    after = head(copy, "origin/main").version
    brought = [(after, "del", 7, 70), *update(stable, after, (3, 30), (3, -1))]
    same(feed(copy, f"origin/main@{before}", "origin/main"), brought)
    same(feed(copy, "main", "origin/main", net=True), brought)
    pulled(copy, uri)
    assert [change[1:] for change in brief(feed(copy, ours))] == [change[1:] for change in sorted(brought, key=str)]


def test_a_branch_that_a_fetch_began_again_shows_what_differs(uri, tmp_path):
    """Its first new version has no rows at all."""
    forked(uri, index=False)
    copy = str(tmp_path / "copy.lance")
    made_clone(uri, copy, "deep")
    fetched(copy, uri, deep=True)
    before = head(copy, "origin/main").version
    shutil.rmtree(uri)
    forked(uri, index=False)
    head(uri).delete("id = 7")
    fetched(copy, uri, deep=True, allow_unrelated_histories=True)
    assert head(copy, "origin/main").version == before + 2
    same(feed(copy, f"origin/main@{before}", "origin/main"), [(before + 2, "del", 7, 70)])


@each_kind
@pytest.mark.parametrize("every", [2, 3, 40, 997], ids=lambda every: f"1 in {every}")
def test_few_rows_are_fetched_and_many_come_out_of_a_scan(uri, stable, every, monkeypatch):
    """Both in several batches, and at different places on the two sides."""
    monkeypatch.setattr("lance_spark.changes.changed_rows._AT_ONCE", 7)
    lance.write_dataset(table(0, 2000), uri, enable_stable_row_ids=stable)
    lance.dataset(uri).delete("id % 7 = 0")
    replace_column(uri, 0, "v", [-n if n % every == 0 else 10 * n for n in range(2000)])
    lance.dataset(uri).delete(f"id % {every} = 1")
    changed = [n for n in range(1, 2000) if n % every == 0 and n % 7]
    gone = [n for n in range(2000) if n % every == 1 and n % 7]
    same(
        feed(uri, 2),
        *[update(True, 3, (n, 10 * n), (n, -n)) for n in changed],
        [(4, "del", n, 10 * n) for n in gone],
    )


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_every_shape_of_dataset_replays(uri, shape):
    """From its oldest version that is there to the newest, and back; the last one by one."""
    dataset = shape(uri)
    branch = dataset.uri.partition("/tree/")[2] or None
    numbers = sorted(entry["version"] for entry in lance.dataset(dataset.uri).versions())
    ends = [PinnedVersion(branch, number) for number in (numbers[0], numbers[-1], numbers[-min(2, len(numbers))])]
    for since, until in ((ends[0], ends[1]), (ends[1], ends[0]), (ends[2], ends[1])):
        columns = lance.dataset(dataset.uri, version=until.version).schema.names
        for options in ({}, {"net": True}, {"key": ("id",)}):
            found = feed(uri, str(since), str(until), **options)
            before = state(uri, since, columns, tags="labels", labels="tags")  # a column that one of them renamed
            assert replayed(before, found, columns) == state(uri, until, columns)
            if numbers[0] == 1 and branch is None:
                assert replayed(Counter(), feed(uri, 0, str(until), **options), columns) == state(uri, until, columns)
    assert found or len(numbers) == 1
