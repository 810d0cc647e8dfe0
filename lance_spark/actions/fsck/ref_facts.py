"""What there is to restore refs from: what is left of their files, first versions, branches made from them, merges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import islice
from uuid import uuid4

from lance_spark.actions.fsck.fsck import Examined
from lance_spark.actions.fsck.ref_findings import first_origin
from lance_spark.checkup import codes
from lance_spark.checkup.ref_evidence import (
    BranchEvidence,
    Origin,
    RestoredRef,
    TagEvidence,
    clone_uri,
    mapping,
    restored_branch,
    restored_tag,
    tagged,
)
from lance_spark.checkup.repair_steps import Digest, RestoreRef
from lance_spark.cleanup.survey import Chain
from lance_spark.errors import CorruptData
from lance_spark.location import DatasetLocation
from lance_spark.merge.trace import Trace, read_trace
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.parse import BRANCHES, parse_branch, ref_file
from lance_spark.store import files
from lance_spark.store.parallel import each
from lance_spark.store.quarantine import digest_of
from lance_spark.store.survey import DamagedRef
from lance_spark.store.version_reader import read_transaction

_NEWEST = 1_000
"""So many of the newest versions of each branch are asked which branches they merged."""


class RefFacts:
    """Looks for evidence, once for each ref."""

    def __init__(self, location: DatasetLocation, examined: Examined) -> None:
        self._location, self._survey, self._examined = location, examined.survey, examined
        self._chains = {chain.branch: chain for _, chain in self._survey.owned()}

    def refs(self) -> dict[str, RestoreRef | str]:
        """By path: what restores each ref file that is damaged, wrong or lost; or why nothing does."""
        found: dict[str, RestoreRef | str] = {file.path: self._damaged(file) for file in self._examined.damaged}
        for finding in self._examined.report.findings:
            if finding.code == codes.REF_WRONG:
                content = files.read(self._location, finding.path) or b""
                found[finding.path] = self._branch(finding.refs[0], content, codes.REF_WRONG)
        for branch, path in self.lost().items():
            found[path] = self._branch(branch, b"", codes.NO_REF)
        return found

    def lost(self) -> dict[str, str]:
        """Path of the ref file by branch, of branches without one that tags or other branches still name.

        No tool deletes such a branch before those; without them it may be one that is being made or deleted.
        """
        refs = self._survey.refs
        named = {tag.branch for tag in refs.tags.values()} | {one.parent_branch for one in refs.branches.values()}
        return {
            chain.branch: ref_file(BRANCHES, chain.branch)
            for chain in self._chains.values()
            if chain.branch is not None and not chain.has_ref and chain.versions and chain.branch in named
        }

    def _damaged(self, file: DamagedRef) -> RestoreRef | str:
        if file.branch is not None:
            return self._branch(file.branch, file.content, codes.REF_DAMAGED)
        before = digest_of(file.path, file.content)
        if file.tag is None:
            uri = clone_uri(file.content)
            if uri is None:
                return "the file does not say any more which clone it notes down"
            return RestoreRef(file.path, json.dumps({"uri": uri}), "what is left of the file", before)
        versions = {
            (chain.branch, one.version): one.size
            for chain in self._chains.values()
            for one in chain.versions
            if chain.has_ref
        }
        target = tagged(file.content)
        restored = restored_tag(
            TagEvidence(file.content, frozenset(versions)), versions.get(target, 0) if target else 0
        )
        if isinstance(restored, str):
            return restored
        return _step(file.path, restored, before, codes.REF_DAMAGED)

    def _branch(self, name: str, remains: bytes, why: str) -> RestoreRef | str:
        path = ref_file(BRANCHES, name)
        chain = self._chains.get(name)
        if chain is None or not chain.versions:
            return "the branch has no versions"
        evidence = self._evidence(chain, remains)
        own = mapping(remains)
        if own and evidence.identities and own[-1][1] not in evidence.identities:
            return "it has another identity than branches and merges know, and which one is right is not known"
        restored = restored_branch(evidence, uuid4().hex)
        if isinstance(restored, str):
            return restored
        try:
            parse_branch(name, restored.content.encode())
        except CorruptData as problem:
            return problem.message
        return _step(path, restored, digest_of(path, remains) if remains or why != codes.NO_REF else None, why)

    def _evidence(self, chain: Chain, remains: bytes) -> BranchEvidence:
        first = first_origin(self._survey, chain)
        children = [one for one in self._survey.refs.branches.values() if one.parent_branch == chain.branch]
        mappings = [mapping(self._ref(child.name)) for child in children]
        from_children = {known[-2][1] for known in mappings if len(known) > 1}
        identities = from_children or set(self._merged(chain))
        return BranchEvidence(
            remains=remains,
            first=first,
            first_ns=chain.versions[0].modified_ns,
            size=self._size(first) or chain.versions[0].size,
            ancestors=self._ancestors(first, mappings),
            identities=tuple(sorted(identities)),
        )

    def _size(self, first: Origin | None) -> int:
        parent = self._chains.get(first.parent) if first else None
        return next((one.size for one in parent.versions if one.version == first.version), 0) if parent and first else 0

    def _ancestors(
        self, first: Origin | None, mappings: list[tuple[tuple[int, str], ...]]
    ) -> tuple[tuple[int, str], ...] | None:
        known = next((one[:-2] for one in mappings if len(one) > 1), None)
        if known is not None or first is None or first.parent is None:
            return known or ()
        return mapping(self._ref(first.parent)) if first.parent in self._survey.refs.branches else None

    def _ref(self, name: str) -> bytes:
        return files.read(self._location, ref_file(BRANCHES, name)) or b""

    def _merged(self, chain: Chain) -> Iterator[str]:
        """Identities under which other branches merged it since it was made."""
        for other in self._chains.values():
            if other.branch == chain.branch or not other.has_ref:
                continue
            since = (
                one.version for one in reversed(other.versions) if one.modified_ns >= chain.versions[0].modified_ns
            )
            read = partial(_trace, self._location, other.branch)
            for trace in each(self._location, read, list(islice(since, _NEWEST))):
                if trace is not None and trace.source.branch == chain.branch and trace.source_id:
                    yield trace.source_id


def _trace(location: DatasetLocation, branch: str | None, version: int) -> Trace | None:
    try:
        transaction = read_transaction(location, PinnedVersion(branch, version))
    except CorruptData:
        return None
    return None if transaction is None else read_trace(transaction.properties)


def _step(path: str, restored: RestoredRef, before: Digest | None, why: str) -> RestoreRef:
    return RestoreRef(path, restored.content, restored.says, before, why)
