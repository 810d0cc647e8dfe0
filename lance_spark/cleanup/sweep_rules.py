"""The sweep: which files are deleted, from a listing and marks; sums, outcomes, and the recheck before deletion. Pure.

In: Arrow tables of files and marks, and the verdicts. Out: decided files, candidates, sums and outcomes. The same code
runs on Spark and without.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.cleanup.reference_rules import ANYWHERE, LEFTOVER, ChainSpan
from lance_spark.cleanup.retention_rules import Verdict, retained_by_ref
from lance_spark.core import layout
from lance_spark.core.layout import BROUGHT, MANIFEST, STREAMS, Roots, classify, read_manifest_name
from lance_spark.core.records.reflog import FORGOTTEN, RefChange
from lance_spark.core.refs import Branch
from lance_spark.errors import SchemaMismatch
from lance_spark.survey.chain_rules import Chain, Survey, first_unread, is_needed_note, is_needed_record, join

CANDIDATES = pa.schema(
    [
        ("path", pa.string()),  # absolute: a URI, or a local path
        ("kind", pa.string()),
        ("size", pa.int64()),  # bytes
        ("last_modified", pa.timestamp("us", "UTC")),
        ("branch", pa.string()),  # in whose directory it is
        ("reason", pa.string()),
        ("verified", pa.bool_()),  # whether a removed version is known to name it
        ("file", pa.string()),  # path relative to the dataset
        ("key", pa.string()),  # what versions would name, relative to the dataset
        ("local", pa.string()),  # the same, relative to the branch
    ]
)
SUMS = pa.schema(
    [
        ("kind", pa.string()),
        ("branch", pa.string()),
        ("action", pa.string()),
        ("reason", pa.string()),
        ("verified", pa.bool_()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("example", pa.string()),  # a path relative to the dataset; null where files stay
    ]
)
DELETED, GONE, FAILED, KEPT = "deleted", "already gone", "failed", "kept"
OUTCOMES = pa.schema(
    [
        ("kind", pa.string()),
        ("branch", pa.string()),
        ("reason", pa.string()),  # why it was to be deleted; why it stayed if it was kept
        ("outcome", pa.string()),
        ("denied", pa.string()),  # what the store denied, if it failed for that; otherwise empty
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("example", pa.string()),  # a path; with the store's reason if it failed
    ]
)
_ORDER = 4
"""Number of leading columns of sums and outcomes that sort the groups."""


def to_candidates(batches: Iterator[pa.RecordBatch], root: str, branches: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """CANDIDATES from batches of DECIDED. ``branches`` are the names of all chains, ``root`` is the dataset's URI."""
    for batch in batches:
        rows = pa.Table.from_batches([batch], DECIDED)
        rows = rows.filter(pc.equal(rows["action"], DELETE))
        columns = {
            "path": pc.binary_join_element_wise(pa.scalar(f"{root}/"), rows["path"], ""),
            "kind": rows["kind"],
            "size": rows["size"],
            "last_modified": pc.divide(rows["modified_ns"], 1000).cast(pa.timestamp("us", "UTC")),
            "branch": _branch_names(rows, branches),
            "reason": rows["reason"],
            "verified": rows["verified"],
            "file": rows["path"],
            "key": rows["key"],
            "local": rows["local"],
        }
        yield from pa.table(columns, schema=CANDIDATES).to_batches()


