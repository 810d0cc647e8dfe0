"""Findings, and the rules that produce them: needs against files, blobs, and damaged refs. Pure.

In: manifests, listings, descriptions of blobs, remains of ref files. Out: suspects, findings, and restored ref files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.cleanup.reference_rules import ANYWHERE, KeyResolver
from lance_spark.core import layout
from lance_spark.core.records import finding_codes, repair_record
from lance_spark.core.records.stored_json import decode_json
from lance_spark.errors import CorruptData, Refused
from lance_spark.format.blob_references import AT_URI, DESCRIPTION, address_of
from lance_spark.format.contents import Contents, Fragment, RunDecoder, decode_contents, decode_indexes
from lance_spark.format.manifest import BasePath, ManifestHead, NamedFile
from lance_spark.format.schema import in_batches
from lance_spark.survey.chain_rules import Chain

_LEFT_OUT = finding_codes.MEANINGS[finding_codes.DATA_MISSING].do
"""What to do about damage that a repair leaves out."""


@dataclass(frozen=True)
class CheckFinding:
    code: str
    path: str
    """Relative to the dataset, a URI outside it, or the name of a ref."""
    refs: tuple[str, ...] = ()
    """What is affected: branches, tags and clones; "old versions of main" if nothing else."""
    rows: int | None = None
    """Number of unreadable rows, including deleted ones; None if unknown."""
    detail: str = ""
    files: int = 1
    """1, or the number of similar files."""

    @property
    def severity(self) -> str:
        return finding_codes.MEANINGS[self.code].severity

    @property
    def says(self) -> str:
        return " ".join(part for part in (finding_codes.MEANINGS[self.code].says, self.detail) if part)

    @property
    def do(self) -> str:
        general = finding_codes.MEANINGS[self.code].do
        if self.code in finding_codes.OF_A_DIRECTORY and self.refs:
            kept = ", ".join(f"'{name}'" for name in self.refs)
            return f"{general} But keep the directories in it that are of {kept}."
        held = [ref for ref in self.refs if not ref.startswith("old versions of ")]
        if general in finding_codes.OF_A_VERSION and not held:
            return "Restore the file; or clean up, which removes these versions in time."
        if general != _LEFT_OUT or not all(ref.startswith(repair_record.PREFIX) for ref in held):
            return general
        return f"Merge '{held[0]}' if you have not, delete it (lance-git branch -d --purge {held[0]}), and clean up."


# --- Needs of versions against existing files
# a caller that looks inside files passes in what it saw.

SUSPECTS = pa.schema(
    [
        ("code", pa.string()),
        ("path", pa.string()),  # relative to the dataset, or a URI
        ("base", pa.string()),  # base path of a file outside of all repositories
        ("chain", pa.int32()),  # null for files that no version names
        ("first", pa.int32()),  # position of the first version that names the file
        ("last", pa.int32()),
        ("expected", pa.int64()),  # bytes that were recorded; 0 for unknown
        ("rows", pa.int64()),  # affected rows
        ("detail", pa.string()),
        ("files", pa.int64()),  # 1, or the number of files that the row sums up
        ("bytes", pa.int64()),
    ]
)
BESIDE = SUSPECTS.append(pa.field("file", pa.string()))
"""With the key of the data file whose rows say that there is such a file."""
COUNTED = "counted"
"""In place of a code: the row gives the number of listed files of the dataset."""
MOST = 1_000
"""Number of files of one kind that are named in one group; further ones are counted."""
_MISSING = {
    layout.DATA: finding_codes.DATA_MISSING,
    layout.DELETION: finding_codes.DELETION_MISSING,
    layout.INDEX: finding_codes.INDEX_MISSING,
    layout.TRANSACTION: finding_codes.TRANSACTION_MISSING,
}
_LEFT_OVER = frozenset(
    {
        layout.DATA,
        layout.BLOB,
        layout.DELETION,
        layout.INDEX,
        layout.TRANSACTION,
        layout.STAGING,
    }
)


def suspect(code: str, path: str | None = None, **more: Any) -> dict[str, Any]:
    """A row of SUSPECTS about one file; what is not given is null."""
    return {**dict.fromkeys(SUSPECTS.names), "code": code, "path": path, "files": 1, "bytes": 0, **more}


class Need(NamedTuple):
    """One row of NEEDED about a file."""

    chain: int
    key: str
    local: str
    file: str | None
    base: str | None
    first: int
    last: int
    size: int
    rows: int
    deleted: int | None

    @property
    def kind(self) -> str:
        return layout.INDEX if self.file is not None else layout.classify(self.local).kind

    @property
    def path(self) -> str:
        """Its own path; for a file of an index, the path inside the index."""
        return f"{self.key}/{self.file}" if self.file else self.key


@dataclass(frozen=True)
class Inside:
    """What an existing file should contain."""

    path: str
    """Relative to the dataset, or a URI."""
    kind: str
    rows: int
    """Rows of the fragment; 0 for unknown."""
    deleted: int | None


Look = Callable[[list[Inside]], Iterable["tuple[str, str] | None"]]
"""Looks inside files: a code and a detail for each, or None if it is sound."""


@dataclass(frozen=True)
class Question:
    checked: frozenset[int]
    """Chains whose files must exist: not those of deleted branches."""
    lost_bases: frozenset[str]
    """Base paths that lead nowhere or cannot be reached: their files are not checked individually."""
    left_before_ns: int
    """Files that no version names are leftovers if modified before this time."""


def compare(files: pa.Table, needed: pa.Table, question: Question, look: Look | None = None) -> pa.Table:
    """SUSPECTS for some FILES and all NEEDED with the same ``local``."""
    needs = _needs(needed)
    listed = _listed(files)
    found = [row for need in needs if _asked(need, question) and (row := _held_against(need, listed)) is not None]
    if look is not None:
        found += _looked_inside(needs, listed, question, look, {row["path"] for row in found})
    own = sum(chain is not None and chain >= 0 for chain in files["chain"].to_pylist())
    rows = [suspect(COUNTED, files=own), *_few(found), *_left_over(files, {need.key for need in needs}, question)]
    return pa.Table.from_pylist(rows, SUSPECTS)


def _needs(needed: pa.Table) -> list[Need]:
    columns = [needed[name].to_pylist() for name in Need._fields]
    return [Need(*row) for row in zip(*columns, strict=True) if row[1] is not None]


class _There(NamedTuple):
    sizes: Mapping[str, int]
    """By path."""
    by_key: Mapping[str, list[str]]
    """Paths by key, without blobs."""


def _listed(files: pa.Table) -> _There:
    sizes: dict[str, int] = {}
    by_key: dict[str, list[str]] = {}
    columns = (files[name].to_pylist() for name in ("path", "kind", "key", "size"))
    for path, kind, key, size in zip(*columns, strict=True):
        sizes[path] = size
        if kind != layout.BLOB:  # next to a data file, under the same key
            by_key.setdefault(key, []).append(path)
    return _There(sizes, by_key)


def _asked(need: Need, question: Question) -> bool:
    return need.chain in question.checked and need.base not in question.lost_bases


def _paths(need: Need, there: _There) -> list[str]:
    """Where the file is; several places for "any file of an index"."""
    if need.file:
        return [need.path] if need.path in there.sizes else []
    return there.by_key.get(need.key, [])


def _held_against(need: Need, there: _There) -> dict[str, Any] | None:
    paths = _paths(need, there)
    if not paths:
        return _row(need, _MISSING.get(need.kind, finding_codes.OTHER_MISSING), "")
    if need.file == "":
        return None
    size = there.sizes[paths[0]]
    if need.size and size != need.size:
        code = finding_codes.INDEX_SIZE_WRONG if need.kind == layout.INDEX else finding_codes.SIZE_WRONG
        return _row(need, code, f"{size:,} bytes instead of {need.size:,}")
    if not size and need.kind == layout.DELETION:
        return _row(need, finding_codes.SIZE_WRONG, "it is empty")
    if not size and need.kind == layout.TRANSACTION:
        return _row(need, finding_codes.TRANSACTION_MISSING, "it is empty")
    return None


def _row(need: Need, code: str, detail: str) -> dict[str, Any]:
    hit = 0 if need.kind in (layout.INDEX, layout.TRANSACTION) else need.rows
    span = {"chain": need.chain, "first": need.first, "last": need.last}
    return suspect(code, need.path, base=need.base, **span, expected=need.size, rows=hit, detail=detail)


def _looked_inside(
    needs: list[Need], there: _There, question: Question, look: Look, known: set[str]
) -> Iterator[dict[str, Any]]:
    """Opens each file once, although many spans of versions name it; all of them are affected."""
    asked: dict[tuple[str, int, int | None], list[Need]] = {}
    for need in needs:
        if _asked(need, question) and need.path not in known:
            for path in _paths(need, there):
                asked.setdefault((path, need.rows, need.deleted), []).append(need)
    insides = [Inside(path, naming[0].kind, rows, deleted) for (path, rows, deleted), naming in asked.items()]
    for inside, naming, seen in zip(insides, asked.values(), look(insides), strict=True):
        if seen is not None:
            yield from ({**_row(need, *seen), "path": inside.path} for need in naming)


def _few(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The first rows of each code and chain, and a row that counts the rest."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["code"], row["chain"]), []).append(row)
    for group in groups.values():
        yield from group[:MOST]
        rest = group[MOST:]
        if rest:
            yield {**rest[0], "files": len(rest), "rows": sum(row["rows"] for row in rest)}


def _left_over(files: pa.Table, needed: set[str], question: Question) -> Iterator[dict[str, Any]]:
    """One row that sums up the files that no version names and that are no longer young."""
    columns = (files[name].to_pylist() for name in ("path", "kind", "chain", "key", "size", "modified_ns"))
    left = [
        (path, size)
        for path, kind, chain, key, size, modified in zip(*columns, strict=True)
        if kind in _LEFT_OVER and chain is not None and chain >= 0 and key not in needed
        if modified is not None and modified < question.left_before_ns
    ]
    if left:
        total = sum(size for _, size in left)
        yield suspect(finding_codes.UNCOMMITTED, left[0][0], files=len(left), bytes=total, rows=0)


# --- Needs of versions
# Like a mark, a row states that all versions read between two positions of a chain name a file. An unreadable manifest
# is also a row, so that the others are still checked.

NEEDED = pa.schema(
    [
        ("chain", pa.int32()),
        ("key", pa.string()),  # key of a file in the dataset, else its URI; null in rows about versions and bases
        ("local", pa.string()),  # matches files with needs
        ("file", pa.string()),  # path inside the directory of an index; "" for any file of it; else null
        ("base", pa.string()),  # base path, as written, of a file outside all repositories
        ("first", pa.int32()),  # position of the first version that names it
        ("last", pa.int32()),
        ("size", pa.int64()),  # bytes, 0 for unknown
        ("rows", pa.int64()),  # of the fragment, including deleted ones; 0 for unknown
        ("deleted", pa.int64()),  # number of rows in a deletion file; null for other files
        ("code", pa.string()),  # in rows about versions: what is wrong
        ("detail", pa.string()),
    ]
)
_ROWS = 50_000


class _Recorded(NamedTuple):
    """What a version recorded about a file."""

    file: str | None = None
    size: int = 0
    rows: int = 0
    deleted: int | None = None


@dataclass
class _Seen:
    """A file that earlier versions name."""

    first: int
    recorded: list[_Recorded]


def needed_of_span(
    chain: Chain, index: int, contents: Iterable[tuple[int, bytes | None]], resolver: KeyResolver
) -> Iterator[pa.RecordBatch]:
    """NEEDED of a span of versions, given as (position, manifest) in ascending order; None for a missing manifest."""
    return in_batches(_Reading(chain, index, resolver).rows(contents), NEEDED, _ROWS)


class _Reading:
    def __init__(self, chain: Chain, index: int, resolver: KeyResolver) -> None:
        self._chain, self._index, self._resolver = chain, index, resolver
        self._decoder = RunDecoder()
        self._seen: dict[NamedFile, _Seen] = {}
        self._before: Contents | None = None
        self._last = -1

    def rows(self, contents: Iterable[tuple[int, bytes | None]]) -> Iterator[tuple[Any, ...]]:
        for position, content in contents:
            yield from self._version(position, content)
        for file, seen in self._seen.items():
            yield from self._needs(file, seen, self._last)

    def _version(self, position: int, content: bytes | None) -> Iterator[tuple[Any, ...]]:
        if content is None:
            yield self._about(position, finding_codes.MANIFEST_GONE, "")
            return
        try:
            head, added, removed = self._decoder.feed(content)
            now = decode_contents(content)
            recorded, impossible = self._recorded(content, head, now)
        except CorruptData as problem:
            yield self._about(position, finding_codes.MANIFEST_DAMAGED, problem.message)
            return
        except Refused as problem:
            yield self._about(position, finding_codes.MANIFEST_UNKNOWN, problem.message)
            return
        for file in removed:
            yield from self._needs(file, self._seen.pop(file, _Seen(self._last, [])), self._last)
        for file in added:
            self._seen[file] = _Seen(position, recorded.pop(file, [_Recorded()]))
        for file, now_recorded in recorded.items():
            seen = self._seen.get(file)
            if seen is not None and seen.recorded != now_recorded:
                yield from self._needs(file, _Seen(position, now_recorded), position)
        expected = self._chain.files[position].version
        if head.version != expected:
            yield self._about(position, finding_codes.MANIFEST_WRONG, f"it holds version {head.version}")
        for detail in impossible:
            yield self._about(position, finding_codes.ROWS_IMPOSSIBLE, detail)
        self._before, self._last = now, position

    def _recorded(
        self, content: bytes, head: ManifestHead, now: Contents
    ) -> tuple[dict[NamedFile, list[_Recorded]], list[str]]:
        """Records about the files of fragments that are new since the version before, and about its indexes.

        And what cannot be in these fragments.
        """
        found: dict[NamedFile, list[_Recorded]] = {}
        impossible: list[str] = []
        seen: set[int] = set()
        for fragment in now.fragments() if self._before is None else now.fragments_without(self._before):
            found.update(_files_of(fragment, head, now.counts_rows))
            impossible += _impossible(fragment, now.counts_rows)
            if fragment.id in seen:
                impossible.append(f"two fragments have the id {fragment.id}")
            seen.add(fragment.id)
        for index in decode_indexes(content):
            base = _base(head, index.base_id)
            prefix = "_indices/" if base is None or base.is_dataset_root else ""
            found[NamedFile(base, prefix + index.uuid)] = [_Recorded(path, size) for path, size in index.needed]
        return found, impossible

    def _needs(self, file: NamedFile, seen: _Seen, last: int) -> Iterator[tuple[Any, ...]]:
        place = self._place(file)
        if place is None:
            return
        key, local, base = place
        for one in seen.recorded:
            facts = (one.file, base, seen.first, last, one.size, one.rows, one.deleted)
            yield (self._index, key, local, *facts, None, None)

    def _place(self, file: NamedFile) -> tuple[str, str, str | None] | None:
        """(key, local, foreign base); None for a clone's file outside the dataset."""
        keys = self._resolver.resolve(self._chain, file)
        if keys is not None and not keys[0].startswith(ANYWHERE):
            return *keys, None
        if self._chain.repository or file.base is None:
            return None
        uri = self._resolver.uri_of(file.base) or file.base.path
        return f"{uri}/{file.path}", layout.classify(file.path).key, file.base.path

    def _about(self, position: int, code: str, detail: str) -> tuple[Any, ...]:
        return (self._index, None, None, None, None, position, position, 0, 0, None, code, detail)


