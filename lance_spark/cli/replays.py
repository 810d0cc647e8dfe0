"""Prints what a merge, a cherry-pick or a revert did, or would do."""

from __future__ import annotations

from lance_spark.cli.output import Output
from lance_spark.cli.printing import painted
from lance_spark.merge.result import MergeResult

CONFLICT = 12
"""Exit code of a dry run that found conflicts: that of the error which the real run ends with."""


def report(output: Output, result: MergeResult) -> int:
    """Print a result, and return the exit code."""
    output.show(result.as_record(), painted(output, result.lines()))
    return exit_code(result)


def exit_code(result: MergeResult) -> int:
    """The exit code of a verb with this result."""
    return CONFLICT if result.conflicts else 0
