"""What a repository with branches, tags and clones must hold, in plain Python, beside the real one on disk."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from lance_spark.cleanup.cleanup import CleanupPlan, plan_cleanup
from lance_spark.cleanup.report import CleanupReport
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.engine.local import LocalRunner
from lance_spark.format.manifest import named_files
from lance_spark.storage.datasets import locate
from support.clones import name_of

PAYLOAD = 70_000
"""Bytes of a blob that gets a file of its own."""
NOW = timedelta(0)
RUNNER = LocalRunner(2)
Rows = dict[int, dict[str, Any]]
"""Columns by id."""


@dataclass(frozen=True, order=True)
class Place:
    """One chain of versions: main ("") or a branch of the dataset in a directory."""

    root: str
    branch: str

    @property
    def uri(self) -> str:
        return f"{self.root}/tree/{self.branch}" if self.branch else self.root

    @property
    def name(self) -> str | None:
        return self.branch or None


@dataclass
class Model:
    """The rows of every version that is listed, and what holds on to versions."""

    rows: dict[Place, dict[int, Rows]] = field(default_factory=dict)
    forks: dict[Place, tuple[Place, int]] = field(default_factory=dict)
    """Where a branch was made."""
    tags: dict[tuple[str, str], tuple[Place, int]] = field(default_factory=dict)
    """By root and name."""
    clones: dict[str, tuple[Place, int]] = field(default_factory=dict)
    """What was cloned, by the clone's root."""
    names: dict[str, str] = field(default_factory=dict)
    """Those that recorded clones have at their sources, by the clone's root."""

    def roots(self) -> list[str]:
        return sorted({place.root for place in self.rows})

    def places(self, root: str | None = None) -> list[Place]:
        return sorted(place for place in self.rows if root in (None, place.root))

    def versions(self) -> list[tuple[Place, int]]:
        return sorted((place, version) for place, versions in self.rows.items() for version in versions)

    def head(self, place: Place) -> int:
        return max(self.rows[place])

    def record_clone(self, source: Place, version: int, target: str) -> None:
        self.names[target] = name_of(locate(target))
        self.tags[source.root, self.names[target]] = source, version

    def loosely_tagged(self, root: str) -> list[str]:
        """Tags for clones of a dataset that have no clones themselves: there the record alone protects enough."""
        sources = {place.root for place, _ in self.clones.values()}
        clones = [target for target, (place, _) in self.clones.items() if place.root == root and target not in sources]
        names = [self.names[target] for target in sorted(clones) if target in self.names]
        return [name for name in names if (root, name) in self.tags]

    def is_free(self, branch: Place) -> bool:
        """Whether nothing needs a branch."""
        held = [place for place, _ in (*self.forks.values(), *self.tags.values(), *self.clones.values())]
        return branch not in held and not any(
            other.root == branch.root and other.branch.startswith(f"{branch.branch}/") for other in self.forks
        )

    def old(self, place: Place, policy: CleanupPolicy) -> set[int]:
        """Versions that match a policy, whatever else holds on to them."""
        asked = (policy.older_than, policy.retain_versions, policy.versions)
        if asked == (None, None, None) or (place.branch and policy.versions is not None):
            return set()
        old = set(sorted(self.rows[place])[: -(policy.retain_versions or 1)])
        return old if policy.versions is None else old & policy.versions

    def kept(self, place: Place, policy: CleanupPolicy) -> set[int]:
        """Versions that a cleanup of the place's dataset has to leave."""
        held = {version for at, version in self.tags.values() if at == place}
        if policy.keep_fork_versions:
            held |= {version for at, version in self.forks.values() if at == place}
        return (self.rows[place].keys() - self.old(place, policy)) | (held & self.rows[place].keys())

    def forbidden(self, root: str, policy: CleanupPolicy) -> bool:
        """Whether a user's tag is on a version that would go, and that is an error."""
        users = [at for (of, name), at in self.tags.items() if of == root and not name.startswith("clone-")]
        return policy.error_if_tagged_old_versions and any(
            version in self.old(place, policy) for place, version in users
        )


def table_of(rows: Rows, schema: pa.Schema) -> pa.Table:
    """Rows as a table in the columns of a dataset."""
    columns = {
        "id": pa.array(rows, pa.int64()),
        **{
            name: pa.array([row[name] for row in rows.values()], pa.int64())
            for name in schema.names
            if name not in ("id", "b")
        },
    }
    if "b" in schema.names:
        columns["b"] = lance.blob_array([payload(number) for number in rows])
    return pa.table([columns[name] for name in schema.names], schema)


def payload(number: int) -> bytes:
    """The blob of a row: every other one lies in a file of its own."""
    return bytes([number % 251]) * (PAYLOAD if number % 2 else 10)


def read(place: Place, version: int) -> Rows:
    """A version as pylance reads it from scratch, whole; blobs are compared here."""
    read_rows = lance.dataset(place.uri, version=version).to_table(blob_handling="all_binary").to_pylist()
    assert all(row.pop("b") == payload(row["id"]) for row in read_rows if "b" in row)
    rows = {row.pop("id"): row for row in read_rows}
    assert len(rows) == len(read_rows)
    return rows


def listed(place: Place) -> set[int]:
    """Versions that pylance lists."""
    return {entry["version"] for entry in lance.dataset(place.uri).versions()}


def plan(root: str, policy: CleanupPolicy) -> CleanupPlan:
    return plan_cleanup(locate(root), policy, RUNNER, time.time_ns())


def clean(root: str, policy: CleanupPolicy) -> CleanupReport:
    report = plan(root, policy).apply()
    assert report.complete, report
    return report


def unnamed(places: list[Place]) -> set[str]:
    """Files below the places' datasets that no version needs, by manifests and by pylance."""
    named, manifests = set(), set()
    for place in places:
        tracked = {f"{row['base_uri']}/{row['path']}" for row in _tracked(place)}
        ours = set()
        for manifest in Path(place.uri, "_versions").glob("*.manifest"):
            manifests.add(str(manifest))
            files = named_files(manifest.read_bytes())
            ours |= {f"{locate(file.base.path).uri if file.base else place.uri}/{file.path}" for file in files}
        assert {path for path in tracked if not _is_known(path, ours | manifests)} == set()
        named |= ours
    on_disk = {str(path) for place in places for path in Path(place.root).rglob("*") if path.is_file()}
    return {path for path in on_disk - manifests if not _is_known(path, named) and not _is_kept_anyway(path)}


def _tracked(place: Place) -> list[dict[str, str]]:
    return list(lance.dataset(place.uri).tracked_files().read_all().to_pylist())


def _is_known(path: str, named: set[str]) -> bool:
    above = {str(directory) for directory in Path(path).parents}
    is_blob = path.endswith(".blob") and f"{Path(path).parent}.lance" in named
    return path in named or is_blob or bool(above & named)


def _is_kept_anyway(path: str) -> bool:
    # A run that ended before it had recorded its plan leaves parts of the record, which do not count.
    begun = "/_cleanup/" in path and not Path(path).with_name("_plan.json").exists()
    begun |= ".columns.json" in path
    return begun or path.endswith("/latest_version_hint.json") or "/_refs/" in path or "/_clones/" in path