def _impossible(fragment: Fragment, counts_rows: bool) -> list[str]:
    deleted = 0 if fragment.deletion is None else fragment.deletion.rows
    if not (counts_rows and 0 < fragment.physical_rows < deleted):
        return []
    return [f"fragment {fragment.id}: {deleted} of {fragment.physical_rows} rows are deleted"]


def _files_of(fragment: Fragment, head: ManifestHead, counts_rows: bool) -> Iterator[tuple[NamedFile, list[_Recorded]]]:
    rows = fragment.physical_rows if counts_rows else 0
    for file in fragment.files:
        base = _base(head, file.base_id)
        prefix = "data/" if base is None or base.is_dataset_root else ""
        yield NamedFile(base, prefix + layout.stored_name(file.path)), [_Recorded(size=file.size, rows=rows)]
    deletion = fragment.deletion
    if deletion is not None:
        named = NamedFile(_base(head, deletion.base_id), deletion.path_for(fragment.id))
        yield named, [_Recorded(rows=rows, deleted=deletion.rows)]


def _base(head: ManifestHead, base_id: int | None) -> BasePath | None:
    return None if base_id is None else head.bases[base_id]


# --- Blob files next to data files
# No manifest names these files. Only the descriptions in the rows do, by a number (the file's name) and the bytes.