def sum_up(batches: Iterator[pa.RecordBatch], branches: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """SUMS over batches of DECIDED: files and bytes by kind, branch, action and reason."""
    tables = []
    for batch in batches:
        rows = pa.Table.from_batches([batch], DECIDED)
        tables.append(
            pa.table(
                {
                    **{name: rows[name] for name in ("kind", "action", "reason", "verified", "files")},
                    "branch": _branch_names(rows, branches),
                    "bytes": rows["size"],
                    "example": rows["path"],
                }
            ).select(SUMS.names)
        )
    if tables:
        yield from add_up(pa.concat_tables(tables).cast(SUMS)).to_batches()


def _branch_names(rows: pa.Table, branches: Sequence[str]) -> pa.ChunkedArray:
    return pa.chunked_array(
        [pa.array(branches, pa.string()).take(chunk) for chunk in rows["chain"].chunks], pa.string()
    )


def is_manifest(batch: pa.RecordBatch | pa.Table) -> pa.Array:
    """Which candidates are manifests; they are deleted before everything else, in their own order."""
    return pc.equal(batch["kind"], MANIFEST)


def in_deletion_order(manifests: pa.Table) -> pa.Table:
    """Candidates that are manifests, by branch, oldest version first."""
    names = (path.rpartition("/")[2] for path in manifests["file"].to_pylist())
    read = [read_manifest_name(name) for name in names]
    versions = pa.array([None if name is None else name.version for name in read], pa.uint64())
    order = pc.sort_indices(
        pa.table({"branch": manifests["branch"], "version": versions}),
        sort_keys=[("branch", "ascending"), ("version", "ascending")],
    )
    return manifests.take(order)


def outcome_rows(
    candidates: pa.RecordBatch,
    deleted: Collection[str],
    gone: Collection[str],
    failed: Mapping[str, str],
    denied: Mapping[str, str] = MappingProxyType({}),
) -> pa.RecordBatch:
    """OUTCOMES: how many of the candidates ended in which way, with one example each.

    ``deleted`` and ``gone`` are paths; ``failed`` has the store's reason by path, and ``denied`` what it denied. All
    other candidates were kept.
    """
    ends = {**dict.fromkeys(deleted, DELETED), **dict.fromkeys(gone, GONE), **dict.fromkeys(failed, FAILED)}
    files = candidates["file"].to_pylist()
    outcomes = [ends.get(file, KEPT) for file in files]
    reasons = zip(outcomes, candidates["reason"].to_pylist(), strict=True)
    rows = pa.table(
        {
            "kind": candidates["kind"],
            "branch": candidates["branch"],
            "reason": pa.array([BECAME_LIVE if outcome == KEPT else why for outcome, why in reasons], pa.string()),
            "outcome": pa.array(outcomes, pa.string()),
            "denied": pa.array([denied.get(file, "") for file in files], pa.string()),
            "files": pa.array([1] * len(files), pa.int64()),
            "bytes": candidates["size"],
            "example": pa.array([f"{file}: {failed[file]}" if file in failed else file for file in files], pa.string()),
        },
        schema=OUTCOMES,
    )
    return add_up(rows).combine_chunks().to_batches()[0]


def add_up(rows: pa.Table) -> pa.Table:
    """One row for each group (the columns before ``files``), with ``files`` and ``bytes`` summed, one ``example``."""
    names = rows.schema.names
    group = names[: names.index("files")]
    grouped = rows.group_by(group).aggregate([("files", "sum"), ("bytes", "sum"), ("example", "min")])
    renamed = grouped.rename_columns([*group, "files", "bytes", "example"])
    ordered = renamed.select(names).cast(rows.schema)
    return ordered.sort_by([(name, "ascending") for name in group[:_ORDER]])


# --- Deciding: the listing joined with the marks
# Pure, over Arrow tables; the same code on Spark and without.

FILES = pa.schema(
    [
        ("path", pa.string()),  # relative to the dataset
        ("kind", pa.string()),
        ("chain", pa.int32()),  # index into Survey.chains of the chain it belongs to
        ("key", pa.string()),  # what versions would name, relative to the dataset
        ("local", pa.string()),  # the same, relative to the chain
        ("size", pa.int64()),
        ("modified_ns", pa.int64()),  # null if the store does not report it
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
    verdicts: tuple[Verdict, ...]
    latest: Mapping[int, int]
    """Position of the latest version, by chain of the dataset itself."""
    removed_manifests: frozenset[str]
    """Paths relative to the dataset."""
    started_ns: int
    """When marking began, in nanoseconds since the epoch; files that were modified later stay."""
    unverified_before_ns: int | None
    """Files that no version names are deleted if modified before this; None for any age."""
    whole_listing: bool = True
    """Whether a file that is not listed is missing. False for an inventory, which may be older than the file."""
    sinks: Mapping[int, int] = field(default_factory=dict)
    """By chain, the position of the first tag of a query that writes to it: notes on later versions stay."""
    bases: Mapping[int, int] = field(default_factory=dict)
    """By chain, the oldest version with which a merge may compare: records of later versions stay."""
    listed_roots: tuple[str, ...] | None = None
    """Roots of all chains, by index, if only the files below each chain's own root were listed."""


def to_files(listing: pa.RecordBatch, roots: Roots, chains: Mapping[str, int]) -> pa.RecordBatch:
    """FILES from a batch of LISTING. ``chains`` has the index of each chain by its root."""
    rows = [_file_row(path, roots, chains) for path in listing["path"].to_pylist()]
    kinds, owners, keys, locals_ = zip(*rows, strict=True) if rows else ((), (), (), ())
    modified = pc.multiply(listing["last_modified"].cast(pa.int64()), 1000)
    size = pc.fill_null(listing["size"], 0)  # not every store reports it, and sums would skip such a file
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
    """DECIDED for some files and all marks with the same ``local``: a row for each file to delete or missing.

    Files that stay are summed up by kind, chain and reason.
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
    """The number of kept versions before each position, over all chains in sequence; and where each chain begins."""
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
    """Reasons by priority: the first one that holds is the reason for a file."""
    kind, modified = files["kind"], files["modified_ns"]
    is_manifest = pc.equal(kind, layout.MANIFEST)
    manifest_goes = pc.is_in(files["path"], value_set=pa.array(sorted(judgement.removed_manifests), pa.string()))
    settled = pc.less(pc.fill_null(modified, judgement.started_ns), judgement.started_ns)
    everything = pc.is_valid(files["path"])
    before = judgement.unverified_before_ns
    aged = everything if before is None else pc.less(pc.fill_null(modified, before), before)
    return [
        (pc.equal(kind, layout.UNKNOWN), UNKNOWN_KIND),
        (pc.and_(pc.equal(kind, layout.BOOKKEEPING), pc.invert(_spare_notes(files, judgement))), NAMED),
        (pc.invert(settled), CHANGED),
        (pc.and_(is_manifest, manifest_goes), OLD_VERSION),
        (pc.or_(is_manifest, named), NAMED),
        (verified, ONLY_REMOVED),
        (aged, NOT_NAMED),
        (everything, YOUNG),
    ]


def _spare_notes(files: pa.Table, judgement: Judgement) -> pa.ChunkedArray:
    """Which files are notes that no stream needs, records that no merge needs, or remains of writers that crashed."""
    ours = pc.or_(pc.starts_with(files["local"], f"{STREAMS}/"), pc.starts_with(files["local"], f"{BROUGHT}/"))
    columns = (files.filter(ours)[name].to_pylist() for name in ("path", "local", "chain"))
    spare = [
        path
        for path, local, chain in zip(*columns, strict=True)
        if not is_needed_note(local, judgement.sinks.get(chain))
        and not is_needed_record(local, judgement.bases.get(chain))
    ]
    return pc.is_in(files["path"], value_set=pa.array(spare, pa.string()))


def _staying(files: pa.Table) -> pa.Table:
    """One row for each kind, chain and reason; files of unknown kind stay separate, so that the report names them."""
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
    """Data and deletion files of latest versions that the listing lacks."""
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
                "kind": pa.array([layout.DATA] * count, pa.string()),
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
    """Which marks name a file below the root of their own chain: inherited files are elsewhere."""
    prefixes = pa.array([join(root, "") for root in roots], pa.string()).take(marks["chain"].combine_chunks())
    return pc.equal(marks["key"], pc.binary_join_element_wise(prefixes, marks["local"].combine_chunks(), ""))


def _listed(files: pa.Table) -> pa.Array:
    # A data file and its blobs share a key, and the blobs may be listed although the data file is not.
    return files.filter(pc.not_equal(files["kind"], layout.BLOB))["key"].combine_chunks()


def _shaped(rows: pa.Table, action: str) -> pa.Table:
    count = rows.num_rows
    columns = {name: rows[name] for name in rows.column_names}
    columns.setdefault("files", pa.array([1] * count, pa.int64()))
    columns["action"] = pa.array([action] * count, pa.string())
    return pa.table([columns[field.name] for field in DECIDED], schema=DECIDED)


# --- A bucket inventory as a listing
# Pure.

COLUMNS = ("path", "size", "last_modified")
_TIME = pa.timestamp("us", "UTC")


def to_listing(batch: pa.RecordBatch, uri: str) -> pa.Table:
    """Rows of an inventory (``path``, ``size``, ``last_modified``) as a listing of the dataset at ``uri``.

    A path is absolute (a URI or a local path) or relative to the dataset. Times as text are ISO 8601 in UTC. Files of
    other datasets are left out. Raises SchemaMismatch, which names the column, for a missing column or an unusable
    type.
    """
    missing = [name for name in COLUMNS if name not in batch.schema.names]
    if missing:
        raise SchemaMismatch(
            f"The inventory has no column '{missing[0]}'.", hint=f"It needs the columns {', '.join(COLUMNS)}."
        )
    root = unquote(uri) if "://" in uri else uri
    paths = [_relative(path, root) for path in batch["path"].to_pylist()]
    columns = [pa.array(paths, pa.string()), _cast(batch, "size", pa.int64()), _cast(batch, "last_modified", _TIME)]
    listing = pa.table(columns, names=list(COLUMNS))
    return listing.filter(pc.is_valid(listing["path"]))


def _relative(path: str | None, root: str) -> str | None:
    if path is None:
        return None
    whole = path.replace("s3a://", "s3://", 1).replace("s3n://", "s3://", 1)
    if whole.startswith(f"{root}/"):
        return whole[len(root) + 1 :]
    return None if "://" in whole or whole.startswith("/") else whole


def _cast(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    column = batch[name]
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type) and column.type.tz is None:
        column = pc.assume_timezone(column, "UTC")
    try:
        return column.cast(kind, safe=False) if pa.types.is_timestamp(kind) else column.cast(kind)
    except pa.ArrowInvalid as problem:
        raise SchemaMismatch(f"Column '{name}' of the inventory is {column.type}: {problem}.") from None


# --- Manifests to read again before deletion
# Pure.


def newly_live(
    before: Survey,
    after: Survey,
    verdicts: Sequence[Verdict],
    manifests_are_done: bool = False,
    window_ns: int | None = None,
) -> list[ChainSpan]:
    """Manifests whose files became live since the mark: by chain of ``after``, with positions in that chain.

    These are new manifests, and removed ones that something needs now: a tag, a branch created from them since, or
    their place as the newest. A restore, a commit of old fragments and a branch being created all show as a new
    manifest.

    ``manifests_are_done`` means that all manifests to remove were deleted. A removed manifest that is still listed
    could not be deleted, or was spared for a tag that is gone again. Without its files, it would be listed but
    unreadable. ``window_ns`` is the start of the commit window, by the current clock. A removed manifest within it is
    also needed, even if it seemed older by the clock at the mark.
    """
    # By URI: repositories are renumbered if another clone was recorded in between.
    kept_before = {
        (before.repositories[chain.repository].uri, chain.root, manifest): verdicts[index].kept[position]
        for index, chain in enumerate(before.chains)
        for position, manifest in enumerate(chain.files)
    }
    spans, new = [], _NewNames.of(before, after)
    for index, chain in enumerate(after.chains):
        uri, needed = after.repositories[chain.repository].uri, _needed(new, after, chain, window_ns)
        kept = [kept_before.get((uri, chain.root, manifest)) for manifest in chain.files]
        positions = tuple(
            position
            for position, stays in enumerate(kept)
            if stays is None or (not stays and (manifests_are_done or position in needed))
        )
        if positions:
            spans.append(ChainSpan(index, positions))
    return spans


class _NewNames(NamedTuple):
    """What may name a version since the mark, looked up once for all chains."""

    branches: Sequence[Branch]
    changes: Sequence[RefChange]
    unread: Mapping[str | None, int]

    @classmethod
    def of(cls, before: Survey, after: Survey) -> _NewNames:
        # The fork of an older branch was already judged: the policy may let it go.
        known = {_origin(branch) for branch in before.refs.branches.values()}
        new = [branch for branch in after.refs.branches.values() if _origin(branch) not in known]
        known_changes = {change.id for change in before.changes}
        undoable = [change for change in after.changes if change.id not in known_changes and change.state != FORGOTTEN]
        return cls(new, undoable, first_unread(after.refs))


def _needed(new: _NewNames, after: Survey, chain: Chain, window_ns: int | None) -> set[int]:
    """Positions of tags and of forks of new branches, of the newest version, and of those within the commit window."""
    if chain.repository or not chain.versions:
        return set()
    named = {tag.version for tag in after.refs.tags_on.get(chain.branch, ())}
    named |= {change.before.target.version for change in new.changes if change.before and _on(change, chain)}
    named |= {branch.parent_version for branch in new.branches if branch.parent_branch == chain.branch}
    reader = new.unread.get(chain.branch)
    if reader is not None:  # a reader that began since may read the history from its first version
        named |= {manifest.version for manifest in chain.versions if manifest.version >= reader}
    needed = {position for position, manifest in enumerate(chain.versions) if manifest.version in named}
    if window_ns is not None:
        needed |= {position for position, manifest in enumerate(chain.versions) if manifest.modified_ns >= window_ns}
    retained = retained_by_ref(after, chain)  # the ref may retain more now than at the mark
    needed |= set(range(max(0, len(chain.versions) - retained), len(chain.versions)))
    return needed | {len(chain.versions) - 1}


def _on(change: RefChange, chain: Chain) -> bool:
    return change.before is not None and change.before.target.branch == chain.branch


def _origin(branch: Branch) -> tuple[object, ...]:
    return branch.name, branch.parent_branch, branch.parent_version, branch.created_at
