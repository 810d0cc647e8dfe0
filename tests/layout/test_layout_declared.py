"""What a layout is: its texts, the hash of its buckets, the keys of rows, and which tables can have it."""

from datetime import date, datetime, timezone

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import InvalidOption, NotFound
from lance_spark.layout.hash_rules import bucket_of
from lance_spark.layout.key_rules import divided, in_runs, key_column, runs
from lance_spark.layout.layout_rules import (
    Arrangement,
    LayoutChange,
    TableLayout,
    Transform,
    arrangement,
    declared,
    misfit,
    of_parts,
    parse,
)

pytestmark = pytest.mark.pure
UTC = timezone.utc

READ = [
    ("carrier", "", TableLayout((Transform("identity", "carrier"),))),
    (" days ( ts ) , bucket(8, id)", None, TableLayout((Transform("days", "ts"), Transform("bucket", "id", 8)))),
    ("bucket(id, 8), day(ts)", None, TableLayout((Transform("bucket", "id", 8), Transform("days", "ts")))),
    ("truncate(3, `odd, name`)", "a, b", TableLayout((Transform("truncate", "odd, name", 3),), ("a", "b"))),
    ("", "zorder(lat, lon)", TableLayout((), ("lat", "lon"), curve=True)),
    (None, None, TableLayout()),
]


@pytest.mark.parametrize(("partition", "cluster", "layout"), READ)
def test_a_layout_is_read_from_its_texts_and_written_as_such(partition, cluster, layout):
    assert parse(partition, cluster) == layout
    assert declared({key: text for key, text in layout.settings().items() if text is not None}) == layout


@pytest.mark.parametrize(
    ("partition", "cluster", "said"),
    [
        ("bucket(id)", None, "bucket takes a number and one column"),
        ("days(ts, id)", None, "days takes one column"),
        ("bucket(0, id)", None, "must be 1 to 1024"),
        ("bucket(1025, id)", None, "must be 1 to 1024"),
        ("foo(id)", None, "cannot be partitioned by foo"),
        ("a b", None, "cannot be read"),
        ("a,", None, "cannot be read"),
        ("days(a", None, "cannot be read"),
        ("a; drop", None, "cannot be read"),
        (None, "bucket(4, id)", "clustered by columns"),
    ],
)
def test_another_text_is_refused_with_a_hint(partition, cluster, said):
    with pytest.raises(InvalidOption) as refused:
        parse(partition, cluster)
    assert said in refused.value.message


def test_sparks_transforms_are_a_layout():
    given = [("bucket", [4, "id"]), ("identity", ["day"]), ("cluster_by", ["a", "b"])]
    assert of_parts(given) == parse("bucket(4, id), day", "a, b")


CHANGED = [
    ("PARTITIONED BY", "bucket(4, ID)", "bucket(4, id)"),
    ("PARTITIONED BY", None, ""),
    ("ADD", "hours(ts)", "days(ts), c, hours(ts)"),
    ("DROP", "c", "days(ts)"),
    ("DROP", "DAYS(TS)", "c"),
    ("REPLACE", "days(ts), hours(ts)", "hours(ts), c"),
]


@pytest.mark.parametrize(("action", "fields", "partition"), CHANGED)
def test_one_part_of_a_layout_changes_and_the_others_stay(action, fields, partition):
    before = parse("days(ts), c", "id")
    change = LayoutChange(action, parse(fields, None).partition)
    assert change.on(before, ["id", "ts", "c"]) == parse(partition, "id")


@pytest.mark.parametrize(
    ("action", "fields", "error", "said"),
    [
        ("ADD", "c", InvalidOption, "already partitioned by c"),
        ("REPLACE", "days(ts), c", InvalidOption, "already partitioned by c"),
        ("DROP", "ts_day", NotFound, "not partitioned by ts_day"),
        ("REPLACE", "hours(ts), months(ts)", NotFound, "not partitioned by hours(ts)"),
    ],
)
def test_a_field_is_there_once_and_only_one_that_is_there_goes(action, fields, error, said):
    with pytest.raises(error) as refused:
        LayoutChange(action, parse(fields, None).partition).on(parse("days(ts), c", None), ["id", "ts", "c"])
    assert said in refused.value.message


def test_an_order_replaces_a_curve_and_settings_change_one_by_one():
    curve = parse("c", "zorder(id, ts)")
    order = LayoutChange("CLUSTER BY", parse("ID", None).partition)
    assert order.on(curve, ["id", "ID2"]) == parse("c", "id")
    assert LayoutChange("CLUSTER BY").on(curve, []) == parse("c", None)
    assert curve.with_settings({"lance_spark.partition_by": None}) == parse(None, "zorder(id, ts)")
    assert curve.with_settings({"lance_spark.cluster_by": "a, b"}) == parse("c", "a, b")


SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("f", pa.float64()),
        ("ts", pa.timestamp("us")),
        ("l", pa.list_(pa.int32())),
        ("s", pa.string()),
    ]
)


@pytest.mark.parametrize(
    ("partition", "cluster", "reason"),
    [
        ("id", "f, ts", None),
        ("bucket(2, f)", "", None),
        ("f", "", "a column of type double, 'f', cannot be partitioned by f"),
        ("hours(id)", "", "a column of type int64, 'id', cannot be partitioned by hours(id)"),
        ("gone", "", "there is no column 'gone'"),
        ("", "l", "a column of type list<item: int32>, 'l', cannot be clustered by it"),
        ("id, id", "", "it names id twice"),
    ],
)
def test_a_table_has_only_a_layout_that_its_columns_allow(partition, cluster, reason):
    assert misfit(parse(partition, cluster), SCHEMA) == reason


