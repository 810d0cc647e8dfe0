"""Looks at what a repair can work with: newest versions that findings hit, manifests, what is left of refs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote

from lance_spark.actions.fsck.bad_files import directory_of, is_sound_segment
from lance_spark.actions.fsck.fsck import Examined
from lance_spark.actions.fsck.ref_facts import RefFacts
from lance_spark.actions.sync.write_guards import check_mergeable
from lance_spark.checkup import codes
from lance_spark.checkup.codes import MANIFEST_CODES
from lance_spark.checkup.repair import FRAGMENT_CODES, INDEX_CODES
from lance_spark.checkup.repair_facts import LineFacts, ManifestFact, RepairFacts, SegmentFact
from lance_spark.checkup.repair_steps import Digest, RestoreRef, SuspectFile
from lance_spark.cleanup.survey import Chain, VersionFile
from lance_spark.errors import CorruptData, NotFound, Refused
from lance_spark.layout import file_kinds
from lance_spark.layout.key_ranges import KeyRange
from lance_spark.layout.names import data_key, manifest_names, sorts_newest_first, stored_name
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Fragment
from lance_spark.manifest.indexes import IndexRecord, decode_indexes
from lance_spark.merge.snapshot import Root, Snapshot
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.refs.parse import BRANCHES, ref_file
from lance_spark.store.listing import list_paths
from lance_spark.store.protection import check_unprotected
from lance_spark.store.quarantine import look_at_file
from lance_spark.store.version_reader import contents_of, read_manifest, snapshot_of


def facts_of(location: DatasetLocation, examined: Examined) -> RepairFacts:
    """What there is to repair with. Raises StorageFailure."""
    return _Facts(location, examined).all()


class _Facts:
    def __init__(self, location: DatasetLocation, examined: Examined) -> None:
        self._location, self._examined, self._survey = location, examined, examined.survey
        self._findings = examined.report.findings
        self._chains = {chain.branch: chain for _, chain in self._survey.owned() if chain.has_ref}

    def all(self) -> RepairFacts:
        refs = RefFacts(self._location, self._examined)
        restored = refs.refs()
        return RepairFacts(
            refs=restored,
            lost_refs=refs.lost(),
            tags={tag.name: tag.branch or MAIN for tag in self._survey.refs.tags.values()},
            manifests=dict(self._manifests()),
            twins={one.path: self._twins(one.path) for one in self._of(codes.VERSION_TWICE)},
            empty={one.path: self._empty(one.path) for one in self._of(codes.BRANCH_EMPTY)},
            lines=tuple(self._lines({path for path, found in restored.items() if isinstance(found, RestoreRef)})),
            branches=frozenset(self._survey.refs.branches),
        )

    def _of(self, *wanted: str) -> list:  # type: ignore[type-arg]
        return [finding for finding in self._findings if finding.code in wanted]

    def _manifests(self) -> Iterator[tuple[str, ManifestFact]]:
        bad = {finding.path for finding in self._of(*MANIFEST_CODES)}
        for chain in self._chains.values() if bad else ():
            paths = {chain.path(version): version for version in chain.versions}
            for path in sorted(bad & paths.keys()):
                file = look_at_file(self._location, path)
                newest = paths[path] == chain.versions[-1]
                hint = f"{path.rpartition('/')[0]}/latest_version_hint.json"
                if file is not None:
                    yield (
                        path,
                        ManifestFact(
                            file,
                            chain.branch,
                            newest,
                            look_at_file(self._location, hint) if newest and self._location.is_local else None,
                            len(paths.keys() - bad),
                        ),
                    )

    def _twins(self, root: str) -> tuple[Digest, ...] | str:
        chain = next((one for one in self._chains.values() if (one.root or MAIN) == root), None)
        return "" if chain is None else twins_of(self._location, chain)

    def _empty(self, name: str) -> Digest | str:
        refs = self._survey.refs
        if any(tag.branch == name for tag in refs.tags.values()):
            return "a tag names it: restore its directory, or delete the tag and the branch"
        if any(branch.parent_branch == name for branch in refs.branches.values()):
            return "a branch was made from it: restore its directory"
        if not is_empty_branch(self._location, name):
            return "its directory has files, but no version: restore its manifests, or delete the branch"
        file = look_at_file(self._location, ref_file(BRANCHES, name))
        return "" if file is None else file

    def _lines(self, restored: set[str]) -> Iterator[LineFacts]:
        found = [one for one in self._findings if one.code in INDEX_CODES or one.code in FRAGMENT_CODES]
        hit = {ref for finding in found for ref in finding.refs}
        bad = {finding.path for finding in found}
        for branch, chain in sorted(self._chains.items(), key=lambda item: item[0] or ""):
            if (branch or MAIN) in hit and chain.versions:
                line = _NewestVersion.read(self._location, PinnedVersion(branch, chain.versions[-1].version))
                will_be = branch is not None and ref_file(BRANCHES, branch) in restored
                facts = None if line is None else line.facts(bad, "" if will_be else _closed(self._location, branch))
                if facts is not None and (facts.fragments or facts.segments):
                    yield replace(facts, protected=not will_be and _is_protected(self._location, branch))


class _NewestVersion(NamedTuple):
    """The newest version of a branch."""

    location: DatasetLocation
    snapshot: Snapshot
    indexes: Sequence[IndexRecord]

    @classmethod
    def read(cls, location: DatasetLocation, pin: PinnedVersion) -> _NewestVersion | None:
        """The version; None if it cannot be understood, or is gone."""
        try:
            content = read_manifest(location, pin)
            return cls(
                location, snapshot_of(location, pin, contents_of(location, pin, content)), decode_indexes(content)
            )
        except (CorruptData, NotFound, Refused):
            return None

    def facts(self, bad: set[str], closed: str) -> LineFacts:
        pin, contents = self.snapshot.pin, self.snapshot.contents
        fragments = {}
        for fragment in contents.fragments():
            files = tuple(file for file in self._files(fragment, contents.counts_rows) if file.path in bad)
            if files:
                fragments[fragment.id] = files
        return LineFacts(
            pin.branch, pin.version, fragments, contents.fragment_count, tuple(self._segments(bad)), closed
        )

    def _files(self, fragment: Fragment, counts_rows: bool) -> Iterator[SuspectFile]:
        rows = fragment.physical_rows if counts_rows else 0
        for file in fragment.files:
            root = self.snapshot.root_of(file)
            prefix = "data/" if root.is_dataset else ""
            path = self._path(root, data_key(prefix + stored_name(file.path)) if prefix else stored_name(file.path))
            yield SuspectFile(path, file_kinds.DATA, file.size, rows)
        if fragment.deletion is not None:
            root = self.snapshot.root_of(fragment.deletion)
            path = self._path(root, fragment.deletion.path_for(fragment.id))
            yield SuspectFile(path, file_kinds.DELETION, 0, rows, fragment.deletion.rows)

    def _path(self, root: Root, below: str) -> str:
        """As findings have it: relative to the dataset, or a URI elsewhere."""
        own = self.location.uri
        if root.uri == own:
            return below
        if not root.uri.startswith(f"{own}/"):
            return f"{root.uri}/{below}"
        inner = root.uri[len(own) + 1 :]
        return f"{unquote(inner) if '://' in own else inner}/{below}"

    def _segments(self, bad: set[str]) -> Iterator[SegmentFact]:
        for index in self.indexes:
            root = self.snapshot.bases.get(index.base_id)
            if root is None or index.is_internal:  # pylance needs what it keeps for itself
                continue
            inside = directory_of(root, index.uuid)[len(root.uri) + 1 :]
            directory = self._path(root, inside)
            for path in sorted(path for path in bad if path == directory or path.startswith(f"{directory}/")):
                found, base = self._other_place(index)
                yield SegmentFact(index.uuid, index.name, path, found, base)

    def _other_place(self, index: IndexRecord) -> tuple[bool, int | None]:
        for base, root in self._places().items():
            if base != index.base_id and is_sound_segment(self.location, root, index):
                return True, base
        return False, None

    def _places(self) -> Mapping[int | None, Root]:
        return self.snapshot.bases


def _closed(location: DatasetLocation, branch: str | None) -> str:
    """Why nothing may be committed to a branch; "" if it may."""
    try:
        check_mergeable(location, branch)
    except (Refused, NotFound, CorruptData) as problem:
        return problem.message
    return ""


def _is_protected(location: DatasetLocation, branch: str | None) -> bool:
    try:
        check_unprotected(location, branch)
    except (Refused, CorruptData):
        return True
    return False


def twins_of(location: DatasetLocation, chain: Chain) -> tuple[Digest, ...] | str:
    """Manifests that are there under another name as well, byte by byte: those whose names fewer others have."""
    by_version: dict[int, list[VersionFile]] = {}
    for file in chain.versions:
        by_version.setdefault(file.version, []).append(file)
    single = [sorts_newest_first(files[0].name) for files in by_version.values() if len(files) == 1]
    keeps_newer = sum(single) * 2 >= len(single)
    moved = []
    for files in by_version.values():
        if len(files) == 1:
            continue
        digests = {one.name: look_at_file(location, chain.path(one)) for one in files}
        if (
            len({(one.size, one.sha256) for one in digests.values() if one is not None}) != 1
            or None in digests.values()
        ):
            return "the two manifests differ: keep the right one"
        newer, older = manifest_names(files[0].version)
        digest = digests.get(older if keeps_newer else newer)
        if digest is None:
            return "the manifests have names that are not known"
        moved.append(digest)
    return tuple(moved)


def is_empty_branch(location: DatasetLocation, name: str) -> bool:
    """Whether nothing at all is left in the directory of a branch."""
    return next(iter(list_paths(location, KeyRange.below(f"tree/{name}"))), None) is None
