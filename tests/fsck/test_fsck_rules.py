"""Checks and repairs as decisions over values: what needs what, what a finding means, what a repair would do."""

import json

import pyarrow as pa
import pytest

from lance_spark.catalog.doctor_rules import DEAD_ROW, UNREGISTERED, Finding
from lance_spark.cleanup.sweep_rules import FILES
from lance_spark.core.records import finding_codes
from lance_spark.core.records.repair_record import (
    Digest,
    LeaveOut,
    MendIndexes,
    Quarantine,
    RepairRecord,
    RestoreRef,
    SuspectFile,
    read_record,
)
from lance_spark.errors import CorruptData
from lance_spark.fsck import finding_rules as rules
from lance_spark.fsck.repair_rules import (
    DONE,
    LineFacts,
    ManifestFact,
    Outcome,
    RepairFacts,
    RepairResult,
    SegmentFact,
    plan_repair,
)
from lance_spark.fsck.report import CatalogFsckReport, FsckReport, TableCheck, checked_row, worst_tables_first

pytestmark = pytest.mark.pure

DATA, DELETION, INDEX, TXN = "data/a.lance", "_deletions/0-1-2.arrow", "_indices/u", "_transactions/1-x.txn"
QUESTION = rules.Question(frozenset({0}), frozenset({"/lost"}), left_before_ns=100)


def files(*rows):
    """(path, kind, key, size, modified) as FILES of main."""
    columns = {name: [] for name in FILES.names}
    for path, kind, key, size, modified in rows:
        for name, value in zip(FILES.names, (path, kind, 0, key, key, size, modified), strict=True):
            columns[name].append(value)
    return pa.table(columns, schema=FILES)


def needs(*rows):
    """(chain, key, file, base, size, rows, deleted) as NEEDED of the first version."""
    made = [
        {
            **dict.fromkeys(rules.NEEDED.names),
            "chain": chain,
            "key": key,
            "local": key,
            "file": file,
            "base": base,
            "first": 0,
            "last": 2,
            "size": size,
            "rows": count,
            "deleted": deleted,
        }
        for chain, key, file, base, size, count, deleted in rows
    ]
    return pa.Table.from_pylist(made, rules.NEEDED)


WHOLE = (0, DATA, None, None, 10, 5, None)
COMPARED = {
    "there": ([(DATA, "data", DATA, 10, 1)], [WHOLE], []),
    "missing": ([], [WHOLE], [(finding_codes.DATA_MISSING, DATA, 5)]),
    "of a deleted branch": ([], [(1, *WHOLE[1:])], []),
    "in a lost base": ([], [(0, DATA, None, "/lost", 10, 5, None)], []),
    "another size": ([(DATA, "data", DATA, 9, 1)], [WHOLE], [(finding_codes.SIZE_WRONG, DATA, 5)]),
    "size not recorded": ([(DATA, "data", DATA, 9, 1)], [(0, DATA, None, None, 0, 5, None)], []),
    "only its blobs": (
        [("data/a/0.blob", "blob", DATA, 10, 1)],
        [WHOLE],
        [(finding_codes.DATA_MISSING, DATA, 5)],
    ),
    "deletion file missing": (
        [],
        [(0, DELETION, None, None, 0, 5, 2)],
        [(finding_codes.DELETION_MISSING, DELETION, 5)],
    ),
    "deletion file empty": (
        [(DELETION, "deletion", DELETION, 0, 1)],
        [(0, DELETION, None, None, 0, 5, 2)],
        [(finding_codes.SIZE_WRONG, DELETION, 5)],
    ),
    "transaction missing": ([], [(0, TXN, None, None, 0, 0, None)], [(finding_codes.TRANSACTION_MISSING, TXN, 0)]),
    "transaction empty": (
        [(TXN, "transaction", TXN, 0, 1)],
        [(0, TXN, None, None, 0, 0, None)],
        [(finding_codes.TRANSACTION_MISSING, TXN, 0)],
    ),
    "file of an index missing": (
        [(f"{INDEX}/b", "index", INDEX, 3, 1)],
        [(0, INDEX, "a", None, 3, 0, None)],
        [(finding_codes.INDEX_MISSING, f"{INDEX}/a", 0)],
    ),
    "any file of an index": ([(f"{INDEX}/b", "index", INDEX, 3, 1)], [(0, INDEX, "", None, 0, 0, None)], []),
    "no file of an index": ([], [(0, INDEX, "", None, 0, 0, None)], [(finding_codes.INDEX_MISSING, INDEX, 0)]),
    "an index of another size": (
        [(f"{INDEX}/a", "index", INDEX, 2, 1)],
        [(0, INDEX, "a", None, 3, 0, None)],
        [(finding_codes.INDEX_SIZE_WRONG, f"{INDEX}/a", 0)],
    ),
    "something else missing": ([], [(0, "x/y", None, None, 0, 4, None)], [(finding_codes.OTHER_MISSING, "x/y", 4)]),
    "left over": ([(DATA, "data", DATA, 10, 1)], [], [(finding_codes.UNCOMMITTED, DATA, 0)]),
    "young": ([(DATA, "data", DATA, 10, 100)], [], []),
    "bookkeeping": ([("_refs/tags/a.json", "bookkeeping", "_refs/tags/a.json", 10, 1)], [], []),
    "in the quarantine": ([("_quarantine/r/0-a", "bookkeeping", "_quarantine/r/0-a", 10, 1)], [], []),
}


