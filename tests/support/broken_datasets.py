"""A dataset with everything, and ways to break it."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import lance

from lance_spark.clones.clone import shallow_clone
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions
from lance_spark.fsck.repair import fsck_and_repair
from lance_spark.fsck.report import FsckReport
from lance_spark.storage.datasets import locate
from lance_spark.storage.resolving import resolve
from support.cleanup_datasets import age, append, manifest, place, put
from support.local_datasets import numbers


def rich(uri: str) -> str:
    """Main and a branch with data, deletions and an index of their own, old versions, tags, and a clone."""
    lance.write_dataset(numbers(60), uri, max_rows_per_file=20)
    dataset = lance.dataset(uri)
    dataset.delete("id IN (1, 2, 25)")
    dataset.create_scalar_index("id", "BTREE")
    dataset.tags.create("v3", 3)
    dataset.create_branch("dev")
    append(uri, 100, 7, branch="dev")
    lance.dataset(place(uri, "dev")).delete("id = 101")
    lance.dataset(place(uri, "dev")).tags.create("on-dev", ("dev", 5))
    append(uri, 200, 9)
    location = locate(uri)
    shallow_clone(location, resolve(location, RefSpec(None, version=3)), locate(f"{uri}-clone"))
    return uri


def data(uri: str, branch: str | None = None, number: int = 0) -> Path:
    return sorted(
        Path(place(uri, branch), "data").glob("*.lance"), key=lambda path: (path.stat().st_mtime_ns, path.name)
    )[number]


def deletions(uri: str, branch: str | None = None, number: int = 0) -> Path:
    return sorted(Path(place(uri, branch), "_deletions").iterdir())[number]


def index(uri: str, branch: str | None = None, pattern: str = "*.lance") -> Path:
    return sorted(Path(place(uri, branch), "_indices").glob(f"*/{pattern}"))[0]


def cut(path: Path, by: int = 10) -> None:
    path.write_bytes(path.read_bytes()[:-by])


def overwrite_tail(path: Path, count: int = 12) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-count] + b"\0" * count)


def swap(first: Path, second: Path) -> None:
    """Two files of the same size change places."""
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)


def transaction(uri: str, branch: str | None = None) -> Path:
    return sorted(Path(place(uri, branch), "_transactions").iterdir())[0]


def drop_index(uri: str) -> None:
    shutil.rmtree(index(uri).parent)


def tag_elsewhere(uri: str) -> None:
    file = Path(uri, "_refs", "tags", "v3.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "version": 99}))


def shorter_deletions(uri: str) -> None:
    """A sound deletion file, of another fragment."""
    files = sorted(Path(uri, "_deletions").iterdir(), key=lambda path: path.name)
    files[0].write_bytes(files[1].read_bytes())


def other_version(uri: str) -> None:
    manifest(uri, 2).write_bytes(manifest(uri, 1).read_bytes())


def without_ref(uri: str) -> None:
    Path(uri, "_refs", "branches", "dev.json").unlink()


def old_orphan(uri: str) -> None:
    age(put(uri, "data/0123456789abcdef.lance"), 30)


def overwrite_middle(path: Path) -> None:
    """Everything but the magic bytes at the end."""
    content = path.read_bytes()
    path.write_bytes(b"\xff" * (len(content) - 8) + content[-8:])


def ref(uri: str, name: str, kind: str = "branches") -> Path:
    """The ref file of a branch or, with ``tags``, of a tag."""
    return Path(uri, "_refs", kind, f"{name.replace('/', '%2F')}.json")


def children(uri: str) -> None:
    """A branch of the branch, too."""
    rich(uri)
    lance.dataset(place(uri, "dev")).create_branch("dev/deep")


def check(uri: str, deep: bool = False, on_main: bool = False, execute: bool = False) -> FsckReport:
    """Check, plan a repair, and do it if it is to be executed."""
    repair = RepairOptions(on_main, dry_run=not execute)
    return fsck_and_repair(locate(uri), FsckOptions(deep), repair, LocalRunner(2), time.time_ns())


def state(uri: str) -> dict[str, bytes]:
    """All files with their bytes."""
    paths = (path for path in Path(uri).rglob("*") if path.is_file())
    return {str(path.relative_to(uri)): path.read_bytes() for path in paths}


def readable(uri: str, branch: str | None) -> list[int]:
    """Ids of the rows that pylance reads."""
    return sorted(lance.dataset(place(uri, branch)).to_table(["id"])["id"].to_pylist())
