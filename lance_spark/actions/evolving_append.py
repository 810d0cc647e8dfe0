"""The commit of an append that brings columns along; runs on the driver, in Spark's worker for data sources."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from lance_spark import hints
from lance_spark.actions.attempts import attempts, commit_once, overtaken
from lance_spark.actions.columns import FIRST_FORMATS, OPERATION, CastFiles
from lance_spark.errors import Conflict, LanceSparkError, Refused
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents
from lance_spark.refs.model import PinnedVersion
from lance_spark.runner.local import LocalRunner
from lance_spark.runner.work import Work
from lance_spark.schema.evolution import Evolution
from lance_spark.store import version_reader
from lance_spark.store.commits import check_still_there
from lance_spark.store.datasets import open_pinned, pin_latest
from lance_spark.store.evolving_commit import EvolvedRows, commit_evolved
from lance_spark.store.own_commits import own_properties
from lance_spark.write.evolving import plan_again
from lance_spark.write.plan import WriteJob


def check_evolution(location: DatasetLocation, start: PinnedVersion, storage_version: str, plan: Evolution) -> None:
    """Raise Refused for files of the first format, and for a type of which too much is stored.

    Values are written in their wider type by the process that commits, which has no session to compute with.
    """
    if storage_version in FIRST_FORMATS and plan.adds:
        raise Refused(
            "Cannot add a column: the data files are of format 0.1, where every file has every column.",
            hint="Write the rows to a new table, which gets a newer format.",
        )
    if plan.casts:
        _check_little(version_reader.read_contents(location, start), plan)


def append_evolved(job: WriteJob, fragments: Sequence[str]) -> int:
    """Commit rows with the columns they bring along; returns the version.

    Commits made meanwhile are kept: what has to change is planned again on top of them. Raises Conflict if a column
    that was written is another one by now; then nothing was committed.
    """
    plan, start = job.plan, job.start
    assert start is not None  # a new dataset has the columns it is created with
    location, branch = plan.location, start.branch
    rows = EvolvedRows(plan.schema, fragments, own_properties(plan.options.commit_message) | dict(job.properties or {}))
    casts = CastFiles(location, branch, LocalRunner())
    check_still_there(location, start)
    try:
        for left in attempts():
            head = pin_latest(location, branch)
            _check_same_columns(location, start, head, plan.schema)
            evolution = plan_again(open_pinned(location, head).schema, plan.schema)
            contents = version_reader.read_contents(location, head)
            _check_little(contents, evolution)
            files = casts.files(head, contents, evolution)
            commit = partial(commit_evolved, location, head, contents, evolution, files, rows)
            made = commit_once(location, head, rows.properties, left, commit)
            if made is not None:
                casts.keep(files)
                return made.version
    except LanceSparkError as failure:
        casts.discard(failure)
        raise
    raise overtaken(branch)


def _check_same_columns(location: DatasetLocation, start: PinnedVersion, head: PinnedVersion, rows: pa.Schema) -> None:
    """Raise Conflict if a column that was written is another one by now: one that was widened is still the same."""
    before, now = open_pinned(location, start), open_pinned(location, head)
    ids = {field.name(): field.id() for field in now.lance_schema.fields()}
    for field in before.lance_schema.fields():
        name = field.name()
        if rows.get_field_index(name) < 0 or ids.get(name) == field.id():
            continue
        if name not in ids or now.schema.field(name).type == before.schema.field(name).type:
            raise Conflict(
                f"Column '{name}' of {location.uri} was dropped, or made anew, since the job started.",
                hint="Run it again.",
            )


def _check_little(contents: Contents, plan: Evolution) -> None:
    if not plan.casts:
        return
    size = sum(fragment.size for fragment in contents.fragments())
    if not Work(copies=contents.fragment_count, copied_bytes=size).is_little:
        cast = plan.casts[0]
        raise Refused(
            f"Column '{cast.source}' would have to be written anew as {cast.type} in {contents.fragment_count} "
            f"fragments, which is too much for {OPERATION!r} inside of an append.",
            hint=hints.of("Do it on the executors first: ", hints.widen_column(cast.source, str(cast.type)), "."),
        )