@pytest.mark.parametrize(("there", "needed", "expected"), COMPARED.values(), ids=COMPARED)
def test_files_against_needs(there, needed, expected):
    found = rules.compare(files(*there), needs(*needed), QUESTION).to_pylist()
    assert [row["files"] for row in found if row["code"] == rules.COUNTED] == [len(there)]
    assert [(row["code"], row["path"], row["rows"]) for row in found if row["code"] != rules.COUNTED] == expected


def test_a_file_is_opened_once_and_hits_everybody_who_names_it():
    asked = []

    def look(insides):
        asked.extend(insides)
        return [(finding_codes.DATA_DAMAGED, "nonsense") for _ in insides]

    found = rules.compare(files((DATA, "data", DATA, 10, 1)), needs(WHOLE, WHOLE), QUESTION, look).to_pylist()
    assert asked == [rules.Inside(DATA, "data", 5, None)]
    assert [row["code"] for row in found] == [rules.COUNTED, finding_codes.DATA_DAMAGED, finding_codes.DATA_DAMAGED]


def test_what_is_known_to_be_wrong_is_not_opened():
    def look(insides):
        assert not insides
        return []

    rules.compare(files((DATA, "data", DATA, 9, 1)), needs(WHOLE), QUESTION, look)


def test_every_code_has_a_meaning_and_says_what_to_do():
    named = vars(finding_codes).items()
    own = {value for name, value in named if name.isupper() and name[0] != "_" and isinstance(value, str)}
    assert own - set(finding_codes.SEVERITIES) == set(finding_codes.MEANINGS)
    for meaning in finding_codes.MEANINGS.values():
        assert meaning.severity in finding_codes.SEVERITIES
        assert meaning.says.endswith(".")
        assert meaning.do.endswith(".")


# Plans

FILE = Digest("_versions/2.manifest", 3, "ab")
HINT = Digest("_versions/latest_version_hint.json", 3, "cd")
LOST = SuspectFile(DATA, "data", 10, 5)


def finding(code, path=DATA, *refs, files=1):
    return rules.CheckFinding(code, path, refs or ("main",), files=files)


def line(branch=None, version=7, count=2, **facts):
    facts.setdefault("fragments", {3: (LOST,)})
    return LineFacts(branch, version, count=count, **facts)


def segment(found=False, base=None):
    return SegmentFact("u", "id_idx", f"{INDEX}/a", found, base)


