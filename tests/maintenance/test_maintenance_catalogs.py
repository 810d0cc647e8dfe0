"""Maintenance of whole lakes: what is done to which table and branch, in which order, and what stops it."""

import shutil
import time
from pathlib import Path
from unittest.mock import Mock

import lance
import pyarrow as pa
import pytest
from support.catalogs import ids_of, make_table
from support.cleanup_datasets import RUNNER, append, bytes_of, overwritten, place
from support.local_datasets import numbers

from lance_spark.catalog.lookup import create_namespace, open_catalog
from lance_spark.errors import Conflict, InvalidOption, NotFound
from lance_spark.maintenance import maintain as maintaining
from lance_spark.maintenance.maintain import Selection, UpkeepOptions, maintain, maintain_dataset
from lance_spark.maintenance.policy_rules import Memory, maintenance_policy
from lance_spark.refs.refs import alter_branch, alter_tag
from lance_spark.storage.datasets import locate

DAY = 86_400 * 10**9
AT_ONCE = {"older_than": "0s", "commit_window": "0s"}
POLICY = {"compaction": {"small_fragments": 4}, "cleanup": AT_ONCE}


def fill(uri, start=0, fragments=6):
    """Small fragments, an index that lacks the newest of them, and a branch with small fragments of its own."""
    for number in range(fragments):
        rows = numbers(10, start + 10 * number)
        lance.write_dataset(rows, uri, mode="append" if number else "create")
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).create_branch("exp/a")
    for number in range(fragments):
        append(uri, start + 1000 + 10 * number, 10, branch="exp/a")
    append(uri, start + 500, 5)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("made") / "lake"
    catalog = open_catalog(str(root))
    create_namespace(catalog, "ns")
    for name in ("ns.a", "ns.b"):
        table = make_table(catalog, name, numbers(1))
        shutil.rmtree(table.location.uri)
        fill(table.location.uri)
    fill(str(root / "c.lance"))
    return root


@pytest.fixture
def catalog(made, tmp_path):
    shutil.copytree(made, tmp_path / "lake")
    return open_catalog(str(tmp_path / "lake"))


def uri_of(catalog, name):
    (found,) = Path(catalog.uri).glob("c.lance" if name == "c" else f"*_ns${name.rpartition('.')[2]}")
    return str(found)


def run(catalog, policy=None, days=0.0, **options):
    """A maintenance as if it began so many days from now."""
    options.setdefault("execute", True)
    options = UpkeepOptions(maintenance_policy(POLICY if policy is None else policy), side_by_side=2, **options)
    return maintain(catalog, options, RUNNER, time.time_ns() + int(days * DAY))


def states(report, name):
    (record,) = (each for each in report.tables if each.name == name)
    return {step.name: step.state for step in record.steps}


def rows(uri, branch=None):
    return sorted(lance.dataset(place(uri, branch)).to_table()["id"].to_pylist())


def fragments(uri, branch=None):
    return len(lance.dataset(place(uri, branch)).get_fragments())


STEPS_OF_A_TABLE = {
    "fsck",
    "compaction of main",
    "compaction of exp/a",
    "indexes of main",
    "indexes of exp/a",
    "expiry",
    "cleanup",
}


def test_a_dry_run_is_a_plan_and_changes_nothing(catalog):
    before = bytes_of(catalog.uri)
    report = run(catalog, execute=False)
    assert [record.name for record in report.tables] == ["c", "ns.a", "ns.b"]
    assert states(report, "c").keys() == STEPS_OF_A_TABLE
    assert {step.state for record in report.tables for step in record.steps if step.step != "expiry"} == {"would"}
    assert {states(report, name)["expiry"] for name in ("c", "ns.a", "ns.b")} == {"nothing"}
    assert report.freed > 0
    assert (report.exit_code, report.memory) == (0, Memory())
    assert str(report).splitlines()[-1].startswith("dry run: 3 tables: 18 steps to do")
    assert bytes_of(catalog.uri) == before


