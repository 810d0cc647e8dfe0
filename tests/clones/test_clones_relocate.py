"""Datasets that were moved or copied: branches read from where they are now, or the state is told as it is."""

import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import lance
import numpy as np
import pyarrow as pa
import pytest
from support.cleanup_datasets import NOW, clean, place
from support.local_datasets import contents, numbers
from support.meanwhile import meanwhile
from support.merge_datasets import add, assert_sound, exp, forked, head, ids, row_ids, rows, run
from support.remote_datasets import WAYS, fetched, made_clone
from support.shaped_datasets import PAYLOADS, blobs

from lance_spark.clones import relocate as relocating
from lance_spark.clones.base_rules import Relocation
from lance_spark.clones.clone import shallow_clone
from lance_spark.clones.relocate import relocate
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import InvalidOption, NotFound, Refused, StorageFailure
from lance_spark.log.log import log
from lance_spark.merge.restore import restore
from lance_spark.storage.datasets import locate, pin_latest

BRANCHES = (None, "exp", "exp/deep")
STABLE = pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])


def nested(uri: str, stable: bool = False) -> str:
    """A branch and a branch of it, each with rows deleted of every generation, and an index made on main."""
    forked(uri, stable)
    head(uri).delete("id = 3")
    head(uri).branches.delete("exp")
    head(uri).create_branch("exp")
    add(uri, 30, 35, "exp")
    exp(uri).delete("id IN (12, 31)")
    exp(uri).create_branch("exp/deep")
    add(uri, 40, 43, "exp/deep")
    head(uri, "exp/deep").delete("id IN (5, 22, 32)")
    exp(uri).tags.create("before", ("exp", exp(uri).version))
    return uri


def read(uri: str) -> dict:
    """Rows and row ids of the newest version of every branch, as pylance reads them."""
    return {branch: (rows(head(uri, branch)), row_ids(head(uri, branch))) for branch in BRANCHES}


def move(uri: str, name: str = "moved.lance") -> str:
    moved = str(Path(uri).with_name(name))
    shutil.move(uri, moved)
    return moved


def copy(uri: str, name: str = "copied.lance") -> str:
    copied = str(Path(uri).with_name(name))
    shutil.copytree(uri, copied)
    return copied


def heads(uri: str, *branches: str | None) -> list[int]:
    return [head(uri, branch).version for branch in branches or BRANCHES]


def states(found: Relocation) -> dict[tuple[str, str], str]:
    return {(base.branch or "main", Path(base.path).name): base.state for base in found.bases}


def bases_read(uri: str, branch: str | None) -> set[str]:
    """The places that the newest version of a branch has data files and deletion files in."""
    dataset = head(uri, branch)
    known = {base.id: base.path for base in dataset._ds.base_paths().values()}
    used = {file.base_id for found in dataset.get_fragments() for file in found.metadata.files}
    deletions = [found.metadata.deletion_file for found in dataset.get_fragments()]
    used |= {found.base_id for found in deletions if found is not None}
    return {known[key] for key in used if key is not None}


@STABLE
def test_after_a_move_every_branch_reads_from_where_it_is_now(uri, stable):
    before = read(nested(uri, stable))
    moved = move(uri)
    with pytest.raises((OSError, pa.ArrowInvalid)):
        head(moved, "exp").to_table()
    found = relocate(locate(moved), dry_run=False)
    assert [(one.branch, one.before) for one in found.branches] == [("exp", 7), ("exp/deep", 9)]
    assert read(moved) == before
    for branch in BRANCHES:
        assert_sound(head(moved, branch))
        assert "ScalarIndexQuery" in head(moved, branch).scanner(filter="id = 7").explain_plan()
    again = relocate(locate(moved))
    assert (again.branches, heads(moved)) == ((), [5, *(one.version for one in found.branches)])
    assert set(states(again).values()) == {"ok", "unused"}