_PACKED, _DEDICATED = 1, 2
"""Kinds of descriptions: many blobs in one file, and one blob per file. Others are in the data file, or at a URI."""


@dataclass(frozen=True)
class BlobFile:
    name: str
    size: int
    """Its size in bytes, or the minimum."""
    exact: bool
    rows: int
    """Number of rows with a blob in it."""


def blob_name(number: int) -> str:
    """The name of a file with blobs: its number in 32 binary digits, lowest first."""
    return f"{number:032b}"[::-1] + ".blob"


def blob_files(descriptions: Iterable[pa.StructArray]) -> list[BlobFile]:
    tables = [_ends(part) for part in descriptions if {field.name for field in part.type} >= DESCRIPTION]
    if not tables:
        return []
    found = pa.concat_tables(tables).group_by(["blob_id", "kind"]).aggregate([("end", "max"), ("end", "count")])
    rows = sorted(found.to_pylist(), key=lambda row: row["blob_id"])
    return [
        BlobFile(blob_name(row["blob_id"]), row["end_max"], row["kind"] == _DEDICATED, row["end_count"]) for row in rows
    ]


def _ends(part: pa.StructArray) -> pa.Table:
    """For each blob in a file: number, kind, and the end of the blob in the file."""
    there = part.filter(pc.fill_null(pc.is_in(part.field("kind"), pa.array([_PACKED, _DEDICATED], pa.uint8())), False))
    there = there.filter(there.is_valid())
    end = pc.add(there.field("position").cast(pa.int64()), there.field("size").cast(pa.int64()))
    return pa.table({"blob_id": there.field("blob_id"), "kind": there.field("kind"), "end": end})


