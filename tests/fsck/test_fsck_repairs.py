"""Datasets broken in many ways: each damage is found, repaired or named as beyond repair, and every repair undone."""

import json
import shutil
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import lance
import pytest
from support import broken_datasets as broken
from support import shaped_datasets
from support.broken_datasets import check, children, data, deletions, index, readable, ref, rich, state
from support.cleanup_datasets import BLOB_DIGITS, UUID, age, clean, manifest, place, put
from support.command_line import call
from support.local_datasets import numbers

from lance_spark import LanceTable
from lance_spark.core.records.reflog import LOG
from lance_spark.core.records.repair_record import LeaveOut, MendIndexes, Quarantine, RestoreRef
from lance_spark.core.ref_files import MAIN_FILE
from lance_spark.fsck.undo import undo
from lance_spark.storage.datasets import locate

REF, MOVE, INDEX, LEAVE = RestoreRef.kind, Quarantine.kind, MendIndexes.kind, LeaveOut.kind


class Case(NamedTuple):
    damage: Callable[[str], object]
    codes: set[str]
    steps: tuple[str, ...] = ()
    """Kinds of steps; none for what is beyond repair."""
    deep: bool = False
    on_main: bool = False
    make: Callable[[str], object] = rich


def json_in(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(path.read_text())
    return found


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json_in(path), **values}))


def half(path: Path, until: str) -> None:
    """As much of a file as a writer that was killed after some word leaves."""
    content = path.read_text()
    path.write_text(content[: content.index(until) + len(until)])


def twin(uri: str) -> None:
    """As a migration of manifest names does when it is killed."""
    shutil.copy(manifest(uri, 2), Path(uri, "_versions", "2.manifest"))


def other_twin(uri: str) -> None:
    Path(uri, "_versions", "2.manifest").write_bytes(manifest(uri, 1).read_bytes())


def many_deletions(uri: str) -> None:
    """So many that pylance writes a bitmap."""
    lance.write_dataset(numbers(20_000), uri, max_rows_per_file=10_000)
    lance.dataset(uri).delete("id < 9000 AND id % 3 != 0")
    assert deletions(uri).suffix == ".bin"


def columns(uri: str) -> None:
    rich(uri)
    lance.dataset(uri).add_columns({"twice": "id * 2"})


def bare_branch(uri: str) -> None:
    rich(uri)
    lance.dataset(uri).create_branch("bare")


def stable(uri: str) -> None:
    lance.write_dataset(numbers(60), uri, max_rows_per_file=20, enable_stable_row_ids=True)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).delete("id = 3")


def old_names(uri: str) -> None:
    lance.write_dataset(numbers(60), uri, max_rows_per_file=20, enable_v2_manifest_paths=False)
    lance.write_dataset(numbers(9, 200), uri, mode="append")
    lance.write_dataset(numbers(9, 300), uri, mode="append")


def misplaced(uri: str) -> None:
    """A branch whose index lies in the branch, and is looked for in main: pylance's compaction leaves it so."""
    lance.write_dataset(numbers(60), uri, max_rows_per_file=20)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).create_branch("dev")
    lance.dataset(place(uri, "dev")).optimize.compact_files(target_rows_per_fragment=100)


def ids_twice(uri: str) -> None:
    dataset = lance.dataset(uri)
    first, second = (fragment.metadata for fragment in dataset.get_fragments()[1:])
    second.row_id_meta = first.row_id_meta
    operation = lance.LanceOperation.Overwrite(dataset.schema, [first, second])
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version)


def all_data(uri: str) -> None:
    for path in Path(uri, "data").iterdir():
        path.unlink()


def column_file(uri: str) -> Path:
    """The file that holds a column that was added to the first fragment."""
    fragment = lance.dataset(uri).get_fragments()[0].metadata
    return Path(uri, "data", fragment.files[-1].path)


def gone_branch(uri: str) -> None:
    shutil.rmtree(Path(uri, "tree", "bare"))


def drop_versions(uri: str) -> None:
    shutil.rmtree(Path(uri, "tree", "dev", "_versions"))


def no_tag(uri: str) -> None:
    lance.dataset(uri).tags.delete("on-dev")


def lost_without_evidence(uri: str) -> None:
    no_tag(uri)
    ref(uri, "dev").unlink()


def orphan(path: str) -> Callable[[str], object]:
    return lambda uri: age(put(uri, path), 30)


