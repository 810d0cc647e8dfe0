"""Looks again at what seems wrong: a dataset that changes is not a corrupt one.

While files are listed, branches are deleted and other cleanups run. What seems to be missing counts only if a version
that names it is still there some looks later, and the file still is not.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.actions.fsck.stages import NeedSpan
from lance_spark.checkup import codes
from lance_spark.cleanup.evidence import Manifest, manifest_at, not_explained
from lance_spark.cleanup.references import ChainSpan
from lance_spark.cleanup.survey import Survey
from lance_spark.store.insides import size_of
from lance_spark.store.parallel import each
from lance_spark.store.survey import lenient_survey

LOOKS = 6
_PAUSE = 0.02
"""Seconds before the second look, twice as long before each further one: about half a second in all."""
_ABOUT_MANIFESTS = frozenset({codes.MANIFEST_DAMAGED, codes.MANIFEST_UNKNOWN, codes.MANIFEST_WRONG})
_ABSENT = frozenset(
    {
        codes.DATA_MISSING,
        codes.BLOB_MISSING,
        codes.DELETION_MISSING,
        codes.INDEX_MISSING,
        codes.TRANSACTION_MISSING,
        codes.OTHER_MISSING,
    }
)
_SIZES = frozenset({codes.SIZE_WRONG, codes.INDEX_SIZE_WRONG, codes.BLOB_SIZE_WRONG})

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Confirming:
    """What a check saw first, and how to look again."""

    before: Survey
    clones: tuple[str, ...]
    clones_from: tuple[str, ...]

    def confirmed(self, suspects: Sequence[Row]) -> list[Row]:
        """Those of the suspects that are still wrong after some more looks; each is about versions of a chain."""
        left = list(suspects)
        for attempt in range(LOOKS):
            if not left:
                return []
            time.sleep(_PAUSE * 2**attempt)
            now = self._look()
            listed = _listed(now)
            left = [row for row in left if self._is_there(row, now, listed)]
            wrong = each(self.before.location, self._is_still_wrong, left)
            left = [row for row, is_wrong in zip(left, wrong, strict=True) if is_wrong]
        return left

    def _look(self) -> Survey:
        return lenient_survey(self.before.location, self.clones, self.clones_from)[0]

    def _is_there(self, row: Row, now: Survey, listed: frozenset[Manifest]) -> bool:
        """Whether a version that names the file is there, on a branch that nobody deletes."""
        chain = self.before.chains[row["chain"]]
        positions = range(row["last"], row["first"] - 1, -1)
        if row["code"] == codes.MANIFEST_GONE:
            gone = [manifest_at(self.before, chain, at) for at in positions]
            return bool(not_explained(self.before, now, gone))
        return any(manifest_at(self.before, chain, at) in listed for at in positions)

    def _is_still_wrong(self, row: Row) -> bool:
        if row["code"] in _ABSENT:
            path = row["path"]
            is_directory = row["code"] == codes.INDEX_MISSING and "." not in path.rpartition("/")[2]
            return is_directory or not size_of(self.before.location, path)
        if row["code"] in _SIZES:
            size = size_of(self.before.location, row["path"])
            return size is not None and (size != row["expected"] if row["expected"] else not size)
        if row["code"] in _ABOUT_MANIFESTS:
            return row["code"] in self._read_again(row["chain"], row["first"])
        return True

    def _read_again(self, chain: int, position: int) -> list[str]:
        batches = list(NeedSpan(self.before)(ChainSpan(chain, (position,))))
        found = pa.Table.from_batches(batches)["code"] if batches else pa.chunked_array([[]], pa.string())
        return [str(code) for code in pc.drop_null(found).to_pylist()]


def _listed(now: Survey) -> frozenset[Manifest]:
    """Manifests of branches with a ref: the ref of a branch that is being deleted goes first."""
    chains = [chain for chain in now.chains if chain.has_ref]
    return frozenset(manifest_at(now, chain, at) for chain in chains for at in range(len(chain.files)))
