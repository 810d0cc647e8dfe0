"""Streams into a branch: a batch is planned as a write is, and committed once, however often it is tried."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import split_storage, to_bool
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.table_options import NEW_BRANCH, parse_write_options, take_stream_options
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, InvalidOption, LanceSparkError, NotFound, PermissionDenied, Refused
from lance_spark.format.stream_notes import TAKEN_BACK, sink_tag
from lance_spark.optimize.optimize import optimize
from lance_spark.optimize.rules import OptimizeOptions
from lance_spark.storage import refs, versions
from lance_spark.storage.commits import attempts, left_after, overtaken
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.resolving import NamedTable, take_target
from lance_spark.streams.lance import commit_note, commit_removal, look_for, put_tag, put_tag_if_there, read_query_id
from lance_spark.streams.sink_rules import Batch, BranchLook, decide, doubled, last_batch
from lance_spark.tables.write import append_evolved, begin, give_up, plan_write
from lance_spark.write import lance
from lance_spark.write.rules import WriteJob


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
        from lance_spark.catalog.tables import claim_table

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
        lance.commit(job, [])
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
    lance.check(job)
    if job.plan.mode == "overwrite":
        # It replaces whatever is there, also what came since it was planned, with columns that are still the same.
        job = replace(job, start=head)
    try:
        return lance.commit_checked(job, fragments)
    except Conflict:
        if pin_latest(job.plan.location, head.branch) == head:
            raise
        return None


def give_up_stream(stream: StreamJob, fragments: Sequence[str]) -> None:
    """Delete the files of a batch whose tasks did not all finish, and so was never committed."""
    lance.discard(stream.job.plan, fragments)


def resume_stream(location: DatasetLocation, branch: str | None, query: str, last_batch: int) -> PinnedVersion:
    """Say by hand that all batches of a query up to ``last_batch`` are in, and no later one; see the public function.

    Commits a version that says so and changes no row. Raises InvalidOption, NotFound, Conflict.
    """
    if last_batch < -1:
        raise InvalidOption("last_batch is the number of a batch, from 0 on; -1 if none is in.")
    if branch is not None and refs.read_branch(location, branch) is None:
        raise NotFound(f"There is no branch '{branch}'.")
    batch = Batch(location.uri, branch, query, last_batch)
    made = mark(location, batch)
    put_tag(location, batch, made.version, back=True)
    return made


# --- Takes a batch back that came twice: two drivers ran one query at the same moment
# A paused driver may go on after another one took over the query. Both have looked before either committed, and pylance
# combines appends. So after each commit what others committed since the look is looked at as well: the later of two
# versions with one batch is taken back, by whoever sees it first.

_LOG = logging.getLogger("lance_spark.streams")


def take_back(location: DatasetLocation, batch: Batch) -> int | None:
    """Delete the rows of every batch that is in twice; returns the version that did, None if there is none.

    Raises Refused where they were changed since, and Conflict.
    """
    for _ in attempts():
        head = pin_latest(location, batch.branch)
        look = look_for(location, batch, head.version)
        twice = doubled(look, batch.query)
        if twice is None:
            return None
        # The batch that came late may be an older one: what is in is told by the newest.
        properties = replace(batch, number=last_batch(look, batch.query)).properties
        properties |= {TAKEN_BACK: str(twice[1])}
        try:
            made = commit_removal(location, head, _rows_of(location, batch, look, twice), properties)
        except Conflict:
            continue
        _LOG.warning("Version %s of %s held a batch for the second time, and was taken back.", twice[1], batch.uri)
        return made.version
    raise Conflict(f"Others commit to {batch.uri} again and again.", hint="Start the query again.")


def _rows_of(location: DatasetLocation, batch: Batch, look: BranchLook, twice: tuple[int, int]) -> list[int]:
    """The fragments of the second one. Raises Refused if one of them is not there any more."""
    first, second = twice
    noted, said = look.noted.get(second), look.newer[second]
    is_noted = noted is not None and said is not None and noted.uuid == said.uuid
    added = noted.added if noted is not None and is_noted else _added(location, batch.branch, second)
    if added is None or not frozenset(added) <= _fragments(location, batch.branch, look.newest):
        raise Refused(
            f"A batch of query {batch.query} is in twice, in version {first} and {second} of {batch.uri}: two "
            "drivers ran the query at the same moment. Its rows were changed since.",
            hint=f"Delete those of version {second} by hand, and let only one driver run the query.",
        )
    return sorted(added)


def _added(location: DatasetLocation, branch: str | None, version: int) -> Collection[int]:
    return _fragments(location, branch, version) - _fragments(location, branch, version - 1)


def _fragments(location: DatasetLocation, branch: str | None, version: int) -> frozenset[int]:
    contents = versions.read_contents(location, PinnedVersion(branch, version))
    return frozenset(fragment.id for fragment in contents.fragments())


# --- Versions that say which batches are in, and change no row


def mark(location: DatasetLocation, batch: Batch) -> PinnedVersion:
    """Commit a version that says that a batch is in. Raises Conflict."""
    for _ in attempts():
        try:
            return commit_note(location, pin_latest(location, batch.branch), batch.properties)
        except Conflict:
            continue
    raise overtaken(batch.branch)


# --- Compacts what a stream's batches left behind, between two batches, in the process that commits

_MOST = 1 << 30
"""Bytes that are rewritten at most: the next batch waits for it."""


def is_due(every: int | None, number: int) -> bool:
    """Whether a batch comes after as many others as are to be compacted together.

    It is done before the batch, not after the last one of them. A compaction makes several versions, which come after
    the query's tag: a query that waited for new rows would be refused once another tool's cleanup took one of them.
    """
    return every is not None and number > 0 and number % every == 0


def tidy(location: DatasetLocation, branch: str | None, options: OptimizeOptions | None = None) -> None:
    """Compact the small fragments at the end of a branch, those that came last.

    An error here must not fail the query: the next turn tries again.
    """
    options = options or OptimizeOptions(partial_progress=1)
    try:
        small = _small(location, branch, options.target_rows)
        if len(small) > 1:
            optimize(location, branch, options, LocalRunner(), small)
    except LanceSparkError as problem:
        _LOG.warning("Small fragments of %s were not compacted: %s", location.uri, problem.message)


def _small(location: DatasetLocation, branch: str | None, target: int) -> frozenset[int]:
    """The last fragments, as long as each is less than half of what it should be, and all of them are not too much."""
    contents = versions.read_contents(location, pin_latest(location, branch))
    newest = takewhile(lambda fragment: 2 * fragment.rows < target, reversed([*contents.fragments()]))
    found, size = [], 0
    for fragment in newest:
        size += fragment.size
        if size > _MOST:
            break
        found.append(fragment.id)
    return frozenset(found)