def test_everything_is_done_to_every_table_and_branch_and_no_row_changes(catalog):
    report = run(catalog, days=1)
    assert (report.exit_code, report.problems) == (0, [])
    for name in ("c", "ns.a", "ns.b"):
        uri = uri_of(catalog, name)
        assert set(states(report, name).values()) == {"done", "nothing"}
        assert rows(uri) == [*range(60), *range(500, 505)]
        assert rows(uri, "exp/a") == [*range(60), *range(1000, 1060)]
        assert fragments(uri) <= 2
        assert fragments(uri, "exp/a") == 6 + 1  # what it inherited stays as it is
        for branch in (None, "exp/a"):
            assert lance.dataset(place(uri, branch)).stats.index_stats("id_idx")["num_unindexed_rows"] == 0
        assert len(lance.dataset(uri).versions()) <= 2
        lance.dataset(uri).validate()
    record = next(each for each in report.tables if each.name == "c")
    assert record.kinds["data"].owned > record.kinds["data"].freed > 0
    assert record.freed == sum(size.freed for size in record.kinds.values())


def test_the_second_run_finds_little_to_do(catalog):
    first = run(catalog, days=1)
    second = run(catalog, days=2, memory=first.memory)
    assert {step.state for record in second.tables for step in record.steps if step.step != "cleanup"} == {"nothing"}
    third = run(catalog, days=3, memory=second.memory)
    assert {step.state for record in third.tables for step in record.steps} == {"nothing"}
    due = run(catalog, days=9, memory=third.memory)
    assert {states(due, name)["fsck"] for name in ("c", "ns.a", "ns.b")} == {"done"}


def test_one_dataset_goes_by_the_name_of_its_directory(catalog):
    report = run(open_catalog(uri_of(catalog, "c")), {**POLICY, "tables": {"c": {"skip": ["fsck", "indexes"]}}})
    assert states(report, "c").keys() == {"compaction of main", "compaction of exp/a", "expiry", "cleanup"}


def test_a_place_without_anything_is_not_found(tmp_path):
    with pytest.raises(NotFound):
        run(open_catalog(str(tmp_path / "nowhere")))
    with pytest.raises(NotFound):
        maintain_dataset(locate(str(tmp_path)), UpkeepOptions(), RUNNER, time.time_ns())


# --- what is left out


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(only=frozenset({"fsck"})), {"fsck"}),
        (
            Selection(skip=frozenset({"fsck", "indexes", "expiry"})),
            {"compaction of main", "compaction of exp/a", "cleanup"},
        ),
        (Selection(tables=("ns.*",)), None),
        (Selection(not_tables=("c",)), None),
    ],
)
def test_steps_and_tables_can_be_left_out(catalog, selection, expected):
    report = run(catalog, execute=False, selection=selection)
    if expected is None:
        assert [record.name for record in report.tables] == ["ns.a", "ns.b"]
        assert report.catalog == ()
    else:
        assert states(report, "c").keys() == expected


def test_there_is_no_such_step():
    with pytest.raises(InvalidOption):
        Selection(only=frozenset({"vacuum"}))


def test_a_policy_leaves_branches_out(catalog):
    policy = {"branches": {"exp/*": {"skip": ["compaction", "indexes"]}}, "tables": {"ns.a": {"skip": ["cleanup"]}}}
    report = run(catalog, policy, execute=False)
    assert states(report, "c").keys() == STEPS_OF_A_TABLE - {"compaction of exp/a", "indexes of exp/a"}
    assert "cleanup" not in states(report, "ns.a")


