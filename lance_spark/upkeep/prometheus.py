"""A maintenance as metrics in the text format of Prometheus, for the textfile collector of a node exporter. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from lance_spark.show.words import one_line
from lance_spark.upkeep.memory import Remembered
from lance_spark.upkeep.records import STATES, TableRecord
from lance_spark.upkeep.report import MaintenanceReport

_PREFIX = "lance_maintenance_"


class _Sample(NamedTuple):
    labels: Mapping[str, str]
    value: float


def to_prometheus(report: MaintenanceReport) -> str:
    """All metrics, each with its help and type. Names of tables are labels; URIs are without secrets."""
    root = {"root": one_line(report.root)}
    run = [
        ("last_run_timestamp_seconds", "When the last maintenance began.", report.started.timestamp()),
        ("duration_seconds", "How long it took.", report.seconds),
        ("executed", "1 if it changed tables, 0 for a dry run.", report.executed),
        ("finished", "1 if it came to its end, 0 while it runs, or if it was killed.", report.finished),
        ("complete", "1 if nothing went wrong and no check found damage, so far.", not report.problems),
    ]
    metrics = [_gauge(name, told, [_Sample(root, value)]) for name, told, value in run]
    tables = [(_Table({**root, "table": record.name}, record, report)) for record in report.tables]
    metrics += [
        _gauge(name, told, [sample for table in tables for sample in samples(table)])
        for name, told, samples in _OF_TABLES
    ]
    return "".join(metrics)


class _Table(NamedTuple):
    labels: Mapping[str, str]
    record: TableRecord
    report: MaintenanceReport

    def owned(self) -> Iterator[_Sample]:
        for kind, size in self.record.kinds.items():
            yield _Sample({**self.labels, "kind": kind}, size.owned)

    def states(self) -> Iterator[_Sample]:
        """Every state, those without a step as well: a series that goes away looks like its last value to an alert."""
        counts = Counter(step.state for step in self.record.steps)
        for state in STATES:
            yield _Sample({**self.labels, "state": state}, counts[state])

    def one(self, value: float) -> Iterator[_Sample]:
        yield _Sample(self.labels, value)

    @property
    def known(self) -> Remembered:
        return self.report.memory.of(self.record.uri)

    def checked(self) -> Iterator[_Sample]:
        if self.known.checked_s is not None:
            yield from self.one(self.known.checked_s)

    def sound(self) -> Iterator[_Sample]:
        if self.known.checked_s is not None:
            yield from self.one(self.known.sound)


_OF_TABLES: tuple[tuple[str, str, Callable[[_Table], Iterator[_Sample]]], ...] = (
    (
        "table_problems",
        "What went wrong with a table, and steps that a finding stopped.",
        lambda table: table.one(len(table.record.problems)),
    ),
    (
        "table_freed_bytes",
        "Bytes that the last maintenance freed, or would free.",
        lambda table: table.one(table.record.freed),
    ),
    ("table_owned_bytes", "Bytes of a table's files before the cleanup, by kind of file.", _Table.owned),
    ("table_steps", "Steps of the last maintenance by state.", _Table.states),
    (
        "table_runs_left",
        "Runs in a row in which time did not allow every step of a table.",
        lambda table: table.one(table.known.left),
    ),
    ("table_checked_timestamp_seconds", "When a table was last checked.", _Table.checked),
    ("table_sound", "1 if the last check of a table found no damage.", _Table.sound),
)


def _gauge(name: str, told: str, samples: list[_Sample]) -> str:
    """One metric; nothing where it has no sample."""
    if not samples:
        return ""
    whole = _PREFIX + name
    lines = [f"# HELP {whole} {_help(told)}", f"# TYPE {whole} gauge"]
    lines += [f"{whole}{_labels(sample.labels)} {_number(sample.value)}" for sample in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_label(value)}"' for name, value in labels.items()) + "}"


def _label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
