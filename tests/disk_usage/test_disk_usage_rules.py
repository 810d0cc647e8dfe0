"""What refs cost, from files and marks as values: who holds which version, which files go with which ref."""

import json

import pyarrow as pa
import pytest
from support.cleanup_files import marks
from support.cleanup_surveys import CLONE, ROOT, chain, fork, manifest, survey

from lance_spark.cleanup.reference_rules import MARKS
from lance_spark.cleanup.sweep_rules import FILES
from lance_spark.disk_usage.holder_rules import Costs, attribute, holders_of, portions
from lance_spark.disk_usage.report import CatalogStorage, StorageReport, lake_usage, nothing_there, usage_row
from lance_spark.errors import NotFound

pytestmark = pytest.mark.pure

MANIFEST = 100


def files(*rows):
    """FILES from (path, kind, chain, size); keys of data are their paths."""
    return pa.Table.from_pylist(
        [
            {"path": path, "kind": kind, "chain": at, "key": path, "local": path.split("tree/dev/")[-1], "size": size}
            for path, kind, at, size in rows
        ],
        FILES,
    )


def costs(seen, listed, spans=()):
    holders = holders_of(seen)
    roots = tuple(each.root for each in seen.chains)
    attributed = attribute(listed, _marks(spans), holders, roots)
    return Costs(seen, holders, portions(attributed)), holders


def _marks(spans):
    if not spans:
        return pa.Table.from_pylist([], MARKS)
    rows = [
        {"chain": at, "key": key, "local": key.split("tree/dev/")[-1], "first": first, "last": last}
        for at, key, first, last in spans
    ]
    return pa.Table.from_pylist(rows, MARKS)


def manifests(seen):
    return [(each.path(version), "manifest", at, MANIFEST) for at, each in seen.owned() for version in each.files]


def told(made):
    """(needed, owned, shared, freed) by kind and ref."""
    return {(each.kind, each.ref): (each.needed, each.owned, each.shared, each.freed) for each in made.refs()}


# --- who holds what

MAIN_AND_DEV = survey(
    chain(None, (1, 2, 3, 4)),
    chain("dev", (2, 3, 4)),
    branches=[fork("dev", 2)],
    tags=[("first", None, 1), ("on-dev", "dev", 3)],
    repositories=(ROOT,),
)


def held(seen, at, first, last=None):
    holders = holders_of(seen)
    ids = holders.chains[at].of_span(first, first if last is None else last)
    return {(holders.all[one].kind, holders.all[one].ref) for one in ids}


@pytest.mark.parametrize(
    ("at", "span", "expected"),
    [
        (0, (0, 0), {("tag", "first")}),
        (0, (1, 1), {("branch", "dev")}),
        (0, (2, 2), {("old versions", "main")}),
        (0, (3, 3), {("branch", "main")}),
        (0, (0, 3), {("tag", "first"), ("branch", "dev"), ("old versions", "main"), ("branch", "main")}),
        (0, (2, 3), {("old versions", "main"), ("branch", "main")}),
        (1, (0, 0), {("old versions", "dev")}),
        (1, (1, 1), {("tag", "on-dev")}),
        (1, (2, 2), {("branch", "dev")}),
    ],
)
def test_a_version_is_held_by_the_refs_at_it_or_is_an_old_one(at, span, expected):
    assert held(MAIN_AND_DEV, at, *span) == expected


def test_a_clone_holds_what_it_reads_and_its_tag_is_the_clone():
    seen = survey(
        chain(None, (1, 2)),
        chain(None, (1,), repository=1),
        tags=[("clone-1", None, 1), ("lost", None, 2)],
        recorded={"clone-1": CLONE, "lost": "/clones/gone.lance"},
    )
    assert held(seen, 1, 0) == {("clone", CLONE)}
    assert held(seen, 0, 0) == {("clone", CLONE)}
    assert held(seen, 0, 1) == {("branch", "main"), ("tag", "lost")}


