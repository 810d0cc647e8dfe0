"""CHECK constraints: what they mean, who obeys them, and what a merge makes of them."""

from decimal import Decimal

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceTable
from lance_spark.errors import AlreadyExists, Conflict, InvalidOption, NotFound, Refused, SchemaMismatch
from lance_spark.storage.datasets import locate, pin_latest
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.constraint_rules import Check, Constraint, check_name, declared, naming
from lance_spark.write.constraints import add_constraint
from lance_spark.write.data_files import write_rows

NAN = float("nan")
ROWS = pa.record_batch(
    {
        "x": pa.array([1, 0, -1, None], pa.int64()),
        "y": pa.array([1, 2, 3, 4], pa.int32()),
        "f": pa.array([NAN, -0.0, 1.5, None]),
        "g": pa.array([0.1, NAN, 0, None], pa.float32()),
        "c": pa.array(["a", "ab\nc", "", "ä%"]),
        "d": pa.array([0, -1, 20_000, None], pa.int32()).cast(pa.date32()),
        "ts": pa.array([0, 1, -1, None], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "n": pa.array([0, 1500, -1, None], pa.int64()).cast(pa.timestamp("ns")),
        "m": pa.array([Decimal("1.50"), Decimal("-0.01"), Decimal("9.99"), None], pa.decimal128(9, 2)),
        "o": pa.array([True, False, None, True]),
        "b": pa.array([b"", b"", b"", b""]),
    }
)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("condition", "broken"),
    [
        ("x > 0", [1, 2]),
        ("X >= 0 and `y` < 3", [2, 3]),
        ("NOT (x > 0)", [0]),
        ("x IS NOT NULL", [3]),
        ("x IN (1, 0)", [2]),
        ("x NOT IN (1, 0)", [0, 1]),
        ("x NOT BETWEEN 0 AND 1", [0, 1]),
        ("5 < x", [0, 1, 2]),
        ("x > 0.5", [1, 2]),
        ("x > -0.5", [2]),
        ("x > 99999999999999999999", [0, 1, 2]),
        ("x <= y", []),
        ("x > 0 OR (c = 'a' AND NOT o IS NULL)", [1, 2]),
        ("f = f", []),
        ("f > 1e300", [1, 2]),
        ("f >= 0", []),
        ("f > 0", [1]),
        ("f = g", [0, 1, 2]),
        ("g > 0.1", [2]),
        ("c LIKE 'a%'", [2, 3]),
        ("c NOT LIKE '%\n_'", [1]),
        ("c LIKE '_'", [1, 2, 3]),
        ("length(c) > 0", [2]),
        ("c = 'it''s'", [0, 1, 2, 3]),
        ("d >= '1970-01-01'", [1]),
        ("d < DATE '1970-01-01'", [0, 2]),
        ("ts >= TIMESTAMP '1970-01-01 01:00:00+01:00'", [2]),
        ("n < TIMESTAMP '1970-01-01 00:00:00.000001'", [1]),
        ("n >= TIMESTAMP '1970-01-01 00:00:00'", [2]),
        ("m > 0", [1]),
        ("m <= 9.985", [2]),
        ("m > x", [1]),
        ("o", [1]),
        ("o <> TRUE", [0, 3]),
    ],
)
def test_a_condition_is_false_for_these_rows(condition, broken):
    assert Check(Constraint("k", condition), ROWS.schema).broken(ROWS).to_pylist() == broken


@pytest.mark.pure
@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("", "at its end"),
        ("x >", "at its end"),
        ("x > 0)", "at '\\)'"),
        ("x + 1 > 0", "\\+ 1 > 0"),
        ("upper(c) = 'A'", "function upper"),
        ("foo > 0", "no column `foo`"),
        ("x", "is no condition"),
        ("x > 'a'", "no value to compare with int64"),
        ("x = NULL", "at 'NULL'"),
        ("f > x", "compares double with int64"),
        ("b = 'a'", "a column of type binary"),
        ("length(x) > 1", "length is for texts"),
        ("x LIKE 'a'", "LIKE is for texts"),
        ("1 = 1", "names no column"),
        ("x > 0 AND 1 = 1", "two constants"),
        ("TRUE", "names no column"),
        ("d > 'x'", "no value to compare with date32"),
        ("ts > TIMESTAMP '2026-01-01 00:00:00'", "with a Z"),
        ("n > TIMESTAMP '2026-01-01 00:00:00Z'", "no value to compare"),
        ("ts > n", "compares timestamp"),
        ("c = 'a\\n'", "is not understood"),
        ("x > 1e3", "no value to compare"),
        ("(" * 99 + "x > 0" + ")" * 99, "nested too deeply"),
        ("NOT " * 99 + "x > 0", "nested too deeply"),
    ],
)
def test_what_is_not_understood_is_refused(condition, why):
    with pytest.raises(InvalidOption, match=why) as refused:
        Check(Constraint("k", condition), ROWS.schema)
    assert "A condition compares columns" in refused.value.hint


