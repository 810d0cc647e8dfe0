"""A maintenance as text, JSON, page and metrics; names that would break any of them."""

import json
import re
from datetime import datetime, timezone
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from lance_spark.cleanup.report import Upkeep
from lance_spark.core import layout
from lance_spark.maintenance.policy_rules import (
    DONE,
    FAILED,
    LEFT,
    NOTHING,
    STOPPED,
    KindSize,
    Memory,
    Remembered,
    StepRecord,
    TableRecord,
    stopped,
)
from lance_spark.maintenance.report import MaintenanceReport, bars, legend, svg, to_html, to_prometheus

pytestmark = pytest.mark.pure

NASTY = 'ns.<script>alert("1")</script>&\'\\\n\x00'
SECRET = "s3://user:secret@bucket/lake?token=secret"
KINDS = {"data": KindSize(1000, 400), "manifest": KindSize(50, 50), "<i>": KindSize(7, 0)}
KIND_NAMES = {
    *("DATA", "BLOB", "INDEX", "DELETION", "MANIFEST", "TRANSACTION", "BOOKKEEPING", "STAGING", "UNKNOWN"),
}
WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


def table(name, *steps, uri="", **more):
    return TableRecord(name, uri or f"/lake/{name}", steps, **more)


def report(*tables, **more):
    more.setdefault("started", WHEN)
    return MaintenanceReport(more.pop("root", "/lake"), more.pop("executed", True), tables, **more)


CLEAN = StepRecord("cleanup", None, DONE, "3 files", files=3, freed=450)
DENIED = StepRecord("cleanup", None, FAILED, error="s3:DeleteObject on s3://b/ is missing", exit_code=21)
GONE_WRONG = StepRecord("compaction", "main", FAILED, error="a conflict", exit_code=12)


@pytest.mark.parametrize(
    ("tables", "code"),
    [
        ((), 0),
        ((table("a", CLEAN),), 0),
        ((table("a", StepRecord("cleanup", None, LEFT)),), 0),
        ((table("a", CLEAN), table("b", GONE_WRONG)), 6),
        ((table("a", GONE_WRONG),), 6),
        ((table("a", StepRecord("fsck", None, STOPPED, "damage")),), 6),
        ((table("a", error="no answer", exit_code=20), table("b", CLEAN)), 6),
        ((table("a", CLEAN, DENIED), table("b", CLEAN)), 21),
        ((table("a", CLEAN, DENIED), table("b", GONE_WRONG)), 6),
        ((table("a", error="denied", exit_code=21), table("b", stopped(StepRecord("cleanup"), "a is denied", 21))), 21),
        ((table("a", error="denied", exit_code=21), table("b", stopped(StepRecord("cleanup"), "damage", 22))), 6),
        ((table("a", error="no answer", exit_code=20), table("b", error="denied", exit_code=21)), 20),
    ],
)
def test_exit_codes(tables, code):
    made = report(*tables)
    assert (made.exit_code, made.complete) == (code, code == 0)


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ((), NOTHING),
        ((CLEAN,), DONE),
        ((CLEAN, StepRecord("expiry", None, LEFT)), LEFT),
        ((StepRecord("fsck", None, STOPPED), StepRecord("expiry", None, LEFT)), STOPPED),
        ((GONE_WRONG, CLEAN), FAILED),
    ],
)
def test_a_table_in_a_word(steps, state):
    assert table("a", *steps).state == state


def test_the_text_leaves_out_what_had_nothing_to_do_and_ends_with_one_line():
    text = str(
        report(
            table("a", CLEAN, StepRecord("expiry", None, NOTHING, "no ref's time is over")),
            table("b", GONE_WRONG, StepRecord("cleanup", None, LEFT, "1 file")),
        )
    )
    assert "no ref's time" not in text
    assert "b      compaction  main    failed: a conflict" in text
    assert "left for next time: 1 file" in text
    assert text.splitlines()[-1] == "2 tables: 1 step done, 450 B freed; 1 step left for next time; 1 problem"


def test_a_dry_run_says_so():
    planned = report(table("a", StepRecord("cleanup", freed=2048)), executed=False)
    assert str(planned).splitlines()[-1] == "dry run: 1 table: 1 step to do, 2.0 KiB would be freed"