# The first four are those of the JVM connector; the others come from Spark's Murmur3_x86_32 with seed 0.
HASHED = [
    (pa.array([1, 2, 3, None], pa.int32()), 8, [2, 7, 1, 0]),
    (pa.array(["a", "b"]), 8, [1, 5]),
    (pa.array([True]), 8, [2]),
    (pa.array([1.25], pa.float32()), 8, [0]),
    (pa.array([1, 2, 3], pa.int64()), 8, [4, 4, 3]),
    (pa.array([0.0, -0.0], pa.float64()), 1000, None),
]


@pytest.mark.parametrize(("values", "count", "expected"), HASHED)
def test_buckets_are_those_of_the_jvm_connector(values, count, expected):
    found = bucket_of(values, count).tolist()
    assert len(set(found)) == 1 if expected is None else found == expected
    shifted = pa.concat_arrays([values, values]).slice(len(values))
    assert bucket_of(shifted, count).tolist() == found


def test_a_text_has_one_bucket_in_every_arrow_type():
    texts = ["", "a", "abcd", "abcde", "ümlaut", None]
    assert bucket_of(pa.array(texts), 97).tolist() == bucket_of(pa.array(texts, pa.large_string()), 97).tolist()


MOMENTS = pa.array(
    [datetime(2024, 1, 1, 23, tzinfo=UTC), datetime(1969, 12, 31, 23, 30, tzinfo=UTC), None],
    pa.timestamp("us", "America/New_York"),
)


@pytest.mark.parametrize(
    ("transform", "values", "keys"),
    [
        ("years(c)", MOMENTS, [54, -1, None]),
        ("months(c)", MOMENTS, [648, -1, None]),
        ("days(c)", MOMENTS, [19723, -1, None]),
        ("hours(c)", MOMENTS, [473375, -1, None]),
        ("days(c)", pa.array([date(1970, 1, 2), date(1969, 12, 31)]), [1, -1]),
        ("months(c)", pa.array([date(1970, 2, 2), date(1969, 12, 31)]), [1, -1]),
        ("truncate(10, c)", pa.array([19, -1, 0, None], pa.int32()), [10, -10, 0, None]),
        ("truncate(2, c)", pa.array(["üxy", "a", "", None]), ["üx", "a", "", None]),
        ("c", pa.array(["x", None]), ["x", None]),
    ],
)
def test_keys_are_those_of_the_transforms(transform, values, keys):
    assert key_column(parse(transform, None).partition[0], values).to_pylist() == keys


def random_rows(random, rows):
    return pa.record_batch(
        {
            "id": pa.array(random.integers(0, 50, rows)),
            "c": pa.array([None if value == 3 else f"c{value}" for value in random.integers(0, 4, rows)]),
            "n": pa.array(range(rows)),
        }
    )


@pytest.mark.parametrize("seed", range(20))
def test_each_run_has_rows_of_one_key_and_no_row_is_lost(seed):
    random = np.random.default_rng(seed)
    layout = parse("c, bucket(3, id)", "id" if seed % 2 else None)
    batches = [random_rows(random, int(random.integers(1, 60))) for _ in range(int(random.integers(1, 6)))]
    if seed % 3 == 0:
        whole = pa.Table.from_batches(batches)
        batches = [batch for _, batch in divided(layout, whole.combine_chunks().to_batches()[0])]
        assert all(in_runs(layout, batch) for batch in batches)
    found = []
    for run in runs(layout, batches, budget=int(random.choice([1, 500, 10**6]))):
        keys = [key for batch in run for key, rows in divided(layout, batch) if not found.append(rows)]
        assert len(set(keys)) == 1
    rows = pa.Table.from_batches(batches).to_pylist()
    assert sorted(pa.Table.from_batches(found).to_pylist(), key=str) == sorted(rows, key=str)


def test_rows_that_are_held_are_sorted_within_their_partition():
    rows = pa.record_batch({"k": ["a", "b", "a", "b", "a"], "v": [3, 2, 1, None, 2]})
    found = [pa.Table.from_batches(run).to_pydict() for run in runs(parse("k", "v"), [rows], 10**6)]
    assert found == [{"k": ["a", "a", "a"], "v": [1, 2, 3]}, {"k": ["b", "b"], "v": [2, None]}]


@pytest.mark.parametrize(
    ("partition", "cluster", "evenly", "brought"),
    [
        (None, None, False, Arrangement()),
        (None, None, True, Arrangement(("id", "day", "name", "x"))),
        (None, "name", False, Arrangement((), ("name",))),
        (None, "name", True, Arrangement((), ("name",))),
        (None, "zorder(id, x)", True, Arrangement(("id", "day", "name", "x"))),
        ("day", None, True, Arrangement(("day",), ("day",), True)),
        ("days(ts), name", "id", True, Arrangement((), ("ts", "name", "id"), True)),
        ("bucket(4, id)", None, True, Arrangement(partitions=True)),
        ("bucket(4, id), day", "x", False, Arrangement(("day",), ("day", "x"), True)),
    ],
)
def test_rows_are_brought_as_the_layout_says_and_without_one_evenly(partition, cluster, evenly, brought):
    columns = {"v": pa.list_(pa.float32()), "id": pa.int64(), "day": pa.date32(), "name": pa.string()}
    schema = pa.schema({**columns, "x": pa.float64(), "ts": pa.timestamp("us", "UTC")})
    assert arrangement(parse(partition, cluster), schema, evenly) == brought
