"""Indexes on main and branches: answers stay the same, coverage is told, and one version shows them."""

import os
import signal
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.backfills import LocalValues
from support.indexed import DIMENSION, KINDS, Executors, filtered, questions, recall, searched, some
from support.local_datasets import contents, written_since
from support.processes import PATIENCE, processes

from lance_spark import LanceTable
from lance_spark.columns.columns import update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import AlreadyExists, Conflict, InvalidOption, NotFound, Refused, SchemaMismatch
from lance_spark.indexes import index_rules, indexes
from lance_spark.indexes.index_rules import IndexRequest, find_kind
from lance_spark.indexes.indexes import index_stats, list_indexes
from lance_spark.refs.refs import create_branch, delete_branch
from lance_spark.storage.datasets import pin_latest

LOCAL = LocalRunner(2)
ROWS = 1500
LEAST_RECALL = {"ivf_rq": 0.75}
"""One bit for each of 16 dimensions says little."""


@pytest.fixture(params=[False, True], ids=["plain", "stable"])
def stable(request):
    return request.param


@pytest.fixture
def location(uri, stable):
    """Two fragments with 600 and 900 rows."""
    lance.write_dataset(some(0, 600), uri, enable_stable_row_ids=stable)
    lance.write_dataset(some(600, 900), uri, mode="append")
    return DatasetLocation.at(uri)


def create(location, column, kind="btree", branch=None, engine=LOCAL, **given):
    names = {key: given.pop(key) for key in ("name", "replace", "message") if key in given}
    return indexes.create_index(location, branch, IndexRequest(column, kind, settings=given, **names), engine)


def optimize(location, branch=None, name=None, engine=LOCAL):
    return indexes.optimize_indexes(location, branch, name, engine)


def listed(location, branch=None):
    return list_indexes(location, pin_latest(location, branch))


def append(location, first, count, branch=None):
    lance.write_dataset(some(first, count), location.branch_uri(branch), mode="append")


def check_answers(uri, column, kind, count=ROWS):
    if column == "v":
        return
    for where in questions(column):
        with_index, without = filtered(uri, where)
        assert with_index == without, where
        assert without or where == "id >= 1490", where
    if kind == "inverted":
        assert searched(uri, "word17") == {at for at in range(count) if at % 50 == 17}


@pytest.mark.when(day=0.2)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_answers_as_without_an_index_and_on_a_branch_only_its_own_rows_are_indexed(location, stable, kind):
    column, settings = KINDS[kind]
    made = create(location, column, kind, num_segments=2, **settings)
    assert (made.version.version, made.rows, made.segments, made.ran_on) == (3, ROWS, 2, "local")
    (there,) = listed(location)
    assert (there.kind, there.columns, there.rows_covered, there.rows_uncovered) == (kind, (column,), ROWS, 0)
    assert there.bytes == made.bytes > 0
    check_answers(location.uri, column, kind)
    if column == "v":
        assert recall(location.uri, settings.get("metric", "l2"), refine_factor=10) > LEAST_RECALL.get(kind, 0.9)

    create_branch(location, "exp", RefSpec())
    append(location, ROWS, 600, "exp")
    branch = location.branch_uri("exp")
    check_answers(branch, column, kind, ROWS + 600)  # stale, and right
    before = contents(location.uri)
    made = create(location, column, kind, "exp", **settings)
    anew = stable and find_kind(kind).mixes_up_updates
    assert (made.rows, made.segments, made.replaced) == ((2100, 1, 2) if anew else (600, 1, 0))
    new = written_since(before, location.uri)
    assert new
    assert all(path.startswith("tree/exp/") for path in new)
    (there,) = listed(location, "exp")
    assert (there.rows_covered, there.rows_uncovered) == (2100, 0)
    assert (there.segments, there.inherited_segments) == ((1, 0) if anew else (3, 2))
    check_answers(branch, column, kind, ROWS + 600)
    if column == "v":
        assert recall(branch, settings.get("metric", "l2"), refine_factor=10) > LEAST_RECALL.get(kind, 0.9)
    if anew:
        with pytest.raises(AlreadyExists):
            create(location, column, kind, "exp")
    else:
        assert create(location, column, kind, "exp").changed is False
    assert listed(location)[0].rows_covered == ROWS


