"""Fragments that a filter leaves out at planning hold no row that matches, whatever happened to the table before.

pylance counts the rows; it is also the other writer, which knows nothing of layouts and facts.
"""

import os
import random as randoms
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.fragment import LanceFragment

from lance_spark import CleanupPolicy, LanceTable
from lance_spark.core.table_options import ReadOptions
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, InvalidOption, Refused
from lance_spark.layout.declaring import change_layout
from lance_spark.layout.fact_rules import sealed
from lance_spark.layout.facts import fragment_bounds, write_facts
from lance_spark.layout.layout_rules import LayoutChange, parse
from lance_spark.layout.pruning import excluded
from lance_spark.optimize.analyzing import analyze as analyze_columns
from lance_spark.scan.read import PinnedRead, measure_read
from lance_spark.storage.datasets import locate, pin_latest, pin_version
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows

LAYOUT = {"partition_by": "day, bucket(2, id)", "cluster_by": "ts"}


def rows_of(random, count, first=0):
    return pa.table(
        {
            "id": pa.array([random.randrange(1000) for _ in range(count)], pa.int64()),
            "day": pa.array(
                [None if random.random() < 0.05 else random.randrange(5) for _ in range(count)], pa.int32()
            ),
            "ts": pa.array([first + random.randrange(50) for _ in range(count)], pa.timestamp("us")),
            "s": [f"s{random.randrange(9)}" for _ in range(count)],
        }
    )


def write(uri, rows, overwrite=False, **options):
    job = begin(plan_write({"path": uri, **options}, rows.schema, overwrite=overwrite))
    return finish(job, write_rows(job, rows.to_batches(max_chunksize=7)))


def condition(random):
    one = random.choice(
        [
            f"day = {random.randrange(7)}",
            f"id = {random.randrange(1000)}",
            f"id IN ({random.randrange(1000)}, {random.randrange(1000)})",
            f"ts < arrow_cast({random.randrange(60)}, 'Timestamp(Microsecond, None)')",
            "day IS NULL",
            f"day > {random.randrange(5)} AND s = 's1'",
            f"s = 's{random.randrange(12)}'",
        ]
    )
    return one if random.random() < 0.6 else f"({one}) {random.choice(['AND', 'OR'])} ({condition(random)})"


@pytest.mark.when(day={"by": ["days(ts)", "ts"]})
@pytest.mark.parametrize("by", ["days(ts)", "years(ts)", "hours(ts)", "bucket(2, ts)", "ts"])
def test_moments_beyond_the_dates_of_python_are_written_and_found(uri, by):
    ticks = [0, 253_402_300_800_000_000, -62_135_596_800_000_001, 2**62]
    rows = pa.table({"ts": pa.array(ticks, pa.int64()).cast(pa.timestamp("us"))})
    write(uri, rows, partition_by=by)
    write(uri, rows, partition_by=by)
    assert lance.dataset(uri).count_rows() == 8
    late = f"ts > arrow_cast({ticks[1]}, 'Timestamp(Microsecond, None)')"
    gone = excluded(locate(uri), pin_latest(locate(uri), None), late)
    assert gone or by == "bucket(2, ts)"
    assert sum(LanceFragment.count_rows(lance.dataset(uri).get_fragment(key), late) for key in gone) == 0


def append_by_pylance(random, uri):
    lance.write_dataset(rows_of(random, 10), uri, mode="append")


def delete(random, uri):
    lance.dataset(uri).delete(f"id % 3 = {random.randrange(3)} AND day = {random.randrange(5)}")


def update(random, uri):
    dataset = lance.dataset(uri)
    dataset.update({"day": str(random.randrange(5)), "id": "id + 1000"}, where=f"id % 5 = {random.randrange(5)}")


def merge(random, uri):
    dataset = lance.dataset(uri)
    rows = rows_of(random, 8)
    unique = rows.group_by("id").aggregate([(name, "min") for name in ("day", "ts", "s")])
    named = unique.rename_columns([name.removesuffix("_min") for name in unique.column_names]).select(rows.column_names)
    action = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    action.execute(named.cast(rows.schema))


