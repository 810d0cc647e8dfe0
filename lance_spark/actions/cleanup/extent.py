"""How much work a cleanup is, estimated from what is known before its first stage. Pure."""

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


def work_of_survey(survey: Survey, policy: CleanupPolicy, clock: RunClock) -> Work:
    """The work of planning, and of carrying the plan out: no more files can go than there are.

    Versions whose age only their manifest tells are counted as if they stayed: every manifest that is read is counted.
    """
    manifests = list(_manifests_to_read(survey, policy, clock))
    return Work(
        manifests=len(manifests),
        manifest_bytes=sum(manifest.size for manifest in manifests),
        files=about_rows(survey),
    )


def work_of_all(survey: Survey) -> Work:
    """The work of reading every manifest, and of listing every file."""
    manifests = [manifest for chain in survey.chains for manifest in chain.files]
    return Work(
        manifests=len(manifests),
        manifest_bytes=sum(manifest.size for manifest in manifests),
        files=about_rows(survey),
    )


def work_of_sums(sums: pa.Table) -> Work:
    """The work of carrying out a plan with these SUMS."""
    return Work(files=sum(row["files"] for row in sums.to_pylist() if row["action"] == DELETE))


def about_rows(survey: Survey) -> int:
    """About how many files and marks there are, estimated from the sizes of the latest manifests."""
    return 2 * (_named(survey) + sum(2 * len(chain.files) for _, chain in survey.owned()))


def about_files(survey: Survey) -> int:
    """About how many files there are: those of the latest versions, and a manifest and two more of every version."""
    return _named(survey) + sum(3 * len(chain.files) for _, chain in survey.owned())


def _named(survey: Survey) -> int:
    return sum(chain.versions[-1].size // _BYTES_PER_FILE for _, chain in survey.owned() if chain.versions)


def _manifests_to_read(survey: Survey, policy: CleanupPolicy, clock: RunClock) -> Iterator[VersionFile]:
    """The manifests that Marking reads, or more: of unknown age, kept, or too young for their files to go unproved."""
    unknown = positions_of_unknown_age(survey, policy, clock)
    # Only the plan, which knows all ages, can say whether tags forbid the cleanup.
    verdicts = judge(survey, replace(policy, error_if_tagged_old_versions=False, tags={}), clock, {})
    since = proofs_since(policy, clock)
    for index, (chain, verdict) in enumerate(zip(survey.chains, verdicts, strict=True)):
        asked = frozenset(unknown.get(index, ()))
        for position, (manifest, kept) in enumerate(zip(chain.files, verdict.kept, strict=True)):
            if kept or position in asked or manifest.modified_ns >= since:
                yield manifest
