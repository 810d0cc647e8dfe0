"""jobs/maintain.py as people call it, without Spark: what it prints and writes, exit codes, the policies we show."""

import json
import re
from pathlib import Path
from unittest.mock import Mock

import lance
import pytest
from support.catalogs import make_table
from support.cleanup_datasets import append
from support.scripts import script

from lance_spark.catalog.lookup import create_namespace, open_catalog
from lance_spark.errors import StorageFailure
from lance_spark.maintenance import maintain as running
from lance_spark.maintenance import maintain as state
from lance_spark.maintenance import maintain as tables
from lance_spark.maintenance.policy_rules import Memory, Remembered, StepRecord, TableRecord

ROOT = Path(__file__).parents[2]
POLICY = """
[compaction]
small_fragments = 2
[cleanup]
older_than = "0s"
commit_window = "0s"
"""


@pytest.fixture(scope="module")
def job():
    return script("jobs/maintain.py")


@pytest.fixture
def lake(tmp_path):
    """Three tables of three fragments; with a policy beside them."""
    catalog = open_catalog(str(tmp_path / "lake"))
    create_namespace(catalog, "ns1")
    for name in ("ns1.a", "ns1.b", "c"):
        uri = make_table(catalog, name).location.uri
        for start in (10, 20):
            append(uri, start)
        lance.dataset(uri).create_branch("exp/a")
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path


def place(lake, name):
    (found,) = (lake / "lake").glob(f"*{name}*")
    return found


@pytest.fixture
def maintain(job, lake, capsys):
    def run(*words, policy="policy.toml"):
        given = ("--policy", str(lake / policy)) if policy else ()
        code = job.main([str(lake / "lake"), "--local", *given, *words])
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err

    return run


def outputs(lake):
    return [
        word
        for name, file in (("report", "r.json"), ("html", "r.html"), ("metrics", "m.prom"), ("state", "s.json"))
        for word in (f"--{name}", str(lake / file))
    ]


def test_a_dry_run_an_execution_and_a_second_one_that_finds_little(maintain, lake):
    code, said, _ = maintain(*outputs(lake))
    assert (code, said[-1].startswith("dry run: 3 tables: ")) == (0, True)
    assert not (lake / "s.json").exists()
    assert len(lance.dataset(str(place(lake, "c.lance"))).get_fragments()) == 3
    assert json.loads((lake / "r.json").read_text())["executed"] is False
    code, said, told = maintain(*outputs(lake), "--execute")
    assert (code, said[-1].startswith("3 tables: ")) == (0, True)
    assert "ns1.a: done" in told.splitlines()
    assert [len(lance.dataset(str(place(lake, name))).get_fragments()) for name in ("$a", "$b", "c.lance")] == [1, 1, 1]
    report = json.loads((lake / "r.json").read_text())
    assert [table["state"] for table in report["tables"]] == ["done"] * 3
    assert report["freed_bytes"] > 0
    assert (lake / "r.html").read_text().startswith("<!DOCTYPE html>")
    assert 'lance_maintenance_complete{root="' in (lake / "m.prom").read_text()
    assert len(json.loads((lake / "s.json").read_text())["tables"]) == 3
    assert not [path for path in lake.iterdir() if path.suffix == ".tmp"]
    code, said, _ = maintain(*outputs(lake), "--execute")
    report = json.loads((lake / "r.json").read_text())
    assert code == 0
    assert {step["state"] for table in report["tables"] for step in table["steps"] if step["step"] != "cleanup"} == {
        "nothing"
    }


def test_a_compaction_is_done_though_its_columns_cannot_be_measured(maintain, lake, monkeypatch):
    monkeypatch.setattr(running, "renew", Mock(side_effect=StorageFailure("The store is away.")))
    code, _, _ = maintain(*outputs(lake), "--execute")
    report = json.loads((lake / "r.json").read_text())
    steps = [step for table in report["tables"] for step in table["steps"] if step["step"] == "compaction"]
    assert (code, {step["state"] for step in steps}) == (0, {"done", "nothing"})
    said = {step["why"] for step in steps if step["state"] == "done"}
    assert said == {"3 fragments became 1; columns were not measured again: The store is away."}


def test_a_damaged_table_ends_the_job_with_6_and_the_others_are_done(maintain, lake):
    sorted((place(lake, "$b") / "data").iterdir())[0].unlink()
    code, said, _ = maintain("--execute", *outputs(lake))
    assert code == 6
    assert any(line.startswith("ns1.b: fsck: ") for line in said)
    report = json.loads((lake / "r.json").read_text())
    assert {table["table"]: table["state"] for table in report["tables"]}["ns1.a"] == "done"
    assert re.search(r'table_sound\{[^}]*"ns1.b"\} 0', (lake / "m.prom").read_text())
    code, _, _ = maintain("--execute", "--skip-table", "ns1.b", *outputs(lake))
    assert code == 0
    assert maintain("--execute", *outputs(lake))[0] == 6