MISSING, BAD_INDEX = finding(finding_codes.DATA_MISSING), finding(finding_codes.INDEX_MISSING, f"{INDEX}/a")
DAMAGED = finding(finding_codes.MANIFEST_DAMAGED, FILE.path, "old versions of main")
NEWEST = finding(finding_codes.MANIFEST_DAMAGED, FILE.path, "main")
REF = finding(finding_codes.REF_DAMAGED, "_refs/branches/dev.json", "dev")
WRITTEN = RestoreRef(REF.path, "{}", "its first version", None)


def manifests(newest=False, others=2):
    return {"manifests": {FILE.path: ManifestFact(FILE, None, newest, HINT, others)}}


LEFT = LeaveOut(None, 7, "repair/main-7", (3,), (LOST,), 5, finding_codes.DATA_MISSING)
PLANS = {
    "nothing": ([], {}, False, [], []),
    "a fragment": ([MISSING], {"lines": (line(),)}, False, [LEFT], ["'main' itself stays"]),
    "a fragment, on main": (
        [MISSING],
        {"lines": (line(),)},
        True,
        [LeaveOut(None, 7, None, (3,), (LOST,), 5, finding_codes.DATA_MISSING)],
        [],
    ),
    "all fragments": ([MISSING], {"lines": (line(count=1),)}, False, [], ["readable; restore an older version"]),
    "a fragment, left out before": (
        [MISSING],
        {"lines": (line(),), "branches": frozenset({"repair/main-7"})},
        False,
        [],
        ["'repair/main-7' already is a branch without it"],
    ),
    "a repair that was killed": (
        [finding(finding_codes.DATA_MISSING, DATA, "repair/main-7")],
        {"lines": (line("repair/main-7"),)},
        False,
        [LeaveOut("repair/main-7", 7, "repair/main-7", (3,), (LOST,), 5, finding_codes.DATA_MISSING)],
        [],
    ),
    "a fragment of a branch that only a fetch writes to": (
        [finding(finding_codes.DATA_MISSING, DATA, "origin/x")],
        {"lines": (line("origin/x", closed="It follows."),)},
        True,
        [LeaveOut("origin/x", 7, "repair/origin/x-7", (3,), (LOST,), 5, finding_codes.DATA_MISSING)],
        ["merge the new branch"],
    ),
    "a fragment of a branch that is protected": (
        [finding(finding_codes.DATA_MISSING, DATA, "main")],
        {"lines": (line(protected=True),)},
        True,
        [LeaveOut(None, 7, "repair/main-7", (3,), (LOST,), 5, finding_codes.DATA_MISSING)],
        ["merge the new branch; it is protected"],
    ),
    "an index of a branch that is protected": (
        [BAD_INDEX],
        {"lines": (line(fragments={}, segments=(segment(),), protected=True),)},
        False,
        [MendIndexes(None, 7, (), ("u",), ("id_idx",))],
        [],
    ),
    "a file that only old versions name": (
        [finding(finding_codes.DATA_MISSING, DATA, "old versions of main")],
        {},
        False,
        [],
        ["old versions of main"],
    ),
    "a file that a tag names, too": (
        [finding(finding_codes.DATA_MISSING, DATA, "main", "tag v1")],
        {"lines": (line(),)},
        True,
        [LeaveOut(None, 7, None, (3,), (LOST,), 5, finding_codes.DATA_MISSING)],
        ["still named by tag v1"],
    ),
    "an index": (
        [BAD_INDEX],
        {"lines": (line(fragments={}, segments=(segment(),)),)},
        False,
        [MendIndexes(None, 7, (), ("u",), ("id_idx",))],
        [],
    ),
    "an index in another place": (
        [BAD_INDEX],
        {"lines": (line(fragments={}, segments=(segment(True, 4),)),)},
        False,
        [MendIndexes(None, 7, (("u", 4),), (), ("id_idx",))],
        [],
    ),
    "an index of a branch that is closed": (
        [BAD_INDEX],
        {"lines": (line(fragments={}, segments=(segment(),), closed="It follows."),)},
        False,
        [],
        ["'main': It follows."],
    ),
    "an index and a fragment: the version with both": (
        [BAD_INDEX, MISSING],
        {"lines": (line(segments=(segment(),)),)},
        False,
        [
            MendIndexes(None, 7, (), ("u",), ("id_idx",)),
            LeaveOut(None, 8, "repair/main-8", (3,), (LOST,), 5, finding_codes.DATA_MISSING),
        ],
        ["'main' itself stays"],
    ),
    "an old manifest": (
        [DAMAGED],
        manifests(),
        False,
        [Quarantine((FILE,), "no ref needs the version", finding_codes.MANIFEST_DAMAGED)],
        [],
    ),
    "a tagged manifest": (
        [finding(finding_codes.MANIFEST_DAMAGED, FILE.path, "tag v1")],
        manifests(),
        True,
        [],
        ["named by tag v1"],
    ),
    "the newest manifest": ([NEWEST], manifests(True), False, [], ["--on-main"]),
    "the newest manifest, on main": (
        [NEWEST],
        manifests(True),
        True,
        [
            Quarantine(
                (FILE, HINT), "the version before becomes the newest", finding_codes.MANIFEST_DAMAGED, None, newest=True
            )
        ],
        [],
    ),
    "the only manifest": ([NEWEST], manifests(True, 0), True, [], ["the only version"]),
    "a manifest of a clone": ([DAMAGED], {}, True, [], ["Restore the file"]),
    "a ref": ([REF], {"refs": {REF.path: WRITTEN}}, False, [WRITTEN], []),
    "a ref without evidence": ([REF], {"refs": {REF.path: "nobody knows"}}, False, [], ["nobody knows"]),
    "a lost ref": (
        [finding(finding_codes.NO_REF, "tree/dev"), finding(finding_codes.TAG_DANGLING, "v1")],
        {"refs": {REF.path: WRITTEN}, "lost_refs": {"dev": REF.path}, "tags": {"v1": "dev"}},
        False,
        [WRITTEN],
        [],
    ),
    "a tag of nothing": (
        [finding(finding_codes.TAG_DANGLING, "v1")],
        {"tags": {"v1": "main"}},
        False,
        [],
        ["Delete the tag, or move it."],
    ),
    "twins": (
        [finding(finding_codes.VERSION_TWICE, "main")],
        {"twins": {"main": (FILE,)}},
        False,
        [Quarantine((FILE,), "the same manifest exists under its other name", finding_codes.VERSION_TWICE)],
        [],
    ),
    "twins that differ": (
        [finding(finding_codes.VERSION_TWICE, "main")],
        {"twins": {"main": "differ"}},
        False,
        [],
        ["differ"],
    ),
    "a ref of nothing": (
        [finding(finding_codes.BRANCH_EMPTY, "dev")],
        {"empty": {"dev": FILE}},
        False,
        [Quarantine((FILE,), "nothing is left of the branch", finding_codes.BRANCH_EMPTY)],
        [],
    ),
    "a branch with files and without versions": (
        [finding(finding_codes.BRANCH_EMPTY, "dev")],
        {"empty": {"dev": "it has files"}},
        False,
        [],
        ["it has files"],
    ),
    "leftovers": ([finding(finding_codes.UNCOMMITTED)], {}, True, [], ["Run a cleanup."]),
    "row ids": (
        [finding(finding_codes.ROW_IDS_TWICE)],
        {},
        True,
        [],
        ["Restore an older version; if none is sound, write what can be read to a new dataset."],
    ),
}


