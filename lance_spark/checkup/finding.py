"""One thing that a check found. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.checkup.codes import MEANINGS


@dataclass(frozen=True)
class CheckFinding:
    """One thing that is not as it should be."""

    code: str
    path: str
    """Relative to the dataset, a URI outside of it, or the name of a ref."""
    refs: tuple[str, ...] = ()
    """What is hit: branches, tags and clones; "old versions of main" if only those are."""
    rows: int | None = None
    """How many rows cannot be read, deleted ones among them; None if that is not known."""
    detail: str = ""
    files: int = 1
    """1, or how many files like this one there are."""

    @property
    def severity(self) -> str:
        """error, unreachable, warning or note."""
        return MEANINGS[self.code].severity

    @property
    def says(self) -> str:
        """What is wrong, in words."""
        return " ".join(part for part in (MEANINGS[self.code].says, self.detail) if part)

    @property
    def do(self) -> str:
        """What can be done."""
        return MEANINGS[self.code].do