@pytest.mark.parametrize("mode", ["execute", "plan"])
def test_a_job_that_is_killed_has_told_what_it_did(maintain, lake, monkeypatch, mode):
    name = "carry_out_table" if mode == "execute" else "plan_table"
    real = getattr(tables, name)

    def killed(job, table, *plan):
        if table.name == "ns1.b":
            raise KeyboardInterrupt
        return real(job, table, *plan)

    monkeypatch.setattr(tables, name, killed)
    words = (*outputs(lake), "--tables-at-once", "1", *(["--execute"] if mode == "execute" else []))
    (lake / "r.json").write_text("of yesterday")
    with pytest.raises(KeyboardInterrupt):
        maintain(*words)
    report = json.loads((lake / "r.json").read_text())
    done = [table["table"] for table in report["tables"]]
    assert (report["finished"], report["executed"], report["expected_tables"]) == (False, mode == "execute", 3)
    assert done == sorted(done)
    assert 0 < len(done) < 3
    assert "ns1.b" not in done
    assert f"Unfinished: {len(done)} of 3 tables so far." in (lake / "r.html").read_text()
    assert re.search(r"maintenance_finished\{[^}]*\} 0", (lake / "m.prom").read_text())
    assert not [path for path in lake.iterdir() if path.suffix == ".tmp"]
    monkeypatch.undo()
    assert maintain(*words)[0] == 0
    report = json.loads((lake / "r.json").read_text())
    assert (report["finished"], len(report["tables"])) == (True, 3)
    assert "nfinished:" not in (lake / "r.html").read_text()
    assert re.search(r"maintenance_finished\{[^}]*\} 1", (lake / "m.prom").read_text())


def test_a_job_that_is_killed_before_its_first_table_leaves_no_report_of_yesterday(maintain, lake, monkeypatch):
    assert maintain(*outputs(lake))[0] == 0
    monkeypatch.setattr(tables, "plan_table", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        maintain(*outputs(lake))
    report = json.loads((lake / "r.json").read_text())
    assert (report["finished"], report["tables"], report["expected_tables"]) == (False, [], 3)


def test_telling_takes_a_tenth_of_the_time_and_a_store_that_fails_meanwhile_is_no_error(monkeypatch):
    clock, told = [0.0], []
    monkeypatch.setattr(running.time, "monotonic", lambda: clock[0])

    def tell(names):
        clock[0] += 1
        told.append(names)
        if len(told) == 2:
            raise StorageFailure("no answer")

    report = running.RunningReport(lambda records: [record.name for record in records], tell)
    for name, at in (("b", 5.0), ("d", 11.0), ("c", 21.0), ("a", 22.0)):
        clock[0] = at
        report.add(TableRecord(name, ""))
    assert told == [[], ["b", "d"], ["a", "b", "c", "d"]]


def test_no_time_leaves_all_of_it_for_the_next_run(maintain, lake):
    code, said, _ = maintain("--execute", "--for", "0s", *outputs(lake))
    assert code == 0
    assert "left for next time" in said[-1]
    state = json.loads((lake / "s.json").read_text())["tables"]
    assert {each["left"] for each in state.values()} == {1}
    code, said, _ = maintain("--execute", "--for", "1h", *outputs(lake))
    assert (code, "left" in said[-1]) == (0, False)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--for", "soon"), 2, "for"),
        (("--tables-at-once", "0"), 2, "at a time"),
        (("--policy", "nowhere.toml"), 2, "nowhere.toml"),
        (("--run-on", "local", "--state", "policy.toml"), 22, "state"),
        (("--metrics", "m.txt"), 2, "--metrics m.txt does not end in .prom."),
        (("--report", "x.prom", "--metrics", "x.prom"), 2, "--report and --metrics name one file"),
        (("--policy", "policy.toml", "--report", "policy.toml"), 2, "--policy and --report name one file"),
        (("--execute", "--html", "lake"), 2, "--html: lake is a directory. Nothing was done."),
        (("--execute", "--report", "/dev/shm"), 2, "--report: /dev/shm is a directory. Nothing was done."),
        (("--execute", "--metrics", "policy.toml/m.prom"), 2, "which is not a directory. Nothing was done."),
        (("--execute", "--state", "policy.toml/s.json"), 2, "which is not a directory."),
    ],
)
def test_what_is_refused(job, lake, monkeypatch, capsys, words, code, said):
    monkeypatch.chdir(lake)
    assert job.main(["lake", "--run-on", "local", *words]) == code
    assert said in capsys.readouterr().err
    assert len(lance.dataset(str(place(lake, "c.lance"))).get_fragments()) == 3
    assert (lake / "policy.toml").read_text() == POLICY