def other_identity(uri: str) -> None:
    mapping = json_in(ref(uri, "dev"))["identifier"]
    mapping["version_mapping"][-1][1] = "0" * 32  # type: ignore[index]
    change(ref(uri, "dev"), identifier=mapping)


OLD_REPAIR = "_quarantine/20200101T000000.000000-0123abcd"


def moved_tag(uri: str) -> None:
    rich(uri)
    LanceTable.for_path(uri).tags.move("v3", version=4)


def changed(uri: str) -> Path:
    """The record of a changed ref."""
    return next(Path(uri, LOG).iterdir())


def with_blobs(uri: str) -> None:
    shaped_datasets.blobs(uri, "2.2")


def blob(uri: str, number: int, branch: str | None = None) -> Path:
    """A file with blobs: 0 is that of the one large blob, 1 that of several small ones."""
    return sorted(Path(place(uri, branch), "data").glob("*/*.blob"))[number]


def reversed_bytes(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])


CASES = {
    # manifests
    "old manifest empty": Case(lambda u: manifest(u, 2).write_bytes(b""), {"manifest-damaged"}, (MOVE,)),
    "old manifest cut off": Case(lambda u: broken.cut(manifest(u, 2), 30), {"manifest-damaged"}, (MOVE,)),
    "old manifest zeroed": Case(lambda u: manifest(u, 2).write_bytes(bytes(500)), {"manifest-damaged"}, (MOVE,)),
    "old manifest of another version": Case(broken.other_version, {"manifest-wrong-version"}, (MOVE,)),
    "tagged manifest cut off": Case(lambda u: broken.cut(manifest(u, 3), 30), {"manifest-damaged"}),
    "old manifest gone": Case(lambda u: manifest(u, 2).unlink(), set()),
    "tagged manifest gone": Case(lambda u: manifest(u, 3).unlink(), {"tag-dangling"}),
    "newest manifest damaged": Case(lambda u: reversed_bytes(manifest(u, 4)), {"manifest-damaged"}),
    "newest manifest damaged, on main": Case(
        lambda u: reversed_bytes(manifest(u, 4)), {"manifest-damaged"}, (MOVE,), on_main=True
    ),
    "newest manifest empty, on main": Case(
        lambda u: manifest(u, 4).write_bytes(b""), {"manifest-damaged"}, (MOVE,), on_main=True
    ),
    "newest manifest gone": Case(lambda u: manifest(u, 4).unlink(), {"versions-lost"}),
    "old manifest of a branch damaged": Case(
        lambda u: broken.cut(manifest(u, 4, "dev"), 30), {"manifest-damaged"}, (MOVE,)
    ),
    "newest manifest of a branch damaged, tagged": Case(
        lambda u: manifest(u, 5, "dev").write_bytes(bytes(500)), {"manifest-damaged"}, on_main=True
    ),
    "newest manifest of a branch damaged": Case(
        lambda u: (no_tag(u), manifest(u, 5, "dev").write_bytes(b"")), {"manifest-damaged"}, (MOVE,), on_main=True
    ),
    "the only manifest damaged": Case(
        lambda u: manifest(u, 1).write_bytes(b"x"),
        {"manifest-damaged"},
        on_main=True,
        make=lambda u: lance.write_dataset(numbers(3), u),
    ),
    "a manifest under both names": Case(twin, {"version-twice"}, (MOVE,)),
    "a manifest under both names, the older ones usual": Case(
        lambda u: shutil.copy(Path(u, "_versions", "2.manifest"), manifest(u, 2)),
        {"version-twice"},
        (MOVE,),
        make=old_names,
    ),
    "two manifests of one version": Case(other_twin, {"version-twice", "manifest-wrong-version"}, (MOVE,)),
    "a damaged manifest of the older names": Case(
        lambda u: broken.cut(Path(u, "_versions", "2.manifest")), {"manifest-damaged"}, (MOVE,), make=old_names
    ),
    # data files
    "data of main gone": Case(lambda u: data(u).unlink(), {"data-missing"}, (LEAVE, LEAVE)),
    "newest data of main gone": Case(lambda u: data(u, number=-1).unlink(), {"data-missing"}, (LEAVE,)),
    "newest data of main gone, on main": Case(
        lambda u: data(u, number=-1).unlink(), {"data-missing"}, (LEAVE,), on_main=True
    ),
    "data of a branch gone": Case(lambda u: data(u, "dev").unlink(), {"data-missing"}, (LEAVE,)),
    "data of a branch gone, on it": Case(lambda u: data(u, "dev").unlink(), {"data-missing"}, (LEAVE,), on_main=True),
    "data cut off": Case(lambda u: broken.cut(data(u, number=-1)), {"size-wrong"}, (LEAVE,)),
    "data empty": Case(lambda u: data(u, number=-1).write_bytes(b""), {"size-wrong"}, (LEAVE,)),
    "data longer": Case(
        lambda u: data(u, number=-1).write_bytes(data(u, number=-1).read_bytes() + b"x"), {"size-wrong"}, (LEAVE,)
    ),
    "end of a data file": Case(lambda u: broken.overwrite_tail(data(u)), {"data-damaged"}, (LEAVE, LEAVE), deep=True),
    "whole data file": Case(
        lambda u: data(u, number=-1).write_bytes(bytes(data(u, number=-1).stat().st_size)),
        {"data-damaged"},
        (LEAVE,),
        deep=True,
    ),
    "metadata of a data file": Case(
        lambda u: broken.overwrite_middle(data(u, "dev")), {"data-damaged"}, (LEAVE,), deep=True
    ),
    "all data gone": Case(all_data, {"data-missing"}, (LEAVE,)),  # dev has rows of its own
    "file of an added column gone": Case(lambda u: column_file(u).unlink(), {"data-missing"}, (LEAVE,), make=columns),
    "data of stable rows gone": Case(lambda u: data(u).unlink(), {"data-missing"}, (LEAVE,), make=stable),
    # files with blobs
    "a large blob gone": Case(lambda u: blob(u, 0).unlink(), {"blob-missing"}, deep=True, make=with_blobs),
    "a file of small blobs cut off": Case(
        lambda u: broken.cut(blob(u, 1)), {"blob-size-wrong"}, deep=True, make=with_blobs
    ),
    "a large blob longer": Case(
        lambda u: blob(u, 0).write_bytes(blob(u, 0).read_bytes() + b"x"),
        {"blob-size-wrong"},
        deep=True,
        make=with_blobs,
    ),
    "all blobs of a file gone": Case(
        lambda u: shutil.rmtree(blob(u, 0).parent),
        {"blob-missing"},
        deep=True,
        make=with_blobs,
    ),
    # deletion files
    "deletion file gone": Case(lambda u: deletions(u).unlink(), {"deletion-missing"}, (LEAVE, LEAVE)),
    "deletion file of a branch gone": Case(lambda u: deletions(u, "dev").unlink(), {"deletion-missing"}, (LEAVE,)),
    "deletion file empty": Case(lambda u: deletions(u, "dev").write_bytes(b""), {"size-wrong"}, (LEAVE,)),
    "a deletion file of nonsense": Case(
        lambda u: deletions(u, "dev").write_bytes(b"\1" * 100), {"deletion-damaged"}, (LEAVE,), deep=True
    ),
    "deletions of another fragment": Case(broken.shorter_deletions, {"deletion-count"}, (LEAVE, LEAVE), deep=True),
    "bitmap gone": Case(lambda u: deletions(u).unlink(), {"deletion-missing"}, (LEAVE,), make=many_deletions),
    "bitmap damaged": Case(
        lambda u: deletions(u).write_bytes(b"\xff" * 90), {"deletion-damaged"}, (LEAVE,), deep=True, make=many_deletions
    ),
    # indexes
    "index gone": Case(broken.drop_index, {"index-missing"}, (INDEX, INDEX)),
    "one file of an index gone": Case(lambda u: index(u).unlink(), {"index-missing"}, (INDEX, INDEX)),
    "index cut off": Case(lambda u: broken.cut(index(u)), {"index-size-wrong"}, (INDEX, INDEX)),
    "end of an index file": Case(
        lambda u: broken.overwrite_tail(index(u)), {"index-damaged"}, (INDEX, INDEX), deep=True
    ),
    "index in another place": Case(str, {"index-missing"}, (INDEX,), make=misplaced),
    "index of stable rows gone": Case(broken.drop_index, {"index-missing"}, (INDEX,), make=stable),
    "index and data gone": Case(
        lambda u: (broken.drop_index(u), data(u).unlink()),
        {"index-missing", "data-missing"},
        (INDEX, LEAVE),
        make=stable,
    ),
    # transactions
    "transaction gone": Case(lambda u: broken.transaction(u).unlink(), {"transaction-missing"}),
    "transaction empty": Case(lambda u: broken.transaction(u).write_bytes(b""), {"transaction-missing"}),
    # branches and tags
    "branch ref empty": Case(lambda u: ref(u, "dev").write_bytes(b""), {"ref-damaged"}, (REF,)),
    "branch ref half": Case(lambda u: half(ref(u, "dev"), '"parentVersion"'), {"ref-damaged"}, (REF,)),
    "branch ref of nonsense": Case(lambda u: ref(u, "dev").write_text("no"), {"ref-damaged"}, (REF,)),
    "branch ref a list": Case(lambda u: ref(u, "dev").write_text("[]"), {"ref-damaged"}, (REF,)),
    "branch ref with a wrong version": Case(lambda u: change(ref(u, "dev"), parentVersion=2), {"ref-wrong"}, (REF,)),
    "branch ref with a wrong parent": Case(
        lambda u: change(ref(u, "dev"), parentBranch="gone"), {"ref-wrong", "parent-gone"}, (REF,)
    ),
    "branch ref with another identity": Case(other_identity, {"ref-wrong"}, make=children),
    "ref of a parent empty": Case(lambda u: ref(u, "dev").write_bytes(b""), {"ref-damaged"}, (REF,), make=children),
    "branch ref gone, a tag names it": Case(
        lambda u: ref(u, "dev").unlink(), {"directory-without-ref", "tag-dangling"}, (REF,)
    ),
    "branch ref gone, a branch names it": Case(
        lambda u: (no_tag(u), ref(u, "dev").unlink()), {"directory-without-ref", "parent-gone"}, (REF,), make=children
    ),
    "branch ref gone": Case(lost_without_evidence, {"directory-without-ref"}),
    "nothing left of a branch": Case(gone_branch, {"branch-without-versions"}, (MOVE,), make=bare_branch),
    "versions of a branch gone": Case(drop_versions, {"branch-without-versions", "tag-dangling"}),
    "tag half": Case(lambda u: half(ref(u, "v3", "tags"), '"createdAt"'), {"ref-damaged"}, (REF,)),
    "tag empty": Case(lambda u: ref(u, "v3", "tags").write_bytes(b""), {"ref-damaged"}),
    "tag cut off in its number": Case(lambda u: half(ref(u, "v3", "tags"), '"version": 3'), {"ref-damaged"}),
    "tag at no version": Case(broken.tag_elsewhere, {"tag-dangling"}),
    "tag half, of no version": Case(
        lambda u: (broken.tag_elsewhere(u), half(ref(u, "v3", "tags"), '"createdAt"')), {"ref-damaged"}
    ),
    "two refs damaged": Case(
        lambda u: (ref(u, "dev").write_text("{"), half(ref(u, "on-dev", "tags"), '"createdAt"')),
        {"ref-damaged"},
        (REF, REF),
    ),
    "note of a clone half": Case(
        lambda u: half(next(Path(u, "_clones").iterdir()), '-clone"'), {"ref-damaged"}, (REF,)
    ),
    "note of a clone empty": Case(lambda u: next(Path(u, "_clones").iterdir()).write_bytes(b""), {"ref-damaged"}),
    "clone gone": Case(lambda u: shutil.rmtree(f"{u}-clone"), {"clone-gone"}),
    # row ids
    "row ids twice": Case(ids_twice, {"row-ids-twice"}, deep=True, make=stable),
    # records
    "settings of main half": Case(lambda u: put(u, MAIN_FILE, content=b"{"), {"main-settings-damaged"}),
    "record of a changed ref empty": Case(lambda u: changed(u).write_bytes(b""), {"reflog-damaged"}, make=moved_tag),
    "record of a changed ref half": Case(lambda u: half(changed(u), '"after"'), {"reflog-damaged"}, make=moved_tag),
    "ref file in a record of nonsense": Case(
        lambda u: change(changed(u), ref_file="{"), {"reflog-damaged"}, make=moved_tag
    ),
    "record of a changed ref under another name": Case(
        lambda u: changed(u).rename(changed(u).with_name("00000000000000000001-0123abcd.json")),
        {"reflog-misnamed"},
        make=moved_tag,
    ),
    "record of a changed ref under no name": Case(
        lambda u: changed(u).rename(changed(u).with_name("a.json")), {"reflog-misnamed"}, make=moved_tag
    ),
    "record of what is gone": Case(lambda u: ref(u, "v3", "tags").unlink(), set(), make=moved_tag),
    "half a record of a changed ref": Case(
        lambda u: put(u, f"{LOG}/00000000000000000001-0123abcd.json.{'0' * 32}.tmp"), {"record-unfinished"}
    ),
    "record of a repair half": Case(lambda u: put(u, f"{OLD_REPAIR}/record.json", content=b"{"), {"repair-damaged"}),
    "half a record of a repair": Case(
        lambda u: put(u, f"{OLD_REPAIR}/record.json.{'0' * 32}.tmp"), {"record-unfinished"}
    ),
    # leftovers
    "data of a killed job": Case(orphan("data/0123456789abcdef.lance"), {"uncommitted-files"}),
    "half an upload": Case(orphan("data/.tmp_0123"), {"uncommitted-files"}),
    "blobs of a killed job": Case(orphan(f"data/0123456789abcdef/{BLOB_DIGITS}.blob"), {"uncommitted-files"}),
    "deletions of a killed job": Case(orphan("_deletions/9-9-9.arrow"), {"uncommitted-files"}),
    "an index of a killed job": Case(orphan(f"_indices/{UUID}/index.idx"), {"uncommitted-files"}),
    "a transaction of a killed job": Case(orphan("_transactions/9-x.txn"), {"uncommitted-files"}),
    "a manifest that was not finished": Case(orphan("_versions/.tmp-9.manifest"), {"uncommitted-files"}),
}


