"""Runs lance-git and lance-catalog: as people do, in a process, or through the same entry point in this one."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from lance_spark.cli.catalog.main import main as catalog_main
from lance_spark.cli.main import main
from lance_spark.core.workspace import Workspace
from lance_spark.workspace.workspace_files import create_workspace

SCRIPT = Path(sys.executable).parent / "lance-git"
CATALOG_SCRIPT = SCRIPT.with_name("lance-catalog")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    def json_of(self, code: int) -> Any:
        """The JSON of a result with another exit code."""
        assert self.code == code, self.err
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The lines of an error, checked to be an error's: no result, no traceback."""
        assert self.code != 0
        assert not self.out
        assert "Traceback" not in self.err
        return self.err


def run(directory: str | Path, *arguments: object, script: Path = SCRIPT, **environment: str) -> Done:
    """The installed console script, in a process of its own, without a terminal."""
    done = subprocess.run(
        [script, *map(str, arguments)],
        cwd=directory,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def catalog(root: str | Path, *arguments: object) -> Done:
    """lance-catalog on a catalog, in this process."""
    return call(Path(root).parent, "-C", root, *arguments, main=catalog_main)


def call(directory: str | Path, *arguments: object, main: Callable[[Sequence[str]], int] = main) -> Done:
    """The entry point of that script, in this process."""
    out, err = io.StringIO(), io.StringIO()
    before = os.getcwd()
    os.chdir(directory)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(argument) for argument in arguments])
    finally:
        os.chdir(before)
    return Done(code, out.getvalue(), err.getvalue())


def append(directory: str | Path, branch: str | None = None, *values: int) -> None:
    """One version more on a branch, written by pylance."""
    dataset = lance.dataset(str(directory)) if branch is None else lance.dataset(f"{directory}/tree/{branch}")
    lance.write_dataset(pa.table({"id": pa.array(values or (1,), pa.int64())}), dataset, mode="append")


def ids(directory: str | Path, branch: str | None = None) -> list[int]:
    """The rows of a branch, read by pylance."""
    dataset = lance.dataset(str(directory) if branch is None else f"{directory}/tree/{branch}")
    return list(dataset.to_table()["id"].to_pylist())


def config(directory: str | Path) -> str:
    return (Path(directory) / ".lance-git" / "config.toml").read_text()


def make_flights(parent: Path) -> Path:
    """A dataset that is its own workspace.

    main has versions 1 to 4, exp was made from main@3 and has 3 to 5, idle was made from main@4 and nothing wrote to
    it; tag v1 is main@2; 'both' is a branch and a tag.
    """
    directory = parent / "flights.lance"
    dataset = lance.write_dataset(pa.table({"id": pa.array([], pa.int64())}), str(directory))
    for value in (10, 20, 30):
        append(directory, None, value)
    for name, version in (("exp", 3), ("idle", 4), ("both", 4)):
        dataset.create_branch(name, ("main", version))
    append(directory, "exp", 31)
    append(directory, "exp", 32)
    dataset.tags.create("v1", ("main", 2))
    dataset.tags.create("both", ("main", 1))
    create_workspace(str(directory), Workspace("."))
    return directory
