"""What results and refs show as a line, as text and in notebooks."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from lance_spark.catalog.name_rules import Catalog, Identifier, NamespaceInfo, Removed, TableInfo, catalog_card
from lance_spark.cleanup.report import CleanupReport, FleetReport, LakeReport, Upkeep, empty, failed
from lance_spark.clones.base_rules import BaseState, Relocated, Relocation
from lance_spark.columns.columns import AlterResult
from lance_spark.columns.fill_rules import BackfillResult
from lance_spark.core.lifetimes import EXPIRE_AFTER, Lifetime
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import Branch, PinnedVersion, RefSpec, RefTable, Tag, VersionInfo
from lance_spark.format.evolution import Evolution
from lance_spark.format.versions import Root
from lance_spark.indexes.index_rules import IndexInfo, IndexResult, IndexStats, SegmentInfo
from lance_spark.log.listing_rules import BranchList, TagList, listed_branches, listed_tags
from lance_spark.log.print_rules import RefNames, TableGlance, branches_card, remotes_card, table_card, tags_card
from lance_spark.merge.change_rules import MergeConflict
from lance_spark.merge.report import MergeResult, Summary
from lance_spark.optimize.compaction_rules import FlattenResult, OptimizePlan, OptimizeResult
from lance_spark.remotes.report import Fetched, FetchResult, PullResult, PushResult
from lance_spark.rows.action_rules import ChangeResult

pytestmark = pytest.mark.pure

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
MADE = "2026-01-02 03:04:05 UTC"
LEAKY = "https://me:hush-hush@host/t.lance?sig=hush-hush"
EVIL = "<script>x</script>"
LOCATION = DatasetLocation.at("s3://b/t.lance", {"aws_secret_access_key": "hush-hush"})

EXP, FIX = Branch("exp", None, 3, WHEN), Branch("fix", "exp", 4, WHEN)
V1, OLD = Tag("v1", "exp", 4, WHEN), Tag("old", None, 1)
SUMMARY = Summary(2, 1200, 3, 0, ("c",), (), 2, 2048)
MERGED = MergeResult("merge", "main", "exp@4", "main@3", 5, False, False, SUMMARY)
CLASH = replace(
    MERGED,
    version=None,
    dry_run=True,
    conflicts=(MergeConflict("both wrote <b>", "main@4", "exp@4", (7,), ("id: 1",)),),
)
FETCHED = FetchResult("origin", "s3://b/o", (Fetched("main", "origin/main", "updated", 3, 4, 9),))
PUSHED = PushResult("origin", "s3://b/o", "main", False, replace(MERGED, action="receive"))
REPORT = CleanupReport(
    "p-1",
    "s3://b/t.lance",
    False,
    ({"branch": "main", "kind": "data", "action": "delete", "reason": "old", "files": 2, "bytes": 10, "example": "d"},),
    versions={"main": {"removed": 1, "latest": 2}},
    warnings=("beware",),
)
FLEET = FleetReport([empty("a", "s3://b/a"), failed("z", "s3://b/z", "no access", 21)], True)
RELOCATED = Relocation(
    "s3://b/t.lance",
    (BaseState("exp", 1, "s3://old/t.lance", "old place", 3, target=Root("s3://b/t.lance")),),
    (Relocated("exp", 4, 5, 3),),
)
TABLE = TableInfo(Identifier(("ns", "t")), LOCATION, "t.lance", {"owner": "ops"}, True, True)

LINES = [
    (EXP, f"<Branch exp: from main@3, made {MADE}>"),
    (V1, f"<Tag v1: at exp@4, made {MADE}>"),
    (OLD, "<Tag old: at main@1>"),
    (MERGED, "<MergeResult: merge of exp@4 into main@5, one version>"),
    (replace(MERGED, fast_forward=True), "<MergeResult: merge of exp@4 into main@5, fast-forward>"),
    (replace(MERGED, up_to_date=True), "<MergeResult: merge of exp@4 into main@5, already up to date>"),
    (replace(MERGED, version=None), "<MergeResult: merge of exp@4 into main, would be one version>"),
    (CLASH, "<MergeResult: merge of exp@4 into main, 1 conflict>"),
    (FETCHED, "<FetchResult origin s3://b/o: brought origin/main>"),
    (replace(FETCHED, branches=(), dry_run=True), "<FetchResult origin s3://b/o: would bring nothing new>"),
    (PullResult(FETCHED, MERGED), "<PullResult origin s3://b/o: merge of exp@4 into main@5, one version>"),
    (PUSHED, "<PushResult origin s3://b/o: push of exp@4 into main@5, one version>"),
    (
        PushResult("origin", "s3://b/o", "new", True, None, dry_run=True),
        "<PushResult origin s3://b/o: branch 'new' would be created>",
    ),
    (REPORT, "<CleanupReport s3://b/t.lance: dry run: 2 files, 10 B would be deleted (plan p-1)>"),
    (FLEET, "<FleetReport: 2 tables: 0 files, 0 B deleted; 1 of them with problems>"),
    (LakeReport("s3://b", FLEET), "<LakeReport s3://b: 2 tables: 0 files, 0 B deleted; 1 with problems>"),
    (RELOCATED, "<Relocation s3://b/t.lance: 1 of 1 base paths were repaired>"),
    (
        Relocation("/t", (), ()),
        "<Relocation /t: No branch has a base path: nothing is read from anywhere else.>",
    ),
    (TABLE, "<TableInfo ns.t: in s3://b/t.lance, declared, without data>"),
    (NamespaceInfo(Identifier(()), {"a": "b"}), "<NamespaceInfo the root: 1 property>"),
    (Removed(Identifier(("t",)), "t.lance", {}, True), "<Removed t: its files still exist>"),
]
names = [type(value).__name__ for value, _ in LINES]


@pytest.mark.parametrize(("value", "line"), LINES, ids=names)
def test_every_value_is_one_line(value, line):
    assert repr(value) == line


@pytest.mark.parametrize("value", [value for value, _ in LINES], ids=names)
def test_every_value_has_text_and_html(value):
    assert str(value).strip()
    assert "hush-hush" not in f"{value!r} {value} {value._repr_html_()}"
    assert list(ElementTree.fromstring(value._repr_html_()).itertext())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (MERGED, "merge of exp@4: main@5 (since main@3)\n  +1,200 -3 rows; 2 files copied, 2.0 KiB; new columns: c"),
        (
            CLASH,
            "exp@4 cannot be combined with main:\n  - both wrote <b> (fragment 7): main@4 against exp@4\n      id: 1",
        ),
        (FETCHED, "Fetched from origin (s3://b/o):\nbranch       version\norigin/main  3 -> 4   updated"),
        (
            RELOCATED,
            "  ".join(["branch", "base path       ", "state    ", "files", "read from"]) + "\n" + "exp     s3:",
        ),
        (EXP, f"Branch exp\n  made from  main@3\n  made       {MADE}"),
        (BranchList([EXP, FIX]), f"branch  made from  made\nexp     main@3     {MADE}\nfix     exp@4      {MADE}"),
        (TagList([V1, OLD]), f"tag  version  made\nv1   exp@4    {MADE}\nold  main@1"),
        (BranchList(), "no branches"),
        (TagList(), "no tags"),
    ],
)
def test_texts(value, text):
    assert str(value).startswith(text)


def test_lists_of_refs_are_lists():
    branches = BranchList([EXP, FIX])
    assert branches == [EXP, FIX]
    assert [branch.name for branch in branches] == ["exp", "fix"]
    assert branches[:1] == [EXP]
    assert repr(branches) == f"[{EXP!r},\n {FIX!r}]"
    assert repr(BranchList()) == "[]"
    assert "2 branches" in branches._repr_html_()
    assert "1 tag<" in TagList([V1])._repr_html_()


def test_conflicts_are_a_table_in_html():
    cells = [cell.text for cell in ElementTree.fromstring(CLASH._repr_html_()).iter("td")]
    assert cells[-5:] == ["both wrote <b>", "main@4", "exp@4", "7", "id: 1"]


SEEN = TableGlance(
    PinnedVersion("exp", 4),
    VersionInfo(4, WHEN, {"total_rows": "1200", "total_files_size": "2048", "total_data_files": "1"}),
    tuple(f"c{number}" for number in range(14)),
)


def test_a_table_at_a_glance():
    card = table_card("LanceTable", "/t.lance", RefSpec(branch="exp"), SEEN)
    assert card.line() == "<LanceTable /t.lance: at exp@4, 1,200 rows, 2.0 KiB>"
    assert card.text().splitlines() == [
        "LanceTable /t.lance",
        "  at         exp@4, the newest version",
        f"  committed  {MADE}",
        "  rows       1,200",
        "  size       2.0 KiB in 1 data file",
        "  columns    14: c0, c1, c2, c3, c4, c5 and 8 more",
    ]


@pytest.mark.parametrize("ref", [RefSpec(tag="v1"), RefSpec(version=4), RefSpec(as_of=WHEN)])
def test_a_handle_that_stands_still_is_not_called_the_newest(ref):
    assert dict(table_card("LanceTable", "/t", ref, SEEN).facts)["at"] == "exp@4"


def test_what_a_manifest_does_not_say_is_left_out():
    seen = TableGlance(PinnedVersion(None, 4), VersionInfo(4, WHEN, {"total_rows": "many"}), ())
    assert table_card("LanceTable", "/t", RefSpec(), seen).line() == "<LanceTable /t: at main@4>"


def test_of_many_refs_some_are_shown():
    found = RefNames.of_tags([*(f"b{number:02}" for number in range(30)), "merged-0123456789abcdef"])
    assert found.shown == tuple(f"b{number:02}" for number in range(20))
    card = branches_card("Branches", "/t", RefNames.of_branches(found.listed, []), [EXP])
    assert card.text().startswith("Branches of /t: main and 30 branches\n")
    assert card.notes == ("10 more: list() has all",)
    card = tags_card("Tags", "/t", found, [V1])
    assert card.summary == "30 tags, and 1 that clones, merges, streams, frozen sets and the lake need"
    assert branches_card("Branches", "/t", RefNames(()), ()).line()
    plans = RefNames.of_branches(["exp", "frozen/s", "frozen/mine"], ["s", "frozen-s"])
    assert plans.shown == ("exp", "frozen/mine")
    summary = branches_card("Branches", "/t", plans, [EXP]).summary
    assert summary == "main and 2 branches, and 1 of frozen sets and the lake"
    assert branches_card("Branches", "/t", RefNames(()), ()).line() == "<Branches of /t: main only>"


def test_of_many_names_in_a_catalog_some_are_shown():
    catalog = Catalog(DatasetLocation.at("/lake"))
    card = catalog_card("LanceCatalog", catalog, ["ns"], [f"t{number}" for number in range(21)])
    assert card.text().startswith("LanceCatalog /lake\n  mode  compatibility: tables are rows of __manifest, or direct")
    assert "\n\nkind       name in the root\nnamespace  ns\n" in card.text()
    assert len(card.grids[0].rows) == 21
    assert card.notes == ("there are more than 20 tables in the root: list_tables() has all",)


def test_no_secret_of_a_foreign_uri_shows():
    base = BaseState("exp", 1, LEAKY, "absent", 3, target=Root(LEAKY), missing=("x",))
    shown = [
        FetchResult("origin", LEAKY, (), (f"cannot reach {LEAKY} {EVIL}",)),
        PushResult("origin", LEAKY, "main", True, MERGED),
        PullResult(FetchResult("origin", LEAKY, ()), MERGED),
        Relocation(LEAKY, (base,), (), (f"see {LEAKY}",)),
        FleetReport([failed("t", LEAKY, f"{EVIL} {LEAKY}", 20)], True),
        LakeReport(LEAKY, FleetReport([], False), [Upkeep("orphan", "d", "failed", error=f"{EVIL} {LEAKY}")]),
        replace(REPORT, dataset=LEAKY, warnings=(f"{EVIL} {LEAKY}",)),
        replace(TABLE, location=DatasetLocation.at(LEAKY)),
    ]
    cards = [remotes_card("Remotes", LEAKY, {"origin": LEAKY})]
    texts = [f"{value!r} {value} {value._repr_html_()}" for value in shown]
    texts += [f"{card.line()} {card.text()} {card.html()}" for card in cards]
    for text in texts:
        assert "hush-hush" not in text
        assert "host/t.lance" in text
    for value in shown:
        assert "<script" not in value._repr_html_()


PIN = PinnedVersion("exp", 7)
ONE_LINE = [
    (ChangeResult(PIN, 3, 2, 1, 2, 1228), "exp@7: 3 rows deleted, 2 updated, 1 inserted; 2 files, 1.2 KiB"),
    (ChangeResult(PIN), "exp@7: no row changed"),
    (BackfillResult(PIN, ("a",), 4, 1, 100, 2048), "a of exp@7: 4 fragments (1 computed before), 100 rows, 2.0 KiB"),
    (AlterResult(PIN, Evolution(pa.schema([]), ())), "exp@7: changed nothing"),
    (IndexResult(PIN, "id_idx", "btree", 10, 2, 0, 1024, "local"),
     "exp@7: id_idx (btree), 10 rows in 2 segments, 1.0 KiB, built on local"),
    (IndexInfo("id_idx", ("id",), "btree", 2, 1, 1, 0, 5),
     "id_idx: btree on id, 2 of 3 rows (66.6%), 1 segment, 5 B"),
    (OptimizeResult(PIN, OptimizePlan(PIN, (), 3)), "exp@7: nothing to rewrite"),
    (FlattenResult(PIN, 2, 2048, ("emb",)), "exp@7: 2 files copied, 2.0 KiB; indexes: emb"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "line"), ONE_LINE, ids=lambda value: type(value).__name__)
def test_a_result_is_one_line_in_the_shell_and_a_card_in_notebooks(value, line):
    assert str(value) == line
    assert repr(value) == f"<{type(value).__name__}: {line}>"
    cells = [cell.text for cell in ElementTree.fromstring(value._repr_html_()).iter("td")]
    assert "exp@7" in cells or "id_idx" in cells
    assert None not in cells


def test_a_lifetime_says_what_is_set():
    assert repr(Lifetime()) == "<Lifetime: nothing is set>"
    assert str(Lifetime()) == ""
    told = Lifetime(expire_after=timedelta(days=30), owner="me", protected=True)
    assert repr(told) == "<Lifetime: expires after 30d, owner me, protected>"
    assert {"30d", "me", "yes"} <= {cell.text for cell in ElementTree.fromstring(told._repr_html_()).iter("td")}


def test_an_index_in_detail_is_a_card_with_its_segments():
    info = ONE_LINE[5][0]
    stats = IndexStats(info, {"metric": "l2"}, (SegmentInfo("u-1", 2, (0,), 5, True, None),))
    assert repr(stats) == f"<IndexStats id_idx: {info}>"
    assert str(stats).splitlines()[1:] == ["  metric = l2", "  u-1: 2 rows, 5 B, inherited"]
    assert {"u-1", "l2", "another branch (inherited)"} <= {
        cell.text for cell in ElementTree.fromstring(stats._repr_html_()).iter("td")
    }


@pytest.mark.parametrize(
    ("made", "ref", "told"),
    [(BranchList, EXP, "newest version was committed"), (TagList, V1, "created or moved")],
    ids=["branches", "tags"],
)
def test_a_list_says_when_the_time_of_an_expiry_begins(made, ref, told):
    expiring = replace(ref, metadata={EXPIRE_AFTER: "30d"})
    assert told not in str(made([ref]))
    assert told in str(made([ref, expiring]))
    assert told in made([expiring])._repr_html_()


def test_lists_say_what_they_leave_out_and_have_it_when_asked():
    refs = RefTable(
        {name: replace(EXP, name=name) for name in ("exp", "frozen/s", "frozen/mine", f"transaction-{'0' * 32}")},
        {name: replace(V1, name=name) for name in ("v1", "s", "frozen-s", "stream-q", "reader-q", f"clone-{'0' * 16}")},
    )
    branches, tags = (
        listed_branches(refs.branches, refs.tags, everything=False),
        listed_tags(refs.tags, everything=False),
    )
    assert [branch.name for branch in branches] == ["exp", "frozen/mine", f"transaction-{'0' * 32}"]
    assert [tag.name for tag in tags] == ["s", "v1"]
    assert str(branches).endswith("note: 1 more of frozen sets and the lake: list(all=True) has them")
    assert str(tags).endswith(
        "note: 4 more of clones, merges, streams, frozen sets and the lake: list(all=True) has them"
    )
    assert "4 more" in tags._repr_html_()
    assert len(listed_branches(refs.branches, refs.tags, everything=True)) == 4
    assert "note" not in str(listed_tags(refs.tags, everything=True))
    assert len(listed_tags(refs.tags, everything=True)) == 6
