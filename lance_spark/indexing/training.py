"""How a vector index is trained on so many rows. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from lance_spark.errors import InvalidOption, Refused
from lance_spark.indexing.kinds import Kind

_SAMPLE_RATE = 256
_LEAST_RATE = 2
"""pylance refuses fewer sampled rows for each centroid."""
_MOST_PARTITIONS = 4096
_ITERATIONS = 50
_BITS = 8


class Training(NamedTuple):
    """What a model is trained with. A sample has ``sample_rate`` rows for each centroid."""

    metric: str
    partitions: int
    sample_rate: int
    max_iters: int
    sub_vectors: int | None = None
    """Of kinds with a codebook."""
    bits: int = _BITS
    codebook_rate: int = _SAMPLE_RATE


def least_rows(kind: Kind, settings: Mapping[str, Any]) -> int:
    """The fewest rows that a model of the kind can be trained on."""
    if kind.has_codebook:
        return int(_LEAST_RATE * 2 ** settings.get("num_bits", _BITS))
    return _LEAST_RATE


def plan_training(kind: Kind, settings: Mapping[str, Any], dimension: int, rows: int) -> Training:
    """Raises InvalidOption for settings that do not fit the vectors, and Refused for too few rows."""
    least = least_rows(kind, settings)
    if rows < least:
        raise Refused(
            f"An index of kind '{kind.name}' is trained on at least {least:,} rows, and there are {rows:,}.",
            hint="Make an index of kind 'ivf_flat', or none: so few rows are searched one by one.",
        )
    partitions = settings.get("num_partitions") or min(_MOST_PARTITIONS, max(1, round(math.sqrt(rows))))
    partitions = partitions if "num_partitions" in settings else min(partitions, rows // _LEAST_RATE)
    if partitions * _LEAST_RATE > rows:
        raise InvalidOption(
            f"There are {rows:,} rows, too few for {partitions:,} partitions.",
            hint=f"Leave num_partitions out, or give at most {rows // _LEAST_RATE:,}.",
        )
    wanted = max(_LEAST_RATE, settings.get("sample_rate", _SAMPLE_RATE))
    training = Training(
        metric=settings.get("metric", METRIC),
        partitions=partitions,
        sample_rate=min(wanted, rows // partitions),
        max_iters=settings.get("max_iters", _ITERATIONS),
        bits=settings.get("num_bits", _BITS if kind.has_codebook else 1),
    )
    if not kind.has_codebook:
        return training
    return training._replace(
        sub_vectors=_sub_vectors(settings.get("num_sub_vectors"), dimension),
        codebook_rate=min(wanted, rows // 2**training.bits),
    )


METRIC = "l2"
"""The metric where none is given, as in pylance."""


def _sub_vectors(given: int | None, dimension: int) -> int:
    if given is None:
        size = next((size for size in (16, 8) if dimension % size == 0), None)
        if size is not None:
            return dimension // size
    elif dimension % given == 0:
        return given
    raise InvalidOption(
        f"Vectors of length {dimension} cannot be cut into {given or 'sub-vectors of 16 or 8'} parts.",
        hint=f"Give num_sub_vectors, a divisor of {dimension}.",
    )
