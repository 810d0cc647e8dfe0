"""Streams into a branch: a batch is planned as a write is, and committed once, however often it is tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lance_spark.actions.attempts import attempts, overtaken
from lance_spark.actions.denied import left_after
from lance_spark.actions.evolving_append import append_evolved
from lance_spark.actions.streams.doubles import take_back
from lance_spark.actions.streams.tidying import is_due, tidy
from lance_spark.actions.target import NamedTable, take_target
from lance_spark.actions.write import begin, give_up, plan_write
from lance_spark.errors import Conflict, InvalidOption, NotFound, PermissionDenied, Refused
from lance_spark.location import DatasetLocation
from lance_spark.options.storage import split_storage
from lance_spark.options.stream import NEW_BRANCH, take_stream_options
from lance_spark.options.text import to_bool
from lance_spark.options.write import parse_write_options
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import refs, write_commit
from lance_spark.store.datasets import pin_latest
from lance_spark.store.stream_checkpoints import read_query_id
from lance_spark.store.stream_sink import look_for, put_tag, put_tag_if_there
from lance_spark.streams.names import sink_tag
from lance_spark.streams.sink import Batch, BranchLook, decide, doubled
from lance_spark.write.plan import WriteJob


@dataclass(frozen=True)
class StreamJob:
    """One batch of a stream, planned. Which batch it is, only its commit knows."""

    query: str
    job: WriteJob
    """Its dataset is not made yet if it is new: a query whose dataset was deleted must not make an empty one."""
    optimize_every: int | None = None


def plan_stream(options: Mapping[str, str], frame: pa.Schema, overwrite: bool) -> StreamJob:
    """Check everything that can be checked before a batch, and make its branch where that is to be made.

    Raises as plan_write, and InvalidOption, NotFound or StorageFailure for a query whose id is not to be found.
    """
    asked = take_stream_options(options)
    _, storage = split_storage(options)
    query = query_id(asked.query_id, asked.checkpoint, storage)
    plan = plan_write(_going_on(asked.write, query), frame, overwrite)
    # A path is made by the commit, which knows whether it may be; a name in a catalog has to be held while files are
    # written.
    job = WriteJob(plan, None) if plan.start is None and plan.claim is None else begin(plan)
    return StreamJob(query, job, asked.optimize_every)


def query_id(given: str | None, checkpoint: str | None, storage: Mapping[str, str]) -> str:
    """The id of a query: as it was given, or from its checkpoint. Raises InvalidOption if neither says it."""
    if given is None and checkpoint is None:
        raise InvalidOption(
            "Without a checkpoint nobody can tell which batches are in.",
            hint="Add option('checkpointLocation', ...), or a name of your own: option('query_id', 'orders').",
        )
    query = given if given is not None else read_query_id(str(checkpoint), storage)
    sink_tag(query)  # it has to be one that a tag can have
    return query


def _going_on(options: Mapping[str, str], query: str) -> dict[str, str]:
    """The options of the write, without those that make the branch if it is there: a restarted query gives them again.

    Raises Refused for a branch that is gone although the query wrote to it.
    """
    given = {key.lower(): value for key, value in options.items()}
    rest = {key: value for key, value in options.items() if key.lower() not in NEW_BRANCH}
    if not to_bool("create_branch", given.get("create_branch", "false")):
        return dict(options)
    target = take_target(options, "save")
    parsed, place = parse_write_options(target.options), target.place
    if isinstance(place, NamedTable):
        from lance_spark.actions.catalog.writing import claim_table

        place = claim_table(place, parsed).location
    if refs.read_branch(place, str(parsed.branch)) is not None:
        return rest
    if refs.read_tag(place, sink_tag(query)) is not None:
        raise Refused(
            f"Branch '{parsed.branch}' of {place.uri} is gone, and query {query} wrote to it before.",
            hint="Begin anew with an empty checkpoint, which reads the source again from the start.",
        )
    return dict(options)


def commit_stream(stream: StreamJob, fragments: Sequence[str], number: int) -> PinnedVersion | None:
    """Commit what the tasks of a batch wrote as one version, unless that was done before; returns the new version.

    Raises Refused where it cannot be known whether the batch is in, and Conflict. No file is deleted after an error:
    the commit may have arrived, and the next attempt at the batch will know.
    """
    job, branch = stream.job, stream.job.plan.options.branch
    location = job.plan.location
    batch = Batch(location.uri, branch, stream.query, number)
    if job.start is None:
        try:
            decide(batch, BranchLook(None, {}, 0))
        except Refused:
            give_up(job, fragments)
            raise
        job = _made(job)
    job = replace(job, properties=batch.properties)
    untidy = job.plan.mode == "append" and is_due(stream.optimize_every, number)
    for _ in attempts():
        head = pin_latest(location, branch)
        look = look_for(location, batch, head.version)
        decision = decide(batch, look)
        if decision.action == "begin":
            try:
                put_tag(location, batch, head.version)
            except PermissionDenied as denied:
                if stream.job.start is None or not denied.of_change:
                    raise
                # Nothing of this query is in, and without its tag nothing can be.
                undo = partial(give_up, job, fragments)
                raise denied.saying(left_after(undo, "files of the batch")) from None
            continue
        if decision.action == "skip" or (not fragments and job.plan.mode == "append" and number):
            settle_again(location, batch, look, decision.at)
            return None
        if untidy and doubled(look, batch.query) is None:
            tidy(location, branch)
            untidy = False
            continue
        made = _commit(job, fragments, head)
        if made is None:
            continue
        settle(location, batch, made, alone=made == look.newest + 1 and doubled(look, batch.query) is None)
        return PinnedVersion(branch, made)
    raise overtaken(branch)


def settle(location: DatasetLocation, batch: Batch, at: int, alone: bool) -> None:
    """Move the query's tag to the version that it just committed, once no batch is in twice.

    ``alone`` says that no version came that was not looked at.

    The tag moves after the commit: whoever is killed in between leaves a version after the tag, where the next attempt
    finds it.
    """
    taken_back = None if alone else take_back(location, batch)
    put_tag(location, batch, taken_back or at)


def settle_again(location: DatasetLocation, batch: Batch, look: BranchLook, at: int | None) -> None:
    """The same where an earlier attempt committed, at the version ``at``; None if the query has not committed any."""
    taken_back = None if doubled(look, batch.query) is None else take_back(location, batch)
    if taken_back is not None:
        put_tag(location, batch, taken_back)
    elif look.mark is not None and at is not None:
        put_tag_if_there(location, batch, look.mark, at)


def _made(job: WriteJob) -> WriteJob:
    """The job on the dataset that it makes, still without rows: first the tag, and then the rows.

    With the rows in its first version, whoever is killed before the tag could not tell them from those of others.
    """
    try:
        write_commit.commit(job, [])
    except Conflict as conflict:
        raise Conflict(conflict.message, hint="Start the query again.") from None
    if job.claim is not None:
        job.claim.confirm()
    start = pin_latest(job.plan.location, None)
    return WriteJob(replace(job.plan, mode="append", start=start, claim=None), start)


def _commit(job: WriteJob, fragments: Sequence[str], head: PinnedVersion) -> int | None:
    """The version that it made; None if another process was faster, and the branch has to be looked at again."""
    if job.plan.evolution is not None:
        return append_evolved(job, fragments)
    write_commit.check(job)
    if job.plan.mode == "overwrite":
        # It replaces whatever is there, also what came since it was planned, with columns that are still the same.
        job = replace(job, start=head)
    try:
        return write_commit.commit_checked(job, fragments)
    except Conflict:
        if pin_latest(job.plan.location, head.branch) == head:
            raise
        return None


def give_up_stream(stream: StreamJob, fragments: Sequence[str]) -> None:
    """Delete the files of a batch whose tasks did not all finish, and so was never committed."""
    write_commit.discard(stream.job.plan, fragments)


def resume_stream(location: DatasetLocation, branch: str | None, query: str, last_batch: int) -> PinnedVersion:
    """Say by hand that all batches of a query up to ``last_batch`` are in, and no later one; see the public function.

    Commits a version that says so and changes no row. Raises InvalidOption, NotFound, Conflict.
    """
    from lance_spark.actions.streams.marking import mark

    if last_batch < -1:
        raise InvalidOption("last_batch is the number of a batch, from 0 on; -1 if none is in.")
    if branch is not None and refs.read_branch(location, branch) is None:
        raise NotFound(f"There is no branch '{branch}'.")
    batch = Batch(location.uri, branch, query, last_batch)
    made = mark(location, batch)
    put_tag(location, batch, made.version, back=True)
    return made
