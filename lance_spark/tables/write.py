"""Writing a table: checks the options against a start version; then the job begins, writes fragments, commits once.

Options and the DataFrame's schema come in; a new version comes out, or an error and no change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial

import pyarrow as pa

from lance_spark import errors, hints
from lance_spark.columns.column_files import EvolvedRows, commit_evolved
from lance_spark.columns.columns import FIRST_FORMATS, OPERATION, CastFiles, refused_first_format
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.core.table_options import WriteOptions, cannot_change, parse_write_options
from lance_spark.core.table_properties import auto_compact, optimize_write
from lance_spark.engine.local import LocalRunner, Work
from lance_spark.format.contents import Contents
from lance_spark.format.evolution import Evolution
from lance_spark.format.schema import number_name
from lance_spark.format.storable import check_new_types, check_types
from lance_spark.layout.declaring import declare, look, read_layout, warn_of_misfit
from lance_spark.layout.fact_rules import keys_in
from lance_spark.layout.facts import recorded
from lance_spark.layout.layout_rules import (
    AS_THEY_COME,
    NO_LAYOUT,
    Arrangement,
    TableLayout,
    arrangement,
    declared_by,
    misfit,
)
from lance_spark.refs.refs import check_new, create_branch_at
from lance_spark.rows.partitions import OfCondition, OfKeys, Replaced, replace_rows
from lance_spark.storage import commits, versions
from lance_spark.storage.datasets import find_latest, open_pinned, pin_latest, pin_version
from lance_spark.storage.followers import check_writable
from lance_spark.storage.mem_wal import check_nothing_waits
from lance_spark.storage.refs import drop_branch
from lance_spark.storage.resolving import Target, resolve, settle, take_target
from lance_spark.write import data_files, isolation, plan_rules
from lance_spark.write.constraints import check_none_since, checks_at, with_columns
from lance_spark.write.plan_rules import Claim, Mode, WriteJob, WritePlan


def plan_write(options: Mapping[str, str], frame: pa.Schema, overwrite: bool) -> WritePlan:
    """Check everything that can be checked before the job begins. Changes nothing.

    ``frame`` is the DataFrame's schema in Arrow types. Raises InvalidOption, Refused, NotFound, AlreadyExists, Conflict
    or SchemaMismatch.
    """
    target = take_target(options, "save")
    parsed, place = parse_write_options(target.options), target.place
    if isinstance(place, DatasetLocation):
        if target.typed:
            place, parsed = _at_ref(target, parsed)
        return _plan(place, parsed, frame, overwrite)
    from lance_spark.catalog.tables import claim_table  # a write to a path does not wait for catalogs

    claim = claim_table(place, parsed)
    if claim.branch is not None:
        parsed = replace(parsed, branch=claim.branch)
    plan = _plan(claim.location or place.root, parsed, frame, overwrite, claim)
    return plan if plan.start is None else replace(plan, named=claim)


def _at_ref(target: Target, options: WriteOptions) -> tuple[DatasetLocation, WriteOptions]:
    """The dataset of a path with ``@`` and, if that names a branch, the options of a write to it.

    Raises InvalidOption for a branch both there and in the options, Refused for a tag or a version.
    """
    settled = settle(target)
    spec = settled.spec
    if spec is None:
        return settled.location, options
    if spec != RefSpec(branch=spec.branch):
        raise cannot_change("a version" if spec.tag is None else "a tag")
    return settled.location, replace(options, branch=spec.branch)


def _plan(
    location: DatasetLocation, options: WriteOptions, frame: pa.Schema, overwrite: bool, claim: Claim | None = None
) -> WritePlan:
    own = None if claim is None else claim.start
    start = None if claim is not None and claim.location is None else own or _start(location, options)
    if start is None:
        plan_rules.check_names(frame, new=True)
        schema = data_files.storage_schema(frame, options.files.data_storage_version)
        return WritePlan(
            location, options, "create", schema, None, claim, layout=data_files.option_layout(options, schema)
        )
    if options.create_table:
        raise errors.AlreadyExists(
            f"A dataset already exists at {location.uri}.", hint="Omit create_table to write to it."
        )
    plan_rules.check_names(frame, new=overwrite)
    target = data_files.read_target(location, start)
    plan_rules.check_replaces(target, options)
    since, reads = _statement(location, options, start)
    partitions = _replaced_partitions(location, start, options) if overwrite else None
    overwrite = overwrite and partitions is None
    mode: Mode = "overwrite" if overwrite else "append"
    if overwrite:
        check_nothing_waits(location, start, "after an overwrite nothing would find them")
    if overwrite and since is not None:
        isolation.check_columns(location, since, start)
    evolution = None
    if not overwrite:
        evolution = plan_rules.plan_merged(target.schema, frame) if options.merge_schema else None
        if evolution is not None:
            check_evolution(location, start, target.data_storage_version, evolution)
        stored = plan_rules.append_schema(target.schema if evolution is None else evolution.schema, frame)
    elif options.merge_schema:
        raise errors.InvalidOption(
            "Option 'merge_schema' is for appends.",
            hint="An overwrite uses the DataFrame's columns, or with overwrite_schema=false keeps the dataset's.",
        )
    elif options.overwrite_schema:
        stored = data_files.storage_schema(frame, target.data_storage_version)
    else:
        stored = plan_rules.same_schema(target.schema, frame)
    keeps = not (overwrite and options.overwrite_schema)
    now = target.schema if evolution is None else evolution.schema
    stored, fills = plan_rules.filled(now, stored, datetime.now(timezone.utc)) if keeps else (stored, {})
    check_types(stored, target.data_storage_version)
    # Refuses an overwrite whose rows lack a column that a constraint names.
    checks_at(location, start, stored if overwrite else with_columns(stored, target.schema))
    own_claim = claim if own is not None else None
    layout = _settled_layout(location, start, options, stored, mode == "overwrite" and options.overwrite_schema)
    if options.replaces is not None or partitions is not None:
        check_nothing_waits(location, start, "a replaced partition would come back with them")
    many = auto_compact(open_pinned(location, start).metadata) if mode == "append" else None
    return WritePlan(
        location, options, mode, stored, start, own_claim, evolution, since, layout, partitions, reads, many, fills
    )


def _replaced_partitions(location: DatasetLocation, start: PinnedVersion, options: WriteOptions) -> TableLayout | None:
    """The layout whose partitions an overwrite replaces; None for one that replaces all rows."""
    if options.partition_overwrite_mode == "static":
        return None
    layout = read_layout(location, start)
    return layout if layout.partition else None


def _settled_layout(
    location: DatasetLocation, start: PinnedVersion, options: WriteOptions, schema: pa.Schema, replaces: bool
) -> TableLayout | None:
    """The layout that a write to an existing dataset declares: only one that replaces its columns can declare another.

    Raises InvalidOption for one that cannot be, and Refused for another one than that of the dataset.
    """
    layout = data_files.option_layout(options, schema)
    if layout is None:
        warn_of_misfit(location, start)
        return None
    now, _ = look(location, start)
    if layout.settings() == now.settings():
        return None
    if not replaces or now.foreign:
        raise errors.Refused(
            f"The layout of {location.uri} is {now}, and the write declares {layout}. Nothing was written.",
            hint=hints.of(
                "Leave partition_by and cluster_by out. To change the layout for what is written from now on: ",
                hints.change_layout(),
                ".",
            ),
        )
    return layout


def _statement(
    location: DatasetLocation, options: WriteOptions, start: PinnedVersion
) -> tuple[PinnedVersion | None, bool | None]:
    """The version with which the statement was planned, if it is older than the start; whether it reads the branch.

    Raises Conflict if that version is gone.
    """
    told = options.statement
    own = None if told is None else told.read_of(location.uri, start.branch)
    read = [version for version in (own, options.validate_from_version) if version is not None]
    known = [version for version in (*read, None if told is None else told.base) if version is not None]
    reads = True if read else None if told is None or told.reads is None else False
    if options.create_from is not None or not known or min(known) >= start.version:
        return None, reads
    try:
        return pin_version(location, start.branch, min(known)), reads
    except errors.NotFound:
        raise isolation.gone(location, PinnedVersion(start.branch, min(known))) from None


@dataclass(frozen=True)
class Foreseen:
    """What a write will start from, looked up before Spark computes its rows."""

    options: WriteOptions
    start: tuple[DatasetLocation, PinnedVersion] | None = None
    """None for a new dataset, and where the write itself will report what is wrong."""

    @property
    def planned_with(self) -> int | None:
        """The newest version of the branch that the write goes to; None if there is no such branch yet.

        What others commit later counts as concurrent.
        """
        return None if self.start is None or self.options.create_from is not None else self.start[1].version

    def arranged(self, frame: pa.Schema) -> Arrangement:
        """How Spark is to bring the rows of a DataFrame with this schema; as they come where it does not fit."""
        options, layout, evenly = self.options, NO_LAYOUT, False
        with suppress(errors.LanceSparkError):
            layout = declared_by(options.partition_by, options.cluster_by) or NO_LAYOUT
            if self.start is not None:
                layout = layout or read_layout(*self.start)
                evenly = optimize_write(open_pinned(*self.start).metadata)
        alike = len({name.lower() for name in frame.names}) < len(frame.names)
        unfit = alike or (layout and misfit(layout, frame) is not None)
        return AS_THEY_COME if unfit else arrangement(layout, frame, evenly)


def foresee(options: Mapping[str, str]) -> Foreseen:
    """What a write with these options will start from."""
    parsed = WriteOptions()
    with suppress(errors.LanceSparkError):
        target = take_target(options, "save")
        parsed = parse_write_options(target.options)
        if isinstance(target.place, DatasetLocation):
            place, parsed = _at_ref(target, parsed) if target.typed else (target.place, parsed)
            new = parsed.create_from
            return Foreseen(parsed, (place, pin_latest(place, parsed.branch) if new is None else resolve(place, new)))
        from lance_spark.catalog.lake import catalog_of
        from lance_spark.catalog.lookup import open_table

        spec = parsed.create_from or RefSpec(branch=parsed.branch)
        return Foreseen(parsed, open_table(catalog_of(target.place), target.place.name, spec))
    return Foreseen(parsed)


def _start(location: DatasetLocation, options: WriteOptions) -> PinnedVersion | None:
    """The version from which the job starts; None if there is no dataset yet and one may be created."""
    if options.create_from is not None:
        start = resolve(location, options.create_from)
        try:
            check_new(location, str(options.branch))
        except errors.AlreadyExists as there:
            hint = hints.of("Omit create_branch to write to it. ", there.hint or "")
            raise errors.AlreadyExists(there.message, hint=hint) from None
        return start
    if options.branch is None:
        newest = find_latest(location, None)
        if newest is not None:
            check_writable(location, None)
        return newest
    try:
        check_writable(location, options.branch)
    except errors.NotFound as missing:
        raise errors.NotFound(
            missing.message,
            hint=hints.of(missing.hint or "", " To create a new branch: ", hints.write_new_branch(options.branch), "."),
        ) from None
    return pin_latest(location, options.branch)


def begin(plan: WritePlan) -> WriteJob:
    """Execute the first step of a plan: create the branch, or declare the table, if it is new.

    From now on executors write to an existing branch or table. If several jobs create the same one, all but one fail
    here, before they write. Raises AlreadyExists, Conflict, NotFound; then nothing was changed.
    """
    if plan.claim is not None and plan.start is not None:
        return WriteJob(plan, plan.claim.begin_branch())
    if plan.claim is not None:
        taken = plan.claim.take()
        if plan.claim.location is None and taken is not None and taken.location is not None:
            plan = replace(plan, location=taken.location, claim=taken)
        return WriteJob(plan, None, taken)
    if plan.start is None or not plan.creates_branch:
        return WriteJob(plan, plan.start)
    branch = str(plan.options.branch)
    create_branch_at(plan.location, branch, plan.start)
    return WriteJob(plan, pin_latest(plan.location, branch))


def finish(job: WriteJob, fragments: Sequence[str]) -> int | None:
    """Commit the output of all tasks as one version and return its number; None if there was nothing to append.

    Raises Conflict if another process committed changes that cannot be combined, or dropped or renamed a new table
    meanwhile; then the job leaves nothing behind. After any other error the outcome is unknown: a request that timed
    out may have succeeded. Then the files stay for cleanup to find, because deleting committed files would lose data.
    """
    claim = job.claim
    try:
        if job.plan.named is not None:
            job.plan.named.check_place()
        if claim is not None:
            claim.confirm()
    except errors.LanceSparkError:
        with suppress(errors.LanceSparkError):
            give_up(job, fragments)
        raise
    if claim is None:
        return _with_layout(job, _commit(job, fragments))
    try:
        version = _commit(job, fragments)
    except BaseException:
        with suppress(errors.LanceSparkError):
            claim.withdraw()
        raise
    # The rows are committed. If the store's failure now were reported as an error, they would be written twice.
    with suppress(errors.StorageFailure):
        claim.confirm()
    return _with_layout(job, version)


def _with_layout(job: WriteJob, version: int | None) -> int | None:
    """Declare the layout that the rows of a new table have; returns the newest version.

    It takes a version of its own. A process that dies in between leaves the rows, and a table that declares nothing.
    """
    plan = job.plan
    if version is None or plan.layout is None or (plan.mode == "create" and not plan.layout):
        return version
    return declare(plan.location, plan.options.branch, plan.layout).version


def _commit(job: WriteJob, fragments: Sequence[str]) -> int | None:
    evolves = job.plan.evolution is not None
    replaces = job.plan.replaces_some and job.start is not None
    if job.plan.mode == "append" and not fragments and not evolves and job.plan.options.replaces is None:
        return None
    if replaces and evolves:
        raise errors.Refused(
            "An overwrite of some rows cannot add columns. Nothing was changed.",
            hint="Leave merge_schema out; t.add_columns adds columns.",
        )
    try:
        if replaces:
            return _replace_some(job, fragments)
        if evolves:
            return append_evolved(job, fragments)
        return data_files.commit(job, fragments)
    except errors.Conflict as conflict:
        try:
            _discard(job, fragments)
        except errors.LanceSparkError as failure:
            raise errors.Conflict(
                f"{conflict.message} The cleanup after that failed: {failure.message}", conflict.hint
            ) from failure
        raise
    except errors.PermissionDenied as denied:
        if not denied.before_commit:
            raise
        raise denied.saying(commits.left_after(lambda: _discard(job, fragments), "files that were written")) from None


def _replace_some(job: WriteJob, fragments: Sequence[str]) -> int:
    plan, start = job.plan, job.start
    assert start is not None
    replaced: Replaced
    if plan.options.replaces is not None:
        replaced = OfCondition(plan.location, plan.options.replaces)
    else:
        assert plan.partitions is not None
        replaced = OfKeys(plan.location, plan.partitions, frozenset(keys_in(fragments)))
    data_files.check(job, fragments)
    plain = recorded(plan.location, fragments)
    # What others committed since the statement was planned must not be taken back unseen.
    return replace_rows(plan.location, plan.since or start, replaced, plain, plan.options.commit_message).version


def give_up(job: WriteJob, fragments: Sequence[str]) -> None:
    """Restore dataset and catalog to their state before a job that did not reach its commit."""
    try:
        _discard(job, fragments)
    finally:
        if job.claim is not None:
            job.claim.withdraw()


def _discard(job: WriteJob, fragments: Sequence[str]) -> None:
    plan, branch = job.plan, job.plan.options.branch
    data_files.discard(plan, fragments)
    # A branch to which another process has committed meanwhile no longer belongs to this job alone.
    if plan.creates_branch and branch is not None and find_latest(plan.location, branch) == job.start:
        drop_branch(plan.location, branch)


# --- Commits of appends that add columns; on the driver, in Spark's worker for data sources


def check_evolution(location: DatasetLocation, start: PinnedVersion, storage_version: str, plan: Evolution) -> None:
    """Raise Refused for files of the first format, and if too much data would have to be converted to a wider type.

    Raise SchemaMismatch for a type that files of the format cannot hold.
    The committing process writes the converted values, and has no session to compute with.
    """
    check_new_types(plan.new_fields, storage_version)
    if storage_version in FIRST_FORMATS and plan.adds:
        raise refused_first_format("add")
    if plan.casts:
        _check_little(versions.read_contents(location, start), plan)


def append_evolved(job: WriteJob, fragments: Sequence[str]) -> int:
    """Commit rows with the columns they add; returns the version.

    Concurrent commits are kept: the necessary changes are planned again on top of them. Raises Conflict if a column
    that was written has been dropped or replaced; then nothing was committed.
    """
    plan, start = job.plan, job.start
    assert start is not None  # a new dataset is created with all columns
    location, branch = plan.location, start.branch
    fragments = recorded(location, fragments)
    rows = EvolvedRows(
        plan.schema, fragments, commits.own_properties(plan.options.commit_message) | dict(job.properties or {})
    )
    casts = CastFiles(location, branch, LocalRunner())
    commits.check_still_there(location, start)
    commits.check_written(location, branch, commits.data_paths(fragments))
    try:
        for left in commits.attempts():
            head = pin_latest(location, branch)
            _check_same_columns(location, start, head, plan.schema)
            check_none_since(location, start, head)
            evolution = plan_rules.plan_again(open_pinned(location, head).schema, plan.schema)
            contents = versions.read_contents(location, head)
            _check_little(contents, evolution)
            files = casts.files(head, contents, evolution)
            commit = partial(commit_evolved, location, head, contents, evolution, files, rows)
            made = commits.commit_once(location, head, rows.properties, left, commit)
            if made is not None:
                casts.keep(files)
                return made.version
    except errors.LanceSparkError as failure:
        if not errors.may_have_happened(failure):
            with suppress(errors.StorageFailure):  # the first error is more useful
                casts.delete()
        raise
    raise commits.overtaken(branch)


def _check_same_columns(location: DatasetLocation, start: PinnedVersion, head: PinnedVersion, rows: pa.Schema) -> None:
    """Raise Conflict if a written column has been dropped or replaced; a widened column is still the same."""
    before, now = open_pinned(location, start), open_pinned(location, head)
    ids = {field.name(): field.id() for field in now.lance_schema.fields()}
    for field in before.lance_schema.fields():
        name = field.name()
        if rows.get_field_index(name) < 0 or ids.get(name) == field.id():
            continue
        if name not in ids or now.schema.field(name).type == before.schema.field(name).type:
            raise errors.Conflict(
                f"Column '{name}' of {location.uri} was dropped or replaced since the job started.",
                hint="Run it again.",
            )


def _check_little(contents: Contents, plan: Evolution) -> None:
    if not plan.casts:
        return
    size = sum(fragment.size for fragment in contents.fragments())
    if not Work(copies=contents.fragment_count, copied_bytes=size).is_little:
        cast = plan.casts[0]
        raise errors.Refused(
            f"Column '{cast.source}' would have to be rewritten as {cast.type} in {contents.fragment_count} "
            f"fragments, which is too much for {OPERATION!r} inside an append.",
            hint=hints.of(
                "Do it on the executors first: ", hints.widen_column(cast.source, number_name(cast.type)), "."
            ),
        )
