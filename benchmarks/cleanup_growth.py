"""How the time of a cleanup grows when versions, files and parallelism double; the local runner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.cleanup_cases import ours
from benchmarks.cleanup_data import AGED, FRESH, file_count, history
from benchmarks.cleanup_measure import Scenario, measure
from lance_spark.engine.local import LocalRunner

_STEPS = (1, 2, 4)


@dataclass(frozen=True)
class Point:
    """One size, and the median seconds at it."""

    doubled: str
    fragments: int
    versions: int
    parallelism: int
    aged: float = 0.0
    fresh: float = 0.0


def growth(fragments: int, versions: int, rounds: int) -> list[Point]:
    """Around a middle size: a half and twice as many of everything, one at a time."""
    return [_measured(point, rounds) for point in _points(fragments, versions)]


def _points(fragments: int, versions: int) -> Iterator[Point]:
    usual = LocalRunner().parallelism
    for step in _STEPS:
        yield Point("versions", fragments, versions * step // 2, usual)
    for step in _STEPS:
        yield Point("files", fragments * step // 2, versions, usual)
    for step in _STEPS:
        yield Point("parallelism", fragments, versions, step)


def _measured(point: Point, rounds: int) -> Point:
    seconds = {}
    for age in (AGED, FRESH):
        dataset = history(point.fragments, point.versions, age)
        scenario = Scenario(
            copy=dataset.copy,
            check=dataset.check,
            files=file_count,
            work={"ours": lambda uri: ours(uri, None, LocalRunner(point.parallelism))},
        )
        result = measure(point.doubled, scenario, rounds)
        if result.problems:
            raise AssertionError(result.problems["ours"])
        seconds[age] = result.medians["ours"]
    return Point(point.doubled, point.fragments, point.versions, point.parallelism, seconds[AGED], seconds[FRESH])


def growth_table(points: list[Point]) -> str:
    """A Markdown table."""
    lines = ["| what doubles | fragments | versions | threads | aged, s | fresh, s |", "|---|---:|---:|---:|---:|---:|"]
    lines += [
        f"| {point.doubled} | {point.fragments:,} | {point.versions:,} | {point.parallelism} "
        f"| {point.aged:.3f} | {point.fresh:.3f} |"
        for point in points
    ]
    return "\n".join(lines)
