"""Merges of real datasets: what pylance's operations leave in manifests, what it commits, and what it reads later.

tests/merge/test_merge_threeway.py has every cell of the conflict matrix. Here each kind of commit is enough, in each
role; all pairs of changes are tried at night.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import lance
import pyarrow as pa
import pytest
from support.local_datasets import contents
from support.merge_datasets import (
    assert_sound,
    clean_all,
    every_version,
    exp,
    forked,
    head,
    row_ids,
    rows,
    run,
    table,
)

from lance_spark.errors import Conflict, Refused
from lance_spark.refs.refs import delete_branch
from lance_spark.storage.datasets import locate


def expand(text):
    """A column, a new one, and a value for every row."""
    return lambda dataset: dataset.add_columns(dict([text.split("=")]))


def append(start, stop):
    return lambda dataset: lance.write_dataset(table(start, stop), dataset.uri, mode="append")


def overwrite(start, stop):
    return lambda dataset: lance.write_dataset(table(start, stop), dataset.uri, mode="overwrite")


def delete(condition):
    return lambda dataset: dataset.delete(condition)


def update(condition, value="-1"):
    return lambda dataset: dataset.update({"v": value}, condition)


def drop(*names):
    return lambda dataset: dataset.drop_columns(list(names))


def rename(old, new):
    return lambda dataset: dataset.alter_columns({"path": old, "name": new})


def cast(name, kind):
    return lambda dataset: dataset.alter_columns({"path": name, "data_type": kind})


def index(name):
    return lambda dataset: dataset.create_scalar_index(name, "BTREE")


def compact(dataset):
    dataset.optimize.compact_files()


def optimize_indexes(dataset):
    dataset.optimize.optimize_indices()


def upsert(*keys):
    rows_in = pa.table({"id": pa.array(keys, pa.int64()), "v": pa.array([0] * len(keys), pa.int64())})
    return lambda dataset: (
        dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows_in)
    )


def upsert_values(*keys):
    """Only one of the columns, which pylance writes into new files of the same fragments."""
    rows_in = pa.table({"id": pa.array(keys, pa.int64()), "v": pa.array([0] * len(keys), pa.int64())})
    return lambda dataset: dataset.merge_insert("id").when_matched_update_all().execute(rows_in)


APPENDED = pa.table({"id": pa.array(range(30, 40), pa.int64()), "v": pa.array([1] * 10, pa.int32())})
"""Rows for a column that was cast."""
SAME = {
    "nothing": [],
    "append": [append(30, 40)],
    "delete": [delete("id in (1, 2, 15)")],
    "delete twice": [delete("id = 1"), delete("id = 2")],
    "delete a fragment": [delete("id < 10")],
    "delete all": [delete("true")],
    "update": [update("id = 12")],
    "update a fragment": [update("id >= 10 and id < 20")],
    "append, delete, update": [append(30, 40), delete("id = 3 or id = 33"), update("id = 12")],
    "upsert": [upsert(5, 300)],
    "add": [append(30, 40), expand("w=v+1")],
    "add, append": [
        expand("w=v+1"),
        lambda dataset: lance.write_dataset(pa.table({"id": [50], "v": [1], "w": [2]}), dataset.uri, mode="append"),
    ],
    "drop": [drop("v")],
    "add, drop": [expand("w=v+1"), drop("v")],
    "drop, add": [drop("v"), expand("v=id*2")],
    "rename": [rename("v", "value")],
    "swap names": [expand("w=id*3"), rename("v", "x"), rename("w", "v"), rename("x", "w")],
    "cast": [cast("v", pa.int32()), lambda dataset: lance.write_dataset(APPENDED, dataset.uri, mode="append")],
    "compact": [append(30, 40), delete("id < 5"), compact],
    "update, compact": [update("id = 12"), append(30, 40), compact],
    "delete, compact, append": [delete("id < 25"), compact, append(30, 40)],
    "overwrite": [overwrite(100, 120)],
    "overwrite, append": [overwrite(100, 120), append(120, 130), delete("id = 121")],
    "index": [append(30, 40), index("v")],
    "index, append": [index("v"), append(30, 40)],
    "index, update": [index("v"), update("id = 12")],
    "update, optimize": [update("id = 12"), append(30, 40), optimize_indexes],
}
"""What only the branch did: the result is the branch."""
PART_OF_ANOTHER = (
    "append",
    "delete",
    "delete twice",
    "delete a fragment",
    "update",
    "add",
    "drop",
    "compact",
    "overwrite",
    "index",
)
"""What another story does, too, with more besides: for the night."""


def result_of(*ranges, without=(), values=None, **columns):
    """Rows by their id: ten times the id, or what ``values`` says, and further columns as functions of the id.

    ``v=None`` leaves the values out.
    """
    columns = {"v": lambda n: (values or {}).get(n, 10 * n), **columns}
    kept = [n for n in chain(*ranges) if n not in without]
    return [{"id": n, **{name: of(n) for name, of in columns.items() if of}} for n in sorted(kept)]


def tens(n):
    return 10 * n


def plus(more):
    return lambda n: 10 * n + more


ALL = range(30)
NEW, NEWER = range(30, 40), range(50, 60)


@dataclass(frozen=True)
class Case:
    """What each side did, and the rows of the result; None for a conflict."""

    theirs: list[Callable]
    ours: list[Callable]
    result: list[dict] | None
    stable: list[dict] | None = None
    """The rows where stable ids tell which rows are the same, if without them it is a conflict."""


BOTH = {
    "append, append": Case([append(30, 40)], [append(50, 60)], result_of(ALL, NEW, NEWER)),
    "append, append and delete": Case(
        [append(30, 40), delete("id in (1, 2, 32)")],
        [append(50, 60), delete("id in (4, 5, 53)")],
        result_of(ALL, NEW, NEWER, without=(1, 2, 4, 5, 32, 53)),
    ),
    "append, delete a fragment": Case([append(30, 40)], [delete("id < 10")], result_of(range(10, 40))),
    "append, delete all": Case([append(30, 40)], [delete("true")], result_of(NEW)),
    "append, update": Case([append(30, 40)], [update("id = 1")], result_of(ALL, NEW, values={1: -1})),
    "append, compact": Case([append(30, 40)], [compact], result_of(ALL, NEW)),
    "append, index": Case([append(30, 40)], [index("v")], result_of(ALL, NEW)),
    "index, append": Case([index("v")], [append(30, 40)], result_of(ALL, NEW)),
    "index, update": Case([index("v")], [update("id = 3")], result_of(ALL, values={3: -1})),
    "index, index": Case([index("v")], [index("v")], result_of(ALL)),
    "delete, delete of the same row": Case([delete("id in (1, 2)")], [delete("id in (2, 5)")], None),
    "delete, delete of the other rows": Case(
        [delete("id < 5")], [delete("id >= 5 and id < 10")], result_of(range(10, 30))
    ),
    "delete, delete elsewhere": Case([delete("id = 1")], [delete("id = 11")], result_of(ALL, without=(1, 11))),
    "delete, delete a fragment": Case([delete("id = 1")], [delete("id < 10")], None),
    "delete a fragment, delete": Case([delete("id < 10")], [delete("id = 1")], None),
    "delete a fragment, delete another": Case([delete("id < 10")], [delete("id >= 20")], result_of(range(10, 20))),
    "delete, update elsewhere": Case(
        [delete("id = 1")], [update("id = 2")], result_of(ALL, without=(1,), values={2: -1})
    ),
    "delete, update of the row": Case([delete("id = 1")], [update("id = 1")], None),
    "update, delete of the row": Case([update("id = 1")], [delete("id = 1")], None),
    "update, update elsewhere": Case(
        [update("id = 1")], [update("id = 2", "-2")], result_of(ALL, values={1: -1, 2: -2})
    ),
    "update, update of the row": Case([update("id = 1")], [update("id = 1", "-2")], None),
    "update, append": Case([update("id = 1")], [append(30, 40)], result_of(ALL, NEW, values={1: -1})),
    "upsert, upsert": Case(
        [upsert(5, 300)], [upsert(6, 301)], result_of(ALL, (300, 301), values=dict.fromkeys((5, 6, 300, 301), 0))
    ),
    "upsert, upsert of the row": Case(
        [upsert(5, 300)],
        [upsert(5, 301)],
        None,
        result_of(ALL, (300, 301), values=dict.fromkeys((5, 300, 301), 0)),
    ),
    "add, append": Case(
        [expand("w=v+1")], [append(50, 60)], result_of(ALL, NEWER, w=lambda n: 10 * n + 1 if n < 30 else None)
    ),
    "append, add": Case(
        [append(50, 60)], [expand("w=v+1")], result_of(ALL, NEWER, w=lambda n: 10 * n + 1 if n < 30 else None)
    ),
    # pylance does not record what a column was computed from: where the row changed, it is left empty.
    "add, update": Case(
        [expand("w=v+1")],
        [update("id = 1")],
        None,
        result_of(ALL, values={1: -1}, w=lambda n: None if n == 1 else 10 * n + 1),
    ),
    "update, add": Case(
        [update("id = 1")],
        [expand("w=v+1")],
        None,
        result_of(ALL, values={1: -1}, w=lambda n: None if n == 1 else 10 * n + 1),
    ),
    "add, which cannot be null, append": Case([expand("w=7")], [append(50, 60)], None),
    "append, add, which cannot be null": Case([append(50, 60)], [expand("w=7")], None),
    "add, delete": Case([expand("w=v+1")], [delete("id = 1")], result_of(ALL, without=(1,), w=plus(1))),
    "delete, add": Case([delete("id = 1")], [expand("w=v+1")], result_of(ALL, without=(1,), w=plus(1))),
    "add, delete a fragment": Case([expand("w=v+1")], [delete("id < 10")], None, result_of(range(10, 30), w=plus(1))),
    "add, add": Case([expand("w=v+1")], [expand("z=v+2")], result_of(ALL, w=plus(1), z=plus(2))),
    "add, add of the name": Case([expand("w=v+1")], [expand("w=v+2")], None),
    "add, drop": Case([expand("w=v+1")], [drop("v")], result_of(ALL, v=None, w=plus(1))),
    "drop, add": Case([drop("v")], [expand("z=v+2")], result_of(ALL, v=None, z=plus(2))),
    "add, add and drop": Case([expand("w=v+1")], [expand("q=v+9"), drop("q")], result_of(ALL, w=plus(1))),
    "add, compact": Case([expand("w=v+1")], [compact], result_of(ALL, w=plus(1))),
    "compact, add": Case([compact], [expand("w=v+1")], result_of(ALL, w=plus(1))),
    "drop, append": Case([drop("v")], [append(50, 60)], result_of(ALL, NEWER, v=None)),
    "append, drop": Case([append(50, 60)], [drop("v")], result_of(ALL, NEWER, v=None)),
    "drop, update": Case([drop("v")], [update("id = 1")], None),
    "drop, drop": Case([drop("v")], [drop("v")], result_of(ALL, v=None)),
    "drop, rename": Case([drop("v")], [rename("v", "value")], None),
    "rename, append": Case([rename("v", "value")], [append(50, 60)], result_of(ALL, NEWER, v=None, value=tens)),
    "append, rename": Case([append(50, 60)], [rename("v", "value")], result_of(ALL, NEWER, v=None, value=tens)),
    "rename, rename": Case([rename("v", "value")], [rename("v", "other")], None),
    "rename alike": Case([rename("v", "value")], [rename("v", "value")], result_of(ALL, v=None, value=tens)),
    "rename, add": Case([rename("v", "value")], [expand("z=v+2")], result_of(ALL, v=None, value=tens, z=plus(2))),
    "rename, add of the name": Case([rename("v", "value")], [expand("value=id+2")], None),
    "cast, append": Case([cast("v", pa.int32())], [append(50, 60)], None),
    "append, cast": Case([append(50, 60)], [cast("v", pa.int32())], None),
    "cast, delete": Case([cast("v", pa.int32())], [delete("id = 1")], None),
    "cast, cast": Case([cast("v", pa.int32())], [cast("v", pa.int16())], None),
    "compact, append": Case([compact], [append(50, 60)], result_of(ALL, NEWER)),
    "compact, compact": Case([compact], [compact], result_of(ALL)),
    "compact, delete": Case([compact], [delete("id = 1")], result_of(ALL, without=(1,))),
    "delete, compact": Case([delete("id = 1")], [compact], result_of(ALL, without=(1,))),
    "overwrite, append": Case([overwrite(100, 120)], [append(50, 60)], None),
    "append, overwrite": Case([append(50, 60)], [overwrite(100, 120)], None),
    "overwrite, overwrite": Case([overwrite(100, 120)], [overwrite(200, 220)], None),
    "overwrite, index": Case([overwrite(100, 120)], [index("v")], result_of(range(100, 120))),
}
SAME_CELL = (
    "append, append",
    "append, delete a fragment",
    "append, compact",
    "append, index",
    "index, append",
    "delete, delete elsewhere",
    "delete, delete a fragment",
    "delete a fragment, delete another",
    "delete, update elsewhere",
    "delete, update of the row",
    "update, delete of the row",
    "update, update of the row",
    "update, append",
    "update, add",
    "add, which cannot be null, append",
    "append, add, which cannot be null",
    "delete, add",
    "add, delete a fragment",
    "add, add and drop",
    "compact, add",
    "drop, append",
    "append, drop",
    "drop, update",
    "drop, drop",
    "append, rename",
    "rename, rename",
    "rename alike",
    "rename, add of the name",
    "append, cast",
    "cast, delete",
    "cast, cast",
    "compact, compact",
    "delete, compact",
    "append, overwrite",
    "overwrite, overwrite",
)
"""What the matrix decides as another pair, or the other way round, with the same kinds of commits: for the night."""


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """By whether row ids are stable: a dataset with a branch, and a copy of it beside."""
    made = {}
    for stable in (False, True):
        made[stable] = forked(str(tmp_path_factory.mktemp("matrix") / "table.lance"), stable)
        shutil.copytree(made[stable], f"{made[stable]}.saved")
    return made


@pytest.fixture
def uri(originals, stable):
    """The dataset as it was, at the place that its branch names: cheaper than one that is made anew."""
    shutil.rmtree(originals[stable])
    return str(shutil.copytree(f"{originals[stable]}.saved", originals[stable]))


STABLE = pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])


def apply(dataset_of, changes):
    for change in changes:
        change(dataset_of())


def merged(uri):
    """The result of a merge, or the refusal; then main has not a byte more than before."""
    before = contents(uri)
    try:
        return run(uri)
    except (Conflict, Refused) as refusal:
        assert contents(uri) == before
        return refusal


def assert_lasting(uri, before):
    """Main is sound, takes rows, keeps its old versions, and needs the branch no more."""
    now = rows(head(uri))
    assert_sound(head(uri))
    assert every_version(uri).items() >= before.items()
    again = run(uri)
    assert again.up_to_date
    assert again.version is None
    known = row_ids(head(uri))

    delete_branch(locate(uri), "exp")
    clean_all(uri)
    assert rows(head(uri)) == now
    more = pa.table(
        [pa.array([1000 + n for n in range(7)], field.type) for field in head(uri).schema], schema=head(uri).schema
    )
    lance.write_dataset(more, uri, mode="append")
    assert_sound(head(uri))
    assert row_ids(head(uri)).items() >= known.items()
    head(uri).delete("id >= 1000")
    head(uri).optimize.compact_files()
    assert rows(head(uri)) == now
    assert_sound(head(uri))


@pytest.mark.when(day=0.3, night={"name": PART_OF_ANOTHER})
@STABLE
@pytest.mark.parametrize("name", SAME)
def test_a_target_that_did_not_move_becomes_what_the_branch_is(uri, stable, name):
    apply(lambda: exp(uri), SAME[name])
    before, theirs = every_version(uri), rows(exp(uri))

    result = run(uri)

    assert result.fast_forward
    assert result.conflicts == ()
    assert (result.version is None) == result.up_to_date
    assert rows(head(uri)) == theirs
    assert head(uri).schema == exp(uri).schema
    assert_lasting(uri, before)


@pytest.mark.when(day=0.3, night={"name": SAME_CELL})
@STABLE
@pytest.mark.parametrize("name", BOTH)
def test_what_both_sides_did_is_combined_or_refused_as_the_matrix_says(uri, stable, name):
    case = BOTH[name]
    apply(lambda: exp(uri), case.theirs)
    apply(lambda: head(uri), case.ours)
    before, ours, theirs = every_version(uri), rows(head(uri)), rows(exp(uri))

    result = merged(uri)

    wanted = case.stable if stable and case.stable is not None else case.result
    if wanted is None:
        assert isinstance(result, Conflict), result
        assert rows(head(uri)) == ours
        assert rows(exp(uri)) == theirs
        return
    assert not isinstance(result, Exception), result
    assert rows(head(uri)) == wanted
    assert bool(result.notes) == any(None in row.values() for row in wanted)
    assert_lasting(uri, before)


@STABLE
@pytest.mark.parametrize(
    "changes", [[update("id = 12"), expand("w=v+1")], [expand("w=v+1"), update("id = 12")]], ids=["before", "after"]
)
def test_rows_that_were_updated_while_columns_changed_are_merged_or_refused(uri, stable, changes):
    apply(lambda: exp(uri), changes)
    before, ours, theirs = every_version(uri), rows(head(uri)), rows(exp(uri))
    result = merged(uri)
    if stable:
        assert isinstance(result, Refused), result
        assert rows(head(uri)) == ours
    else:
        assert rows(head(uri)) == theirs
        assert_lasting(uri, before)


@STABLE
def test_values_of_both_sides_are_in_the_result(uri, stable):
    apply(lambda: exp(uri), [update("id = 1", "-1"), append(30, 32), delete("id = 4"), expand("w=id*0+7")])
    apply(lambda: head(uri), [append(50, 52), delete("id = 14")])
    result = merged(uri)
    if isinstance(result, Refused):
        assert stable
        return
    expected = {n: {"id": n, "v": 10 * n, "w": 7} for n in [*range(32)]}
    expected |= {n: {"id": n, "v": 10 * n, "w": None} for n in (50, 51)}
    del expected[4], expected[14]
    expected[1]["v"] = -1
    assert rows(head(uri)) == [expected[n] for n in sorted(expected)]


def test_a_conflict_shows_rows_by_the_key_that_the_table_declares(tmp_path):
    uri = str(tmp_path / "keyed.lance")
    key = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    keyed = table(0, 10).cast(pa.schema([key, ("v", pa.int64())]))
    lance.write_dataset(keyed, uri)
    lance.dataset(uri).create_branch("exp")
    exp(uri).delete("id in (1, 2, 4)")
    head(uri).delete("id in (2, 4, 5)")
    (conflict,) = run(uri, dry_run=True).conflicts
    assert conflict.reason == "both sides deleted or updated the same rows"
    assert conflict.rows == ("id=2", "id=4")