def merge_some_columns(random, uri):
    dataset = lance.dataset(uri)
    known = sorted(set(dataset.to_table(columns=["id"])["id"].to_pylist()))[:20]
    if known:
        rows = pa.table({"id": pa.array(known), "day": pa.array([random.randrange(9) for _ in known], pa.int32())})
        dataset.merge_insert("id").when_matched_update_all().execute(rows)


def compact(_random, uri):
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000)


def append(random, uri):
    write(uri, rows_of(random, 20, random.randrange(100)))


def restore(random, uri):
    versions = [entry["version"] for entry in lance.dataset(uri).versions()][1:]
    lance.dataset(uri, version=random.choice(versions)).restore()


def lose_facts(random, uri):
    names = os.listdir(f"{uri}/_facts")
    if names:
        os.remove(f"{uri}/_facts/{random.choice(sorted(names))}")


def damage_facts(random, uri):
    names = os.listdir(f"{uri}/_facts")
    if names:
        path = f"{uri}/_facts/{random.choice(sorted(names))}"
        content = Path(path).read_bytes()
        os.remove(path)
        Path(path.replace(".json", "0.json")).write_bytes(content[: len(content) // 2])


def later_facts(random, uri):
    """Of a version of this package that does not exist yet."""
    names = os.listdir(f"{uri}/_facts")
    if names:
        os.remove(f"{uri}/_facts/{random.choice(sorted(names))}")
        told = {"files": {"f": {"0": [0, 0, False, []]}}, "version": 2}
        Path(uri, "_facts", f"later{random.randrange(10**9)}.json").write_bytes(sealed(told))


def bring_back_a_copy(random, uri):
    """As from a backup: an older state in the same place, and facts of files that are gone beside it."""
    shutil.copytree(uri, f"{uri}.copy")
    append(random, uri)
    delete(random, uri)
    facts = [Path(uri, "_facts", name) for name in os.listdir(f"{uri}/_facts")]
    for each in facts:
        shutil.copy(each, f"{uri}.copy/_facts")
    shutil.rmtree(uri)
    shutil.move(f"{uri}.copy", uri)


def branch_of_an_old_version(random, uri):
    dataset = lance.dataset(uri)
    versions = [entry["version"] for entry in dataset.versions()][1:]
    name = f"exp{random.randrange(10**9)}"
    dataset.create_branch(name, random.choice(versions))
    branch = lance.dataset(uri).checkout_version((name, None))
    lance.write_dataset(rows_of(random, 10), branch, mode="append")
    lance.dataset(uri).checkout_version((name, None)).delete(f"id % 4 = {random.randrange(4)}")
    LanceTable.for_path(uri, branch=name).write(rows_of(random, 10), mode="append")


def another_layout(random, uri):
    table = LanceTable.for_path(uri)
    table.layout.partition_by(*random.choice([("day",), ("bucket(3, id)",), ("id", "day"), ("days(ts)", "s"), ()]))
    table.layout.cluster_by(*random.choice([("ts",), ("s", "id"), ()]))


def analyze(_random, uri):
    LanceTable.for_path(uri).layout.analyze()


STEPS = [
    append_by_pylance,
    delete,
    update,
    merge,
    merge_some_columns,
    compact,
    append,
    restore,
    lose_facts,
    damage_facts,
    later_facts,
    bring_back_a_copy,
    branch_of_an_old_version,
    another_layout,
    analyze,
]


def check(random, uri, pin=None):
    location = locate(uri)
    pin = pin or pin_latest(location, None)
    dataset = lance.dataset(uri).checkout_version((pin.branch, pin.version))
    left_out = 0
    for _ in range(6):
        sql = condition(random)
        gone = excluded(location, pin, sql)
        left_out += len(gone)
        found = sum(LanceFragment.count_rows(dataset.get_fragment(key), sql) for key in gone)
        assert found == 0, (sql, sorted(gone))
        measured = measure_read(PinnedRead(location, pin, ReadOptions(filter=sql)), dataset.schema)
        assert measured.left_out == len(gone)
        assert {each.fragment_id for each in measured.fragments}.isdisjoint(gone)
    return left_out


@pytest.mark.parametrize("stable", ["false", "true"])
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.when(day=0) if seed > 2 else ()) for seed in range(25)]
)
def test_what_is_left_out_has_no_row_that_matches(uri, seed, stable):
    random = randoms.Random(seed)
    write(uri, rows_of(random, 60), enable_stable_row_ids=stable, **LAYOUT)
    assert check(random, uri) > 0
    for _ in range(7):
        random.choice(STEPS)(random, uri)
        check(random, uri)
    versions = [entry["version"] for entry in lance.dataset(uri).versions()][1:]
    check(random, uri, pin_version(locate(uri), None, random.choice(versions)))
    for branch in lance.dataset(uri).branches.list():
        check(random, uri, pin_latest(locate(uri), branch))