@pytest.mark.parametrize(("kind", "segments"), [("inverted", 2), ("btree", 1), ("ivf_flat", 1)])
def test_only_kinds_that_leave_cores_idle_are_built_in_several_segments_here(location, kind, segments, monkeypatch):
    """Texts of a segment are read by one core; of all other kinds pylance's own threads build one segment as fast."""
    monkeypatch.setattr(index_rules, "ROWS_PER_TASK", 500)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    append(location, ROWS, 600)
    column, settings = KINDS[kind]
    made = create(location, column, kind, **settings)
    assert (made.segments, made.ran_on, made.rows) == (segments, "local", 2100)
    check_answers(location.uri, column, kind, 2100)


@pytest.mark.when(day=0.2)
@pytest.mark.parametrize("kind", KINDS)
def test_segments_of_many_tasks_are_merged(location, kind, monkeypatch):
    monkeypatch.setattr(index_rules, "ROWS_PER_TASK", 500)
    append(location, ROWS, 600)
    column, settings = KINDS[kind]
    made = create(location, column, kind, engine=Executors(), num_segments=1, **settings)
    assert (made.segments, made.ran_on, made.rows) == (1, "executors", 2100)
    (directory,) = (Path(location.uri) / "_indices").iterdir()
    assert index_stats(location, made.version, column).segments[0].uuid == directory.name
    check_answers(location.uri, column, kind, 2100)
    if column == "v":
        assert recall(location.uri, settings.get("metric", "l2"), refine_factor=10) > LEAST_RECALL.get(kind, 0.9)


@pytest.mark.parametrize("branch", [None, "exp"])
def test_a_stale_index_answers_right_and_optimize_indexes_what_is_new(location, branch):
    create_branch(location, "exp", RefSpec())
    for kind in ("btree", "inverted", "ivf_flat", "bitmap"):
        create(location, KINDS[kind][0], kind, branch, name=kind, **KINDS[kind][1])
    uri = location.branch_uri(branch)
    append(location, ROWS, 400, branch)
    lance.dataset(uri).update({"k": "3", "id": "id + 100000"}, where="id >= 50 AND id < 60")
    lance.dataset(uri).delete("id = 7")
    for _ in range(2):
        for column in ("id", "k"):
            for where in questions(column):
                with_index, without = filtered(uri, where)
                assert with_index == without, where
        assert filtered(uri, "id = 7") == filtered(uri, "id = 55") == ([], [])
        assert filtered(uri, "id = 100055") == ([100055], [100055])
        assert 100050 not in searched(uri, "word17")
        assert {at % 50 for at in searched(uri, "word17")} == {17}
        assert recall(uri) > 0.9
        results = optimize(location, branch)
    assert [result.changed for result in results] == [False] * 4
    assert {(each.rows_uncovered, each.percent) for each in listed(location, branch)} == {(0, 100.0)}


@pytest.mark.when(day=0.2)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_were_updated_are_not_found_by_what_they_were_after_their_index_was_optimized(location, kind):
    column, settings = KINDS[kind]
    create(location, column, kind, **settings)
    others = some(0, ROWS + 600).slice(ROWS).set_column(0, "id", pa.array(range(50, 650)))
    lance.dataset(location.uri).merge_insert("id").when_matched_update_all().execute(others)
    was = {at for at in range(50, 650) if at % 50 == 17}
    for _ in range(2):
        if column != "v":
            for where in questions(column):
                with_index, without = filtered(location.uri, where)
                assert with_index == without, where
        if kind == "inverted":
            assert searched(location.uri, "number517") == set()
            assert searched(location.uri, "number1967") == {517}
        if column == "v":
            assert recall(location.uri, settings.get("metric", "l2"), refine_factor=10) > LEAST_RECALL.get(kind, 0.9)
            old = {"column": "v", "k": 1, "nprobes": 64, "refine_factor": 10, "metric": settings.get("metric", "l2")}
            for at in was:
                asked = {**old, "q": some(at, 1)["v"][0].as_py()}
                (found,) = lance.dataset(location.uri).scanner(columns=["id"], nearest=asked).to_table()["_distance"]
                assert found.as_py() > 0.1
        optimize(location)
    assert listed(location)[0].rows_uncovered == 0


