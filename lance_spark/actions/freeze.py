"""``freeze`` and ``unfreeze``: a set of rows of one version, split and in an order, that stays as it is.

The plan is a version of a branch of its own, ``frozen/NAME``: a branch is a dataset that every tool can read, keeps and
copies. It is made from the source version, which pylance and every cleanup keep for it. The tag ``frozen-NAME`` of the
plan comes after it, and says that there is such a set; the tag NAME of the source version comes last. Whoever is
killed in between calls ``freeze`` again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version as version_of
from typing import NamedTuple

from lance_spark.actions.branches import create_branch_at, delete_branch
from lance_spark.actions.drawing import AT_ONCE, drawn_rows
from lance_spark.errors import AlreadyExists, Conflict, CorruptData, NotFound
from lance_spark.freezing.spec import FreezeSpec, Lineage
from lance_spark.location import DatasetLocation
from lance_spark.refs.edit import check_delete_branch
from lance_spark.refs.model import Branch, PinnedVersion, RefTable, Tag
from lance_spark.refs.names import plan_branch, plan_tag
from lance_spark.runner.interface import Engine
from lance_spark.store import refs
from lance_spark.store.datasets import pin_latest, pin_version
from lance_spark.store.frozen_plan import commit_plan, has_stable_row_ids, read_lineage


class FrozenPlan(NamedTuple):
    """A plan, and what it is the plan of."""

    pin: PinnedVersion
    lineage: Lineage


def find_plan(location: DatasetLocation, name: str) -> FrozenPlan | None:
    """The plan of a frozen set; None where there is no such set. Raises NotFound if its version is gone."""
    tag = refs.read_tag(location, plan_tag(name))
    if tag is None:
        return None
    pin = pin_version(location, tag.branch, tag.version)
    lineage = read_lineage(location, pin)
    return None if lineage is None else FrozenPlan(pin, lineage)


def freeze(
    location: DatasetLocation, pin: PinnedVersion, spec: FreezeSpec, engine: Engine, at_once: int = AT_ONCE
) -> Lineage:
    """Freeze rows of a version, as ``LanceTable.freeze`` says.

    Raises AlreadyExists, InvalidOption, NotFound and Refused; then nothing was made.
    """
    identity = _identity(location, pin)
    if (plan := find_plan(location, spec.name)) is not None:
        return _finished(location, plan, spec, pin, identity)
    tagged = _check_tags_free(location, spec.name, pin)
    with drawn_rows(location, pin, spec, engine, at_once) as drawn:
        branch = _ready_branch(location, spec.name, pin)
        fragments = drawn.write(branch.name)
    # By its name: the package's own module leads to Spark, of which actions know nothing.
    software = f"lance_spark {import_module('lance_spark').__version__}, pylance {version_of('pylance')}"
    stable = has_stable_row_ids(location, pin)
    lineage = Lineage(spec, location.uri, pin, identity, stable, drawn.sizes, software, tagged_before=tagged)
    _check_own(location, branch)
    committed = commit_plan(location, branch.name, fragments, lineage)
    _check_own(location, branch)
    # Another freeze of that name may have been faster: its plan counts then, and has to be the same.
    _tag(location, plan_tag(spec.name), committed)
    # Whoever deletes the branch looks for the tag after its ref is gone, and so does one of the two see the other.
    with _tag_taken_back(location, spec.name):
        _check_own(location, branch)
    plan = find_plan(location, spec.name)
    if plan is None:
        raise AlreadyExists(f"The tag '{plan_tag(spec.name)}' is there, and is of no frozen set.", hint="Delete it.")
    return _finished(location, plan, spec, pin, identity)


def unfreeze(location: DatasetLocation, name: str) -> None:
    """Delete a frozen set: its tags and its plan. Raises NotFound, and Refused where something else needs its branch.

    A tag NAME that was there before the set stays: somebody else made it. The rows stay as long as another ref or the
    retention of versions keeps them. A call that was killed is finished by the same call.
    """
    plan, branch = None, refs.read_branch(location, plan_branch(name))
    tag, record = refs.read_tag(location, name), refs.read_tag(location, plan_tag(name))
    with suppress(NotFound, CorruptData):
        plan = find_plan(location, name)
    lost = record is not None and record.branch == plan_branch(name)
    if plan is None and not lost and (branch is None or record is not None):
        raise NotFound(f"There is no frozen set '{name}' in {location.uri}.", hint="t.frozen.list() names all.")
    if branch is not None:  # before the first tag goes, or half of the set would
        _check_unneeded(location, branch)
    source = plan.lineage.source if plan is not None else branch.fork if branch is not None else None
    kept = plan is not None and plan.lineage.tagged_before
    if tag is not None and source is not None and _names(tag, source) and not kept:
        refs.delete_tag(location, name)
    if record is not None:
        refs.delete_tag(location, plan_tag(name))
    if branch is not None:
        delete_branch(location, branch.name)


def _check_unneeded(location: DatasetLocation, plan: Branch) -> None:
    """Raise Refused if the branch of a plan may not be deleted, whatever its own tag says."""
    table = refs.read_refs(location)
    tags = {name: tag for name, tag in table.tags.items() if name != plan_tag(plan.name.removeprefix(plan_branch("")))}
    if plan.name in table.branches:
        check_delete_branch(RefTable(table.branches, tags), plan.name)


def _finished(
    location: DatasetLocation, plan: FrozenPlan, spec: FreezeSpec, pin: PinnedVersion, identity: str
) -> Lineage:
    """The set that is there, if it is the one that was asked for; its last tag, if that is missing."""
    others = plan.lineage.differences(spec, pin, identity)
    if others:
        raise AlreadyExists(
            f"There is a frozen set '{spec.name}' with another {', '.join(others)}: {plan.lineage.rows:,} rows of "
            f"{plan.lineage.source}.",
            hint=f"Choose another name, t.checkout(tag='{spec.name}') to freeze the same version, or t.unfreeze(...).",
        )
    tag = _tag(location, spec.name, pin)
    if not _names(tag, pin):
        raise _tag_taken(tag)
    return plan.lineage


def _tag(location: DatasetLocation, name: str, pin: PinnedVersion) -> Tag:
    """The tag of that name: of this version, unless it was there already."""
    tag = refs.read_tag(location, name)
    if tag is None:
        with suppress(AlreadyExists, Conflict):  # somebody else was faster
            refs.create_tag(location, name, pin)
        tag = refs.read_tag(location, name)
    if tag is None:
        raise Conflict(f"The tag '{name}' was deleted while the set was frozen.", hint="Run it again.")
    return tag


def _tag_taken(tag: Tag) -> AlreadyExists:
    return AlreadyExists(
        f"There is a tag '{tag.name}', of version {PinnedVersion(tag.branch, tag.version)}.",
        hint="Choose another name: a frozen set tags the version that its rows are of.",
    )


def _identity(location: DatasetLocation, pin: PinnedVersion) -> str:
    branch = None if pin.branch is None else refs.read_branch(location, pin.branch)
    return "" if branch is None else branch.identity


def _names(tag: Tag, pin: PinnedVersion) -> bool:
    return (tag.branch, tag.version) == (pin.branch, pin.version)


def _check_own(location: DatasetLocation, branch: Branch) -> None:
    """Raise Conflict if the branch was deleted since: its files are gone, and a plan must not name them."""
    now = refs.read_branch(location, branch.name)
    if now is None or now.identity != branch.identity:
        raise Conflict(
            f"Branch '{branch.name}' was deleted by another call while the plan was written to it. There is no set.",
            hint="Run it again, once nobody else freezes or unfreezes that name.",
        )


@contextmanager
def _tag_taken_back(location: DatasetLocation, name: str) -> Iterator[None]:
    """Delete the tag of the plan after a Conflict, unless a plan is there: then it is somebody else's."""
    try:
        yield
    except Conflict:
        plan = None
        with suppress(NotFound):
            plan = find_plan(location, name)
        if plan is None:
            refs.delete_tag(location, plan_tag(name))
        raise