def test_each_fragment_holds_rows_of_one_partition_in_order(uri):
    random = randoms.Random(1)
    rows = rows_of(random, 200)
    write(uri, rows, **LAYOUT)
    write(uri, rows)
    dataset = lance.dataset(uri)
    known = fragment_bounds(locate(uri), pin_latest(locate(uri), None), ["day", "id", "ts"])
    for fragment in dataset.get_fragments():
        found = fragment.to_table()
        days = set(found["day"].to_pylist())
        assert len(days) == 1
        assert found["ts"].to_pylist() == sorted(found["ts"].to_pylist())
        bounds = known[fragment.fragment_id]
        assert (bounds["day"].low, bounds["day"].high) in {(day, day) for day in days}
        assert bounds["id"].bucket(2) in (0, 1)
        assert (bounds["id"].low, bounds["id"].high) == (pc.min(found["id"]).as_py(), pc.max(found["id"]).as_py())
    read = sorted(map(str, dataset.to_table().to_pylist()))
    assert read == sorted(map(str, pa.concat_tables([rows, rows]).to_pylist()))


MEANWHILE = [append_by_pylance, delete, update, merge_some_columns, compact, restore, another_layout, bring_back_a_copy]


class Interrupted(LocalRunner):
    """Measures the fragments of a version; then something happens to the table, before anything is written down."""

    def __init__(self, step):
        super().__init__(1)
        self._step, self.measured = step, 0

    def for_work(self, *_):
        return self

    def collect(self, stage, frame):
        self._step()
        self.measured += frame.num_rows
        return super().collect(stage, frame)


@pytest.mark.parametrize("step", MEANWHILE)
def test_what_is_measured_while_others_commit_is_about_the_files_that_were_read(uri, step):
    random = randoms.Random(3)
    write(uri, rows_of(random, 60), **LAYOUT)
    append_by_pylance(random, uri)
    lance.dataset(uri).delete("id % 5 = 0")
    append_by_pylance(random, uri)
    engine = Interrupted(lambda: step(random, uri))
    analyze_columns(locate(uri), pin_latest(locate(uri), None), None, engine, histograms=True)
    assert engine.measured > 1
    for _ in range(3):
        check(random, uri)
    table = LanceTable.for_path(uri)
    found = {each.col_name: each for each in table.analyze(histograms=True).columns}
    rows = lance.dataset(uri).to_table()
    assert int(found["id"].min) <= pc.min(rows["id"]).as_py() <= pc.max(rows["id"]).as_py() <= int(found["id"].max)
    assert table.analyze(histograms=True).measured == 0


def test_a_cleanup_takes_no_facts_from_a_plan_that_is_open_or_from_one_that_comes(uri):
    random = randoms.Random(4)
    write(uri, rows_of(random, 60), **LAYOUT)
    write(uri, rows_of(random, 60))
    before = lance.dataset(uri).to_table(filter="day = 1")
    options = ReadOptions(filter="day = 1")
    open_plan = measure_read(PinnedRead(locate(uri), pin_latest(locate(uri), None), options), before.schema)
    lance.dataset(uri).delete("day = 2")
    LanceTable.for_path(uri).optimize()
    now = lance.dataset(uri)
    facts = sorted(os.listdir(f"{uri}/_facts"))
    policy = CleanupPolicy(older_than="0s", commit_window="0s", undo_window="0s", delete_unverified=True)
    LanceTable.for_path(uri).cleanup(policy).apply()
    assert sorted(os.listdir(f"{uri}/_facts")) == facts
    assert open_plan.left_out > 0
    measured = measure_read(PinnedRead(locate(uri), pin_latest(locate(uri), None), options), before.schema)
    assert measured.left_out > 0
    assert now.to_table(filter="day = 1").num_rows == before.num_rows