def test_rows_get_the_order_that_the_policy_says_and_are_in_the_index_again(catalog):
    uri = f"{catalog.uri}/mixed.lance"
    for number in range(8):
        mixed = pa.table({"id": pa.array(range(number, 800, 8), pa.int64())})
        lance.write_dataset(mixed, uri, mode="append" if number else "create")
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    policy = {"compaction": {"small_fragments": 2, "sort_by": ["id"], "target_rows": 100}, "cleanup": AT_ONCE}
    chosen = Selection(tables=("mixed",))
    report = run(catalog, policy, days=1, selection=chosen)
    assert (report.exit_code, states(report, "mixed")["compaction of main"]) == (0, "done")
    found = lance.dataset(uri)
    spans = [fragment.to_table()["id"].to_pylist() for fragment in found.get_fragments()]
    assert max(max(span) - min(span) for span in spans) < 300
    assert rows(uri) == list(range(800))
    assert found.stats.index_stats("id_idx")["num_unindexed_rows"] == 0
    again = run(catalog, policy, days=2, memory=report.memory, selection=chosen)
    assert states(again, "mixed")["compaction of main"] == "nothing"


def test_few_fragments_and_few_stale_rows_wait(catalog):
    policy = {"compaction": {"small_fragments": 7}, "indexes": {"stale_rows": 6}}
    report = run(catalog, policy, execute=False)
    told = states(report, "c")
    assert (told["compaction of main"], told["compaction of exp/a"]) == ("nothing", "nothing")
    assert (told["indexes of main"], told["indexes of exp/a"]) == ("nothing", "would")


# --- what stops it


def break_table(uri):
    """A data file that main needs is gone; returns what puts it back."""
    file = sorted(Path(uri, "data").iterdir())[0]
    content = file.read_bytes()
    file.unlink()
    return lambda: file.write_bytes(content)


def test_damage_stops_what_deletes_from_that_table_and_nothing_of_another(catalog):
    repair = break_table(uri_of(catalog, "ns.a"))
    versions = len(lance.dataset(uri_of(catalog, "ns.a")).versions())
    report = run(catalog, days=1)
    told = states(report, "ns.a")
    assert (told["fsck"], told["cleanup"]) == ("stopped", "stopped")
    assert report.exit_code == 6
    (broken,) = (record for record in report.tables if record.name == "ns.a")
    assert broken.findings["error"] >= 1
    assert any(problem.startswith("fsck: ") for problem in broken.problems)
    assert broken.freed == 0
    assert len(lance.dataset(uri_of(catalog, "ns.a")).versions()) >= versions
    for name in ("c", "ns.b"):
        assert states(report, name)["cleanup"] == "done"
    # What the last check found still holds, whether or not there is a check.
    again = run(catalog, days=1, memory=report.memory, selection=Selection(skip=frozenset({"fsck"})))
    assert states(again, "ns.a")["cleanup"] == "stopped"
    assert states(again, "c")["cleanup"] in ("done", "nothing")
    repair()
    last = run(catalog, days=1.5, memory=again.memory)
    assert states(last, "ns.a")["fsck"] == "done"
    assert states(last, "ns.a")["cleanup"] == "done"
    assert states(last, "c")["fsck"] == "nothing"
    assert last.exit_code == 0


def test_a_known_base_path_that_leads_nowhere_is_no_damage(catalog, tmp_path):
    source, uri = str(tmp_path / "source.lance"), uri_of(catalog, "c")
    shutil.rmtree(uri)
    lance.write_dataset(numbers(3), source)
    lance.dataset(source).shallow_clone(uri, ("main", 1))
    lance.write_dataset(numbers(3), uri, mode="overwrite")
    lance.dataset(uri).tags.create("kept", 1)
    shutil.rmtree(source)
    chosen = Selection(tables=("c",))
    assert states(run(catalog, days=1, selection=chosen), "c")["cleanup"] == "stopped"
    policy = {"cleanup": {**AT_ONCE, "known_bases": [source], "on_tagged": "keep"}}
    report = run(catalog, policy, days=1, selection=chosen)
    assert (states(report, "c")["fsck"], report.exit_code) == ("done", 0)


