"""The files of a small dataset with two branches, what versions name of them, and readers of what was decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.cleanup.reference_rules import LEFTOVER, MARKS
from lance_spark.cleanup.retention_rules import Verdict
from lance_spark.cleanup.sweep_rules import FILES, Judgement, to_files
from lance_spark.core.layout import Roots
from lance_spark.storage.listing import LISTING
from support.cleanup_surveys import DAY, NOW

UUID = "0a1b2c3d-0000-4444-8888-0123456789ab"
BLOB_NAME = "1" + "0" * 31 + ".blob"
ROOTS = ("", "tree/a", "tree/a/b")
CHAINS = {root: index for index, root in enumerate(ROOTS)}
CLONE_CHAIN = len(ROOTS)
LOCAL_FILES = {
    "data/x.lance": ("data", "data/x.lance"),
    f"data/x/{BLOB_NAME}": ("blob", "data/x.lance"),
    "data/y.lance": ("data", "data/y.lance"),
    "data/.tmp1": ("staging", "data/.tmp1"),
    "data/": ("unknown", "data/"),
    "data/x.parquet": ("unknown", "data/x.parquet"),
    "_deletions/0-1-2.arrow": ("deletion", "_deletions/0-1-2.arrow"),
    f"_indices/{UUID}/a.idx": ("index", f"_indices/{UUID}"),
    f"_indices/{UUID}/part/b.idx": ("index", f"_indices/{UUID}"),
    "_transactions/1-u.txn": ("transaction", "_transactions/1-u.txn"),
    "_versions/1.manifest": ("manifest", "_versions/1.manifest"),
    "_versions/2.manifest": ("manifest", "_versions/2.manifest"),
    "_refs/tags/t.json": ("bookkeeping", "_refs/tags/t.json"),
}
"""Kind and key of every file of the model, both relative to its chain."""
LOCAL_KEYS = sorted({key for kind, key in LOCAL_FILES.values() if kind in ("data", "deletion", "index", "transaction")})


def below(root: str, path: str) -> str:
    return f"{root}/{path}" if root else path


FILES_OF_ALL = {
    below(root, path): (kind, below(root, key), key, CHAINS[root])
    for root in ROOTS
    for path, (kind, key) in LOCAL_FILES.items()
}
KEYS_OF_ALL = [below(root, key) for root in ROOTS for key in LOCAL_KEYS] + [f"*/{key}" for key in LOCAL_KEYS]
WEEK_OLD, OLD, YOUNG = NOW - 7 * DAY, NOW - 100 * DAY, NOW - DAY


def listing(files: Mapping[str, int | None]) -> pa.RecordBatch:
    """A LISTING of paths with their times in nanoseconds (or None), each of 10 bytes."""
    times = [None if modified is None else modified // 1000 for modified in files.values()]
    columns = [pa.array(list(files), pa.string()), pa.array([10] * len(files), pa.int64())]
    return pa.record_batch([*columns, pa.array(times, pa.timestamp("us", "UTC"))], LISTING)


def to_table(files: Mapping[str, int | None]) -> pa.Table:
    return pa.Table.from_batches([to_files(listing(files), Roots(ROOTS), CHAINS)], FILES)


def marks(*spans: tuple[int, str, int, int], leftovers: Iterable[str] = ()) -> pa.Table:
    """MARKS from (chain, key, first, last)."""
    every = [*spans, *((LEFTOVER, key, 0, 0) for key in leftovers)]
    rows = [
        {"chain": chain, "key": key, "local": local_of(key), "first": first, "last": last}
        for chain, key, first, last in every
    ]
    about = [{"chain": chain, "first": 0, "last": 0, "timestamp_ns": 5} for chain in {span[0] for span in every}]
    return pa.Table.from_pylist([*rows, *about], MARKS)


def local_of(key: str) -> str:
    return key.removeprefix("*/").removeprefix("tree/a/b/").removeprefix("tree/a/")


def judgement(
    *kept: Iterable[bool],
    removed: Iterable[str] = (),
    before: int = WEEK_OLD,
    whole: bool = True,
    sinks: Mapping[int, int] | None = None,
    bases: Mapping[int, int] | None = None,
) -> Judgement:
    """For chains with these verdicts: tuples of booleans, one for each version."""
    verdicts = tuple(Verdict(tuple(stays), {}) for stays in kept)
    latest = {index: len(verdict.kept) - 1 for index, verdict in enumerate(verdicts[:CLONE_CHAIN])}
    return Judgement(verdicts, latest, frozenset(removed), NOW, before, whole, sinks or {}, bases or {})


def fates(decided: pa.Table) -> dict[str, tuple[str, str, bool]]:
    """Of each file with a row of its own: action, reason and whether it is verified."""
    rows = decided.filter(pc.is_valid(decided["path"])).to_pylist()
    # A missing file is told once for every branch whose latest version needs it; any other file once.
    assert all(many == 1 for many in Counter(row["path"] for row in rows if row["action"] != "missing").values())
    return {row["path"]: (row["action"], row["reason"], row["verified"]) for row in rows}


def sums(decided: pa.Table) -> Counter[tuple[str, int, str]]:
    """Files and bytes that stay, by kind, chain and reason."""
    counts: Counter[tuple[str, int, str]] = Counter()
    for row in decided.filter(pc.equal(decided["action"], "keep")).to_pylist():
        counts[row["kind"], row["chain"], row["reason"]] += row["files"]
        assert row["size"] == 10 * row["files"]
    return counts


def deleted(decided: pa.Table) -> dict[str, tuple[str, bool]]:
    return {path: fate[1:] for path, fate in fates(decided).items() if fate[0] == "delete"}
