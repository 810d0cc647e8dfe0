"""The jobs for a whole catalog, as people call them; without Spark."""

import json
from pathlib import Path

import lance
import pytest
from support.catalogs import rows, tables
from support.local_datasets import numbers
from support.scripts import script

import lance_spark.jobs.job
from lance_spark.catalog.lookup import open_catalog
from lance_spark.errors import StorageFailure

AT_ONCE = ("--older-than", "0s", "--commit-window", "0s")


def job(name):
    return script(f"jobs/{name}.py")


@pytest.fixture
def lake(tmp_path):
    """Two tables of V1, one of which has an old version, and a directory without files."""
    root = tmp_path / "lake"
    for name in ("a", "b"):
        lance.write_dataset(numbers(3), str(root / f"{name}.lance"))
    lance.write_dataset(numbers(2), str(root / "b.lance"), mode="overwrite")
    (root / "ghost.lance").mkdir()
    return root


def test_cleanup_of_a_catalog_says_what_would_go_and_then_does_it(lake, tmp_path, capsys):
    cleanup, report = job("cleanup"), tmp_path / "report.json"
    command = ["--catalog", str(lake), *AT_ONCE, "--local", "--report", str(report)]
    assert cleanup.main(command) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("dry run: 2 tables: ")
    assert len(lance.dataset(str(lake / "b.lance")).versions()) == 2
    assert cleanup.main([*command, "--execute"]) == 0
    told = json.loads(report.read_text())
    assert [(table["table"], table["state"], table["versions"]) for table in told["tables"]] == [
        ("a", "done", 0),
        ("b", "done", 1),
    ]
    assert lance.dataset(str(lake / "b.lance")).count_rows() == 2


def test_cleanup_ends_with_6_where_a_table_was_left_and_with_its_code_where_all_were(lake, capsys):
    cleanup = job("cleanup")
    command = ["--catalog", str(lake), *AT_ONCE, "--local", "--execute"]
    lance.dataset(str(lake / "b.lance")).tags.create("old", 1)
    assert cleanup.main(command) == 6
    assert "b: " in capsys.readouterr().out
    lance.write_dataset(numbers(2), str(lake / "a.lance"), mode="overwrite")
    lance.dataset(str(lake / "a.lance")).tags.create("old", 1)
    assert cleanup.main(command) == 3
    assert cleanup.main([*command, "--on-tagged", "keep"]) == 0