def test_optimize_builds_small_segments_anew_and_leaves_inherited_ones(location):
    create(location, "id")
    create_branch(location, "exp", RefSpec())
    before = contents(location.uri)
    for number in range(4):
        append(location, ROWS + 10 * number, 10, "exp")
        (result,) = optimize(location, "exp", "id")
        assert result.segments == 1
    (there,) = listed(location, "exp")
    assert (there.inherited_segments, there.rows_uncovered) == (1, 0)
    assert there.segments <= 3
    assert all(path.startswith("tree/exp/") for path in written_since(before, location.uri))
    check_answers(location.branch_uri("exp"), "id", "btree")
    assert filtered(location.branch_uri("exp"), "id > 1488") == ([*range(1489, 1540)],) * 2


def test_too_few_rows_to_train_on_are_left_and_found_all_the_same(location):
    create(location, "v", "ivf_pq", num_partitions=4)
    append(location, ROWS, 100)
    (result,) = optimize(location)
    assert not result.changed
    assert "too few rows" in str(result)
    assert listed(location)[0].rows_uncovered == 100
    asked = {"column": "v", "q": some(ROWS + 5, 1)["v"][0].as_py(), "k": 1}
    assert lance.dataset(location.uri).scanner(columns=["id"], nearest=asked).to_table()["id"].to_pylist() == [ROWS + 5]


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize(("kind", "least"), [("ivf_flat", 2), ("ivf_hnsw_sq", 2), ("ivf_pq", 512)])
def test_rows_without_a_usable_vector_train_no_model_and_fail_no_upkeep(location, kind, least, metric):
    unusable = [None, [float("nan")] * DIMENSION] + [[0.0] * DIMENSION] * (metric == "cosine")
    lance.write_dataset(with_vectors(unusable * 300), location.uri, mode="overwrite")
    t = LanceTable.for_path(location.uri)
    with pytest.raises(Refused, match=f"at least {least} usable vectors .* there are 0"):
        t.indexes.create("v", kind=kind, metric=metric)
    lance.write_dataset(some(2000, 2000), location.uri, mode="overwrite")
    t = LanceTable.for_path(location.uri)
    t.indexes.create("v", kind=kind, metric=metric)
    lance.write_dataset(with_vectors(unusable * 300), location.uri, mode="append")
    (result,) = t.indexes.optimize()
    assert (result.segments, "0: the rows are compared one by one" in result.left) == (0, True)


def test_few_vectors_among_many_rows_get_few_partitions(location):
    vectors = some(0, 20)["v"].to_pylist()
    lance.write_dataset(with_vectors(vectors + [None] * 980), location.uri, mode="overwrite")
    t = LanceTable.for_path(location.uri)
    assert t.indexes.create("v", kind="ivf_flat").rows == 1000
    nearest = {"column": "v", "q": vectors[7], "k": 1}
    assert lance.dataset(location.uri).to_table(nearest=nearest)["id"].to_pylist() == [7]
    with pytest.raises(InvalidOption, match=r"20 usable vectors .* too few for 24 partitions"):
        t.indexes.create("v", kind="ivf_flat", num_partitions=24, replace=True)


def with_vectors(vectors):
    rows = some(0, len(vectors))
    return rows.set_column(rows.schema.get_field_index("v"), "v", pa.array(vectors, rows.schema.field("v").type))