def blob_problems(wanted: Iterable[BlobFile], there: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """SUSPECTS, by name, for files that are missing or have the wrong size; ``there`` has sizes in bytes by name."""
    for file in wanted:
        size, recorded = there.get(file.name), {"expected": file.size, "rows": file.rows}
        if size is None:
            yield suspect(finding_codes.BLOB_MISSING, file.name, **recorded, detail="")
        elif size < file.size or (file.exact and size != file.size):
            detail = f"{size:,} bytes instead of {'' if file.exact else 'at least '}{file.size:,}"
            yield suspect(finding_codes.BLOB_SIZE_WRONG, file.name, **recorded, detail=detail)


# --- Blobs by reference: objects elsewhere, whole or a range of bytes


@dataclass(frozen=True)
class Referred:
    """An object elsewhere that rows of a data file refer to."""

    path: str
    """An absolute local path or a URI: what a finding shows, so without a query, which may hold a signature."""
    end: int
    """The least size in bytes that every range fits in; 0 if only the whole object is referred to."""
    rows: int
    why_not: str = ""
    """Why it cannot be looked for."""


def referred_objects(descriptions: Iterable[pa.StructArray], bases: Mapping[int, str]) -> list[Referred]:
    """The objects elsewhere that descriptions refer to, each once; ``bases`` has URIs of base paths by their ids."""
    tables = [_at_uris(part) for part in descriptions if {field.name for field in part.type} >= DESCRIPTION]
    tables = [table for table in tables if table.num_rows]
    if not tables:
        return []
    found = pa.concat_tables(tables).group_by(["blob_id", "uri"]).aggregate([("end", "max"), ("end", "count")])
    objects: dict[str, Referred] = {}
    for row in found.to_pylist():
        path, why_not = address_of(row["blob_id"], row["uri"], bases)
        before = objects.get(path, Referred(path, 0, 0))
        end, rows = max(before.end, row["end_max"]), before.rows + row["end_count"]
        objects[path] = Referred(path, end, rows, why_not or before.why_not)
    return [objects[path] for path in sorted(objects)]


def _at_uris(part: pa.StructArray) -> pa.Table:
    """For each blob at a URI: base path, URI, and the end of its range; the end is 0 for a whole object."""
    there = part.filter(pc.fill_null(pc.equal(part.field("kind"), pa.scalar(AT_URI, pa.uint8())), False))
    there = there.filter(there.is_valid())
    size = there.field("size").cast(pa.int64())
    end = pc.if_else(pc.greater(size, 0), pc.add(there.field("position").cast(pa.int64()), size), 0)
    return pa.table({"blob_id": there.field("blob_id"), "uri": there.field("blob_uri"), "end": end})


def referred_problems(wanted: Iterable[Referred], sizes: Mapping[str, int | str | None]) -> Iterator[dict[str, Any]]:
    """SUSPECTS for objects that are missing, too short or out of reach: ``sizes`` has bytes, None, or what failed."""
    found = []
    for one in wanted:
        size = one.why_not or sizes[one.path]
        recorded = {"expected": one.end, "rows": one.rows}
        if size is None:
            found.append(suspect(finding_codes.OBJECT_MISSING, one.path, **recorded, detail=""))
        elif isinstance(size, str):
            found.append(suspect(finding_codes.FILE_UNREACHABLE, one.path, **recorded, detail=size))
        elif size < one.end:
            detail = f"{size:,} bytes instead of at least {one.end:,}"
            found.append(suspect(finding_codes.OBJECT_SHORT, one.path, **recorded, detail=detail))
    return _few(found)


# --- Restoring ref files of branches and tags from evidence
# A value in a damaged file counts only if it is complete: a number cut off by the end of the file may have more digits.

_TEXT = r'"((?:[^"\\]|\\.)*)"'
_NUMBER = r"(\d+)\s*[,}\]]"


class Origin(NamedTuple):
    parent: str | None
    """None for main."""
    version: int


@dataclass(frozen=True)
class BranchEvidence:
    remains: bytes
    """The content of its ref file; empty without a file."""
    first: Origin | None = None
    """The origin that the first version of the branch records; None if that version was cleaned up."""
    first_ns: int = 0
    """Commit time of that version, in nanoseconds since the epoch."""
    size: int = 0
    """Bytes of the manifest that it was created from, or of its own first one."""
    ancestors: tuple[tuple[int, str], ...] | None = ()
    """Version and identity of the parent and all its ancestors; None if unknown."""
    identities: tuple[str, ...] = ()
    """Identities of this branch in merges of it and in branches created from it."""


@dataclass(frozen=True)
class TagEvidence:
    remains: bytes
    versions: frozenset[tuple[str | None, int]]
    """The existing versions, by branch and number."""


class RestoredRef(NamedTuple):
    """The former content of a ref file, as far as known."""

    content: str
    says: str
    """The evidence it is based on, in words."""


def restored_branch(evidence: BranchEvidence, new_identity: str) -> RestoredRef | str:
    """The ref file of a branch, or the reason in words why it cannot be restored.

    ``new_identity`` becomes the branch's identity if nothing ever named its own.
    """
    left = _loaded(evidence.remains)
    text = evidence.remains.decode("utf-8", "replace")
    origin = evidence.first or _origin(left, text)
    if origin is None:
        return "neither the file nor a first version of the branch records what it was created from"
    if evidence.ancestors is None:
        return f"the ref of '{origin.parent}', which it was created from, is also unknown"
    own = _own_identity(left, text)
    identities = {own} if own else set(evidence.identities)
    if len(identities) > 1:
        return "branches and merges record different identities for it"
    identity = next(iter(identities), new_identity)
    content = {
        "parentBranch": origin.parent,
        "identifier": {"version_mapping": [*map(list, evidence.ancestors), [origin.version, identity]]},
        "parentVersion": origin.version,
        "createAt": _number(left, text, "createAt") or evidence.first_ns // 10**9,
        "manifestSize": _number(left, text, "manifestSize") or evidence.size,
        "metadata": left.get("metadata") or {},
    }
    told = "the branch's first version" if evidence.first else "what is left of the file"
    lost = "" if left else "; any notes in its metadata are lost"
    return RestoredRef(json.dumps(content, indent=2), told + lost)


def restored_tag(evidence: TagEvidence, size: int) -> RestoredRef | str:
    """The ref file of a tag, or why it cannot be restored. ``size`` is that of the version's manifest, in bytes."""
    target = tagged(evidence.remains)
    if target is None:
        return "the file no longer shows which version it tags"
    if target not in evidence.versions:
        return f"it tags version {target[1]} of '{target[0] or 'main'}', which does not exist"
    text = evidence.remains.decode("utf-8", "replace")
    content: dict[str, Any] = {"branch": target[0], "version": target[1]}
    for key in ("createdAt", "updatedAt"):
        found = re.search(rf'"{key}"\s*:\s*{_TEXT}', text)
        if found:
            content[key] = found[1]
    content |= {"manifestSize": _number({}, text, "manifestSize") or size, "metadata": {}}
    return RestoredRef(json.dumps(content, indent=2), "what is left of the file; any metadata is lost")


def tagged(remains: bytes) -> tuple[str | None, int] | None:
    """The branch and version in a damaged ref file of a tag; None if they are incomplete."""
    text = remains.decode("utf-8", "replace")
    branch, version = (
        re.search(rf'"branch"\s*:\s*(?:null|{_TEXT})\s*,', text),
        re.search(rf'"version"\s*:\s*{_NUMBER}', text),
    )
    return (branch[1], int(version[1])) if branch and version else None


def mapping(content: bytes) -> tuple[tuple[int, str], ...]:
    """Version and identity of a branch and its ancestors, from a sound ref file; empty for older files."""
    return _mapping(_loaded(content))


def clone_uri(remains: bytes) -> str | None:
    """The URI in a damaged record of a clone; None if it is cut off."""
    found = re.search(rf'"uri"\s*:\s*{_TEXT}', remains.decode("utf-8", "replace"))
    return str(decode_json(f'"{found[1]}"')) if found else None


def contradiction(said: Origin, first: Origin | None) -> str:
    """How a ref contradicts the first version of its branch; "" if it does not."""
    if first is None or said == first:
        return ""
    return f"it records {_name(said)}, but the first version was copied from {_name(first)}"


def _name(origin: Origin) -> str:
    return f"{origin.parent or 'main'}@{origin.version}"


def _loaded(content: bytes) -> dict[str, Any]:
    try:
        found = decode_json(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _origin(left: dict[str, Any], text: str) -> Origin | None:
    version = _number(left, text, "parentVersion")
    parent = re.search(rf'"parentBranch"\s*:\s*(?:null|{_TEXT})\s*,', text)
    return Origin(parent[1], version) if version and parent else None


def _number(left: dict[str, Any], text: str, key: str) -> int | None:
    if isinstance(left.get(key), int):
        return int(left[key])
    found = re.search(rf'"{key}"\s*:\s*{_NUMBER}', text)
    return int(found[1]) if found else None


def _own_identity(left: dict[str, Any], text: str) -> str:
    known = _mapping(left)
    if known:
        return known[-1][1]
    whole = re.search(r'"version_mapping"\s*:\s*\[(.*?\])\s*\]\s*\}', text, re.DOTALL)
    pairs: Sequence[str] = re.findall(rf"\[\s*\d+\s*,\s*{_TEXT}\s*\]", whole[1]) if whole else ()
    return pairs[-1] if pairs else ""


def _mapping(left: dict[str, Any]) -> tuple[tuple[int, str], ...]:
    try:
        return tuple((int(version), str(one)) for version, one in left["identifier"]["version_mapping"] if version)
    except (KeyError, TypeError, ValueError):
        return ()
