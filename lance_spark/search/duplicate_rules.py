"""Near duplicates: the parts of a text, signatures that are alike if texts are, and how alike texts are. Pure.

The similarity of two texts is the share of their parts (shingles) that both have: Jaccard. A signature has, for each of
several hash functions, the least value over the parts. Two signatures agree in each place with exactly that
probability. Rows whose signatures agree in a whole band of places are compared. Hardly any less similar texts are, and
the comparison itself is exact.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.core.texts import meant
from lance_spark.errors import InvalidOption, Refused
from lance_spark.format.row_values import hash_rows

_PLACES = 128
"""Maximum length of a signature."""
_RECALL = 0.995
"""Minimum share of pairs exactly at the threshold that must be compared; of more similar pairs, more are."""
_WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class Shingling:
    """How a text is divided: into runs of this many words, or of this many characters."""

    of: str = "words"
    size: int = 3

    def __post_init__(self) -> None:
        if self.of not in ("words", "characters"):
            raise InvalidOption(f"shingles must be 'words' or 'characters', not {self.of!r}.")
        if type(self.size) is not int or self.size < 1:
            raise InvalidOption(f"size must be a whole number, 1 or more, not {self.size!r}.")

    def parts(self, text: str) -> set[str]:
        """The shingles, in lower case. A shorter text is one shingle; a text without words has none."""
        words = _WORDS.findall(text.lower())
        if not words:
            return set()
        if self.of == "characters":
            whole = " ".join(words)
            return {whole[at : at + self.size] for at in range(max(1, len(whole) - self.size + 1))}
        return {" ".join(words[at : at + self.size]) for at in range(max(1, len(words) - self.size + 1))}


@dataclass(frozen=True)
class Banding:
    bands: int
    rows: int
    """Places in each band."""

    def recall(self, similarity: float) -> float:
        """The probability that two texts of this similarity are compared."""
        return 1.0 - (1.0 - similarity**self.rows) ** self.bands


@dataclass(frozen=True)
class Pairing:
    """Which pairs to form from rows that share a key, and for how many rows at most."""

    copies: str = "all"
    """Whether rows with the same parts are paired with each other and with all others, or only the first of them."""
    max_group: int = 5_000
    """The number of pairs grows with its square: a task with a million equal rows would never end."""

    def __post_init__(self) -> None:
        if self.copies not in ("all", "first"):
            raise InvalidOption(f"copies must be 'all' or 'first', not {self.copies!r}.")
        if type(self.max_group) is not int or self.max_group < 2:
            raise InvalidOption(f"max_group must be a whole number, 2 or more, not {self.max_group!r}.")

    def check_rows(self, rows: Sequence[int]) -> None:
        """Raise Refused for too many rows that share a key, if all of them would be paired."""
        if self.copies == "all" and len(rows) > self.max_group:
            raise Refused(
                f"{len(rows):,} rows or more, including the one with _rowid {min(rows)}, may all be alike: "
                f"{comb(len(rows), 2):,} pairs.",
                hint=f"Equal texts: copies='first' pairs each only with the first of them. {_PARTED}",
            )

    def pairs(self, groups: Sequence[list[int]]) -> Iterator[tuple[list[int], list[int]]]:
        """Pairs of groups of rows with the same parts: each with itself, and two by two. Raises Refused if too many."""
        if len(groups) > self.max_group:
            raise Refused(
                f"{len(groups):,} different texts, including that of the row with _rowid {groups[0][0]}, may be alike: "
                f"{comb(len(groups), 2):,} pairs to compare.",
                hint=f"Texts of one template are alike. {_PARTED}",
            )
        for group in groups:
            if len(group) > 1:
                yield group, group
        shown = groups if self.copies == "all" else [group[:1] for group in groups]
        yield from combinations(shown, 2)

    def equal(self, group: Sequence[int]) -> Iterator[tuple[int, int]]:
        """The pairs of rows with the same parts."""
        return combinations(group, 2) if self.copies == "all" else ((group[0], other) for other in group[1:])


def parse_pairing(given: Mapping[str, Any]) -> Pairing:
    """The pairing that options define. Raises InvalidOption."""
    known = [field.name for field in fields(Pairing)]
    for name in given:
        if name not in known:
            raise InvalidOption(f"A search for near duplicates has no option '{name}'.", hint=meant(name, known))
    return Pairing(**given)


_PARTED = "To get fewer, use filter=, a larger size= or a higher threshold=; to allow them, raise max_group=."


def banding(threshold: float) -> Banding:
    """The longest bands, so the fewest comparisons, that miss hardly any pair. Raises InvalidOption."""
    if type(threshold) not in (int, float) or not 0.0 < threshold <= 1.0:
        raise InvalidOption(f"threshold must be above 0 and at most 1, not {threshold!r}.")
    cuts = [Banding(_PLACES // rows, rows) for rows in range(1, 33)]
    fitting = [cut for cut in cuts if cut.recall(threshold) >= _RECALL]
    if not fitting:
        least = next(share / 100 for share in range(1, 101) if cuts[0].recall(share / 100) >= _RECALL)
        raise InvalidOption(
            f"With threshold={threshold}, pairs that are so different would be missed.",
            hint=f"Give {least} or more.",
        )
    return fitting[-1]


def jaccard(one: set[str], other: set[str]) -> float:
    """The share of parts in common; 0 if there are none."""
    return len(one & other) / len(one | other) if one or other else 0.0


@dataclass(frozen=True)
class Signer:
    """Makes keys of texts: similar texts share one."""

    shingling: Shingling
    banding: Banding

    def keys(self, texts: Sequence[str | None]) -> tuple[list[int], list[bytes], npt.NDArray[np.int64]]:
        """(places of texts that have parts, digests that identify sets of parts, a key of each text for each band)."""
        places: list[int] = []
        digests: list[bytes] = []
        parts: list[str] = []
        lengths: list[int] = []
        for place, text in enumerate(texts):
            found = sorted(self.shingling.parts(text)) if text is not None else []
            if found:
                places.append(place)
                # No part contains a line break: parts are words separated by blanks.
                digests.append(hashlib.blake2b("\n".join(found).encode(), digest_size=16).digest())
                parts += found
                lengths.append(len(found))
        return places, digests, self._banded(parts, lengths)

    def _banded(self, parts: list[str], lengths: list[int]) -> npt.NDArray[np.int64]:
        bands, rows = self.banding.bands, self.banding.rows
        keys = np.zeros((len(lengths), bands), np.int64)
        if not lengths:
            return keys
        values = hash_rows([pa.array(parts, pa.large_string())], len(parts)) >> np.uint64(32)
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        for band in range(bands):
            least = [
                pa.array(np.minimum.reduceat((factor * values + term) >> np.uint64(32), starts))
                for factor, term in (_function(band * rows + place) for place in range(rows))
            ]
            number = pa.array(np.full(len(lengths), band, np.int64))
            keys[:, band] = hash_rows([number, *least], len(lengths)).view(np.int64)
        return keys


def _function(number: int) -> tuple[np.uint64, np.uint64]:
    """A hash function, the same on all machines: numpy's random numbers may change with a release."""
    random = hashlib.blake2b(b"lance_spark %d" % number, digest_size=16).digest()
    factor, term = np.frombuffer(random, "<u8").astype(np.uint64)
    return factor | np.uint64(1), term


def runs(keys: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Runs of equal keys in sorted keys, as (from, to)."""
    edges = np.flatnonzero(np.diff(keys)) + 1
    begins = np.concatenate([[0], edges])
    ends = np.concatenate([edges, [len(keys)]])
    several = ends - begins > 1
    yield from zip(begins[several].tolist(), ends[several].tolist(), strict=True)


def members(rows: Sequence[int], digests: Sequence[bytes]) -> list[list[int]]:
    """Rows grouped by equal parts, ascending; ordered by their first rows."""
    groups: dict[bytes, list[int]] = {}
    for row, digest in sorted(zip(rows, digests, strict=True)):
        groups.setdefault(digest, []).append(row)
    return list(groups.values())