def test_what_fails_on_one_table_is_in_the_report_and_the_rest_is_done(catalog, monkeypatch):
    broken, real = uri_of(catalog, "ns.b"), maintaining.optimize

    def optimize(location, *rest):
        if location.uri == broken:
            raise Conflict("Others commit all the time.")
        return real(location, *rest)

    monkeypatch.setattr(maintaining, "optimize", optimize)
    report = run(catalog, days=1)
    told = states(report, "ns.b")
    assert (told["compaction of main"], told["indexes of main"], told["cleanup"]) == ("failed", "done", "done")
    assert report.problems[0] == ("ns.b", "compaction of main: Others commit all the time.")
    assert states(report, "ns.a")["compaction of main"] == "done"
    assert report.exit_code == 6


def test_what_nobody_expects_of_one_table_is_reported_as_well(catalog, monkeypatch):
    broken, real = uri_of(catalog, "ns.b"), maintaining.optimize

    def optimize(location, *rest):
        if location.uri == broken:
            raise ZeroDivisionError("by nothing")
        return real(location, *rest)

    monkeypatch.setattr(maintaining, "optimize", optimize)
    report = run(catalog, days=1)
    assert ("ns.b", "compaction of main: ZeroDivisionError: by nothing") in report.problems
    assert {states(report, name)["cleanup"] for name in ("c", "ns.a", "ns.b")} == {"done"}


def test_a_check_that_fails_stops_what_deletes(catalog, monkeypatch):
    monkeypatch.setattr(maintaining, "run_fsck", Mock(side_effect=Conflict("It never stops changing.")))
    report = run(catalog, days=1)
    assert {states(report, name)["cleanup"] for name in ("c", "ns.a", "ns.b")} == {"stopped"}
    assert states(report, "c")["compaction of main"] == "done"


def test_nothing_is_deleted_while_a_table_cannot_be_looked_at(catalog, monkeypatch):
    real = maintaining.looks_at

    def looks_at(tables, engine):
        found = real(tables, engine)
        return [*found, {**found[0], "table": "ns.a", "error": "no answer", "exit_code": 20}]

    monkeypatch.setattr(maintaining, "looks_at", looks_at)
    report = run(catalog, days=1)
    assert {states(report, name)["cleanup"] for name in ("c", "ns.a", "ns.b")} == {"stopped"}
    assert states(report, "c")["compaction of main"] == "done"
    assert report.catalog == ()
    assert any("ns.a cannot be read" in note for note in report.notes)


def test_clones_among_the_tables_keep_what_they_read(catalog):
    source, clone = overwritten(f"{catalog.uri}/d.lance", 3), f"{catalog.uri}/clone.lance"
    lance.dataset(source).shallow_clone(clone, ("main", 2))
    report = run(catalog, days=1)
    assert report.exit_code == 0
    assert states(report, "d")["cleanup"] == "done"
    assert rows(clone) == [10, 11, 12]


def test_the_catalog_itself_is_looked_after(catalog):
    stray = Path(catalog.uri, "0123abcd_ns$stray")
    (stray / "data").mkdir(parents=True)
    report = run(catalog, days=2)
    assert [each.kind for each in report.catalog][:1] == ["catalog"]
    assert not stray.exists() or any("stray" in note for note in report.notes)
    assert sorted(ids_of(catalog, "ns.a")) == [*range(60), *range(500, 505)]


# --- refs whose time is over


def test_a_policy_that_skips_the_cleanup_leaves_the_catalog_itself_alone(catalog, tmp_path):
    report = run(catalog, {**POLICY, "skip": ["cleanup"]}, days=3)
    assert report.catalog == ()


def test_a_name_that_no_table_has_is_an_error(catalog):
    with pytest.raises(NotFound, match="3 tables"):
        run(catalog, selection=Selection(tables=("ns1.*",)))
    for chosen in (Selection(tables=("c", "ns.typo")), Selection(not_tables=("ns.typo",))):
        with pytest.raises(NotFound, match=r"ns\.typo matches no table"):
            run(catalog, selection=chosen)
    with pytest.raises(NotFound, match="matches no table"):
        run(open_catalog(uri_of(catalog, "c")), selection=Selection(tables=("ns1.c",)))