def test_cleanup_of_some_branches_leaves_main_and_the_others_as_they_are(lake, capsys):
    uri = str(lake / "b.lance")
    for name in ("exp/a", "other"):
        lance.dataset(uri).create_branch(name)
        lance.write_dataset(numbers(1), f"{uri}/tree/{name}", mode="overwrite")
    assert job("cleanup").main([uri, *AT_ONCE, "--local", "--execute", "--branch", "exp/*"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 deleted")
    there = [len(lance.dataset(place).versions()) for place in (uri, f"{uri}/tree/exp/a", f"{uri}/tree/other")]
    assert there == [2, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "No dataset was named."),
        (["x.lance", "--catalog", "lake"], 2, "A dataset and --catalog cannot be combined."),
        (["--catalog", "lake", "--version", "3"], 2, "--version cannot be combined with --catalog."),
        (["--catalog", "lake", "--plan-dir", "p"], 2, "--plan-dir cannot be combined with --catalog."),
        (["x.lance", "--catalog-mode", "v1"], 2, "--catalog-mode cannot be combined with a single dataset."),
        (["x.lance", "--apply-plan", "p", "--version", "3"], 2, "--version cannot be combined with --apply-plan."),
        (["--catalog", "nowhere"], 10, "There is nothing in"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_mean_nothing_together_are_refused(tmp_path, monkeypatch, capsys, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    assert job("cleanup").main([*arguments, "--local"]) == code
    assert words in capsys.readouterr().err


JOBS = {
    "cleanup": ["--catalog", "lake", *AT_ONCE, "--execute", "--local"],
    "fsck": ["lake/b.lance", "--local"],
    "migrate_catalog": ["lake"],
}


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("place", ["lake", "lake/", "policy.toml/r.json", "nowhere://bucket/r.json"])
def test_a_report_that_cannot_be_written_ends_a_job_before_its_work(lake, monkeypatch, capsys, name, place):
    monkeypatch.chdir(lake.parent)
    (lake.parent / "policy.toml").write_text("")
    assert job(name).main([*JOBS[name], "--report", place]) in (2, 20)
    told = capsys.readouterr()
    assert told.err.startswith("error: --report: ")
    assert "Nothing was done." in told.err
    assert not told.out
    assert len(lance.dataset(str(lake / "b.lance")).versions()) == 2
    assert not (lake / "__manifest").exists()


@pytest.mark.parametrize("name", JOBS)
def test_a_report_that_fails_after_the_work_is_said_and_has_a_code_of_its_own(lake, monkeypatch, capsys, name):
    monkeypatch.chdir(lake.parent)
    writes = []

    def write(path, text, storage):
        writes.append(json.loads(text)["finished"])
        if len(writes) > 1:
            raise StorageFailure("The store is away.")

    monkeypatch.setattr(lance_spark.jobs.job, "write_report", write)
    assert job(name).main([*JOBS[name], "--report", "r.json"]) == 24
    told = capsys.readouterr()
    assert "error: The work is done, but its report could not be written: The store is away." in told.err
    assert told.out
    assert writes == [False, True]


def test_a_report_to_a_pipe_is_written_once_and_the_pipe_stays(lake, tmp_path, capfd):
    assert job("fsck").main([str(lake / "b.lance"), "--local", "--report", "/dev/stdout"]) == 0
    assert '"finished": true' in capfd.readouterr().out
    assert Path("/dev/stdout").is_symlink()


@pytest.mark.parametrize("name", ["cleanup", "fsck"])
def test_a_catalog_in_place_of_a_dataset_is_told_from_a_missing_one(lake, capsys, name):
    assert job(name).main([str(lake), "--local"]) == 10
    assert f"an option of its own: --catalog {lake}\n" in capsys.readouterr().err
    assert job(name).main([str(lake / "ghost.lance"), "--local"]) == 10
    assert "--catalog" not in capsys.readouterr().err


def test_no_option_of_a_job_is_taken_for_one_that_it_begins_like(lake, capsys):
    with pytest.raises(SystemExit, match="2"):
        job("cleanup").main([str(lake / "b.lance"), "--older-than", "0s", "--local", "--exec"])


def test_migration_and_its_dry_run(lake, tmp_path, capsys):
    migrate, v2 = job("migrate_catalog"), open_catalog(str(lake), mode="v2")
    report = tmp_path / "report.json"
    assert migrate.main([str(lake), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert [line.split(maxsplit=2) for line in out.splitlines()[1:3]] == [
        ["a", "a.lance", "would be registered"],
        ["b", "b.lance", "would be registered"],
    ]
    assert "skipped: it has no files" in out
    assert out.splitlines()[-1] == "dry run: 2 tables would be registered, 0 before, 1 skipped"
    assert tables(v2) == []
    assert migrate.main([str(lake), "--report", str(report)]) == 0
    assert tables(v2) == ["a", "b"]
    assert set(rows(v2)) == {"a", "b"}
    assert [table["name"] for table in json.loads(report.read_text())["tables"]] == ["a", "b"]
    assert migrate.main([str(lake)]) == 0
    assert "0 tables registered, 2 before" in capsys.readouterr().out
    assert migrate.main([str(lake), "--storage", "secret"]) == 2


def test_the_demo_says_what_it_waits_for(capsys):
    demo = job("write_audit_publish")
    with demo.step("write", "main, January to June") as say:
        assert capsys.readouterr().out.rstrip() == "write     main, January to June"
        say(7, version=1)
    assert capsys.readouterr().out.split()[:4] == ["7", "rows", "version", "1"]


def test_a_check_says_sound_and_names_what_is_missing(tmp_path, capsys):
    uri, report = tmp_path / "t.lance", tmp_path / "report.json"
    lance.write_dataset(numbers(3), str(uri))
    fsck = job("fsck")
    assert fsck.main([str(uri), "--deep", "--run-on", "local"]) == 0
    assert "sound" in capsys.readouterr().out
    next((uri / "data").iterdir()).unlink()
    assert fsck.main([str(uri), "--run-on", "local", "--report", str(report)]) == 22
    assert [finding["code"] for finding in json.loads(report.read_text())["findings"]] == ["data-missing"]
    assert fsck.main([str(tmp_path / "nothing"), "--run-on", "local"]) == 10


def test_a_check_repairs_and_takes_it_back(tmp_path, capsys):
    uri, fsck = tmp_path / "t.lance", job("fsck")
    lance.write_dataset(numbers(3), str(uri))
    lance.dataset(str(uri)).create_branch("exp")
    (file,) = (uri / "_refs" / "branches").iterdir()
    file.write_bytes(b"{")
    assert fsck.main([str(uri), "--run-on", "local", "--repair", "--dry-run"]) == 22
    assert file.read_bytes() == b"{"
    assert fsck.main([str(uri), "--run-on", "local", "--repair"]) == 0
    assert "exp" in lance.dataset(str(uri)).branches.list()
    capsys.readouterr()
    assert fsck.main([str(uri), "--undo", "last"]) == 0
    assert "1 of 1 step undone" in capsys.readouterr().out
    assert file.read_bytes() == b"{"
    for wrong in ([], [str(uri), "--catalog", str(tmp_path)], [str(uri), "--dry-run"], ["--catalog", "x", "--repair"]):
        assert fsck.main(wrong) == 2


def test_all_tables_of_a_catalog_are_checked(tmp_path, capsys):
    lake, report, fsck = tmp_path / "lake", tmp_path / "report.json", job("fsck")
    for name in "ab":
        lance.write_dataset(numbers(3), str(lake / f"{name}.lance"))
    assert fsck.main(["--catalog", str(lake), "--run-on", "local"]) == 0
    assert "sound; 2 tables" in capsys.readouterr().out
    next((lake / "b.lance" / "data").iterdir()).unlink()
    assert fsck.main(["--catalog", str(lake), "--run-on", "local", "--report", str(report)]) == 22
    tables = json.loads(report.read_text())["tables"]
    assert [(table["table"], table["exit_code"]) for table in tables] == [("b", 22), ("a", 0)]