def test_json_has_all_of_it():
    made = report(
        table("a", CLEAN, kinds=KINDS, findings={"warning": 1}, told=("a warning",)),
        catalog=(Upkeep("orphan", "x", "done", 1, 5),),
        notes=("n",),
    )
    told = json.loads(made.to_json())
    assert told["freed_bytes"] == 455
    assert told["tables"][0]["kinds"]["data"] == {"owned_bytes": 1000, "freed_bytes": 400}
    assert told["tables"][0]["steps"][0]["files"] == 3
    assert told["started"] == "2026-01-02T03:04:05+00:00"


class Tags(HTMLParser):
    """Tags and the text between them."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts, self.sources = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.sources += [value for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_data(self, data):
        self.texts.append(data)


def page(made):
    read = Tags()
    text = to_html(made)
    read.feed(text)
    read.close()
    return text, read


def test_no_name_and_no_error_becomes_markup_and_nothing_is_loaded_from_elsewhere():
    made = report(
        table(NASTY, StepRecord("fsck", None, STOPPED, NASTY), kinds=KINDS, told=(NASTY,)),
        table("b", error=NASTY, exit_code=1),
        root=SECRET,
        catalog=(Upkeep(NASTY, NASTY, NASTY, what=NASTY, error=NASTY),),
        notes=(NASTY,),
    )
    text, read = page(made)
    assert "script" not in read.tags
    assert "i" not in read.tags
    assert read.sources == []
    assert any("<script>" in each for each in read.texts)
    assert "secret" not in text
    assert not re.search(r"https?://|@import|url\(", text)


def test_the_page_shows_what_was_left_and_what_went_wrong():
    _, read = page(report(table("a", StepRecord("cleanup", None, LEFT, "9 files")), table("b", GONE_WRONG)))
    assert "Left for next time" in read.texts
    assert "compaction of main: a conflict" in read.texts
    assert "Bytes by kind of file" not in read.texts


def test_the_chart_is_sound_xml_with_a_bar_for_each_kind():
    drawn = ElementTree.fromstring(svg([table(NASTY, kinds=KINDS)], executed=True))
    rects = drawn.findall(".//rect")
    titles = [rect.find("title").text for rect in rects]
    assert titles == [
        "data: 1,000 B before",
        "manifests of versions: 50 B before",
        "<i>: 7 B before",
        "data: 400 B freed",
        "manifests of versions: 50 B freed",
    ]
    widths = [float(rect.get("width")) for rect in rects]
    assert widths[3] == pytest.approx(widths[0] * 0.4, abs=0.02)
    assert svg([table("empty")], executed=True) == ""


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (StepRecord("fsck", why="never checked"), "would check: never checked"),
        (StepRecord("compaction", "main", why="9 fragments become about 1"), "would compact: 9 fragments become"),
        (StepRecord("indexes", "main", why="id_idx lacks 3 rows"), "would index: id_idx lacks 3 rows"),
        (StepRecord("expiry", why="tag a to delete"), "would expire refs: tag a to delete"),
        (StepRecord("cleanup", why="4 versions"), "would delete: 4 versions"),
        (StepRecord("fsck", None, STOPPED, "data/x: missing"), "damaged: data/x: missing"),
        (StepRecord("cleanup", None, STOPPED, "the check found damage"), "not done: the check found damage"),
        (CLEAN, "3 files"),
    ],
)
def test_a_step_says_what_it_does_or_why_not(step, text):
    assert step.text().startswith(text)


def test_a_problem_says_what_to_do():
    step = StepRecord("cleanup").failed("2 tagged versions match.", "Keep them.", 8)
    assert step.problem == "cleanup: 2 tagged versions match. Keep them."
    _, read = page(report(table("a", step)))
    assert "cleanup: 2 tagged versions match. Keep them." in read.texts
    of_a_library = StepRecord("fsck").failed("Unable to locate credentials", "Set them.", 20)
    assert of_a_library.problem == "fsck: Unable to locate credentials. Set them."


def test_a_size_says_which_tables_it_leaves_out():
    """A table whose cleanup failed was not listed: it must not look like an empty one."""
    _, read = page(report(table("a", CLEAN, kinds=KINDS), table("b", GONE_WRONG), table("c")))
    assert "in files before the cleanup (1 of 3 tables listed)" in read.texts
    assert any("their files were not listed: b, c." in text for text in read.texts)
    assert read.texts.count("not listed") == 2
    assert "no data yet" in read.texts
    _, read = page(report(table("a", CLEAN, kinds=KINDS)))
    assert "in files before the cleanup" in read.texts
    assert not any("not listed" in text for text in read.texts)


def test_every_kind_of_file_has_words_and_only_others_share_a_colour():
    kinds = [value for name, value in vars(layout).items() if name in KIND_NAMES]
    drawn = legend([table("a", kinds=dict.fromkeys(kinds, KindSize(1, 0)))])
    told = dict(re.findall(r'background:(#\w+)"></span>([^<]+)', drawn))
    assert len(kinds) == len(KIND_NAMES)
    assert drawn.count("background:#888888") == 2  # what no version names
    assert len(told) == len(kinds) - 1
    assert not {"bookkeeping", "unknown", "staging"} & set(told.values())


def test_many_tables_are_one_more_pair_of_bars():
    tables = [table(f"t{number:03}", kinds={"data": KindSize(1000 - number, 1)}) for number in range(100)]
    shown = bars(tables)
    assert [each.name for each in shown[:2]] == ["t000", "t001"]
    assert shown[-1].name == "60 smaller tables"
    assert sum(each.owned for each in shown) == sum(each.owned for each in tables)
    assert shown[-1].kinds["data"].freed == 60


LINE = re.compile(r'([a-z_]+)\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (-?[0-9.e+]+)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\\n]|\\["\\n])*)"')


def metrics(text):
    """Samples by name and labels, read as the format's specification says; help and type come once, and first."""
    samples, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            assert name not in types
            types[name] = kind
            continue
        name, labels, value = LINE.fullmatch(line).groups()
        assert types[name] == "gauge"
        read = {
            key: re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), text)
            for key, text in LABEL.findall(labels)
        }
        samples[name, tuple(sorted(read.items()))] = float(value)
    return samples


