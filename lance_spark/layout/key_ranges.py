"""Cuts the files of a dataset into ranges of keys that tasks list side by side. Pure.

A list of prefixes would miss files: data files have had three kinds of names, and users add their own. Ranges that
cover the whole key space miss none, wherever the cuts are; a badly chosen cut only costs balance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

_DIGITS = 9
"""Read versions and fragment ids, with which transaction and deletion files begin, begin with 1 to 9."""


@dataclass(frozen=True)
class KeyRange:
    """The paths behind ``after`` up to ``until``, relative to the dataset's root.

    Paths are in the order of their UTF-8 bytes, as S3 lists them; Python's order of strings is the same one.
    """

    after: str | None
    """Exclusive lower bound; None from the start."""

    until: str | None
    """Inclusive upper bound; None to the end."""

    @staticmethod
    def below(directory: str) -> KeyRange:
        """The paths below a directory, which is given without a slash at its end."""
        return KeyRange(f"{directory}/", f"{directory}0")

    @property
    def prefix(self) -> str:
        """What all paths in the range begin with; it may be empty."""
        pairs = zip(self.after or "", self.until or "", strict=False)
        return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def holds(self, path: str) -> bool:
        """Whether a path is in the range."""
        return (self.after is None or self.after < path) and (self.until is None or path <= self.until)

    def meets(self, directory: str) -> bool:
        """Whether paths below a directory (no slash at its end) can be in the range: those from ``d/`` to ``d0``."""
        return (self.after is None or self.after < f"{directory}0") and (
            self.until is None or f"{directory}/" <= self.until
        )


def clip(ranges: Sequence[KeyRange], directories: Sequence[str]) -> tuple[KeyRange, ...]:
    """The parts of tiled ranges that hold paths below any of the directories (no slash at their ends), without overlap.

    A directory inside another one of them adds nothing.
    """
    outer = sorted({one for one in directories if not any(one.startswith(f"{other}/") for other in directories)})
    return tuple(
        KeyRange(max(part.after or "", f"{directory}/"), min(part.until or f"{directory}0", f"{directory}0"))
        for directory in outer
        for part in ranges
        if part.meets(directory)
    )


def tile(roots: Sequence[str], splits: int) -> tuple[KeyRange, ...]:
    """Ranges that hold every possible path below the dataset's root exactly once, in ascending order.

    ``roots`` are the roots of the chains relative to the dataset's ("" for main, "tree/exp/a" for a branch),
    ``splits`` is the number of large ranges. There are up to about four times as many ranges, most of them small, and
    exactly one range for a single split. Raises ValueError for fewer splits than one.
    """
    if splits < 1:
        raise ValueError(f"A key space cannot be cut into {splits} ranges.")
    cuts = [None, *sorted(set(_cuts(roots, splits))), None] if splits > 1 else [None, None]
    return tuple(KeyRange(after, until) for after, until in pairwise(cuts))


def _cuts(roots: Sequence[str], splits: int) -> Iterator[str]:
    """Where to cut. Main gets half of the splits: branches hold only what was written on them."""
    branches = sorted({root for root in roots if root})
    for_main = 0 if "" not in roots else splits - splits // 2 if branches else splits
    if for_main:
        yield from _cuts_inside("", for_main)
    if not branches:
        return
    for_branches = splits - for_main
    share, many = for_branches // len(branches), len(branches)
    for number, root in enumerate(branches):
        # With more branches than splits, several neighbours share one range.
        if share or number * for_branches // many != (number - 1) * for_branches // many:
            yield f"{root}/"
        yield from _cuts_inside(f"{root}/", share)


def _cuts_inside(prefix: str, share: int) -> Iterator[str]:
    """Cuts inside one chain: names of data files begin with 24 random binary digits, other names with a number."""
    if share < 2:
        return
    bits = (share - 1).bit_length()
    yield from (f"{prefix}data/", f"{prefix}data0")
    yield from (f"{prefix}data/{number:0{bits}b}" for number in range(1, 2**bits))
    groups = min(share, _DIGITS)
    for directory in ("_deletions", "_transactions"):
        yield from (f"{prefix}{directory}/{1 + _DIGITS * group // groups}" for group in range(1, groups))
