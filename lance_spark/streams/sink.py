"""Streams into a branch: plans a batch like a write, and commits it once, however often it is attempted.

In: a planned batch and the fragments that its tasks wrote. Out: one version with the rows, or none if the batch is
already in. The query's tag marks its last version. A batch that two drivers committed is taken back, and the small
fragments of batches are compacted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import folded, to_bool
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.services import keeps_versions
from lance_spark.core.storage_options import split_storage
from lance_spark.core.table_options import NEW_BRANCH, parse_write_options, take_stream_options
from lance_spark.errors import Conflict, InvalidOption, NotFound, PermissionDenied, Refused
from lance_spark.format.stream_notes import TAKEN_BACK, sink_tag
from lance_spark.optimize.automatic import compact_if_due, compact_newest
from lance_spark.storage import refs, versions
from lance_spark.storage.commits import attempts, left_after, overtaken
from lance_spark.storage.credentials import only_main
from lance_spark.storage.datasets import open_pinned, pin_latest, pin_version
from lance_spark.storage.resolving import NamedTable, take_target
from lance_spark.streams.query_records import commit_note, commit_removal, look_for, put_tag, read_query_id
from lance_spark.streams.sink_rules import Batch, BranchLook, decide, doubled, is_like, last_batch
from lance_spark.tables.write import append_evolved, begin, give_up, plan_write
from lance_spark.write import data_files
from lance_spark.write.isolation import check_columns
from lance_spark.write.isolation_rules import undone
from lance_spark.write.plan_rules import WriteJob


@dataclass(frozen=True)
class StreamJob:
    """A planned batch of a stream. Only its commit knows the batch number."""

    query: str
    job: WriteJob
    """A new dataset is not created yet: a query whose dataset was deleted must not create an empty one."""
    optimize_every: int | None = None


def plan_stream(options: Mapping[str, str], frame: pa.Schema, overwrite: bool) -> StreamJob:
    """Check everything that can be checked before a batch, and create its branch if requested.

    Raises like :func:`plan_write`, and InvalidOption, NotFound or StorageFailure if the query's id cannot be found.
    """
    asked = take_stream_options(options)
    _, storage = split_storage(options)
    query = query_id(asked.query_id, asked.checkpoint, storage)
    plan = plan_write(_going_on(asked.write, query), frame, overwrite)
    if plan.claim is None or plan.claim.location is not None:
        _check_catalog(plan.location)
    # The commit creates a dataset at a path, as it knows whether that is allowed. A name in a catalog must be held
    # while files are written.
    job = WriteJob(plan, None) if plan.start is None and plan.claim is None else begin(plan)
    try:
        _check_catalog(job.plan.location)
    except Refused:
        give_up(job, [])  # of a new table the catalog says only now that it keeps the versions
        raise
    return StreamJob(query, job, asked.optimize_every)


def _check_catalog(location: DatasetLocation) -> None:
    """Raise Refused for a table whose catalog keeps its versions: it has no tags, and so no record of what is in."""
    if keeps_versions(location):
        raise only_main(
            location,
            "write a stream to it",
            "In foreachBatch, LanceTable.merge by a key can be repeated: a batch that comes twice changes nothing.",
        )


def query_id(given: str | None, checkpoint: str | None, storage: Mapping[str, str]) -> str:
    """The id of a query, given or read from its checkpoint. Raises InvalidOption if neither is given."""
    if given is None and checkpoint is None:
        raise InvalidOption(
            "A checkpoint or query_id is required to track committed batches.",
            hint="Add option('checkpointLocation', ...), or a name of your own: option('query_id', 'orders').",
        )
    query = given if given is not None else read_query_id(str(checkpoint), storage)
    sink_tag(query)  # it must be valid in a tag name
    return query


def _going_on(options: Mapping[str, str], query: str) -> dict[str, str]:
    """The options of the write, without those that create an existing branch: a restarted query repeats them.

    Raises Refused for a missing branch that the query wrote to before.
    """
    given = {folded(key): value for key, value in options.items()}
    rest = {key: value for key, value in options.items() if folded(key) not in NEW_BRANCH}
    if not to_bool("create_branch", given.get("createbranch", "false")):
        return dict(options)
    target = take_target(options, "save")
    parsed, place = parse_write_options(target.options), target.place
    if isinstance(place, NamedTable):
        from lance_spark.catalog.tables import claim_table

        found = claim_table(place, parsed).location
        if found is None:  # a new table of a service: it has no branches
            return dict(options)
        place = found
    if refs.read_branch(place, str(parsed.branch)) is not None:
        return rest
    if refs.read_tag(place, sink_tag(query)) is not None:
        raise Refused(
            f"Branch '{parsed.branch}' of {place.uri}, to which query {query} wrote before, is gone.",
            hint="Start over with an empty checkpoint, which reads the source again from the start.",
        )
    return dict(options)


def commit_stream(stream: StreamJob, fragments: Sequence[str], number: int) -> PinnedVersion | None:
    """Commit what the tasks of a batch wrote as one version, unless that was already done; returns the new version.

    Raises Refused if it is uncertain whether the batch is in, and Conflict. No file is deleted after an error: the
    commit may have arrived, and the next attempt at the batch will find it.
    """
    location, branch = stream.job.plan.location, stream.job.plan.options.branch
    batch = Batch(location.uri, branch, stream.query, number)
    job = _begun(stream.job, batch, fragments)
    untidy, look = job.plan.mode == "append", None
    for _ in attempts():
        head = pin_latest(location, branch)
        look = look_for(location, batch, head.version, look)
        decision = decide(batch, look)
        if decision.action == "begin":
            try:
                put_tag(location, batch, head.version)
            except PermissionDenied as denied:
                if stream.job.start is None or not denied.of_change:
                    raise
                # Nothing of this query is in, and without its tag nothing can follow.
                undo = partial(give_up, job, fragments)
                raise denied.saying(left_after(undo, "files of the batch")) from None
            job = _from_mark(job, head)
            continue
        if decision.action == "skip" or (not fragments and job.plan.mode == "append" and number):
            settle_again(location, batch, look, decision.at)
            return None
        if untidy and doubled(look, batch.query) is None:
            untidy = False
            if tidied(stream.optimize_every, number, location, head, job.plan.auto_compact):
                continue
        made = _commit(job, fragments, head, look, decision.at)
        if made is None:
            continue
        settle(location, batch, made, alone=made == look.newest + 1 and doubled(look, batch.query) is None)
        return PinnedVersion(branch, made)
    raise overtaken(branch)


def _begun(job: WriteJob, batch: Batch, fragments: Sequence[str]) -> WriteJob:
    if job.start is None:
        try:
            decide(batch, BranchLook(None, {}, 0))
        except Refused:
            give_up(job, fragments)
            raise
        job = _made(job)
    return replace(job, properties=batch.properties)


def settle(location: DatasetLocation, batch: Batch, at: int, alone: bool) -> None:
    """Move the query's tag to the version that it just committed, once no batch is in twice.

    ``alone`` means that every version up to this one was examined.

    The tag moves after the commit: a crash in between leaves a version after the tag, where the next attempt finds it.
    """
    taken_back = None if alone else take_back(location, batch)
    put_tag(location, batch, taken_back or at)


def settle_again(location: DatasetLocation, batch: Batch, look: BranchLook, at: int | None) -> None:
    """The same if an earlier attempt committed, at the version ``at``; None if the query has not committed any.

    A cleanup that looked before the tag moves may delete that version unless it is the newest. Then the tag stays: a
    tag that points nowhere stops the query and every cleanup. If it moved ahead and back, another cleanup would delete
    the notes that it passed.
    """
    taken_back = None if doubled(look, batch.query) is None else take_back(location, batch)
    if taken_back is not None:
        put_tag(location, batch, taken_back)
    elif at == look.newest and (look.mark is None or look.mark.version != at):
        put_tag(location, batch, at)


def _made(job: WriteJob) -> WriteJob:
    """The job on the dataset that it creates, still without rows: first the tag, then the rows.

    With rows in the first version, a crash before the tag would make them indistinguishable from those of others.
    """
    try:
        data_files.commit(job, [])
    except Conflict as conflict:
        raise Conflict(conflict.message, hint="Start the query again.") from None
    if job.claim is not None:
        job.claim.confirm()
    start = pin_latest(job.plan.location, None)
    return WriteJob(replace(job.plan, mode="append", start=start, claim=None), start)


def _from_mark(job: WriteJob, mark: PinnedVersion) -> WriteJob:
    """The first batch of a query, if it is the same on the version that the tag marks: no look sees those before it."""
    if job.start is None or job.plan.mode != "append":
        return job
    before = range(job.start.version + 1, mark.version + 1)
    made = versions.read_transactions(job.plan.location, mark.branch, before)
    return replace(job, start=mark) if is_like(made, job.start.version, mark.version) else job


def _check_columns(job: WriteJob, start: PinnedVersion, head: PinnedVersion, own: int | None) -> None:
    """Raise Conflict if a batch that replaces all rows would take back a change of columns.

    Each batch is planned anew: what others changed between two batches counts like what they change during one.
    """
    location, before = job.plan.location, start
    if own is not None:
        with suppress(NotFound):  # cleaned up
            before = pin_version(location, start.branch, own)
    if undone(job.plan.schema, open_pinned(location, head).schema) is None:
        return
    try:
        check_columns(location, before, head)
    except Conflict as conflict:
        hint = "Change the query to have these columns; or, to replace them, start it with an empty checkpoint."
        raise Conflict(conflict.message, hint=hint) from None


def _commit(
    job: WriteJob, fragments: Sequence[str], head: PinnedVersion, look: BranchLook, own: int | None
) -> int | None:
    """The new version; None if another process committed first, and the branch must be examined again.

    ``own`` is the last version that the query committed.

    pylance reads each version after the one that a commit starts from. From the version where the batch was planned,
    every attempt took longer than the one before, and beside twenty commits a second none was ever the first.
    """
    if job.plan.evolution is not None:
        return append_evolved(job, fragments)
    data_files.check(job, fragments)
    if job.plan.mode == "overwrite" and job.start is not None:
        _check_columns(job, job.start, head, own)
    # An overwrite replaces everything, including what came since it was planned, with columns that are still the same.
    if job.plan.mode == "overwrite" or (job.start is not None and is_like(look.newer, job.start.version, head.version)):
        job = replace(job, start=head)
    try:
        return data_files.commit_checked(job, fragments)
    except Conflict:
        if pin_latest(job.plan.location, head.branch) == head:
            raise
        return None


def give_up_stream(stream: StreamJob, fragments: Sequence[str]) -> None:
    """Delete the files of a batch that was never committed, because not all of its tasks finished."""
    data_files.discard(stream.job.plan, fragments)


def resume_stream(location: DatasetLocation, branch: str | None, query: str, last_batch: int) -> PinnedVersion:
    """Record by hand that all batches of a query up to ``last_batch`` are in, and no later one.

    See the public function. Commits a version with that record and no row changes. Raises InvalidOption, NotFound,
    Conflict.
    """
    if last_batch < -1:
        raise InvalidOption("last_batch must be the number of a batch, 0 or higher, or -1 if none is in.")
    if branch is not None and refs.read_branch(location, branch) is None:
        raise NotFound(f"There is no branch '{branch}'.")
    batch = Batch(location.uri, branch, query, last_batch)
    made = mark(location, batch)
    put_tag(location, batch, made.version, back=True)
    return made


# --- Taking back a batch that is in twice
# A paused driver may continue after another one took over the query. Both checked before either committed, and pylance
# combines appends. So after each commit, the commits of others since the check are examined. Of two versions with the
# same batch, the later one is taken back by the first driver that notices.

_LOG = logging.getLogger("lance_spark.streams")


def take_back(location: DatasetLocation, batch: Batch) -> int | None:
    """Delete the rows of every batch that is in twice; returns the version that did so, None if there was none.

    Raises Refused if the rows were changed since, and Conflict.
    """
    look = None
    for _ in attempts():
        head = pin_latest(location, batch.branch)
        look = look_for(location, batch, head.version, look)
        twice = doubled(look, batch.query)
        if twice is None:
            return None
        # The late batch may be an older one: the newest batch shows what is in.
        properties = replace(batch, number=last_batch(look, batch.query)).properties
        properties |= {TAKEN_BACK: str(twice[1])}
        try:
            made = commit_removal(location, head, _rows_of(location, batch, look, twice), properties)
        except Conflict:
            continue
        _LOG.warning("Version %s of %s held a batch for the second time and was taken back.", twice[1], batch.uri)
        return made.version
    raise Conflict(f"Other processes keep committing to {batch.uri}.", hint="Start the query again.")


def _rows_of(location: DatasetLocation, batch: Batch, look: BranchLook, twice: tuple[int, int]) -> list[int]:
    """The fragments of the second version. Raises Refused if one of them no longer exists."""
    first, second = twice
    noted, said = look.noted.get(second), look.newer[second]
    is_noted = noted is not None and said is not None and noted.uuid == said.uuid
    added = noted.added if noted is not None and is_noted else _added(location, batch.branch, second)
    if added is None or not frozenset(added) <= _fragments(location, batch.branch, look.newest):
        raise Refused(
            f"A batch of query {batch.query} is in twice, in version {first} and {second} of {batch.uri}: two "
            "drivers ran the query at the same time. Its rows were changed since.",
            hint=f"Delete the rows of version {second} by hand, and let only one driver run the query.",
        )
    return sorted(added)


def _added(location: DatasetLocation, branch: str | None, version: int) -> Collection[int]:
    return _fragments(location, branch, version) - _fragments(location, branch, version - 1)


def _fragments(location: DatasetLocation, branch: str | None, version: int) -> frozenset[int]:
    contents = versions.read_contents(location, PinnedVersion(branch, version))
    return frozenset(fragment.id for fragment in contents.fragments())


# --- Versions that record which batches are in, without row changes


def mark(location: DatasetLocation, batch: Batch) -> PinnedVersion:
    """Commit a version that records that a batch is in. Raises Conflict."""
    for _ in attempts():
        try:
            return commit_note(location, pin_latest(location, batch.branch), batch.properties)
        except Conflict:
            continue
    raise overtaken(batch.branch)


# --- Compacting the small fragments of batches
# Between two batches, in the committing process.


def tidied(every: int | None, number: int, location: DatasetLocation, head: PinnedVersion, many: int | None) -> bool:
    """Compact the fragments of earlier batches if it is their turn; returns whether the branch may have moved.

    It is after each ``every`` batches, or once there are ``many`` small fragments. The compaction runs before the
    batch, not after the last one of them. It makes several versions, which come after the query's tag: a query that
    waited for new rows would be refused once another tool's cleanup removed one of them.
    """
    if is_due(every, number):
        compact_newest(location, head.branch)
        return True
    return compact_if_due(location, head.branch, many)


def is_due(every: int | None, number: int) -> bool:
    """Whether enough other batches came before this one to be compacted together."""
    return every is not None and number > 0 and number % every == 0