@pytest.mark.parametrize("name", ["r.json", "m.prom", "s.json"])
def test_a_report_that_fails_at_the_end_has_a_code_of_its_own_and_the_others_are_written(
    maintain, lake, monkeypatch, name
):
    real = tables.carry_out_table

    def carry_out(job, table, plan):
        (lake / name).unlink()
        (lake / name).mkdir()
        return real(job, table, plan)

    monkeypatch.setattr(tables, "carry_out_table", carry_out)
    code, said, told = maintain("--execute", "--table", "c", *outputs(lake))
    assert (code, said[-1].startswith("1 table: ")) == (24, True)
    assert f"The work is done, but its report could not be written: {lake / name} is a directory" in told
    others = {"r.json": '"finished": true', "m.prom": "maintenance_complete", "s.json": '"checked"'}
    assert all(text in (lake / other).read_text() for other, text in others.items() if other != name)


def test_a_place_without_tables_is_not_found_and_a_branch_is_no_dataset(job, lake, tmp_path, capsys):
    assert job.main([str(tmp_path / "nowhere"), "--local"]) == 10
    assert job.main(["--catalog", str(tmp_path / "nowhere"), "--local"]) == 10
    assert capsys.readouterr().err.count(f"There is nothing in {tmp_path / 'nowhere'}.") == 2
    assert job.main([f"{place(lake, 'c.lance')}/tree/exp/a", "--local"]) == 2
    assert "branch 'exp/a'" in capsys.readouterr().err


def test_a_run_that_ends_half_way_has_written_down_which_tables_it_checked(maintain, lake, monkeypatch):
    monkeypatch.setattr("lance_spark.maintenance.maintain.clean_itself", Mock(side_effect=StorageFailure("503")))
    code, _, _ = maintain("--execute", *outputs(lake))
    assert code == StorageFailure.exit_code
    known = json.loads((lake / "s.json").read_text())["tables"]
    assert [each["sound"] for each in known.values()] == [True] * 3


class Ended(BaseException):
    """The end of the process."""


def test_a_killed_run_has_written_down_which_tables_it_checked(maintain, lake, monkeypatch):
    monkeypatch.setattr(state, "_PAUSE", 0)
    monkeypatch.setattr(state.StateFile, "close", lambda _: None)

    monkeypatch.setattr("lance_spark.maintenance.maintain.clean_itself", Mock(side_effect=Ended))
    with pytest.raises(Ended):
        maintain("--execute", *outputs(lake))
    known = json.loads((lake / "s.json").read_text())["tables"]
    assert [each["sound"] for each in known.values()] == [True] * 3


def test_two_runs_of_different_tables_share_a_state(tmp_path):
    path, now_ns = str(tmp_path / "s.json"), 10**18
    one, two = state.StateFile(path, {}, now_ns), state.StateFile(path, {}, now_ns)
    assert one.load() == two.load() == Memory()
    one.add(TableRecord("a", "/a", (StepRecord("fsck", None, "stopped"),)))
    two.add(TableRecord("b", "/b", (StepRecord("fsck", None, "done"),)))
    one.close()
    two.close()
    assert state.StateFile(path, {}, now_ns).load().tables == {
        "/a": Remembered(10**9, sound=False),
        "/b": Remembered(10**9, sound=True),
    }


def test_one_dataset_without_a_policy(job, lake, capsys):
    assert job.main([str(place(lake, "c.lance")), "--local", "--only", "compaction", "--only", "fsck"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "dry run: 1 table: 1 step to do, 0 B would be freed"


@pytest.mark.parametrize("source", ["page", "conf"])
def test_the_policies_that_we_show_run(maintain, lake, source):
    text = (ROOT / "conf" / "maintenance-policy.toml").read_text()
    if source == "page":
        page = (ROOT / "docs" / "operations" / "maintenance-job.md").read_text()
        text = re.search(r"<!-- policy -->\n```toml\n(.*?)```", page, re.DOTALL)[1]
    (lake / "shown.toml").write_text(text.replace('"ns1.flights"', '"ns1.b"').replace('"day", "carrier"', '"id"'))
    code, _, _ = maintain("--execute", *outputs(lake), policy="shown.toml")
    assert code == 0
    tables = {table["table"]: table for table in json.loads((lake / "r.json").read_text())["tables"]}
    steps = {step["step"] + (step["branch"] or ""): step["state"] for step in tables["ns1.a"]["steps"]}
    assert "compactionexp/a" not in steps
    assert steps["cleanup"] == ("done" if source == "page" else "nothing")