@pytest.mark.pure
def test_columns_that_rows_lack_are_null():
    check = Check(Constraint("k", "x IS NOT NULL AND y > 0"), ROWS.schema)
    assert check.broken(ROWS.select(["y"])).to_pylist() == [0, 1, 2, 3]
    assert check.columns == ("x", "y")


@pytest.mark.pure
def test_texts_of_a_collation_and_names_that_differ_in_case_are_refused():
    collated = pa.field("k", pa.string(), metadata={"lance_spark.type": "string collate UTF8_LCASE"})
    with pytest.raises(InvalidOption, match="collate"):
        Check(Constraint("c", "k = 'a'"), pa.schema([collated]))
    with pytest.raises(InvalidOption, match="more than one"):
        Check(Constraint("c", "NAME = 'a'"), pa.schema([("name", pa.string()), ("Name", pa.string())]))


@pytest.mark.pure
def test_constraints_are_read_from_the_configuration():
    found = declared({"lance_spark.constraints.b": "x > 0", "lance_spark.constraints.a": "y > 0", "other": "1"})
    assert [str(each) for each in found] == ["CHECK a (y > 0)", "CHECK b (x > 0)"]
    assert naming(found, ROWS.schema, ["x"]) == found[1]
    assert naming(found, ROWS.schema, ["c"]) is None
    unknown = Constraint("later", "x ~ y")
    assert naming([unknown], ROWS.schema, ["c"]) == unknown  # it may name any column
    with pytest.raises(InvalidOption):
        check_name("a b")


def table(uri, *constraints):
    lance.write_dataset(pa.table({"id": [1, 2], "x": [1, 2]}), uri, enable_stable_row_ids=True)
    t = LanceTable.for_path(uri)
    for name, condition in constraints:
        t.constraints.add(name, condition)
    return t


def append(uri, rows, **options):
    job = begin(plan_write({"path": uri, **options}, rows.schema, overwrite=False))
    return finish(job, write_rows(job, rows.to_batches()))


BAD = pa.table({"id": [9], "x": [-1]})


def test_rows_that_break_a_constraint_are_not_written(uri):
    t = table(uri, ("positive", "x > 0"))
    with pytest.raises(SchemaMismatch, match=r"CHECK positive \(x > 0\) .*: x = -1\. Nothing was written"):
        append(uri, BAD)
    append(uri, pa.table({"id": [3]}))  # null is not false
    assert lance.dataset(uri).to_table().sort_by("id").to_pydict() == {"id": [1, 2, 3], "x": [1, 2, None]}
    assert t.constraints.list() == {"positive": "x > 0"}


def test_a_row_whose_moment_python_does_not_have_is_named(uri):
    far = pa.array([253_402_300_800_000_000], pa.int64()).cast(pa.timestamp("us", "UTC"))
    lance.write_dataset(pa.table({"ts": far}), uri)
    with pytest.raises(SchemaMismatch, match=r"ts = '10000-01-01T00:00:00\.000000Z'"):
        LanceTable.for_path(uri).constraints.add("early", "ts < TIMESTAMP '2100-01-01 00:00:00Z'")


@pytest.mark.when(day=0)
def test_present_rows_are_checked_first(uri):
    t = table(uri, ("positive", "x > 0"))
    version = t.version
    with pytest.raises(SchemaMismatch, match=r"x = 1; x = 2\. The constraint was not added"):
        t.constraints.add("large", "x > 2")
    with pytest.raises(AlreadyExists):
        t.constraints.add("POSITIVE", "x > -5")
    with pytest.raises(InvalidOption):
        t.constraints.add("odd", "x % 2 = 1")
    assert t.version == version
    with pytest.raises(NotFound, match="no constraint 'large'"):
        t.constraints.drop("large")
    assert t.constraints.drop("Positive") == {}
    append(uri, BAD)