@pytest.mark.parametrize(("found", "facts", "on_main", "steps", "beyond"), PLANS.values(), ids=PLANS)
def test_what_a_repair_would_do(found, facts, on_main, steps, beyond):
    plan = plan_repair("/t", found, RepairFacts(**facts), on_main)
    assert list(plan.steps) == steps
    assert len(plan.beyond) == len(beyond)
    for one, why in zip(plan.beyond, beyond, strict=True):
        assert why in one.why
    assert not plan.stopped
    assert all(str(step) in str(plan) for step in steps)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (finding(finding_codes.FILE_UNREACHABLE), "could not be examined"),
        (finding(finding_codes.DATA_MISSING, files=9), "too many"),
    ],
    ids=["unreachable", "too many"],
)
def test_what_stops_a_repair(found, why):
    plan = plan_repair("/t", [DAMAGED, found], RepairFacts(**manifests()), on_main=False)
    assert why in plan.stopped
    assert plan.steps
    assert "nothing can be done" in plan.summary()


def test_a_record_is_read_as_it_was_written():
    steps = tuple(step for _, _, _, planned, _ in PLANS.values() for step in planned)
    record = RepairRecord("r", "/t", "2026-01-01T00:00:00+00:00", "lance-spark 1", steps)
    read = read_record(record.to_json().encode())
    assert (read.id, read.made, read.software) == (record.id, record.made, record.software)
    assert [(type(one), one.path, one.why) for one in read.steps] == [(type(one), one.path, one.why) for one in steps]
    assert [kept.to for kept in read.kept()] == [kept.to for kept in record.kept()]
    assert len({kept.to for kept in record.kept()}) == len(list(record.kept()))


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format": 2}', b'{"format": 1}', b'{"format": 1, "steps": [{}]}'])
def test_a_record_that_makes_no_sense(content):
    with pytest.raises(CorruptData):
        read_record(content)


