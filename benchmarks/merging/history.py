"""(c): the verbs that look at a history, on 10,000 versions and 1,000 branches; each as a process of its own."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median

import lance
import pyarrow as pa
from lance.fragment import write_fragments

from benchmarks.data import HOME
from benchmarks.measure import Case, Result, Target
from benchmarks.merging.data import once
from lance_spark.cli.main import main
from lance_spark.core.workspace import Workspace
from lance_spark.workspace.workspace_files import create_workspace, open_workspace

SCRIPT = Path(sys.executable).parent / "lance-git"
_FRAGMENTS = 10
_SECONDS = 1.0
_OPEN = "import sys, lance; lance.dataset(sys.argv[1])"


@dataclass(frozen=True)
class Long:
    """A dataset with a long history; branches were made all along it, and each has one version of its own."""

    uri: str
    names: tuple[str, ...]
    """Of the branches, the oldest first."""
    _numbers: Iterator[int] = field(default_factory=count)

    def workspace(self, branch: str) -> str:
        """A directory in which ``lance-git`` is on that branch."""
        directory = f"{self.uri}.{branch.replace('/', '-')}"
        if open_workspace(directory) is None:
            create_workspace(directory, Workspace(self.uri, branch))
        return directory

    def new_name(self) -> str:
        return f"new{next(self._numbers)}"

    def forget(self, arguments: Sequence[str]) -> None:
        """Delete the branch that was just made."""
        lance.dataset(self.uri).branches.delete(arguments[-1])


@dataclass(frozen=True)
class Verb:
    """A command line, and what has to be done after it."""

    arguments: Callable[[], tuple[str, ...]]
    branch: str = "main"
    """That the workspace is on."""
    undo: Callable[[Sequence[str]], None] = lambda _: None


def long_history(versions: int, branches: int) -> Long:
    """Make it, if it is not there yet."""
    names = tuple(f"team{number // 50}/exp{number % 50}" for number in range(branches))
    home = HOME / f"merge-history-{versions}x{branches}"
    made = Long(once(home, lambda uri: _make(uri, versions, names)), names)
    for left in {*lance.dataset(made.uri).branches.list()} - set(names):
        made.forget((left,))  # by a run that was interrupted
    return made


def history(versions: int, branches: int, rounds: int) -> Iterator[Result]:
    """Each verb as a process, beside the same in a process that runs already, and one that only opens the dataset."""
    made = long_history(versions, branches)
    for name, verb in _verbs(made).items():
        print(f"measuring: (c) {name}", flush=True)
        yield _measured(f"(c) {name}", made, verb, rounds)


def _verbs(made: Long) -> dict[str, Verb]:
    oldest, middle, newest = made.names[0], made.names[len(made.names) // 2], made.names[-1]
    return {
        "branch NAME": Verb(lambda: ("branch", made.new_name()), undo=made.forget),
        "branch": Verb(lambda: ("branch",)),
        "log -n 30": Verb(lambda: ("log", "-n", "30")),
        "log --all": Verb(lambda: ("log", "--all")),
        "log --all -n 0": Verb(lambda: ("log", "--all", "-n", "0")),
        "status, main": Verb(lambda: ("status",)),
        "status, the newest branch": Verb(lambda: ("status",), newest),
        "status, the oldest branch": Verb(lambda: ("status",), oldest),
        "diff --stat main..BRANCH": Verb(lambda: ("diff", "--stat", f"main..{middle}")),
        "merge --dry-run, the newest branch": Verb(lambda: ("merge", "--dry-run", newest)),
        "merge --dry-run, the oldest branch": Verb(lambda: ("merge", "--dry-run", oldest)),
    }


def _measured(name: str, made: Long, verb: Verb, rounds: int) -> Result:
    directory = made.workspace(verb.branch)
    work: dict[str, Callable[[Sequence[str]], None]] = {
        "ours": lambda arguments: _process([str(SCRIPT), "-C", directory, *arguments]),
        "ours_inside": lambda arguments: _inside(["-C", directory, *arguments]),
        "pylance_opens": lambda _: _process([sys.executable, "-c", _OPEN, made.uri]),
    }
    target = Target(f"less than {_SECONDS:g} s", seconds=_SECONDS)
    result = Result(name, Case(dict.fromkeys(work, tuple), (target,)))
    for turn in range(rounds + 1):
        for who, act in work.items():
            arguments = verb.arguments()
            started, worked = time.perf_counter(), _cpu()
            act(arguments)
            seconds, cpu = time.perf_counter() - started, _cpu() - worked
            if who != "pylance_opens":
                verb.undo(arguments)
            if turn:
                result.seconds.setdefault(who, []).append(seconds)
                result.details.setdefault(who, {"cpu_seconds": []})["cpu_seconds"].append(cpu)
    return result


def history_table(results: Sequence[Result]) -> str:
    """A Markdown table: the whole process, its processor time, and what of it is not starting Python and pylance."""
    lines = [
        "| verb | process, s | its CPU, s | inside, s | a process that opens it with pylance, s | less than 1 s |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for result in results:
        seconds = result.medians
        cpu = median(result.details["ours"]["cpu_seconds"])
        reached = "reached" if result.case.targets[0].reached(seconds) else "MISSED"
        lines.append(
            f"| {result.name.removeprefix('(c) ')} | {seconds['ours']:.2f} | {cpu:.2f} | {seconds['ours_inside']:.3f} "
            f"| {seconds['pylance_opens']:.2f} | {reached} |"
        )
    return "\n".join(lines)


def _cpu() -> float:
    """Processor time of this process and of those it waited for, in seconds."""
    return sum(os.times()[:4])


def _process(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: {done.stderr}")


def _inside(arguments: Sequence[str]) -> None:
    """The same entry point in this process, which has everything imported."""
    before, output = os.getcwd(), io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = main(arguments)
    finally:
        os.chdir(before)
    if code:
        raise AssertionError(f"{' '.join(arguments)}: {output.getvalue()}")


def _make(uri: str, versions: int, names: Sequence[str]) -> None:
    rows = pa.table({"id": pa.array(range(_FRAGMENTS), pa.int64())})
    files = list(write_fragments(rows, uri, max_rows_per_file=1, max_rows_per_group=1))
    dataset = lance.LanceDataset.commit(uri, lance.LanceOperation.Overwrite(rows.schema, files))
    step = max(1, versions // len(names))
    forks = {min(versions, number * step + 1): name for number, name in enumerate(names)}
    for version in range(1, versions + 1):
        dataset = dataset if version == 1 else _touch(dataset)
        if version in forks:
            _touch(dataset.create_branch(forks[version]))


def _touch(dataset: lance.LanceDataset) -> lance.LanceDataset:
    """A version more, in which a fragment is written down as it is: no data file."""
    same = lance.LanceOperation.Update(updated_fragments=[dataset.get_fragments()[0].metadata])
    return lance.LanceDataset.commit(dataset, same, read_version=dataset.version)