@STABLE
def test_a_copy_lets_go_of_the_original_and_leaves_it_alone(uri, stable):
    before = read(nested(uri, stable))
    copied = copy(uri)
    assert bases_read(copied, "exp") == {uri}
    relocate(locate(copied))
    assert bases_read(copied, "exp/deep") == {copied, f"{copied}/tree/exp"}
    untouched = contents(uri)
    add(copied, 70, 72, "exp")
    head(copied, "exp/deep").delete("id = 0")
    assert contents(uri) == untouched
    shutil.rmtree(uri)
    now = read(copied)
    assert now[None] == before[None]
    assert [row["id"] for row in now["exp"][0]] == [*(row["id"] for row in before["exp"][0]), 70, 71]
    assert now["exp/deep"][0] == before["exp/deep"][0][1:]


@pytest.mark.parametrize("original", ["stays", "gone"])
def test_a_cleanup_after_it_keeps_what_is_needed(uri, original):
    before = read(nested(uri))
    copied = copy(uri)
    relocate(locate(copied))
    known = ()
    if original == "gone":
        shutil.rmtree(uri)
        with pytest.raises(Refused, match="known_bases"):
            clean(copied, older_than=NOW, delete_unverified=True, error_if_tagged_old_versions=False)
        known = (uri,)  # and so all below it
    head(copied).tags.delete("before")
    clean(copied, older_than=NOW, delete_unverified=True, keep_fork_versions=False, known_bases=known)
    assert read(copied) == before
    for branch in BRANCHES:
        assert_sound(head(copied, branch))


def test_a_dry_run_says_all_of_it_and_changes_nothing(uri):
    moved = move(nested(uri))
    before = contents(moved)
    found = relocate(locate(moved), dry_run=True)
    assert contents(moved) == before
    assert found.as_record() == {
        "action": "relocate",
        "dataset": moved,
        "bases": [
            _base("exp", uri, 4, ["id_idx"], moved),
            _base("exp/deep", uri, 3, ["id_idx"], moved),
            _base("exp/deep", f"{uri}/tree/exp", 2, [], f"{moved}/tree/exp"),
        ],
        "branches": [
            _branch("exp", 7, 4, 3, ["before"]),
            _branch("exp/deep", 9, 5, 3, []),
        ],
        "notes": list(found.notes),
        "dry_run": True,
    }
    assert uri in found.notes[0]
    done = relocate(locate(moved))
    assert [{**one.as_record(), "version": None} for one in done.branches] == found.as_record()["branches"]


def _base(branch, path, files, indexes, to):
    return {
        "branch": branch,
        "path": path,
        "state": "old place",
        "files": files,
        "indexes": indexes,
        "to": to,
        "missing": [],
    }


def _branch(branch, before, files, older, tags):
    return {
        "branch": branch,
        "before": before,
        "version": None,
        "files": files,
        "indexes": ["id_idx"],
        "indexes_missing": [],
        "older_versions": older,
        "tags": tags,
    }


def test_the_log_says_what_it_was_and_merges_go_on(uri):
    moved = move(nested(uri))
    relocate(locate(moved))
    entry = log(locate(moved), "exp")[0]
    assert (entry.action, entry.operation) == ("relocate", "Update")
    merged = run(moved, "exp/deep", "exp")
    assert (merged.summary.files, merged.summary.rows_added) == (4, 3)
    own = contents(f"{moved}/data")
    run(moved, "exp")
    assert ids(head(moved)) == sorted({*range(30), *range(30, 35), *range(40, 43)} - {3, 5, 12, 22, 31, 32})
    assert len(contents(f"{moved}/data")) == len(own) + 2
    shutil.rmtree(moved + "/tree")
    assert_sound(head(moved))