def rows_by_fragment(uri):
    """Ids of the rows of each fragment, of every branch; before anything is broken."""
    branches = [None, *lance.dataset(uri).branches.list()]
    return {
        branch: {
            fragment.fragment_id: fragment.to_table(["id"])["id"].to_pylist()
            for fragment in lance.dataset(place(uri, branch)).get_fragments()
        }
        for branch in branches
    }


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("name", CASES)
def test_damage_is_found_repaired_or_named_and_the_repair_undone(uri, name):
    case = CASES[name]
    case.make(uri)
    if case.make is misplaced:
        rows = {}
    else:
        rows = rows_by_fragment(uri)
        refs = {path.name: json_in(path) for path in Path(uri, "_refs").rglob("*.json")}
    case.damage(uri)
    before = state(uri)

    planned = check(uri, case.deep, case.on_main)
    assert {finding.code for finding in planned.findings} == case.codes
    assert tuple(step.kind for step in planned.repair.steps) == case.steps, planned.repair
    assert all(one.why for one in planned.repair.beyond)
    if not case.steps:
        assert {one.finding for one in planned.repair.beyond} == set(planned.findings)
    assert state(uri) == before  # a plan changes nothing

    done = check(uri, case.deep, case.on_main, execute=True).repaired
    assert done.complete, done
    assert bool(done.record) == bool(case.steps)
    if not case.steps:
        assert state(uri) == before
        return
    for step in planned.repair.steps:
        if isinstance(step, LeaveOut):
            left = [ids for fragment, ids in rows[step.branch].items() if fragment not in step.fragments]
            assert readable(uri, step.onto) == sorted(chain(*left))
        elif isinstance(step, MendIndexes) and LEAVE not in case.steps:
            found = lance.dataset(place(uri, step.branch))
            assert found.to_table(filter="id = 5")["id"].to_pylist() == [5]
            assert bool(found.list_indices()) == bool(step.moved)
        elif isinstance(step, RestoreRef) and step.path.startswith("_refs/"):
            path = Path(uri, step.path)
            kept = {"parentBranch", "parentVersion", "branch", "version", "manifestSize"}
            said = json_in(path)
            made = refs[path.name].get("createAt", 0)
            assert said.get("createAt", 0) in range(made - 5, made + 1)  # the first version is a little older
            assert {key: said[key] for key in kept & said.keys()} == {
                key: value for key, value in refs[path.name].items() if key in kept
            }
            assert lance.dataset(uri).branches.list().keys() >= {"dev"}
            assert "v3" in lance.dataset(uri).tags.list()
    again = check(uri, case.deep, case.on_main)
    assert again.repair.steps == ()  # all was done; what is left is beyond repair
    if case.steps and set(case.steps) <= {REF, MOVE}:
        assert again.findings == ()

    record = json.loads(Path(uri, "_quarantine", done.record, "record.json").read_text())
    assert record["software"].startswith("lance-spark ")
    assert all(Path(uri, file["to"]).stat().st_size == file["size"] for file in record["files"])
    taken = undo(locate(uri), done.record)
    assert taken.complete
    after = state(uri)
    assert not Path(uri, "_quarantine").exists()
    if (case.on_main and LEAVE in case.steps) or INDEX in case.steps:
        hints = {path for path in before if path.endswith("latest_version_hint.json")}
        assert {path: after[path] for path in before if path not in hints} == {
            path: content for path, content in before.items() if path not in hints
        }
        assert {finding.code for finding in check(uri, case.deep).findings} == case.codes
    else:
        assert after == before