# Refs

SOUND = {
    "parentBranch": None,
    "identifier": {"version_mapping": [[4, "a" * 32]]},
    "parentVersion": 4,
    "createAt": 1700000000,
    "manifestSize": 600,
    "metadata": {"k": "v"},
}
TEXT = json.dumps(SOUND, indent=2)
TAG = '{\n  "branch": "dev",\n  "version": 12,\n  "createdAt": "2026-11-22T17:53:59Z",\n  "manifestSize": 7,\n'


def up_to(word):
    return TEXT[: TEXT.index(word)].encode()


BRANCHES = {
    "nothing at all": (b"", {}, "neither the file"),
    "its first version": (b"", {"first": rules.Origin(None, 4)}, {"parentBranch": None, "parentVersion": 4}),
    "what is left of the file": (
        up_to('"metadata"'),
        {},
        {"parentVersion": 4, "identifier": SOUND["identifier"], "createAt": 1700000000, "manifestSize": 600},
    ),
    "cut off in the number": (TEXT[: TEXT.index('"parentVersion": 4') + 18].encode(), {}, "neither the file"),
    "a wrong parent version": (
        TEXT.replace('"parentVersion": 4', '"parentVersion": 9').encode(),
        {"first": rules.Origin(None, 4)},
        {"parentVersion": 4, "metadata": {"k": "v"}, "createAt": 1700000000},
    ),
    "the identity that children know": (
        b"",
        {"first": rules.Origin(None, 4), "identities": ("b" * 32,)},
        {"identifier": {"version_mapping": [[4, "b" * 32]]}},
    ),
    "no identity": (b"", {"first": rules.Origin(None, 4)}, {"identifier": {"version_mapping": [[4, "new"]]}}),
    "two identities": (b"", {"first": rules.Origin(None, 4), "identities": ("a", "b")}, "different identities"),
    "ancestors": (
        b"",
        {"first": rules.Origin("dev", 5), "ancestors": ((4, "a" * 32),)},
        {"parentBranch": "dev", "identifier": {"version_mapping": [[4, "a" * 32], [5, "new"]]}},
    ),
    "a parent that is not known": (b"", {"first": rules.Origin("dev", 5), "ancestors": None}, "'dev'"),
    "not an object": (b"[]", {"first": rules.Origin(None, 4)}, {"parentVersion": 4}),
    "no text": (b"\xff\xfe", {"first": rules.Origin(None, 4)}, {"parentVersion": 4}),
}


