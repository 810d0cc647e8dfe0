"""What a dataset's refs cost, for people and for programs. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from lance_spark.errors import NotFound
from lance_spark.show.card import Card, Grid, Shown
from lance_spark.show.words import counted, readable
from lance_spark.usage.costs import Costs, RefUsage
from lance_spark.usage.holders import OLD, Holder

USAGE = pa.schema(
    [
        ("ref", pa.string()),
        ("kind", pa.string()),
        ("needed_bytes", pa.int64()),
        ("owned_bytes", pa.int64()),
        ("shared_bytes", pa.int64()),
        ("freed_bytes", pa.int64()),
        ("freed_files", pa.int64()),
        ("by_kind", pa.map_(pa.string(), pa.int64())),
        ("obstacle", pa.string()),
    ]
)


@dataclass(frozen=True, repr=False)
class StorageReport(Shown):
    """What a dataset takes, and what each ref costs. Sizes are in bytes."""

    dataset: str
    refs: tuple[RefUsage, ...]
    kinds: Mapping[str, tuple[int, int, int]]
    """Files, bytes, and bytes that no ref needs, by kind of file."""
    warnings: Sequence[str] = ()
    ran_on: str = ""
    """Where the work was done: "local", which is threads of one process, or "spark"."""
    costs: Costs | None = field(default=None, compare=False)
    holders: tuple[Holder, ...] = field(default=(), compare=False)
    frame: Callable[[pa.Table], Any] | None = field(default=None, compare=False)

    @property
    def files(self) -> int:
        """How many files there are, notes and refs included."""
        return sum(files for files, _, _ in self.kinds.values())

    @property
    def bytes(self) -> int:
        """What they take."""
        return sum(size for _, size, _ in self.kinds.values())

    @property
    def unneeded(self) -> int:
        """What a cleanup without any limit of age would free as things are."""
        return sum(size for _, _, size in self.kinds.values())

    def ref(self, name: str) -> RefUsage:
        """The record of a branch, tag or clone. Raises NotFound."""
        for record in self.refs:
            if record.ref == name and record.kind != OLD:
                return record
        raise NotFound(f"There is no branch, tag or clone '{name}'.", hint="See .refs for all of them.")

    def freed_by(self, *names: str) -> int:
        """Bytes that go with several branches, tags or clones, once a cleanup has taken what nothing needs any longer.

        That may be more than the sum over each of them: what only they share goes as well. Raises NotFound.
        """
        records = [self.ref(name) for name in names]
        kinds = {(record.kind, record.ref) for record in records}
        wanted = [at for at, holder in enumerate(self.holders) if (holder.kind, holder.ref) in kinds]
        return 0 if self.costs is None else self.costs.freed_by(wanted)

    def to_arrow(self) -> pa.Table:
        """``refs`` as an Arrow table."""
        rows = [
            (r.ref, r.kind, r.needed, r.owned, r.shared, r.freed, r.freed_files, list(r.by_kind.items()), r.obstacle)
            for r in self.refs
        ]
        columns = zip(*rows, strict=True) if rows else ((),) * len(USAGE)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, USAGE, strict=True)], schema=USAGE)

    def to_df(self) -> Any:
        """``refs`` as a DataFrame; as an Arrow table where there is no session."""
        return self.to_arrow() if self.frame is None else self.frame(self.to_arrow())

    def to_json(self) -> str:
        """All of it as a JSON object."""
        kinds = {
            kind: {"files": files, "bytes": size, "unneeded_bytes": unneeded}
            for kind, (files, size, unneeded) in self.kinds.items()
        }
        return json.dumps(
            {
                "dataset": self.dataset,
                "files": self.files,
                "bytes": self.bytes,
                "unneeded_bytes": self.unneeded,
                "kinds": kinds,
                "refs": [asdict(record) for record in self.refs],
                "warnings": list(self.warnings),
                "ran_on": self.ran_on,
            },
            indent=2,
        )

    def summary(self) -> str:
        """One line."""
        return f"{counted(self.files, 'file')}, {readable(self.bytes)}; {readable(self.unneeded)} that no ref needs"

    def kinds_grid(self) -> Grid:
        """Files and bytes by kind of file."""
        rows = [
            (kind, f"{files:,}", readable(size), readable(unneeded))
            for kind, (files, size, unneeded) in self.kinds.items()
        ]
        return Grid(("kind", "files", "bytes", "no ref needs"), tuple(rows), right=frozenset({1, 2, 3}))

    def refs_grid(self) -> Grid:
        """What each ref costs."""
        rows = [
            (r.ref, r.kind, _size(r.owned), _size(r.needed), _size(r.shared), _size(r.freed), r.obstacle)
            for r in self.refs
        ]
        header = ("ref", "kind", "owned", "needed", "shared", "freed if deleted", "first")
        return Grid(header, tuple(rows), right=frozenset({2, 3, 4, 5}))

    def _card(self) -> Card:
        grids = (self.kinds_grid(), self.refs_grid())
        return Card(type(self).__name__, self.dataset, self.summary(), grids=grids, notes=tuple(self.warnings))


def _size(size: int | None) -> str:
    return "-" if size is None else readable(size)
