"""Findings about branches, tags and notes of clones: files that cannot be understood, and refs that lead nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from lance_spark.checkup import codes
from lance_spark.checkup.finding import CheckFinding
from lance_spark.checkup.ref_evidence import Origin, contradiction, mapping
from lance_spark.cleanup.evidence import Contradiction
from lance_spark.cleanup.survey import Chain, Survey
from lance_spark.errors import CorruptData, Refused
from lance_spark.location import DatasetLocation
from lance_spark.refs.names import MAIN
from lance_spark.refs.parse import BRANCHES, ref_file
from lance_spark.store import files
from lance_spark.store.parallel import each
from lance_spark.store.survey import DamagedRef, lenient_survey
from lance_spark.store.version_reader import transaction_of

_BY_CONTRADICTION = {
    "branch": codes.BRANCH_EMPTY,
    "noted": codes.VERSIONS_LOST,
    "twice": codes.VERSION_TWICE,
    "tag": codes.TAG_DANGLING,
}


class LenientLook:
    """Takes surveys, and keeps what the last one could not understand."""

    def __init__(self) -> None:
        self.damaged: tuple[DamagedRef, ...] = ()

    def take(self, location: DatasetLocation, clones: Sequence[str], clones_from: Sequence[str]) -> Survey:
        """A survey without the refs that cannot be understood."""
        survey, self.damaged = lenient_survey(location, clones, clones_from)
        return survey


def findings_of_refs(
    survey: Survey, lasting: Iterable[Contradiction], damaged: Iterable[DamagedRef]
) -> Iterator[CheckFinding]:
    """All that is wrong with refs."""
    for file in damaged:
        named = (file.branch or f"tag {file.tag}",) if file.branch or file.tag else ()
        yield CheckFinding(codes.REF_DAMAGED, file.path, named, detail=file.reason)
    for one in lasting:
        about = one.about if isinstance(one.about, tuple) else (one.about,)
        code = _BY_CONTRADICTION.get(str(about[0]), codes.NO_VERSIONS)
        name = MAIN if code == codes.NO_VERSIONS else str(about[2] if code == codes.BRANCH_EMPTY else about[1])
        yield CheckFinding(code, name or MAIN, detail=one.message)
    there = {*survey.refs.branches, *(file.branch for file in damaged)}
    for branch in survey.refs.branches.values():
        if branch.parent_branch is not None and branch.parent_branch not in there:
            detail = f"'{branch.name}' was made from '{branch.parent_branch}'."
            yield CheckFinding(codes.PARENT_GONE, branch.name, (branch.name,), detail=detail)
    for _, chain in survey.owned():
        if not chain.has_ref:
            yield CheckFinding(codes.NO_REF, chain.root)
    uris = {location.uri for location in survey.repositories}
    for tag, uri in survey.recorded_clones.items():
        if uri not in uris:
            yield CheckFinding(codes.CLONE_GONE, uri, (tag,))
    yield from _of_origins(survey)


def _of_origins(survey: Survey) -> Iterator[CheckFinding]:
    """Branches whose ref contradicts the version that they began with."""
    chains = [chain for _, chain in survey.owned() if chain.branch in survey.refs.branches and chain.versions]
    found = each(survey.location, partial(first_origin, survey), chains)
    for chain, first in zip(chains, found, strict=True):
        branch = survey.refs.branches[str(chain.branch)]
        wrong = contradiction(Origin(branch.parent_branch, branch.parent_version), first)
        if wrong:
            yield CheckFinding(codes.REF_WRONG, ref_file(BRANCHES, branch.name), (branch.name,), detail=wrong)
    yield from _of_identities(survey)


def _of_identities(survey: Survey) -> Iterator[CheckFinding]:
    """Branches that those made from them know by another identity: a merge would not know what it merged before."""
    branches = survey.refs.branches
    children = [one for one in branches.values() if one.parent_branch in branches]
    paths = [ref_file(BRANCHES, one.name) for one in children]
    wrong: dict[str, list[str]] = {}
    for child, content in zip(children, files.read_many(survey.location, paths), strict=True):
        known, parent = mapping(content or b""), branches[str(child.parent_branch)]
        made_later = parent.created_at > child.created_at  # another branch of that name: the parent is gone
        if len(known) > 1 and known[-2][1] != parent.identity and not made_later:
            wrong.setdefault(parent.name, []).append(child.name)
    for name, by in wrong.items():
        detail = f"'{by[0]}', which was made from it, knows it by another identity"
        yield CheckFinding(codes.REF_WRONG, ref_file(BRANCHES, name), (name, *by), detail=detail)


def first_origin(survey: Survey, chain: Chain) -> Origin | None:
    """The version that a branch was copied from, by its first version; None if that one is gone or does not say so.

    The parent is known by the last part of its path only: the dataset may have been moved since.
    """
    first = chain.versions[0]
    try:
        content = files.read(survey.location, chain.path(first))
        said = None if content is None else transaction_of(survey.location, chain.branch, content)
    except (CorruptData, Refused):
        return None
    if said is None or said.cloned_from is None:
        return None
    known, parent = _branch_at(survey, said.cloned_from)
    return Origin(parent, first.version) if known else None


def _branch_at(survey: Survey, place: str) -> tuple[bool, str | None]:
    """(whether it is known, branch) of a place that a first version names; the dataset may have been moved since."""
    place, own = place.rstrip("/"), survey.location.uri
    if place == own:
        return True, None
    if place.startswith(f"{own}/tree/"):
        return True, place[len(own) + 6 :]
    names = {chain.branch for _, chain in survey.owned() if chain.branch is not None}
    matching = [name for name in names if place.endswith(f"/tree/{name}")]
    if matching:
        return True, max(matching, key=len)
    return "/tree/" not in place, None
