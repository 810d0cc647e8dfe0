"""Which files go: listing and marks brought together. Pure, over Arrow tables; the same code on Spark and without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.cleanup.references import ANYWHERE, LEFTOVER
from lance_spark.cleanup.retention import Verdict
from lance_spark.cleanup.stream_tags import is_needed_note
from lance_spark.cleanup.survey import join
from lance_spark.layout import file_kinds
from lance_spark.layout.file_kinds import Roots, classify
from lance_spark.layout.names import STREAMS

FILES = pa.schema(
    [
        ("path", pa.string()),  # relative to the dataset
        ("kind", pa.string()),
        ("chain", pa.int32()),  # index into Survey.chains of the chain it belongs to
        ("key", pa.string()),  # what versions would name, relative to the dataset
        ("local", pa.string()),  # the same, relative to the chain
        ("size", pa.int64()),
        ("modified_ns", pa.int64()),  # null where the store does not say
    ]
)
DECIDED = pa.schema(
    [
        ("path", pa.string()),  # null in rows that sum up files that stay
        ("kind", pa.string()),
        ("chain", pa.int32()),
        ("key", pa.string()),
        ("local", pa.string()),
        ("size", pa.int64()),
        ("modified_ns", pa.int64()),
        ("action", pa.string()),  # DELETE, KEEP or MISSING
        ("reason", pa.string()),
        ("verified", pa.bool_()),  # whether a removed version is known to name it
        ("files", pa.int64()),  # 1, or how many files the row sums up
    ]
)
DELETE, KEEP, MISSING = "delete", "keep", "missing"
OLD_VERSION = "old version"
ONLY_REMOVED = "only removed versions name it"
NOT_NAMED = "no version names it"
NAMED = "a kept version names it"
YOUNG = "no version names it, but it is too young"
CHANGED = "changed after the mark began"
UNKNOWN_KIND = "unknown kind of file"
BECAME_LIVE = "became live"


@dataclass(frozen=True)
class Judgement:
    """What else a decision needs, beside files and marks."""

    verdicts: tuple[Verdict, ...]
    latest: Mapping[int, int]
    """Position of the latest version, by chain of the dataset itself."""
    removed_manifests: frozenset[str]
    """Paths relative to the dataset."""
    started_ns: int
    """When the mark began, nanoseconds since the epoch; files that were modified later stay."""
    unverified_before_ns: int | None
    """Files that no version names go if they were modified before this; None if they go at any age."""
    whole_listing: bool = True
    """Whether a file that is not listed is missing. Not so for an inventory, which may be older than the file."""
    sinks: Mapping[int, int] = field(default_factory=dict)
    """Where the first tag of a query is that writes to a chain, by chain: what was noted of later versions stays."""
    listed_roots: tuple[str, ...] | None = None
    """Roots of all chains, by index, if of each chain only the files below its own root were listed."""


def to_files(listing: pa.RecordBatch, roots: Roots, chains: Mapping[str, int]) -> pa.RecordBatch:
    """FILES from a batch of LISTING. ``chains`` has the index of each chain by its root."""
    rows = [_file_row(path, roots, chains) for path in listing["path"].to_pylist()]
    kinds, owners, keys, locals_ = zip(*rows, strict=True) if rows else ((), (), (), ())
    modified = pc.multiply(listing["last_modified"].cast(pa.int64()), 1000)
    size = pc.fill_null(listing["size"], 0)  # a store may not say; sums would not count such a file
    columns = [listing["path"], kinds, owners, keys, locals_, size, modified]
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, FILES, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=FILES)


def _file_row(path: str, roots: Roots, chains: Mapping[str, int]) -> tuple[str, int, str, str]:
    root = roots.owner(path)
    named = classify(path[len(root) + 1 :] if root else path)
    return named.kind, chains[root], f"{root}/{named.key}" if root else named.key, named.key


def decide(files: pa.Table, marks: pa.Table, judgement: Judgement) -> pa.Table:
    """DECIDED for some files and all marks with the same ``local``: a row for each file that goes or is missing.

    Files that stay come summed up by kind, chain and reason.
    """
    live, dead = _split(marks, judgement)
    anywhere = pc.binary_join_element_wise(pa.scalar(ANYWHERE), files["local"], "", null_handling="skip")
    named = pc.or_(pc.is_in(files["key"], value_set=live), pc.is_in(anywhere, value_set=live))
    verified = pc.is_in(files["key"], value_set=dead)
    choices = _choices(files, named, verified, judgement)
    reason = pc.case_when(pc.make_struct(*(mask for mask, _ in choices)), *(pa.scalar(word) for _, word in choices))
    goes = pc.is_in(reason, value_set=pa.array([OLD_VERSION, ONLY_REMOVED, NOT_NAMED]))
    proven = pc.or_(verified, pc.equal(reason, OLD_VERSION))
    decided = files.append_column("reason", reason).append_column("verified", proven)
    rows = [_shaped(decided.filter(goes), DELETE), _staying(decided.filter(pc.invert(goes)))]
    if judgement.whole_listing:
        rows.append(_missing(files, marks, judgement))
    return pa.concat_tables(rows)


def _split(marks: pa.Table, judgement: Judgement) -> tuple[pa.Array, pa.Array]:
    """Keys that a kept version names, and keys that a removed version names."""
    leftover = pc.equal(marks["chain"], LEFTOVER)
    own = marks.filter(pc.invert(leftover))
    starts, sums = _running(judgement.verdicts)
    start = starts.take(own["chain"].combine_chunks())
    first, last = pc.add(start, own["first"]), pc.add(pc.add(start, own["last"]), 1)
    alive = pc.subtract(sums.take(last), sums.take(first))
    live = own["key"].filter(pc.greater(alive, 0))
    dead = own["key"].filter(pc.less(alive, pc.subtract(last, first)))
    proven = pa.chunked_array([*dead.chunks, *marks["key"].filter(leftover).chunks], pa.string())
    return live.combine_chunks(), proven.combine_chunks()


def _running(verdicts: Sequence[Verdict]) -> tuple[pa.Array, pa.Array]:
    """How many versions stay before each position, all chains one after the other; and where each chain begins."""
    starts, sums, total = [], [0], 0
    for verdict in verdicts:
        starts.append(len(sums) - 1)
        for stays in verdict.kept:
            total += stays
            sums.append(total)
    return pa.array(starts, pa.int64()), pa.array(sums, pa.int64())


def _choices(
    files: pa.Table, named: pa.ChunkedArray, verified: pa.ChunkedArray, judgement: Judgement
) -> list[tuple[pa.ChunkedArray, str]]:
    """Reasons in the order in which they count: the first one that holds is the reason for a file."""
    kind, modified = files["kind"], files["modified_ns"]
    is_manifest = pc.equal(kind, file_kinds.MANIFEST)
    manifest_goes = pc.is_in(files["path"], value_set=pa.array(sorted(judgement.removed_manifests), pa.string()))
    settled = pc.less(pc.fill_null(modified, judgement.started_ns), judgement.started_ns)
    everything = pc.is_valid(files["path"])
    before = judgement.unverified_before_ns
    aged = everything if before is None else pc.less(pc.fill_null(modified, before), before)
    return [
        (pc.equal(kind, file_kinds.UNKNOWN), UNKNOWN_KIND),
        (pc.and_(pc.equal(kind, file_kinds.BOOKKEEPING), pc.invert(_spare_notes(files, judgement))), NAMED),
        (pc.invert(settled), CHANGED),
        (pc.and_(is_manifest, manifest_goes), OLD_VERSION),
        (pc.or_(is_manifest, named), NAMED),
        (verified, ONLY_REMOVED),
        (aged, NOT_NAMED),
        (everything, YOUNG),
    ]


def _spare_notes(files: pa.Table, judgement: Judgement) -> pa.ChunkedArray:
    """Which files are notes that no stream needs, or what is left of one whose writer was killed."""
    notes = files.filter(pc.starts_with(files["local"], f"{STREAMS}/"))
    columns = (notes[name].to_pylist() for name in ("path", "local", "chain"))
    spare = [
        path
        for path, local, chain in zip(*columns, strict=True)
        if not is_needed_note(local, judgement.sinks.get(chain))
    ]
    return pc.is_in(files["path"], value_set=pa.array(spare, pa.string()))


def _staying(files: pa.Table) -> pa.Table:
    """One row for each kind, chain and reason; files of unknown kind come one by one, to be named in the report."""
    unknown = pc.equal(files["reason"], UNKNOWN_KIND)
    rest = files.filter(pc.invert(unknown))
    sums = rest.group_by(["kind", "chain", "reason"]).aggregate([("size", "sum"), ("size", "count")])
    count = sums.num_rows
    summed = pa.table(
        {
            **{name: pa.nulls(count, FILES.field(name).type) for name in ("path", "key", "local", "modified_ns")},
            **{name: sums[name] for name in ("kind", "chain", "reason")},
            "size": sums["size_sum"],
            "verified": pa.nulls(count, pa.bool_()),
            "files": sums["size_count"],
        }
    )
    return pa.concat_tables([_shaped(files.filter(unknown), KEEP), _shaped(summed, KEEP)])


def _missing(files: pa.Table, marks: pa.Table, judgement: Judgement) -> pa.Table:
    """Data and deletion files of latest versions that the listing does not show."""
    versions = pa.array([judgement.latest.get(chain) for chain in range(len(judgement.verdicts))], pa.int32())
    own = marks.filter(pc.not_equal(marks["chain"], LEFTOVER))
    latest = versions.take(own["chain"].combine_chunks())
    covers = pc.and_(pc.less_equal(own["first"], latest), pc.greater_equal(own["last"], latest))
    placed = pc.invert(pc.starts_with(own["key"], ANYWHERE))
    data = pc.or_(pc.starts_with(own["local"], "data/"), pc.starts_with(own["local"], "_deletions/"))
    needed = own.filter(pc.and_(pc.and_(covers, placed), data)).select(["chain", "key", "local"])
    if judgement.listed_roots is not None:
        needed = needed.filter(_in_own_root(needed, judgement.listed_roots))
    lost = needed.filter(pc.invert(pc.is_in(needed["key"], value_set=_listed(files))))
    count = lost.num_rows
    return _shaped(
        pa.table(
            {
                "path": lost["key"],
                "kind": pa.array([file_kinds.DATA] * count, pa.string()),
                **{name: lost[name] for name in ("chain", "key", "local")},
                "size": pa.array([0] * count, pa.int64()),
                "modified_ns": pa.nulls(count, pa.int64()),
                "reason": pa.array([MISSING] * count, pa.string()),
                "verified": pa.nulls(count, pa.bool_()),
            }
        ),
        MISSING,
    )


def _in_own_root(marks: pa.Table, roots: Sequence[str]) -> pa.ChunkedArray:
    """Which marks name a file below the root of the chain that names it: inherited files are elsewhere."""
    prefixes = pa.array([join(root, "") for root in roots], pa.string()).take(marks["chain"].combine_chunks())
    return pc.equal(marks["key"], pc.binary_join_element_wise(prefixes, marks["local"].combine_chunks(), ""))


def _listed(files: pa.Table) -> pa.Array:
    # A data file and its blobs have the same key, and the blobs may be listed although the data file is not.
    return files.filter(pc.not_equal(files["kind"], file_kinds.BLOB))["key"].combine_chunks()


def _shaped(rows: pa.Table, action: str) -> pa.Table:
    count = rows.num_rows
    columns = {name: rows[name] for name in rows.column_names}
    columns.setdefault("files", pa.array([1] * count, pa.int64()))
    columns["action"] = pa.array([action] * count, pa.string())
    return pa.table([columns[field.name] for field in DECIDED], schema=DECIDED)