@pytest.mark.when(day=0)
def test_a_job_that_began_before_a_constraint_starts_again(uri):
    table(uri)
    jobs = [begin(plan_write({"path": uri}, BAD.schema, overwrite=each)) for each in (False, True)]
    files = [write_rows(job, BAD.to_batches()) for job in jobs]
    add_constraint(locate(uri), None, "positive", "x > 0")
    for job, written in zip(jobs, files, strict=True):
        with pytest.raises(Conflict, match=r"was added to .* since the job started"):
            finish(job, written)
    assert lance.dataset(uri).count_rows() == 2


@pytest.mark.when(day=0)
def test_columns_that_a_constraint_names_stay(uri):
    t = table(uri, ("positive", "x > 0"))
    for change in (
        lambda: t.drop_columns(["x"]),
        lambda: t.rename_columns({"x": "y"}),
        lambda: begin(plan_write({"path": uri}, BAD.select(["id"]).schema, overwrite=True)),
    ):
        with pytest.raises(Refused, match="CHECK positive"):
            change()
    t.rename_columns({"id": "key"})
    assert t.constraints.list() == {"positive": "x > 0"}


@pytest.mark.when(day=0)
def test_a_constraint_that_cannot_be_checked_stops_writes(uri):
    table(uri, ("positive", "x > 0"))
    lance.dataset(uri).drop_columns(["x"])
    with pytest.raises(Refused, match="there is no column `x`"):
        append(uri, BAD.select(["id"]))
    lance.dataset(uri).update_config({"lance_spark.constraints.later": "x ~ y"})
    t = LanceTable.for_path(uri)
    for name in t.constraints.list():
        t.constraints.drop(name)
    append(uri, BAD.select(["id"]))


@pytest.mark.when(day=0)
def test_fsck_names_rows_of_other_writers(uri):
    t = table(uri, ("positive", "x > 0"))
    assert t.fsck(deep=True).findings == ()
    lance.write_dataset(BAD, uri, mode="append")
    found = t.fsck(deep=True).findings
    assert [each.code for each in found] == ["constraint-broken"]
    assert "CHECK positive (x > 0) of main" in found[0].detail
    assert "x = -1" in found[0].detail
    t.optimize(sort_by=["id"])  # rewrites rows as they are
    assert lance.dataset(uri).count_rows() == 3
    lance.dataset(uri).delete("x < 0")
    assert t.fsck(deep=True).findings == ()


def on_branch(t, uri, rows):
    t.branches.create("exp")
    append(uri, rows, branch="exp")


@pytest.mark.when(day=0)
@pytest.mark.parametrize("rows", [False, True])
def test_a_merge_brings_no_rows_that_break_a_constraint(uri, rows):
    """One that main has got since: a constraint that the branch had and dropped is dropped by its merge."""
    t = table(uri)
    on_branch(t, uri, pa.table({"id": [7, 9], "x": [7, -1]}))
    t.constraints.add("positive", "x > 0")
    if rows:
        append(uri, pa.table({"id": [3], "x": [3]}))
    before = pin_latest(locate(uri), None)
    with pytest.raises(Conflict, match=r"CHECK positive \(x > 0\) would be broken by rows of theirs.*\n +x = -1\n"):
        t.branches.merge("exp")
    assert pin_latest(locate(uri), None) == before
    lance.dataset(t.location.branch_uri("exp")).delete("x < 0")
    t.branches.merge("exp")
    assert 7 in lance.dataset(uri).to_table()["x"].to_pylist()


@pytest.mark.when(day=0)
def test_a_merge_of_cells_that_meet_in_a_row_is_refused(uri):
    t = table(uri, ("ordered", "x <= id"))
    t.branches.create("exp")
    lance.dataset(t.location.branch_uri("exp")).update({"x": "2"}, "id = 2")
    lance.dataset(uri).update({"id": "1"}, "id = 2 AND x = 2")
    with pytest.raises(Conflict, match="cannot be checked by the merge") as refused:
        t.branches.merge("exp")
    assert "Drop the constraint" in refused.value.hint
    t.constraints.drop("ordered")
    t.branches.merge("exp", prefer="theirs")
