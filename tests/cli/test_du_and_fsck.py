"""``du`` and ``fsck``: tables for people, JSON for programs, exit codes for scripts."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import lance
from support.command_line import call


def dataset_of(flights):
    return Path(lance.dataset(str(flights)).uri)


def test_du_tells_bytes_by_kind_and_what_refs_cost(flights):
    told = call(flights, "du").out
    assert told.splitlines()[0].split() == ["kind", "files", "bytes", "no", "ref", "needs"]
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