def test_a_policy_for_a_table_that_does_not_exist_stops_the_run_before_anything_is_done(catalog):
    before = {uri: bytes_of(uri) for uri in (uri_of(catalog, "ns.a"), uri_of(catalog, "c"))}
    with pytest.raises(NotFound, match=r"'ns\.archiv' in the policy's tables matches no table\. Nothing was done"):
        run(catalog, {**POLICY, "tables": {"ns.archiv": {"skip": ["cleanup"]}}}, days=30)
    assert {uri: bytes_of(uri) for uri in before} == before
    branches = {"exp/*": {"skip": ["indexes"]}, "none": {"skip": ["indexes"]}}
    policy = {**POLICY, "tables": {"old.*": {}}, "branches": branches, "skip": ["fsck", "indexes"]}
    report = run(catalog, policy, execute=False)
    assert report.notes == (
        "'old.*' in the policy's tables matches no table",
        "the policy's rule for branch 'none' matches no branch",
    )


def test_damage_that_a_cleanup_meets_between_two_checks_stops_the_next_expiry(catalog):
    first = run(catalog, selection=Selection(tables=("c",)))
    shutil.rmtree(Path(uri_of(catalog, "c"), "data"))
    second = run(catalog, days=1, memory=first.memory, selection=Selection(tables=("c",)))
    assert (states(second, "c")["fsck"], states(second, "c")["cleanup"]) == ("nothing", "failed")
    third = run(catalog, days=2, memory=second.memory, selection=Selection(tables=("c",)))
    assert (states(third, "c")["fsck"], states(third, "c")["cleanup"]) == ("stopped", "stopped")


def with_ending_refs(catalog):
    """A merged branch, a branch with changes of its own and a tag, whose time is over tomorrow."""
    uri = uri_of(catalog, "c")
    location = locate(uri)
    lance.dataset(uri).create_branch("done")
    lance.dataset(uri).tags.create("old", 1)
    for branch in ("done", "exp/a"):
        alter_branch(location, branch, {"expire_after": "1d"})
    alter_tag(location, "old", {"expire_after": "1d"})
    return uri


def refs(uri):
    dataset = lance.dataset(uri)
    return {*dataset.branches.list(), *dataset.tags.list()}


def test_refs_are_warned_of_and_go_and_the_cleanup_takes_what_only_they_needed(catalog):
    uri = with_ending_refs(catalog)
    chosen = {"selection": Selection(tables=("c",))}
    policy = {**POLICY, "cleanup": {**AT_ONCE, "on_tagged": "keep"}, "expiry": {"undo_window": "0s"}}
    planned = run(catalog, policy, days=2, execute=False, **chosen)
    assert states(planned, "c")["expiry"] == "would"
    warned = run(catalog, policy, days=2, **chosen)
    assert states(warned, "c")["expiry"] == "done"
    assert refs(uri) == {"done", "exp/a", "old"}
    assert 1 in {version["version"] for version in lance.dataset(uri).versions()}
    gone = run(catalog, policy, days=10, memory=warned.memory, **chosen)
    (record,) = gone.tables
    assert refs(uri) == {"exp/a"}
    assert next(step for step in record.steps if step.step == "expiry").refs == 2
    assert any("branch exp/a expired but stays" in told for told in record.told)
    assert 1 not in {version["version"] for version in lance.dataset(uri).versions()}
    assert states(gone, "c")["cleanup"] == "done"


def test_a_branch_that_is_about_to_go_is_not_kept_alive_by_a_compaction(catalog):
    uri = with_ending_refs(catalog)
    head = lance.dataset(place(uri, "exp/a")).version
    report = run(catalog, days=2, selection=Selection(tables=("c",), skip=frozenset({"cleanup"})))
    assert states(report, "c")["compaction of exp/a"] == "nothing"
    assert states(report, "c")["compaction of main"] == "done"
    assert lance.dataset(place(uri, "exp/a")).version == head


