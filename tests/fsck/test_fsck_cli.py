"""``du`` and ``fsck``: tables for people, JSON for programs, exit codes for scripts."""

import json
import os
import shutil
import time
from pathlib import Path

import lance
from support.catalogs import make_table
from support.command_line import call, catalog

from lance_spark.catalog.lookup import create_namespace, open_catalog
from lance_spark.catalog.tables import declare_table


def dataset_of(flights):
    return Path(lance.dataset(str(flights)).uri)


def test_du_tells_bytes_by_kind_and_what_refs_cost(flights):
    told = call(flights, "du").out
    assert told.splitlines()[0].split() == ["kind", "of", "file", "files", "bytes", "needed", "by", "no", "ref"]
    refs = call(flights, "du", "--refs")
    assert refs.code == 0
    assert "freed if deleted" in refs.out.splitlines()[0]
    data = call(flights, "du", "--json").json
    assert {"main", "exp", "v1"} <= {record["ref"] for record in data["refs"]}
    own = [path for path in dataset_of(flights).rglob("*") if path.is_file()]
    assert data["bytes"] == sum(path.stat().st_size for path in own)


def test_fsck_says_sound_and_names_what_is_missing(flights):
    sound = call(flights, "fsck", "--deep")
    assert (sound.code, sound.out.startswith("sound")) == (0, True)
    file = sorted((dataset_of(flights) / "data").iterdir())[0]
    file.unlink()
    broken = call(flights, "fsck")
    assert broken.code == 22
    assert "data-missing" in broken.out
    told = call(flights, "fsck", "--json")
    data = json.loads(told.out)
    assert (told.code, data["sound"], data["exit_code"]) == (22, False, 22)
    assert f"data/{file.name}" in {finding["path"] for finding in data["findings"]}


def test_notes_do_not_fail_a_script(flights):
    orphan = dataset_of(flights) / "data" / "0123456789abcdef01234567.lance"
    orphan.write_bytes(b"x" * 10)
    then = time.time() - 30 * 86_400
    os.utime(orphan, (then, then))
    told = call(flights, "fsck", "--json")
    assert (told.code, [finding["severity"] for finding in told.json["findings"]]) == (0, ["note"])


def test_a_repair_is_shown_done_and_taken_back(flights):
    file = sorted((dataset_of(flights) / "_refs" / "branches").iterdir())[0]
    whole = file.read_bytes()
    file.write_bytes(whole[:60])
    told = call(flights, "fsck", "--repair", "--dry-run")
    assert told.code == 22
    assert "write _refs/branches/" in told.out
    assert "Nothing was changed." in told.out
    assert file.read_bytes() == whole[:60]
    assert call(flights, "fsck", "--repair").code == 3  # nobody said yes
    done = call(flights, "fsck", "--repair", "--yes", "--json")
    assert (done.code, done.json["repaired"]["complete"]) == (0, True)
    assert json.loads(file.read_bytes())["parentVersion"] == json.loads(whole)["parentVersion"]
    assert call(flights, "fsck").code == 0
    undone = call(flights, "fsck", "--undo", done.json["repaired"]["record"], "--yes")
    assert (undone.code, "1 of 1 step undone" in undone.out) == (0, True)
    assert file.read_bytes() == whole[:60]
    assert call(flights, "fsck", "--undo", "last", "--yes").code == 10


def test_what_is_beyond_repair_is_named_and_some_is_repaired(flights):
    refs = dataset_of(flights) / "_refs"
    sorted((refs / "branches").iterdir())[0].write_bytes(b"")
    (refs / "tags" / "v1.json").write_bytes(b"")
    done = call(flights, "fsck", "--repair", "--yes")
    assert done.code == 6
    assert "Beyond repair" in done.out
    assert "tags/v1.json" in done.out
    only = call(flights, "fsck", "--repair", "--yes")
    assert (only.code, "0 steps" in only.out) == (22, True)


def test_options_that_do_not_go_together(flights):
    for options in (["--dry-run"], ["--on-main"], ["--undo", "last", "--repair"], ["--undo", "last", "--deep"]):
        assert call(flights, "fsck", *options).code == 2


def test_a_whole_catalog_is_checked(tmp_path):
    root = tmp_path / "lake"
    opened = open_catalog(str(root))
    create_namespace(opened, "ns")
    tables = [make_table(opened, name).location.uri for name in ("ns.a", "ns.b")]
    declare_table(opened, "ns.declared")
    told = catalog(root, "fsck", "--deep")
    assert (told.code, told.out.startswith("sound; 2 tables")) == (0, True)
    next(Path(tables[1], "data").iterdir()).unlink()
    broken = catalog(root, "fsck", "--json")
    data = json.loads(broken.out)
    assert (broken.code, data["sound"]) == (22, False)
    found = {table["table"]: [one["code"] for one in table["findings"]] for table in data["tables"]}
    assert found == {"ns.a": [], "ns.b": ["data-missing"]}
    text = catalog(root, "fsck").out
    assert "ns.b" in text
    assert "data-missing" in text


def test_a_catalog_that_is_wrong_itself(tmp_path):
    root = tmp_path / "lake"
    opened = open_catalog(str(root))
    create_namespace(opened, "ns")
    uri = make_table(opened, "ns.a").location.uri
    shutil.rmtree(uri)
    told = catalog(root, "fsck")
    assert told.code == 6
    assert "dead row" in told.out
