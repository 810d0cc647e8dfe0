"""What a change of rows did. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.refs.model import PinnedVersion
from lance_spark.show.card import ShownInOneLine
from lance_spark.show.words import counted, readable


@dataclass(frozen=True, repr=False)
class ChangeResult(ShownInOneLine):
    """What a change of rows did; prints as one line."""

    version: PinnedVersion
    """The new version; the newest one where no row changed."""
    rows_deleted: int = 0
    rows_updated: int = 0
    rows_inserted: int = 0
    files: int = 0
    """Files written: data files and deletion files."""
    bytes: int = 0
    """Bytes of the data files."""

    @property
    def changed(self) -> bool:
        """Whether a version was committed."""
        return bool(self.rows_deleted or self.rows_updated or self.rows_inserted)

    def __str__(self) -> str:
        """``exp@7: 3 rows deleted, 2 updated, 1 inserted; 2 files, 1.2 KiB``."""
        if not self.changed:
            return f"{self.version}: no row changed"
        rows = f"{counted(self.rows_deleted, 'row')} deleted, {self.rows_updated:,} updated"
        rows += f", {self.rows_inserted:,} inserted"
        return f"{self.version}: {rows}; {counted(self.files, 'file')}, {readable(self.bytes)}"

    def _facts(self) -> tuple[tuple[str, str], ...]:
        return (
            ("version", str(self.version)),
            ("rows deleted", f"{self.rows_deleted:,}"),
            ("rows updated", f"{self.rows_updated:,}"),
            ("rows inserted", f"{self.rows_inserted:,}"),
            ("written", f"{counted(self.files, 'file')}, {readable(self.bytes)}" if self.changed else "nothing"),
        )