def test_detached_versions_and_directories_without_a_ref_have_their_own_records():
    seen = survey(chain(None, (1, 2), detached=[manifest(9)]), chain("left", (1,), has_ref=False), repositories=(ROOT,))
    assert held(seen, 0, 2) == {("detached versions", "main")}
    assert held(seen, 1, 0) == {("directory without a ref", "left")}


# --- what goes with whom


def test_a_file_goes_with_the_only_ref_that_needs_it():
    listed = files(*manifests(MAIN_AND_DEV), ("data/a", "data", 0, 7), ("tree/dev/data/b", "data", 1, 20))
    made, _ = costs(MAIN_AND_DEV, listed, [(0, "data/a", 0, 3), (1, "data/a", 0, 2), (1, "tree/dev/data/b", 1, 2)])
    assert told(made) == {
        ("branch", "main"): (7 + 2 * MANIFEST, 7 + 4 * MANIFEST, 7, None),
        # Its fork version of main, its newest one and its old one; the tag keeps a version, and with it b.
        ("branch", "dev"): (27 + 3 * MANIFEST, 20 + 3 * MANIFEST, 27, 3 * MANIFEST),
        ("old versions", "main"): (7 + MANIFEST, None, 7, MANIFEST),
        ("old versions", "dev"): (7 + MANIFEST, None, 7, MANIFEST),
        ("tag", "first"): (7 + MANIFEST, None, 7, MANIFEST),
        ("tag", "on-dev"): (27 + MANIFEST, None, 27, MANIFEST),
    }


TWINS = survey(
    chain(None, (1, 2)),
    chain("one", (1, 2)),
    chain("two", (1, 2)),
    branches=[fork("one", 1), fork("two", 1)],
    repositories=(ROOT,),
)


def twins():
    listed = files(*manifests(TWINS), ("data/a", "data", 0, 50))
    return costs(TWINS, listed, [(0, "data/a", 0, 0), (1, "data/a", 0, 1), (2, "data/a", 0, 1)])


def test_what_two_branches_share_goes_with_both_and_with_neither_alone():
    made, holders = twins()
    report = StorageReport(ROOT, made.refs(), made.by_kind(), costs=made, holders=holders.all)
    one, two = report.ref("one"), report.ref("two")
    assert one.freed == two.freed == 2 * MANIFEST
    assert report.freed_by("one", "two") == 50 + 5 * MANIFEST
    assert report.freed_by("one") == one.freed
    assert report.freed_by() == 0
    with pytest.raises(NotFound):
        report.freed_by("three")


def test_old_versions_of_others_keep_nothing():
    seen = survey(chain(None, (1, 2, 3)), chain("dev", (2, 3)), branches=[fork("dev", 2)], repositories=(ROOT,))
    listed = files(("data/old", "data", 0, 9))
    made, _ = costs(seen, listed, [(0, "data/old", 0, 1)])
    assert told(made)["branch", "dev"][3] == 9
    assert told(made)["old versions", "main"][3] == 0


@pytest.mark.parametrize(
    ("path", "kind", "at", "freed_by_dev", "not_named"),
    [
        ("tree/dev/data/x", "data", 1, 5, 5),
        ("tree/dev/_versions/x", "unknown", 1, 5, 5),
        ("tree/dev/notes.txt", "unknown", 1, 0, 0),
        ("notes.txt", "unknown", 0, 0, 0),
        ("data/x", "data", 0, 0, 5),
    ],
)
def test_what_no_version_names_goes_with_a_cleanup_or_with_its_branch(path, kind, at, freed_by_dev, not_named):
    made, _ = costs(MAIN_AND_DEV, files((path, kind, at, 5)))
    records = {(each.kind, each.ref): each for each in made.refs()}
    assert records["branch", "dev"].freed == freed_by_dev
    loose = records["named by no version", ""]
    assert loose.owned == 5
    assert loose.freed == (0 if kind == "unknown" else not_named)


def test_a_mark_for_a_foreign_base_counts_for_every_file_of_that_name():
    made, _ = costs(MAIN_AND_DEV, files(("data/a", "data", 0, 5)), [(1, "*/data/a", 2, 2)])
    assert told(made)["branch", "dev"][0] == 5
    assert told(made)["branch", "main"][0] == 0