def test_more_than_fifty_ways():
    assert len(CASES) > 50


def test_identities_come_back_from_branches_that_were_made_of_it(uri):
    children(uri)
    whole = json_in(ref(uri, "dev"))
    ref(uri, "dev").write_bytes(b"")
    check(uri, execute=True)
    assert json_in(ref(uri, "dev")) == whole


def test_a_repaired_branch_can_be_merged_and_main_is_sound_then(uri):
    from support.merge_datasets import run

    rich(uri)
    rows = rows_by_fragment(uri)[None]
    data(uri, number=-1).unlink()
    check(uri, execute=True)
    run(uri, source="repair/main-4")
    assert readable(uri, None) == sorted(chain(*(ids for one, ids in rows.items() if one != max(rows))))
    found = check(uri).findings
    assert "main" not in {ref for finding in found for ref in finding.refs}
    assert {finding.do for finding in found if "repair/main-4" in finding.refs} == {
        "Merge 'repair/main-4' if you have not, delete it (lance-git branch -d --purge repair/main-4), and clean up."
    }


def test_the_advice_about_a_lost_file_leads_to_a_sound_dataset(uri):
    lance.write_dataset(numbers(6), uri, max_rows_per_file=2)
    data(uri, number=-1).unlink()
    (finding,) = check(uri).findings
    assert "lance-git fsck --repair" in finding.do
    check(uri, execute=True)
    assert call(uri, "merge", "repair/main-1").code == 0
    assert len(readable(uri, None)) == 4
    clean(uri, retain_versions=1)
    (finding,) = check(uri).findings
    assert finding.refs == ("repair/main-1",)
    assert call(uri, *finding.do.partition("(lance-git ")[2].partition(")")[0].split(), "--yes").code == 0
    clean(uri, retain_versions=1)
    assert check(uri).findings == ()