@pytest.mark.parametrize(("remains", "facts", "expected"), BRANCHES.values(), ids=BRANCHES)
def test_the_ref_of_a_branch_from_what_is_known(remains, facts, expected):
    made = rules.restored_branch(rules.BranchEvidence(remains, **facts), "new")
    if isinstance(expected, str):
        assert isinstance(made, str)
        assert expected in made
    else:
        assert isinstance(made, rules.RestoredRef)
        content = json.loads(made.content)
        assert {key: content[key] for key in expected} == expected
        assert content.keys() == SOUND.keys()


TAGS = {
    "whole so far": (TAG, ("dev", 12)),
    "of main": (TAG.replace('"dev"', "null"), (None, 12)),
    "cut off in the number": (TAG[: TAG.index("12") + 1], None),
    "cut off behind the number": (TAG[: TAG.index("12") + 2], None),
    "cut off in the branch": (TAG[:16], None),
    "empty": ("", None),
}


@pytest.mark.parametrize(("text", "target"), TAGS.values(), ids=TAGS)
def test_what_is_left_of_a_tag(text, target):
    assert rules.tagged(text.encode()) == target
    made = rules.restored_tag(rules.TagEvidence(text.encode(), frozenset({("dev", 12)})), 99)
    assert isinstance(made, rules.RestoredRef) == (target == ("dev", 12))
    if isinstance(made, rules.RestoredRef):
        said = json.loads(made.content)
        assert (said["branch"], said["version"], said["manifestSize"]) == ("dev", 12, 7)
        assert said["createdAt"] == "2026-11-22T17:53:59Z"


def test_small_readings():
    assert rules.mapping(TEXT.encode()) == ((4, "a" * 32),)
    assert rules.mapping(b"{") == rules.mapping(b'{"identifier": 3}') == ()
    assert rules.clone_uri(b'{"uri": "/a b", "x"') == "/a b"
    assert rules.clone_uri(b'{"uri": "/a') is None
    assert (
        rules.contradiction(rules.Origin(None, 4), None)
        == rules.contradiction(rules.Origin(None, 4), rules.Origin(None, 4))
        == ""
    )
    assert "main@4" in rules.contradiction(rules.Origin(None, 4), rules.Origin("dev", 5))


# Reports


def test_exit_codes_after_a_repair():
    plain = FsckReport("/t", False, (MISSING,))
    plan = plan_repair("/t", [DAMAGED], RepairFacts(**manifests()), on_main=False)
    nothing, done = RepairResult("", ()), RepairResult("r", (Outcome("s", DONE),))
    partly = RepairResult("r", (Outcome("s", DONE), Outcome("t", "passed over", "changed")))
    assert plain.exit_code_after_repair(6) == 22
    assert plain.with_repair(plan, nothing).exit_code_after_repair(6) == 22
    assert plain.with_repair(plan, done).exit_code_after_repair(6) == 0
    assert plain.with_repair(plan, partly).exit_code_after_repair(6) == 6
    beyond = plan_repair("/t", [DAMAGED, MISSING], RepairFacts(**manifests()), on_main=False)
    assert plain.with_repair(beyond, done).exit_code_after_repair(6) == 6
    told = json.loads(plain.with_repair(beyond, partly).to_json())
    assert [step["kind"] for step in told["repair"]["steps"]] == ["quarantine"]
    assert told["repaired"]["complete"] is False


def test_the_report_of_a_catalog():
    sound = TableCheck.of(checked_row("b", "/b", FsckReport("/b", False, (), 3, 4)))
    damaged = TableCheck.of(checked_row("c", "/c", FsckReport("/c", False, (MISSING,), 1, 2)))
    row = {"table": "a", "uri": "/a", "report": None, "error": "no answer", "exit_code": 20}
    unknown = TableCheck.of(row)
    assert damaged.findings == (MISSING,)
    assert [check.table for check in worst_tables_first([sound, damaged, unknown])] == ["a", "c", "b"]
    dead = Finding(DEAD_ROW, "x", "There is no file.")
    for checks, findings, code in (
        ((sound,), (), 0),
        ((sound,), (Finding(UNREGISTERED, "x", ""),), 0),
        ((sound,), (dead,), 6),
        ((sound, unknown), (dead,), 20),
        ((sound, unknown, damaged), (), 22),
    ):
        report = CatalogFsckReport("/lake", checks, findings)
        assert (report.exit_code, report.sound) == (code, code == 0)
        assert json.loads(report.to_json())["exit_code"] == code
    assert "no answer" in str(CatalogFsckReport("/lake", (unknown, damaged), (dead,)))


