"""``lance-git relocate``: what it says, what it asks, and its exit codes."""

import json
import shutil

import lance
import pyarrow as pa
import pytest
from support.command_line import append, call, ids, run


@pytest.fixture
def moved(flights):
    """The dataset with its workspace, at another place."""
    target = flights.with_name("moved.lance")
    shutil.move(flights, target)
    return target


def table(old, new):
    """All three branches, with columns as wide as the paths."""
    path = "base path".ljust(len(old))
    files = {"both": 3, "exp": 2, "idle": 3}
    rows = [f"{branch:<6}  {old}  old place  {count:>5}  {new}\n" for branch, count in files.items()]
    return f"branch  {path}  state      files  read from\n{''.join(rows)}"


def test_a_day_after_a_move(flights, moved):
    """The workspace inside of the dataset names it as '.', so it came along."""
    old, new = str(flights), str(moved)
    trial = run(moved, "relocate", "--dry-run")
    assert trial.code == 0, trial.err
    assert trial.out == table(old, new) + (
        "both: 3 files would be read from the new place; 1 older version can only be read with the old place.\n"
        "exp: 2 files would be read from the new place; 3 older versions can only be read with the old place.\n"
        "idle: 3 files would be read from the new place; 1 older version can only be read with the old place.\n"
        f"  note: Older versions still read from {old}. If that place is gone, a cleanup that keeps one of them has to "
        "know it (known_bases, --known-base).\n"
    )
    refused = call(moved, "relocate")
    assert refused.code == 3
    assert refused.err == (
        f"{table(old, new)}error: Nothing was done, as nobody could be asked: "
        f"both, exp, idle: the files will be read from {new}.\n"
        "hint: Add --yes to do it, or --dry-run to see more.\n"
    )
    done = call(moved, "relocate", "--yes")
    assert done.code == 0, done.err
    assert "exp: 2 files are read from the new place (exp@7); 3 older versions can only be" in done.out
    assert ids(moved, "exp") == [10, 20, 31, 32]
    assert call(moved, "relocate").out.endswith("\nNothing to do.\n")
    assert call(moved, "status", "--json").json["version"] == 4


def test_after_a_move_nothing_is_in_the_way_of_a_cleanup_for_good(moved):
    call(moved, "relocate", "--yes")
    report = call(moved, "fsck", "--json")
    assert report.code == 0
    assert {(each["code"], each["severity"]) for each in report.json["findings"]} == {
        ("base-absent-for-old-versions", "warning")
    }
    for tag in lance.dataset(str(moved)).tags.list():
        lance.dataset(str(moved)).tags.delete(tag)
    now = ("--commit-window", "0s", "--execute", "--yes")
    kept = call(moved, "gc", "--retain-versions", "10", *now)
    assert kept.code == 3
    named = kept.err.partition("--known-base ")[2].partition(",")[0]  # typed as the hint has it
    assert call(moved, "gc", "--retain-versions", "10", "--known-base", named, *now[:2]).code == 0
    done = call(moved, "gc", "--retain-versions", "1", *now)
    assert done.code == 0, done.err
    assert call(moved, "fsck", "--json").json["findings"] == []
    assert ids(moved, "exp") == [10, 20, 31, 32]


def test_a_version_of_a_clone_that_its_branches_were_made_from_is_old_after_its_source_moved(uri, tmp_path):
    lance.write_dataset(pa.table({"id": [1]}), uri)
    clone, new = str(tmp_path / "clone.lance"), str(tmp_path / "new.lance")
    assert call(tmp_path, "clone", uri, clone).code == 0
    shutil.move(uri, new)
    assert call(clone, "fsck").code == 22
    assert call(clone, "relocate", "--from", uri, "--to", new, "--yes").code == 0
    report = call(clone, "fsck", "--json")
    assert (report.code, [each["code"] for each in report.json["findings"]]) == (0, ["base-absent-for-old-versions"])
    now = ("gc", "--older-than", "0s", "--execute", "--yes")
    assert (call(clone, *now).code, call(clone, *now, "--known-base", uri).code) == (3, 0)
    assert ids(clone, "origin/main") == [1]


def test_json(flights, moved):
    call(moved, "tag", "old", "exp")
    data = call(moved, "relocate", "--yes", "--json").json
    assert (data["action"], data["dataset"], data["dry_run"]) == ("relocate", str(moved), False)
    assert [base for base in data["bases"] if base["branch"] == "exp"] == [
        {
            "branch": "exp",
            "path": str(flights),
            "state": "old place",
            "files": 2,
            "indexes": [],
            "to": str(moved),
            "missing": [],
        }
    ]
    assert data["branches"][1] == {
        "branch": "exp",
        "before": 5,
        "version": 7,
        "files": 2,
        "indexes": [],
        "indexes_missing": [],
        "older_versions": 3,
        "tags": ["old"],
    }


def test_a_branch_that_cannot_be_repaired_is_an_exit_code_of_its_own(flights, moved):
    # The first one is in every branch; exp lacks one of its two files, the others two of three.
    lost = [fragment.data_files()[0].path for fragment in lance.dataset(str(moved)).get_fragments()]
    for name in lost[1:]:
        (moved / "data" / name).unlink()
    done = call(moved, "relocate", "--yes")
    assert done.code == 10
    assert f"{flights} is left alone: 1 of its files are not in {moved}: data/" in done.out
    for name in lost[:1]:
        (moved / "data" / name).unlink()
    done = call(moved, "relocate", "--yes", "--json")
    assert done.code == 10
    assert {base["state"] for base in json.loads(done.out)["bases"]} == {"absent"}


def test_a_clone_whose_source_moved(flights, moved, tmp_path):
    clone = tmp_path / "clone.lance"
    lance.dataset(str(moved)).shallow_clone(str(clone), 4)
    append(clone, None, 50)
    further = moved.with_name("further.lance")
    shutil.move(moved, further)
    assert call(tmp_path, "--dataset", clone, "relocate").code == 10
    done = call(tmp_path, "--dataset", clone, "relocate", "--from", moved, "--to", "further.lance", "--yes", "--json")
    assert [branch["version"] for branch in done.json["branches"]] == [7]
    assert ids(clone) == [10, 20, 30, 50]
    assert call(tmp_path, "--dataset", clone, "relocate", "--from", flights).code == 10
    assert call(tmp_path, "--dataset", clone, "relocate", "--to", flights).code == 2
    assert call(tmp_path, "--dataset", clone, "relocate", "--from", clone).code == 2


def test_without_branches_there_is_nothing_to_look_at(tmp_path):
    assert call(tmp_path, "init", "t.lance").code == 0
    done = call(tmp_path / "t.lance", "relocate")
    assert (done.code, done.out) == (0, "No branch has a base path: nothing is read from anywhere else.\n")