def test_damage_that_only_old_versions_have_goes_with_a_cleanup(uri):
    for start in (0, 10):
        lance.write_dataset(numbers(2, start), uri, mode="overwrite")
    data(uri, number=0).unlink()
    (finding,) = check(uri).findings
    assert (finding.refs, finding.do) == (
        ("old versions of main",),
        "Restore the file; or clean up, which removes these versions in time.",
    )
    clean(uri, retain_versions=1)
    assert check(uri).findings == ()


def test_a_cleanup_leaves_the_quarantine_alone(uri):
    rich(uri)
    manifest(uri, 2).write_bytes(b"")
    done = check(uri, execute=True).repaired
    for path in Path(uri, "_quarantine").rglob("*"):
        age(path, 100)
    clean(uri, retain_versions=1, error_if_tagged_old_versions=False)
    lance.dataset(uri).cleanup_old_versions(delete_unverified=True, error_if_tagged_old_versions=False)
    undo(locate(uri), done.record)
    assert manifest(uri, 2).read_bytes() == b""


def test_a_table_is_repaired_in_python(uri):
    rich(uri)
    ref(uri, "dev").write_bytes(b"")
    table = LanceTable.for_path(uri)
    assert [step.kind for step in table.repair(dry_run=True).repair.steps] == [REF]
    assert ref(uri, "dev").read_bytes() == b""
    report = table.repair()
    assert "1 of 1 step done" in str(report)
    assert table.fsck().sound
    assert "undone" in str(table.undo_repair())
    assert ref(uri, "dev").read_bytes() == b""