def test_errors_come_before_any_work(location, monkeypatch):
    create(location, "id")
    monkeypatch.setattr(indexes.index_segments, "build_segment", None)
    before = contents(location.uri)
    cases = [
        (NotFound, "nope", "btree", {}),
        (InvalidOption, "id", "btre", {}),
        (InvalidOption, "id", "bitmap", {"metric": "l2"}),
        (InvalidOption, "k", "btree", {"name": "__x"}),
        (SchemaMismatch, "v", "btree", {}),
        (SchemaMismatch, "id", "ivf_pq", {}),
        (AlreadyExists, "id", "btree", {}),
        (AlreadyExists, "k", "btree", {"name": "id_idx"}),
        (InvalidOption, "v", "ivf_flat", {"num_partitions": 1000}),
        (InvalidOption, "v", "ivf_pq", {"num_sub_vectors": 5}),
    ]
    for error, column, kind, given in cases:
        with pytest.raises(error):
            create(location, column, kind, **given)
    for call in (
        lambda: create(location, "id", branch="nope"),
        lambda: optimize(location, name="nope"),
        lambda: indexes.drop_index(location, None, "nope"),
        lambda: index_stats(location, pin_latest(location, None), "nope"),
    ):
        with pytest.raises(NotFound):
            call()
    assert contents(location.uri) == before


def test_an_inherited_index_is_not_mixed_with_another_one(location):
    create(location, "v", "ivf_flat", metric="cosine", num_partitions=4)
    create_branch(location, "exp", RefSpec())
    append(location, ROWS, 600, "exp")
    with pytest.raises(AlreadyExists, match="metric = cosine"):
        create(location, "v", "ivf_flat", "exp", metric="l2")
    with pytest.raises(AlreadyExists):
        create(location, "v", "ivf_sq", "exp")
    made = create(location, "v", "ivf_sq", "exp", replace=True, metric="l2")
    assert (made.rows, made.replaced) == (2100, 1)
    assert [each.kind for each in listed(location, "exp")] == ["ivf_sq"]
    assert [each.kind for each in listed(location)] == ["ivf_flat"]
    assert recall(location.branch_uri("exp"), refine_factor=10) > 0.9
    assert recall(location.uri, "cosine") > 0.9


def test_handles_list_tell_and_drop(location):
    table = LanceTable.for_path(location.uri)
    assert table.indexes.create("id", message="for lookups").version.version == 3
    assert "for lookups" in str(table.log())
    table.tags.create("before")
    assert str(table.indexes.stats("id")).startswith("id_idx: btree on id, 1,500 of 1,500 rows (100.0%), 1 segment")
    assert "id_idx" in str(table.indexes)
    assert "id_idx" in table.indexes._repr_html_()
    standing = table.checkout(tag="before")
    assert table.indexes.drop("id").changed
    assert table.indexes.list() == []
    assert [each.name for each in standing.indexes.list()] == ["id_idx"]
    for call in (lambda: standing.indexes.create("k"), standing.indexes.optimize, lambda: standing.indexes.drop("id")):
        with pytest.raises(Refused):
            call()
    assert filtered(location.uri, "id = 7") == ([7], [7])


def test_fields_of_structs(uri):
    rows = pa.table({"id": range(100), "s": [{"a": at % 9, "b": "x"} for at in range(100)]})
    lance.write_dataset(rows, uri)
    location = DatasetLocation.at(uri)
    create(location, "s.a")
    assert listed(location)[0].columns == ("s.a",)
    assert filtered(uri, "s.a = 3") == ([*range(3, 100, 9)],) * 2
    lance.dataset(uri).delete("true")
    with pytest.raises(Refused, match="no rows"):
        create(location, "id")


def meanwhile(monkeypatch, event, moment="committing"):
    """Let something happen after the segments are built, or at the last moment before they are committed."""
    done = []

    def once():
        if not done:
            done.append(1)
            event()

    commit, build_all = indexes.index_segments.commit_segments, indexes.SegmentBuilder.segments

    def late(*arguments):
        once()
        return commit(*arguments)

    def early(*arguments):
        made = build_all(*arguments)
        once()
        return made

    if moment == "committing":
        monkeypatch.setattr(indexes.index_segments, "commit_segments", late)
    else:
        monkeypatch.setattr(indexes.SegmentBuilder, "segments", early)


def other_values(uri):
    root, _, name = uri.partition("/tree/")
    location = DatasetLocation.at(root)
    values = LocalValues(location, lambda batch: {"id": pc.add(batch["id"], 20000)}, id=pa.int64())
    update_filled_columns(location, name or None, values, BackfillOptions())


