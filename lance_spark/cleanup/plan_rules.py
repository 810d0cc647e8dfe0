"""Plans of cleanups as values and as JSON documents, without storage options. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from lance_spark.cleanup import retention_rules
from lance_spark.cleanup.retention_rules import Verdict
from lance_spark.cleanup.sweep_rules import SUMS
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.reflog import decode, encode
from lance_spark.core.records.stored_json import UNREADABLE, read_as
from lance_spark.core.refs import MAIN, Branch, RefTable, Tag
from lance_spark.core.show import fields_of
from lance_spark.errors import CorruptData
from lance_spark.survey.chain_rules import Chain, Survey

FORMAT = 1


@dataclass(frozen=True)
class PlanFacts:
    id: str
    created_ns: int
    """When marking began, in nanoseconds since the epoch."""
    policy: Mapping[str, Any]
    """The policy as given, for people to read."""
    survey: Survey
    verdicts: tuple[Verdict, ...]
    sums: pa.Table
    """SUMS: files and bytes by kind, branch, action and reason."""
    clones: tuple[str, ...] = ()
    clones_from: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What a user should know about the dataset."""
    finishes: tuple[str, ...] = ()
    """Unfinished plans whose evidence is part of this one. Carrying this one out finishes them."""
    commit_window: timedelta = retention_rules.DEFAULT_COMMIT_WINDOW
    branches: tuple[str, ...] = ()
    """The branches that are cleaned alone, in order; empty for the whole dataset."""

    @property
    def home(self) -> str | None:
        """The branch (None for main) whose directory records the plan during its execution."""
        return None if not self.branches or MAIN in self.branches else self.branches[0]


def to_document(facts: PlanFacts, parts: Sequence[str]) -> dict[str, Any]:
    """The document of a plan whose candidates are stored in the parts."""
    return {
        "format": FORMAT,
        "id": facts.id,
        "created": datetime.fromtimestamp(facts.created_ns / 1e9, timezone.utc).isoformat(),
        "created_ns": facts.created_ns,
        "dataset": facts.survey.location.uri,
        "policy": dict(facts.policy),
        "clones": list(facts.clones),
        "clones_from": list(facts.clones_from),
        "warnings": list(facts.warnings),
        "finishes": list(facts.finishes),
        "commit_window_s": facts.commit_window.total_seconds(),
        "branches": list(facts.branches),
        "totals": facts.sums.to_pylist(),
        "parts": list(parts),
        "survey": _survey(facts.survey),
        "verdicts": [
            {"removed": list(verdict.removed), "count": len(verdict.kept), "reasons": dict(verdict.reasons)}
            for verdict in facts.verdicts
        ],
    }


def from_document(document: Mapping[str, Any], location: DatasetLocation) -> tuple[PlanFacts, list[str]]:
    """The facts and parts of a stored plan. ``location`` brings the storage options.

    Raises CorruptData for a document of another format or shape.
    """
    if document.get("format") != FORMAT:
        raise CorruptData(
            f"The cleanup plan has format {document.get('format')}, not {FORMAT}.", hint="Make the plan again."
        )
    try:
        facts = PlanFacts(
            id=document["id"],
            created_ns=document["created_ns"],
            policy=document["policy"],
            survey=_read_survey(document["survey"], location),
            verdicts=tuple(_read_verdict(entry) for entry in document["verdicts"]),
            sums=pa.Table.from_pylist(document["totals"], SUMS),
            clones=tuple(document["clones"]),
            clones_from=tuple(document["clones_from"]),
            warnings=tuple(document["warnings"]),
            finishes=tuple(document["finishes"]),
            commit_window=timedelta(seconds=document["commit_window_s"]),
            branches=tuple(document.get("branches", ())),  # a plan of an older release cleans all of them
        )
        return facts, list(document["parts"])
    except (*UNREADABLE, IndexError) as problem:
        raise CorruptData(f"The cleanup plan cannot be read: {problem!r}.", hint="Make the plan again.") from None


def _survey(survey: Survey) -> dict[str, Any]:
    return {
        "repositories": [location.uri for location in survey.repositories],
        "recorded_clones": dict(survey.recorded_clones),
        "branches": [
            [branch.name, branch.parent_branch, branch.parent_version, branch.created_at.isoformat(), branch.identity]
            for branch in survey.refs.branches.values()
        ],
        "changes": {change.id: encode(change).decode() for change in survey.changes},
        "tags": [[tag.name, tag.branch, tag.version] for tag in survey.refs.tags.values()],
        "chains": [
            {
                **fields_of(chain, "repository", "root", "branch", "has_ref"),
                "versions": list(map(list, chain.versions)),
                "detached": list(map(list, chain.detached)),
            }
            for chain in survey.chains
        ],
    }


def _read_survey(entry: Mapping[str, Any], location: DatasetLocation) -> Survey:
    branches = [
        Branch(name, parent, version, datetime.fromisoformat(created), identity=identity)
        for name, parent, version, created, identity in entry["branches"]
    ]
    tags = [Tag(name, branch, version) for name, branch, version in entry["tags"]]
    return Survey(
        repositories=tuple(DatasetLocation(uri, location.options) for uri in entry["repositories"]),
        chains=tuple(read_as(Chain, chain, lenient=True) for chain in entry["chains"]),
        refs=RefTable({branch.name: branch for branch in branches}, {tag.name: tag for tag in tags}),
        recorded_clones=entry["recorded_clones"],
        # A plan of an older release has none: then every recorded change counts as newer than the plan.
        changes=tuple(decode(key, text.encode()) for key, text in entry.get("changes", {}).items()),
    )


def _read_verdict(entry: Mapping[str, Any]) -> Verdict:
    kept = [True] * entry["count"]
    for position in entry["removed"]:
        kept[position] = False
    return Verdict(tuple(kept), entry["reasons"])
