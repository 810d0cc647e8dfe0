"""Switches on pylance's own cleanup after commits, by configuration keys; refuses it where it would lose data."""

from __future__ import annotations

from datetime import timedelta

from lance_spark.cleanup.retention_rules import DEFAULT_COMMIT_WINDOW, VersionRule
from lance_spark.core.location import DatasetLocation
from lance_spark.core.texts import from_span
from lance_spark.errors import InvalidOption, Refused
from lance_spark.format.manifest import decode_head
from lance_spark.storage import files
from lance_spark.storage.datasets import delete_config, update_config
from lance_spark.storage.followers import check_writable
from lance_spark.storage.others import check_elsewhere
from lance_spark.survey.chain_rules import Chain, Survey
from lance_spark.survey.survey import survey

INTERVAL, OLDER_THAN, RETAIN_VERSIONS = (
    "lance.auto_cleanup.interval",
    "lance.auto_cleanup.older_than",
    "lance.auto_cleanup.retain_versions",
)


def enable_auto_cleanup(
    location: DatasetLocation,
    branch: str | None,
    interval: int,
    older_than: timedelta | None,
    retain_versions: int | None,
    commit_window: timedelta = DEFAULT_COMMIT_WINDOW,
) -> None:
    """Let pylance clean a branch after every ``interval``-th commit of any process; this is a commit itself.

    Raises Refused where pylance's hook is known to lose data: it removes versions that a running job needs (those
    within ``commit_window``), misses the files of a branch that was created through another spelling of the URI, and
    does not know clones.
    """
    check_elsewhere(location, "let pylance clean it up")
    check_writable(location, branch)
    if interval < 1:
        raise InvalidOption("interval must be 1 or more.", hint="Give a number of versions, e.g. 20.")
    if older_than is None and retain_versions is None:
        raise InvalidOption(
            "Neither older_than nor retain_versions is given.",
            hint="Give one of them. With neither, pylance removes all but the two newest versions.",
        )
    rule = VersionRule(older_than=older_than, retain_versions=retain_versions)
    if commit_window and (rule.older_than is None or rule.older_than < commit_window):
        raise Refused(
            f"Automatic cleanup would remove versions of the last {from_span(commit_window)}. A running job may need "
            "them: without them, it would silently undo concurrent changes.",
            hint=f"Give older_than, at least {from_span(commit_window)}, with or without retain_versions. Or "
            "schedule python -m lance_spark.jobs.cleanup.",
        )
    seen = survey(location)
    _check_safe(seen)
    values = {INTERVAL: str(interval)}
    if rule.older_than is not None:
        values[OLDER_THAN] = f"{int(rule.older_than.total_seconds())}s"
    if rule.retain_versions is not None:
        values[RETAIN_VERSIONS] = str(rule.retain_versions)
    update_config(location, branch, values)


def disable_auto_cleanup(location: DatasetLocation, branch: str | None) -> None:
    """Switch it off; does nothing if it is off."""
    check_writable(location, branch)
    delete_config(location, branch, (INTERVAL, OLDER_THAN, RETAIN_VERSIONS))


def _check_safe(seen: Survey) -> None:
    if seen.recorded_clones:
        clone = next(iter(seen.recorded_clones.values()))
        raise Refused(
            f"Automatic cleanup does not know the clone at {clone}: its tag would make every run fail.",
            hint="Schedule python -m lance_spark.jobs.cleanup instead.",
        )
    for _, chain in seen.owned():
        if chain.branch is not None and chain.versions:
            _check_spelling(seen, chain)


def _check_spelling(seen: Survey, chain: Chain) -> None:
    content = files.read(seen.location, chain.path(chain.versions[-1]))
    for base in decode_head(content).bases.values() if content is not None else ():
        own = base.path == seen.location.uri or base.path.startswith(f"{seen.location.uri}/tree/")
        if not own:
            raise Refused(
                f"Branch '{chain.branch}' names its origin '{base.path}', not {seen.location.uri}: automatic cleanup "
                "would delete files it needs.",
                hint="Schedule python -m lance_spark.jobs.cleanup instead, which handles all spellings.",
            )
