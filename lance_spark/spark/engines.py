"""Which engine a handle or a job runs on: threads of this process for little work, Spark beyond."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from lance_spark.errors import InvalidOption
from lance_spark.runner.auto import AutoEngine
from lance_spark.runner.interface import Engine
from lance_spark.runner.local import LocalRunner
from lance_spark.show.progress import Tell, WorkProgress, to_tell, untold
from lance_spark.spark.session import needed_session, session_or_none

if TYPE_CHECKING:
    from argparse import _ActionsContainer

    from pyspark.sql import SparkSession

Where = Literal["auto", "spark", "local"]
Progressing: TypeAlias = Callable[[WorkProgress], object] | None
"""The argument ``progress`` of a verb: a function such as ``print``, or None."""
_HINT = "Give one, as in LanceTable.for_path(spark, uri), or choose where='local'."


def add_where(parser: _ActionsContainer) -> None:
    """Give a job's command line the options ``--where`` and ``--local``."""
    parser.add_argument(
        "--where",
        choices=get_args(Where),
        default="auto",
        help="on threads of this process while that is quick, else on Spark (auto, the default); or always on one",
    )
    parser.add_argument("--local", dest="where", action="store_const", const="local", help="the same as --where local")


def engine_of(spark: SparkSession | None, where: Where = "auto", progress: Progressing = None) -> Engine:
    """The engine of a handle. Without a session, and without an active one, "auto" is threads for all work.

    ``progress`` is told how far it is. Raises InvalidOption for another ``where``, and for what is no function. What
    "spark" raises without a session, Refused, comes with the work.
    """
    return engine_for(where, lambda: session_or_none(spark), tell=to_tell(progress))


def engine_for(
    where: Where,
    session: Callable[[], SparkSession | None],
    parallelism: int | None = None,
    tell: Tell = untold,
) -> Engine:
    """The engine of that name. ``session`` is called when there is work for Spark and not before.

    ``parallelism`` is the number of tasks side by side; ``tell`` is told how far it is.
    """
    if where not in get_args(Where):
        raise InvalidOption(f"Work runs on {', '.join(map(repr, get_args(Where)))}, not on {where!r}.")
    local = LocalRunner(parallelism, tell)

    def on_spark() -> Engine:
        from lance_spark.spark.runner import SparkEngine  # takes half a second, which little work does not need

        return SparkEngine(lambda: needed_session(session(), _HINT), parallelism, tell)

    if where == "auto":
        return AutoEngine(local, lambda: local if session() is None else on_spark())
    return local if where == "local" else on_spark()