def test_a_branch_that_a_clone_among_the_tables_reads_stays(catalog):
    uri = with_ending_refs(catalog)
    append(uri, 7000, branch="done")
    lance.dataset(place(uri, "done")).shallow_clone(f"{catalog.uri}/clone.lance", ("done", None))
    policy = {**POLICY, "expiry": {"warn": "0s", "force": True}, "cleanup": {**AT_ONCE, "on_tagged": "keep"}}
    report = run(catalog, policy, days=2)
    assert "done" in refs(uri)
    assert "exp/a" not in refs(uri)
    (record,) = (each for each in report.tables if each.name == "c")
    assert "branch done expired but stays: a clone reads its files" in record.told
    assert 7000 in rows(f"{catalog.uri}/clone.lance")


def test_a_protected_branch_is_looked_after_as_well(catalog):
    uri = uri_of(catalog, "c")
    for branch in (None, "exp/a"):
        alter_branch(locate(uri), branch, {"protected": True})
    report = run(catalog, days=1, selection=Selection(tables=("c",)))
    assert report.exit_code == 0
    assert fragments(uri) <= 2


# --- time


def ticks(count):
    """Time for so many steps."""
    left = iter([True] * count)
    return lambda: next(left, False)


def test_the_most_valuable_table_is_first_and_what_is_left_comes_up(catalog):
    large = uri_of(catalog, "ns.b")
    for number in range(12):
        append(large, 9000 + 10 * number, 10)
    only = Selection(only=frozenset({"compaction"}))

    def once(memory, steps):
        options = UpkeepOptions(maintenance_policy(POLICY), True, only, memory, 1, ticks(steps))
        return maintain(catalog, options, RUNNER, time.time_ns())

    first = once(Memory(), 2)
    assert states(first, "ns.b") == {"compaction of main": "done", "compaction of exp/a": "done"}
    assert {name for name, _ in first.left} == {"c", "ns.a"}
    assert first.exit_code == 0
    assert [first.memory.of(uri_of(catalog, name)).left for name in ("c", "ns.a", "ns.b")] == [1, 1, 0]
    for number in range(8):
        append(large, 20_000 + 10 * number, 10)
    second = once(first.memory, 3)
    assert set(states(second, "c").values()) == {"done"}
    assert set(states(second, "ns.b").values()) == {"left", "nothing"}
    third = once(second.memory, 99)
    assert third.left == []
    assert {third.memory.of(uri_of(catalog, name)).left for name in ("c", "ns.a", "ns.b")} == {0}


def test_tables_for_which_there_is_no_time_to_plan_come_first_the_next_time(catalog):
    def once(memory, count):
        options = UpkeepOptions(
            maintenance_policy(POLICY), True, Selection(), memory, 1, time_left=ticks(99), time_to_plan=ticks(count)
        )
        return maintain(catalog, options, RUNNER, time.time_ns())

    first = once(Memory(), 1)
    assert [(record.name, record.state) for record in first.tables] == [
        ("c", "done"),
        ("ns.a", "left"),
        ("ns.b", "left"),
    ]
    assert states(first, "ns.a") == {"look": "left"}
    second = once(first.memory, 2)
    assert [(record.name, record.state) for record in second.tables][1:] == [("ns.a", "done"), ("ns.b", "done")]
    assert states(second, "c") == {"look": "left"}


def test_no_time_at_all_does_nothing(catalog):
    before = bytes_of(catalog.uri)
    report = run(catalog, days=1, time_left=ticks(0))
    assert {step.state for record in report.tables for step in record.steps} == {"left", "nothing"}
    assert (report.freed, report.catalog) == (0, ())
    assert bytes_of(catalog.uri) == before