def test_columns_that_are_measured_one_after_the_other_are_all_known(uri):
    """Two files of facts may tell of one data file."""
    random = randoms.Random(1)
    lance.write_dataset(rows_of(random, 60), uri, max_rows_per_file=10)
    table = LanceTable.for_path(uri)
    every = ("day", "id", "ts", "s")
    for name in every:
        table.layout.partition_by(name)
        assert table.layout.analyze().with_facts == 6
    table.layout.partition_by("bucket(1, id)")
    for joined in range(2):
        known = fragment_bounds(locate(uri), pin_latest(locate(uri), None), every)
        assert [{*bounds} for bounds in known.values()] == [{*every}] * 6
        for _ in range(0 if joined else 40):
            write(uri, rows_of(random, 1).slice(0, 0))
            write_facts(locate(uri), {"f": {"0": [1, 1, False, []]}})


def test_facts_of_many_commits_are_joined_and_none_is_lost(uri):
    random = randoms.Random(1)
    write(uri, rows_of(random, 10), partition_by="day")
    for _ in range(40):
        write(uri, rows_of(random, 1))
    assert len(os.listdir(f"{uri}/_facts")) < 20
    known = fragment_bounds(locate(uri), pin_latest(locate(uri), None), ["day"])
    assert all("day" in bounds for bounds in known.values())


def test_a_table_without_a_layout_has_no_facts(uri):
    write(uri, rows_of(randoms.Random(1), 10))
    assert not os.path.exists(f"{uri}/_facts")
    assert excluded(locate(uri), pin_latest(locate(uri), None), "day = 99") == frozenset()


def test_a_layout_is_declared_once_and_later_writes_may_repeat_it(uri):
    rows = rows_of(randoms.Random(1), 10)
    write(uri, rows, **LAYOUT)
    assert lance.dataset(uri).config()["lance_spark.partition_by"] == "day, bucket(2, id)"
    write(uri, rows, **LAYOUT)
    with pytest.raises(Refused, match="is PARTITIONED BY"):
        write(uri, rows, partition_by="id")
    with pytest.raises(InvalidOption, match="there is no column 'gone'"):
        write(uri, rows, overwrite=True, partition_by="gone")
    write(uri, rows, overwrite=True, partition_by="id", cluster_by="")
    assert lance.dataset(uri).config() == {"lance_spark.partition_by": "id"}
    write(uri, rows, overwrite=True)
    assert lance.dataset(uri).config() == {"lance_spark.partition_by": "id"}


@pytest.mark.parametrize("first", [("id",), ()])
def test_a_change_that_another_one_overtakes_is_a_conflict(uri, first):
    write(uri, rows_of(randoms.Random(1), 10), partition_by="day")
    table = LanceTable.for_path(uri)

    def add(now, columns):
        table.layout.partition_by(*first)
        return LayoutChange("ADD", parse("bucket(2, id)", None).partition).on(now, columns)

    with pytest.raises(Conflict):
        change_layout(locate(uri), None, add)
    assert table.layout.describe().partition_by == ", ".join(first)


def test_the_key_that_the_jvm_connector_declared_is_obeyed(uri):
    rows = rows_of(randoms.Random(1), 200)
    lance.write_dataset(rows.slice(0, 0), uri)
    lance.dataset(uri).initialize_mem_wal(bucket_column="id", num_buckets=4)
    write(uri, rows)
    known = fragment_bounds(locate(uri), pin_latest(locate(uri), None), ["id"])
    assert sorted(bounds["id"].bucket(4) for bounds in known.values()) == [0, 1, 2, 3]
    assert excluded(locate(uri), pin_latest(locate(uri), None), "id = 7")
    with pytest.raises(Refused, match="The layout of"):
        write(uri, rows, partition_by="day")
    table = LanceTable.for_path(uri)
    assert (table.layout.describe().partition_by, table.layout.describe().foreign) == ("bucket(4, id)", True)
    for change in (("day",), ()):
        with pytest.raises(Refused, match=r"JVM connector partitioned .* by bucket\(4, id\), and that stays"):
            table.layout.partition_by(*change)
    assert table.layout.cluster_by("day").cluster_by == "day"
    assert lance.dataset(uri).config() == {"lance_spark.cluster_by": "day"}
    table.optimize()
    assert lance.dataset(uri).mem_wal_index_details()["sharding_specs"]
    assert lance.dataset(uri).count_rows() == 200