def test_metrics_are_in_the_text_format():
    memory = Memory({"/a": Remembered(1234, sound=False, left=2)})
    made = report(table(NASTY, CLEAN, kinds=KINDS, uri="/a"), table("b"), seconds=1.5, memory=memory, root=SECRET)
    text = to_prometheus(made)
    assert text.endswith("\n")
    assert "secret" not in text
    read = metrics(text)
    (name,) = {dict(labels)["table"] for _, labels in read if dict(labels).get("table", "b") != "b"}
    assert name == NASTY

    def value(metric, **labels):
        (found,) = (
            number
            for (key, of), number in read.items()
            if key == f"lance_maintenance_{metric}" and labels.items() <= dict(of).items()
        )
        return found

    assert value("duration_seconds") == 1.5
    assert value("last_run_timestamp_seconds") == WHEN.timestamp()
    assert value("table_freed_bytes", table=NASTY) == 450
    assert value("table_owned_bytes", table=NASTY, kind="data") == 1000
    assert value("table_steps", table=NASTY, state="done") == 1
    assert value("table_steps", table=NASTY, state="failed") == 0
    assert value("table_sound", table=NASTY) == 0
    assert value("table_checked_timestamp_seconds", table=NASTY) == 1234
    assert value("table_runs_left", table=NASTY) == 2
    assert not [labels for key, labels in read if key.endswith("table_sound") and ("table", "b") in labels]


def test_a_run_over_nothing_still_has_the_metrics_of_the_run():
    read = metrics(to_prometheus(report()))
    assert {name for name, _ in read} == {
        f"lance_maintenance_{name}"
        for name in ("last_run_timestamp_seconds", "duration_seconds", "executed", "finished", "complete")
    }


def test_a_report_of_a_run_that_goes_on_or_was_killed_says_so_everywhere():
    made = report(table("a", CLEAN), expected=3, seconds=60)
    assert (made.finished, made.complete, made.exit_code) == (False, False, 6)
    assert made.summary().startswith("unfinished, 1 of 3 tables: 1 step done")
    told = json.loads(made.to_json())
    assert (told["finished"], told["expected_tables"], told["complete"]) == (False, 3, False)
    read = to_html(made)
    assert "Unfinished: 1 of 3 tables so far." in read
    assert "this is after 60 s" in read
    samples = {name: value for (name, labels), value in metrics(to_prometheus(made)).items() if len(labels) == 1}
    assert samples["lance_maintenance_finished"] == 0
    assert samples["lance_maintenance_complete"] == 0  # as the JSON says; killed runs must not look complete


def test_a_report_of_a_run_that_has_ended_says_so():
    told = json.loads(report(table("a", CLEAN)).to_json())
    assert (told["finished"], told["expected_tables"], told["complete"]) == (True, 1, True)
    assert "nfinished" not in to_html(report(table("a", CLEAN)))