EVENTS = {
    "append": lambda uri: lance.write_dataset(some(5000, 10), uri, mode="append"),
    "delete": lambda uri: lance.dataset(uri).delete("id < 20"),
    "delete a fragment": lambda uri: lance.dataset(uri).delete("id < 600"),
    "update": lambda uri: lance.dataset(uri).update({"id": "id + 7000"}, where="id < 20"),
    "compaction": lambda uri: lance.dataset(uri).optimize.compact_files(),
    "new column": lambda uri: lance.dataset(uri).add_columns({"x": "id * 2"}),
    "another index": lambda uri: lance.dataset(uri).create_scalar_index("k", "BITMAP"),
    "other values": other_values,
    "column replaced": lambda uri: (
        lance.dataset(uri).drop_columns(["id"]),
        lance.dataset(uri).add_columns({"id": "k + 10000"}),
    ),
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize(("branch", "moment"), [(None, "built"), ("exp", "built"), ("exp", "committing")])
def test_what_others_commit_meanwhile_is_kept_and_answers_stay_right(location, branch, moment, event, monkeypatch):
    create_branch(location, "exp", RefSpec())
    uri = location.branch_uri(branch)
    meanwhile(monkeypatch, lambda: EVENTS[event](uri), moment)
    if event == "column replaced" and moment == "committing":
        with pytest.raises(Conflict, match="'id' was altered or dropped"):
            create(location, "id", "btree", branch, num_segments=2)
        assert listed(location, branch) == []
    else:
        create(location, "id", "btree", branch, num_segments=2)
    for _ in range(2):
        for where in (*questions("id"), "id < 30", "id >= 7000", "id >= 10000", "id >= 20000"):
            with_index, without = filtered(uri, where)
            assert with_index == without, where
        optimize(location, branch)
    assert [each.rows_uncovered for each in listed(location, branch)] == [0] * len(listed(location, branch))
    lance.dataset(uri).validate()


@pytest.mark.parametrize("moment", ["built", "committing"])
def test_of_two_that_make_the_same_index_one_is_told_so_and_leaves_nothing(location, moment, monkeypatch):
    meanwhile(monkeypatch, lambda: create(location, "id"), moment)
    with pytest.raises(AlreadyExists, match="id_idx"):
        create(location, "id")
    assert listed(location)[0].segments == 1
    assert len([*(Path(location.uri) / "_indices").iterdir()]) == 1


def killed(uri, branch):
    location = DatasetLocation.at(uri)

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    indexes.index_segments.commit_segments = die
    indexes.create_index(location, branch, IndexRequest("id"), LocalRunner(2))


@pytest.mark.parametrize("branch", [None, "exp"])
def test_killed_before_the_commit_nothing_is_visible_and_the_next_call_does_it(location, branch):
    create_branch(location, "exp", RefSpec())
    before = pin_latest(location, branch)
    process = processes().Process(target=killed, args=(location.uri, branch))
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL
    assert pin_latest(location, branch) == before
    assert listed(location, branch) == []
    assert create(location, "id", branch=branch).rows == ROWS
    check_answers(location.branch_uri(branch), "id", "btree")


def test_a_branch_that_is_merged_brings_its_new_index(location):
    create_branch(location, "exp", RefSpec())
    create(location, "id", branch="exp")
    table = LanceTable.for_path(location.uri)
    table.branches.merge("exp")
    assert [(each.name, each.rows_covered) for each in listed(location)] == [("id_idx", ROWS)]
    check_answers(location.uri, "id", "btree")


@pytest.mark.parametrize("known", [False, True], ids=["new", "beside"])
@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
def test_an_index_of_the_branch_that_a_branch_was_created_from_comes_with_a_merge(location, later, known):
    """The transaction that made it, and its files, belong to another branch than the one that is merged."""
    if known:
        create(location, "id")
    create_branch(location, "exp", RefSpec())
    append(location, ROWS, 600, "exp")
    create(location, "id", branch="exp")
    if later:
        append(location, 2100, 100, "exp")
    create_branch(location, "deep", RefSpec(branch="exp"))
    if later:
        append(location, 2200, 100, "deep")
    result = LanceTable.for_path(location.uri).branches.merge("deep")
    assert (result.indexes_carried, result.indexes_missing) == (("id_idx",), ())
    for name in ("deep", "exp"):
        delete_branch(location, name)
    (there,) = listed(location)
    assert (there.rows_covered, there.rows_uncovered) == (2100, 200 * later)
    check_answers(location.uri, "id", "btree")
    assert filtered(location.uri, "id >= 1498") == ([*range(1498, 2100 + 200 * later)],) * 2


def test_a_branchs_segment_of_an_index_that_main_has_comes_with_a_merge(location):
    """The branch indexed its own rows beside what it inherited."""
    create(location, "id")
    create_branch(location, "exp", RefSpec())
    append(location, ROWS, 600, "exp")
    create(location, "id", branch="exp")
    result = LanceTable.for_path(location.uri).branches.merge("exp")
    assert result.indexes_carried == ("id_idx",)
    (there,) = listed(location)
    assert (there.segments, there.rows_covered, there.rows_uncovered) == (2, 2100, 0)
    check_answers(location.uri, "id", "btree")
    assert filtered(location.uri, "id >= 1498") == ([*range(1498, 2100)],) * 2


def test_a_merge_does_not_bring_back_an_index_that_main_dropped(location):
    """The branch indexed its own rows: without main's segments, these would be an index of few rows."""
    create(location, "id")
    create_branch(location, "exp", RefSpec())
    append(location, ROWS, 600, "exp")
    optimize(location, "exp")
    indexes.drop_index(location, None, "id")
    result = LanceTable.for_path(location.uri).branches.merge("exp")
    assert (result.indexes_carried, result.indexes_missing) == ((), ("id_idx",))
    assert listed(location) == []


@pytest.mark.parametrize("other", [False, True], ids=["same", "other"])
@pytest.mark.parametrize("column", ["k", "v"])
def test_a_segment_with_other_parameters_is_left_out(location, column, other):
    """An index of the same name that was made in another way would answer differently."""
    create_branch(location, "exp", RefSpec())
    append(location, ROWS, 600, "exp")
    lance.dataset(location.branch_uri("exp")).delete(f"id < {ROWS}")
    if column == "k":
        kinds, settings = ("btree", "bitmap" if other else "btree"), ({}, {})
    else:
        kinds = ("ivf_flat", "ivf_flat")
        settings = tuple({"num_partitions": 2, "metric": name} for name in ("l2", "cosine" if other else "l2"))
    create(location, column, kinds[0], name="same", **settings[0])
    create(location, column, kinds[1], name="same", branch="exp", **settings[1])
    result = LanceTable.for_path(location.uri).branches.merge("exp")
    assert (result.indexes_carried, result.indexes_missing) == (((), ("same",)) if other else (("same",), ()))


def test_a_segment_whose_fragments_have_other_ids_in_main_is_left_out(location):
    create(location, "id")
    create_branch(location, "exp", RefSpec())
    append(location, ROWS, 600, "exp")
    create(location, "id", branch="exp")
    append(location, 9000, 600)
    result = LanceTable.for_path(location.uri).branches.merge("exp")
    assert (result.indexes_carried, result.indexes_missing) == ((), ("id_idx",))
    assert filtered(location.uri, "id >= 2098") == ([2098, 2099, *range(9000, 9600)],) * 2
    assert filtered(location.uri, "id = 1600") == ([1600],) * 2


def test_merged_rows_are_found_and_optimize_covers_them(location):
    create(location, "id")
    create_branch(location, "exp", RefSpec())
    append(location, ROWS, 600, "exp")
    create(location, "id", branch="exp")
    append(location, 9000, 10)
    LanceTable.for_path(location.uri).branches.merge("exp")
    assert filtered(location.uri, "id >= 2098") == ([2098, 2099, *range(9000, 9010)],) * 2
    optimize(location)
    (there,) = listed(location)
    assert (there.rows_covered, there.rows_uncovered) == (2110, 0)
    assert filtered(location.uri, "id >= 2098") == ([2098, 2099, *range(9000, 9010)],) * 2