STEPS = ("register", "repoint_indexes", "repoint_fragments")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_was_interrupted_is_finished_by_the_next_run(uri, monkeypatch, step, when):
    before = read(nested(uri))
    moved = move(uri)
    real = getattr(relocating.base_commits, step)

    def interrupted(*given):
        if when == "after":
            real(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(relocating.base_commits, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            relocate(locate(moved))
    assert len(relocate(locate(moved)).branches) in (1, 2)
    assert read(moved) == before
    for branch in BRANCHES:
        assert_sound(head(moved, branch))


@pytest.mark.parametrize(
    "change",
    [
        lambda uri: exp(uri).delete("id >= 10 AND id < 20"),
        lambda uri: exp(uri).delete("id = 4"),
        lambda uri: exp(uri).optimize.compact_files(),
        lambda uri: exp(uri).drop_index("id_idx"),
    ],
    ids=["fragment gone", "rows gone", "compacted", "index gone"],
)
@STABLE
def test_versions_from_before_the_move_can_be_restored(uri, stable, change):
    nested(uri, stable)
    before, version = rows(exp(uri)), exp(uri).version
    change(uri)
    moved = move(uri)
    relocate(locate(moved))
    restore(locate(moved), PinnedVersion("exp", version), LocalRunner())
    assert rows(exp(moved)) == before
    assert_sound(exp(moved))
    assert {found["name"] for found in exp(moved).list_indices()} == {"id_idx"}
    assert not [base for base in relocate(locate(moved)).branches if base.branch == "exp"]


def test_what_only_pylance_can_restore_is_not_brought_back_from_nowhere(uri):
    nested(uri)
    version = exp(uri).version
    exp(uri).add_columns({"w": "id"})
    moved = move(uri)
    relocate(locate(moved))
    before = contents(moved)
    with pytest.raises(Refused, match="which does not exist"):
        restore(locate(moved), PinnedVersion("exp", version), LocalRunner())
    assert contents(moved) == before


MEANWHILE = {
    "append": lambda uri: add(uri, 90, 92, "exp"),
    "delete": lambda uri: exp(uri).delete("id = 1"),
    "update": lambda uri: exp(uri).update({"v": "-1"}, where="id = 2"),
    "compact": lambda uri: exp(uri).optimize.compact_files(),
    "index": lambda uri: exp(uri).create_scalar_index("v", "BTREE"),
    "drop the index": lambda uri: exp(uri).drop_index("id_idx"),
    "replace": lambda uri: lance.write_dataset(head(uri).to_table().slice(0, 4), place(uri, "exp"), mode="overwrite"),
    "restore": lambda uri: lance.dataset(place(uri, "exp"), version=6).restore(),
    "relocate": lambda uri: relocate(locate(uri)),
}


@pytest.mark.when(day=0.25)
@pytest.mark.parametrize("change", MEANWHILE)
@pytest.mark.parametrize(("step", "stable"), [*((step, False) for step in STEPS), ("repoint_fragments", True)])
def test_nobody_loses_a_commit_to_it(uri, monkeypatch, stable, step, change):
    copied = copy(nested(uri, stable))
    twin = copy(uri, "twin.lance")
    MEANWHILE[change](twin)
    waiting = meanwhile(monkeypatch, relocating.base_commits, step, lambda: MEANWHILE[change](copied))
    relocate(locate(copied))
    assert not waiting
    relocate(locate(copied))
    assert rows(exp(copied)) == rows(exp(twin))
    shutil.rmtree(uri)
    assert rows(exp(copied)) == rows(exp(copied))
    assert_sound(exp(copied))


def test_the_source_of_a_clone_is_left_alone_and_named_when_it_moved(uri):
    forked(uri)
    clone = str(Path(uri).with_name("clone.lance"))
    shallow_clone(locate(uri), pin_latest(locate(uri), None), locate(clone))
    add(clone, 50, 52)
    head(clone).create_branch("dev")
    expected = rows(head(clone, "dev"))
    clone = move(clone, "clone2.lance")
    found = relocate(locate(clone))
    assert states(found) == {
        ("main", "table.lance"): "elsewhere",
        ("dev", "table.lance"): "elsewhere",
        ("dev", "clone.lance"): "old place",
    }
    assert rows(head(clone, "dev")) == expected
    assert bases_read(clone, "dev") == {uri, clone}

    moved = move(uri)
    found = relocate(locate(clone))
    assert [base.state for base in found.problems] == ["absent", "absent"]
    assert not found.branches
    with pytest.raises(NotFound, match="No branch reads from"):
        relocate(locate(clone), f"{uri}-other", moved)
    before = contents(clone)
    with pytest.raises(Refused, match="needs 3 files not in"):
        relocate(locate(clone), uri, clone)
    assert contents(clone) == before
    found = relocate(locate(clone), uri, moved)
    assert [one.branch for one in found.branches] == [None, "dev"]
    assert rows(head(clone, "dev")) == rows(head(clone)) == expected
    assert bases_read(clone, "dev") == {moved, clone}
    for branch in (None, "dev"):
        assert_sound(head(clone, branch))


@pytest.mark.parametrize("way", WAYS)
def test_a_clone_goes_on_fetching_from_where_its_source_is_now(uri, way):
    add(forked(uri, stable=True), 30, 35, "exp")
    clone = str(Path(uri).with_name("clone.lance"))
    made_clone(uri, clone, way)
    clone, moved = move(clone, "clone2.lance"), move(uri)
    if way == "deep":  # it reads nothing of its source, and its branches name itself
        relocate(locate(clone))
    else:
        relocate(locate(clone), uri, moved)
    relocate(locate(moved))
    add(moved, 60, 62)
    exp(moved).delete("id = 4")
    fetched(clone, moved)
    assert ids(head(clone, "origin/main")) == [*range(30), 60, 61]
    assert ids(head(clone, "origin/exp")) == [number for number in range(35) if number != 4]
    for branch in (None, "origin/main", "origin/exp"):
        assert_sound(head(clone, branch))


def test_a_moved_source_names_the_clones_that_have_to_be_told(uri):
    nested(uri)
    clone = str(Path(uri).with_name("clone.lance"))
    shallow_clone(locate(uri), pin_latest(locate(uri), None), locate(clone))
    moved = move(uri)
    found = relocate(locate(moved))
    assert f"lance-git --dataset {clone} relocate --from {uri} --to {moved}" in found.notes[-1]
    assert len(relocate(locate(clone), uri, moved).branches) == 1
    assert_sound(head(clone))


@pytest.mark.parametrize("original", ["stays", "gone"])
def test_a_copy_that_lacks_files_is_told_and_left_alone(uri, original):
    copied = copy(nested(uri))
    lost = next(Path(copied, "data").iterdir())
    lost.unlink()
    shutil.rmtree(f"{copied}/tree/exp/data")
    shutil.rmtree(f"{copied}/tree/exp/_deletions")
    if original == "gone":
        shutil.rmtree(uri)
    before = contents(copied)
    found = relocate(locate(copied))
    assert contents(copied) == before
    assert states(found) == {
        ("exp", "table.lance"): "incomplete",
        ("exp/deep", "table.lance"): "incomplete",
        ("exp/deep", "exp"): "elsewhere" if original == "stays" else "absent",
    }
    assert f"data/{lost.name}" in found.bases[0].missing


def test_what_is_missing_of_one_place_is_missed_although_another_one_is_whole(uri):
    """The directory of a branch was not copied at all: its files must not go on being read from the original."""
    nested(uri)
    copied = copy(uri)
    for directory in ("data", "_deletions"):
        shutil.rmtree(f"{copied}/tree/exp/{directory}")
    found = relocate(locate(copied), dry_run=True)
    assert states(found)["exp/deep", "exp"] == "incomplete"
    assert [len(base.missing) for base in found.problems] == [2]


def test_file_of_another_size_is_not_the_same_file(uri):
    copied = copy(nested(uri))
    with open(next(Path(copied, "data").iterdir()), "ab") as file:
        file.write(b"x")
    assert {base.state for base in relocate(locate(copied), dry_run=True).problems} == {"incomplete"}


def by_hand(uri: str) -> str:
    """Data files with a name that anybody may give, and one that stores escape; and a branch."""
    for name in ("part-0.lance", "ü ~.lance"):
        lance.write_dataset(numbers(3), uri, mode="append" if os.path.exists(uri) else "create")
        dataset = lance.dataset(uri)
        found = dataset.get_fragments()[-1].metadata.to_json()
        target = Path(uri, "data", name if name.isascii() else "%C3%BC %7E.lance")
        Path(uri, "data", found["files"][0]["path"]).rename(target)
        found["files"][0]["path"] = name
        lance.LanceDataset.commit(
            uri,
            lance.LanceOperation.Update([], [lance.fragment.FragmentMetadata.from_json(_json(found))], [], []),
            read_version=dataset.version,
        )
    lance.dataset(uri).create_branch("exp")
    return uri


def _json(found):
    import json

    return json.dumps(found)


def test_names_that_are_given_by_hand_prove_nothing(uri):
    moved = move(by_hand(uri))
    found = relocate(locate(moved))
    assert [base.state for base in found.problems] == ["unclear"]
    assert not found.branches
    relocate(locate(moved), uri)
    assert exp(moved).to_table()["id"].to_pylist() == [0, 1, 2] * 2


def test_a_place_that_does_not_answer_is_not_taken_for_absent(uri, monkeypatch):
    from lance_spark.clones import relocate as base_paths

    forked(uri)
    clone = str(Path(uri).with_name("clone.lance"))
    shallow_clone(locate(uri), pin_latest(locate(uri), None), locate(clone))
    monkeypatch.setattr(base_paths.files, "exists", Mock(side_effect=StorageFailure("nobody answers")))
    found = relocate(locate(clone))
    assert [base.state for base in found.problems] == ["unreachable"]


def test_a_path_that_counts_from_the_reader_is_made_absolute(uri, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    forked("table.lance")
    head("table.lance", "exp").create_branch("exp/deep")
    add("table.lance", 60, 61, "exp/deep")
    monkeypatch.chdir("/")
    with pytest.raises((OSError, pa.ArrowInvalid)):
        exp(uri).to_table()
    found = relocate(locate(uri))
    assert set(states(found).values()) == {"relative", "unused"}
    assert (ids(exp(uri)), ids(head(uri, "exp/deep"))) == ([*range(30)], [*range(30), 60])
    assert_sound(exp(uri))


def test_bases_of_a_table_that_lie_elsewhere_stay_there(uri, tmp_path):
    flat, rooted = f"{uri}-flat", f"{uri}/inside"
    Path(flat).mkdir()
    bases = [lance.DatasetBasePath(flat, name="flat"), lance.DatasetBasePath(rooted, name="in", is_dataset_root=False)]
    lance.write_dataset(numbers(4), uri, initial_bases=bases, target_bases=["flat"])
    lance.write_dataset(numbers(4, 4), uri, mode="append", target_bases=["in"])
    head(uri).create_branch("exp")
    moved = move(uri)
    found = relocate(locate(moved))
    assert states(found) == {
        ("main", "table.lance-flat"): "elsewhere",
        ("main", "inside"): "old place",
        ("exp", "table.lance-flat"): "elsewhere",
        ("exp", "inside"): "old place",
        ("exp", "table.lance"): "unused",
    }
    for branch in (None, "exp"):
        assert head(moved, branch).to_table()["id"].to_pylist() == list(range(8))
        assert bases_read(moved, branch) == {flat, f"{moved}/inside"}


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_blobs_beside_data_files_come_along(uri, version):
    blobs(uri, version).create_branch("exp")
    copied = copy(uri)
    beside = next(Path(copied, "data").rglob("*.blob"), None)
    if beside is not None:
        kept = beside.rename(f"{uri}.blob")
        lost = str(beside.relative_to(copied))
        assert [base.missing for base in relocate(locate(copied)).problems] == [(lost,)]
        kept.rename(beside)
    relocate(locate(copied))
    shutil.rmtree(uri)
    found = exp(copied).to_table(blob_handling="all_binary")["payload"].to_pylist()
    assert found == PAYLOADS[1:] * 2


def test_an_index_that_was_not_copied_is_given_up_and_named(uri):
    copied = copy(nested(uri))
    shutil.rmtree(f"{copied}/_indices")
    head(copied).drop_index("id_idx")
    found = relocate(locate(copied))
    assert [one.dropped for one in found.branches] == [("id_idx",), ("id_idx",)]
    shutil.rmtree(uri)
    assert not exp(copied).list_indices()
    assert_sound(exp(copied))
    assert set(states(relocate(locate(copied))).values()) <= {"ok", "unused"}


def searchable(uri: str, stable: bool) -> None:
    """Indexes of four kinds, in two segments each, and a branch with deletions."""

    def some(start, stop):
        numbers = range(start, stop)
        return pa.table(
            {
                "id": pa.array(numbers, pa.int64()),
                "kind": pa.array([n % 7 for n in numbers], pa.int32()),
                "text": pa.array([f"word{n % 5} and more" for n in numbers]),
                "vector": pa.FixedSizeListArray.from_arrays(
                    pa.array(np.random.default_rng(start).random(8 * len(numbers)), pa.float32()), 8
                ),
            }
        )

    lance.write_dataset(some(0, 512), uri, max_rows_per_file=200, enable_stable_row_ids=stable)
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("kind", "BITMAP")
    dataset.create_scalar_index("text", "INVERTED")
    dataset.create_index("vector", "IVF_PQ", num_partitions=2, num_sub_vectors=2)
    lance.write_dataset(some(512, 562), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    lance.dataset(uri).create_branch("exp")
    exp(uri).delete("id IN (9, 33)")


def answers(dataset: lance.LanceDataset) -> list:
    near = {"column": "vector", "q": np.zeros(8, "float32"), "k": 5}
    return [
        dataset.to_table(filter="id = 34", columns=["id"]).to_pylist(),
        dataset.to_table(filter="kind = 3", columns=["id"])["id"].to_pylist(),
        sorted(dataset.to_table(full_text_query="word3", columns=["id", "_score"])["id"].to_pylist()),
        dataset.to_table(nearest=near, columns=["id", "_distance"])["id"].to_pylist(),
        sorted((found["name"], found["type"], sorted(found["fragment_ids"])) for found in dataset.list_indices()),
        {
            found["name"]: dataset.stats.index_stats(found["name"])["num_indexed_rows"]
            for found in dataset.list_indices()
        },
    ]


@STABLE
def test_every_kind_of_index_answers_as_before(uri, stable):
    searchable(uri, stable)
    before = answers(exp(uri))
    moved = move(uri)
    found = relocate(locate(moved))
    assert found.branches[0].indexes == ("id_idx", "kind_idx", "text_idx", "vector_idx")
    assert answers(exp(moved)) == before
    exp(moved).optimize.optimize_indices()
    assert answers(exp(moved))[:3] == before[:3]


def test_an_index_whose_fragments_were_renamed_later_answers_as_before(uri):
    """A deferred remap leaves a fragment reuse index, which a branch inherits as it does others."""
    forked(uri)
    head(uri).branches.delete("exp")
    head(uri).optimize.compact_files(target_rows_per_fragment=15, defer_index_remap=True)
    head(uri).create_branch("exp")
    before = rows(exp(uri))
    moved = move(uri)
    found = relocate(locate(moved))
    assert found.branches[0].indexes == ("id_idx",)
    assert rows(exp(moved)) == before
    assert_sound(exp(moved))


def test_an_index_that_a_compaction_left_in_the_branch_is_found_there(uri):
    """pylance writes an inherited index anew into the branch, and goes on looking for it in the parent."""
    forked(uri)
    exp(uri).optimize.compact_files()
    with pytest.raises((OSError, pa.ArrowInvalid)):
        exp(uri).to_table(filter="id = 7")
    expected = rows(exp(uri))
    found = relocate(locate(uri))
    assert states(found) == {("exp", "table.lance"): "misplaced index"}
    assert [(one.branch, one.files, one.indexes, one.older) for one in found.branches] == [("exp", 0, ("id_idx",), 0)]
    assert rows(exp(uri)) == expected
    assert_sound(exp(uri))
    assert not relocate(locate(uri)).branches


def test_files_that_another_branch_lent_follow(uri):
    """A merge by reference: main reads files of a branch, which is a base path like any other."""
    forked(uri)
    add(uri, 30, 35, "exp")
    add(uri, 35, 40)
    run(uri, reference=True)
    expected = rows(head(uri))
    moved = move(uri)
    found = relocate(locate(moved))
    assert states(found)["main", "exp"] == "old place"
    assert rows(head(moved)) == expected
    assert bases_read(moved, None) == {f"{moved}/tree/exp"}
    assert_sound(head(moved))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [(None, "/x", "without the old one"), ("tree/exp", None, "own place"), ("", None, "own place")],
)
def test_places_that_make_no_sense_are_refused(uri, old, new, words):
    forked(uri)
    with pytest.raises(InvalidOption, match=words):
        relocate(locate(uri), None if old is None else f"{uri}/{old}", new)


def test_a_dataset_without_branches_has_nothing_to_relocate(uri):
    lance.write_dataset(numbers(3), uri)
    found = relocate(locate(move(uri)))
    assert (found.bases, found.branches, found.notes) == ((), (), ())