def _check_tags_free(location: DatasetLocation, name: str, pin: PinnedVersion) -> bool:
    """Whether the version has the tag of that name already. Raises AlreadyExists for tags of something else."""
    tag = refs.read_tag(location, name)
    if tag is not None and not _names(tag, pin):
        raise _tag_taken(tag)
    if refs.read_tag(location, plan_tag(name)) is not None:
        raise AlreadyExists(f"The tag '{plan_tag(name)}' is there, and is of no frozen set.", hint="Delete it.")
    return tag is not None


def _ready_branch(location: DatasetLocation, name: str, pin: PinnedVersion) -> Branch:
    """The branch for the plan, made from the source. One without a plan is what a killed call left behind."""
    branch = refs.read_branch(location, plan_branch(name))
    if branch is not None and not _is_left_over(location, branch):
        raise AlreadyExists(
            f"There is a branch '{branch.name}', which is not the plan of a frozen set.", hint="Choose another name."
        )
    if branch is not None and branch.fork != PinnedVersion(pin.branch, pin.version):
        delete_branch(location, branch.name)
        branch = None
    return branch or create_branch_at(location, plan_branch(name), pin)


def _is_left_over(location: DatasetLocation, branch: Branch) -> bool:
    """Whether a branch has nothing of its own but plans."""
    newest = pin_latest(location, branch.name)
    return newest.version == branch.parent_version or read_lineage(location, newest) is not None