# --- Blobs by reference

_DESCRIBED = pa.struct(
    [
        ("kind", pa.uint8()),
        ("position", pa.uint64()),
        ("size", pa.uint64()),
        ("blob_id", pa.uint32()),
        ("blob_uri", pa.string()),
    ]
)


def described(*rows):
    return pa.array([row and dict(zip(_DESCRIBED.names, row, strict=True)) for row in rows], _DESCRIBED)


@pytest.mark.parametrize(
    ("row", "found"),
    {
        "a whole object": ((3, 0, 0, 0, "s3://b/a%20b"), rules.Referred("s3://b/a%20b", 0, 1)),
        "a range": ((3, 10, 5, 0, "gs://b/k"), rules.Referred("gs://b/k", 15, 1)),
        "a local file": ((3, 0, 0, 0, "file:///a%20b/c"), rules.Referred("/a b/c", 0, 1)),
        "below a local base path": ((3, 0, 0, 7, "x/a b"), rules.Referred("/base/x/a b", 0, 1)),
        "below a base path in a store": ((3, 0, 0, 8, "x/a b?"), rules.Referred("s3://base/p/x/a%20b%3F", 0, 1)),
        "a base path that is not there": (
            (3, 0, 0, 9, "x"),
            rules.Referred("x", 0, 1, "The version has no base path 9, below which it is."),
        ),
        "a signed address": (
            (3, 0, 0, 0, "https://me:secret@host/k?signature=secret"),
            rules.Referred("https://host/k", 0, 1, "Objects at https: are not looked for."),
        ),
    }.values(),
)
def test_what_a_description_refers_to(row, found):
    assert rules.referred_objects([described(row, None, (0, 0, 6, 0, ""), (1, 0, 6, 1, ""))], BASES) == [found]


BASES = {7: "/base", 8: "s3://base/p"}


def test_ranges_of_one_object_are_looked_for_at_once():
    parts = [described((3, 10, 5, 0, "file:///base/x"), (3, 90, 10, 0, "file:///base/x")), described((3, 0, 0, 7, "x"))]
    assert rules.referred_objects(parts, BASES) == [rules.Referred("/base/x", 100, 3)]
    assert rules.referred_objects([described(None), pa.array([{"position": 1, "size": 2}])], BASES) == []


def test_objects_that_are_gone_too_short_or_out_of_reach():
    wanted = [
        rules.Referred("/a", 0, 1),
        rules.Referred("/b", 10, 2),
        rules.Referred("/c", 10, 3),
        rules.Referred("/d", 0, 4),
        rules.Referred("e", 0, 5, "No."),
    ]
    found = list(rules.referred_problems(wanted, {"/a": 0, "/b": 10, "/c": 9, "/d": None, "/e": None}))
    assert [(row["code"], row["path"], row["rows"], row["detail"]) for row in found] == [
        ("object-too-short", "/c", 3, "9 bytes instead of at least 10"),
        ("object-missing", "/d", 4, ""),
        ("file-unreachable", "e", 5, "No."),
    ]


def test_of_a_million_lost_objects_a_thousand_are_named():
    wanted = [rules.Referred(f"/{number}", 0, 2) for number in range(1_500)]
    found = list(rules.referred_problems(wanted, dict.fromkeys(one.path for one in wanted)))
    assert (len(found), found[-1]["files"], found[-1]["rows"]) == (1_001, 500, 1_000)
