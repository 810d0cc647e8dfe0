"""A peer's process that has one core, which is what each of two executors has on a machine of two cores."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def on_one_core(function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Call a function of a module in the one process that has one core. What it keeps for itself stays there."""
    return _process().submit(function, *given, **named).result()


@cache
def _process() -> ProcessPoolExecutor:
    """Its threads inherit the one core, those that native libraries start as they are imported among them."""
    pool = ProcessPoolExecutor(1, get_context("spawn"))
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        pool.submit(os.getpid).result()
    finally:
        os.sched_setaffinity(0, cores)
    return pool