def test_evidence_of_earlier_runs_names_no_file():
    listed = files(("data/a", "data", 0, 5))
    holders = holders_of(MAIN_AND_DEV)
    attributed = attribute(listed, marks(leftovers=["data/a"]), holders, ("", "tree/dev"))
    assert [portion.holders for portion in portions(attributed)] == [frozenset()]


def test_kinds_add_up_and_tell_what_a_cleanup_would_take():
    listed = files(
        *manifests(MAIN_AND_DEV), ("data/a", "data", 0, 7), ("data/old", "data", 0, 3), ("n", "unknown", 0, 1)
    )
    made, _ = costs(MAIN_AND_DEV, listed, [(0, "data/a", 3, 3), (0, "data/old", 2, 2)])
    assert made.by_kind() == {
        "data": (2, 10, 3),
        "manifest": (7, 7 * MANIFEST, 2 * MANIFEST),
        "unknown": (1, 1, 0),
    }


def test_ref_files_are_held_by_their_refs():
    listed = files(
        ("_refs/branches/dev.json", "bookkeeping", 0, 11),
        ("_refs/tags/first.json", "bookkeeping", 0, 13),
        ("_versions/hint", "bookkeeping", 0, 17),
    )
    made = told(costs(MAIN_AND_DEV, listed)[0])
    assert made["branch", "dev"][0] == 11
    assert made["tag", "first"][0] == 13
    assert made["branch", "main"][0] == 17


def test_a_branch_with_children_says_what_has_to_go_first():
    seen = survey(
        chain(None, (1,)),
        chain("a", (1, 2)),
        chain("a/b", (2,)),
        branches=[fork("a", 1), fork("a/b", 2, "a")],
        repositories=(ROOT,),
    )
    records = {each.ref: each for each in costs(seen, files())[0].refs()}
    assert "a/b" in records["a"].obstacle
    assert records["a/b"].obstacle == ""
    assert records["main"].freed is None


# --- a catalog


def test_a_catalog_is_a_row_a_table_with_errors_as_rows():
    made, holders = twins()
    own = StorageReport(ROOT, made.refs(), made.by_kind(), costs=made, holders=holders.all)
    rows = [usage_row("t", own), nothing_there("empty", "/e"), nothing_there("bad", "/b", "no answer", 20)]
    report = CatalogStorage("/lake", rows, "local")
    assert (report.bytes, report.unneeded, report.exit_code) == (own.bytes, own.unneeded, 20)
    assert report.problems == [("bad", "no answer")]
    assert report.to_arrow().column_names[-1] == "exit_code"
    assert report.to_arrow()["branches"].to_pylist() == [2, 0, 0]
    parsed = json.loads(report.to_json())
    assert parsed["tables"][0]["report"]["bytes"] == own.bytes
    assert parsed["tables"][1]["report"] is None
    assert report.summary().endswith("1 table could not be looked at")
    assert "no answer" in str(report)
    assert "ref of the lake" not in str(report)


def test_a_ref_of_the_lake_is_the_sum_of_its_parts():
    rows = [
        {**nothing_there("a", "/a"), "lake_refs": [("01234567", 5), ("89abcdef", 1)]},
        {**nothing_there("b", "/b"), "lake_refs": [("01234567", 3)]},
    ]
    names = {"01234567": ("branch", "etl/nightly"), "0000aaaa": ("tag", "v1")}
    usages = lake_usage(rows, names)
    assert [(each.kind, each.ref, each.tables, each.freed) for each in usages] == [
        ("branch", "etl/nightly", 2, 8),
        ("left behind", "89abcdef", 1, 1),
        ("tag", "v1", 0, 0),
    ]
    report = CatalogStorage("/lake", rows, "local", usages)
    assert "etl/nightly" in str(report)
    assert json.loads(report.to_json())["lake_refs"][0]["freed"] == 8
