"""How much work a cleanup is, told from what is known before its first stage. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.cleanup.retention import RunClock, judge, positions_of_unknown_age, proofs_since
from lance_spark.cleanup.survey import Survey, VersionFile
from lance_spark.cleanup.sweep import DELETE
from lance_spark.runner.work import Work

_BYTES_PER_FILE = 60
"""What a file takes in a manifest, at the least."""


def work_of_survey(seen: Survey, policy: CleanupPolicy, clock: RunClock) -> Work:
    """The work of planning and of carrying the plan out, as no more can go than there is.

    Of versions whose age only their manifest tells, all are taken for such as stay: no manifest is read that is not
    counted here.
    """
    manifests = list(_manifests_to_read(seen, policy, clock))
    return Work(
        manifests=len(manifests),
        manifest_bytes=sum(manifest.size for manifest in manifests),
        files=about_rows(seen),
    )


def work_of_sums(sums: pa.Table) -> Work:
    """The work of carrying out a plan with these SUMS."""
    return Work(files=sum(row["files"] for row in sums.to_pylist() if row["action"] == DELETE))


def about_rows(seen: Survey) -> int:
    """About how many files and marks there are, told by the sizes of the latest manifests."""
    return 2 * (_named(seen) + sum(2 * len(chain.files) for _, chain in seen.owned()))


def about_files(seen: Survey) -> int:
    """About how many files there are: those of the latest versions, and a manifest and two more of every version."""
    return _named(seen) + sum(3 * len(chain.files) for _, chain in seen.owned())


def _named(seen: Survey) -> int:
    return sum(chain.versions[-1].size // _BYTES_PER_FILE for _, chain in seen.owned() if chain.versions)


def _manifests_to_read(seen: Survey, policy: CleanupPolicy, clock: RunClock) -> Iterator[VersionFile]:
    """Those that Marking reads, or more: of unknown age, kept, or too young for their files to go unproved."""
    unknown = positions_of_unknown_age(seen, policy, clock)
    # Whether tags forbid the cleanup is for the plan to say, which knows all ages.
    verdicts = judge(seen, replace(policy, error_if_tagged_old_versions=False, tags={}), clock, {})
    since = proofs_since(policy, clock)
    for index, (chain, verdict) in enumerate(zip(seen.chains, verdicts, strict=True)):
        asked = frozenset(unknown.get(index, ()))
        for position, (manifest, kept) in enumerate(zip(chain.files, verdict.kept, strict=True)):
            if kept or position in asked or manifest.modified_ns >= since:
                yield manifest
