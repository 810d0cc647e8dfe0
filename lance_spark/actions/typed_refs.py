"""From what SQL says about a version, in a table's name or behind it, to a spec that is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_spark.actions.expressions import find_ref, resolve_expression
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion, RefSpec
from lance_spark.refs.names import branch_or_none
from lance_spark.refs.typed import DEFAULT, MARK, TypedRef, combine, spec_of_branch


@dataclass(frozen=True)
class Candidate:
    """A table that a name may mean, and the ref that the rest of the name is then."""

    name: str
    """The part of the name that is the table's own."""
    location: DatasetLocation
    ref: TypedRef = DEFAULT


def choose(typed: str, candidates: Sequence[Candidate], travel: TypedRef) -> tuple[Candidate, RefSpec]:
    """The one candidate whose ref is there, and its spec; ``travel`` is what stands behind the name.

    A table that is created as ``flights@exp`` must not change what readers of branch ``exp`` get. So Refused
    is raised where a name means both, with a spelling for each. Raises NotFound and what :func:`find_spec` raises.
    """
    held: list[tuple[Candidate, RefSpec]] = []
    absent: list[NotFound] = []
    for candidate in candidates:
        try:
            held.append((candidate, find_spec(candidate.location, combine(candidate.ref, travel))))
        except NotFound as missing:
            absent.append(missing)
    if len(held) > 1:
        raise _ambiguous(typed, held)
    if held:
        return held[0]
    raise absent[0] if absent else NotFound(f"There is no table '{typed}'.")


def find_spec(location: DatasetLocation, typed: TypedRef) -> RefSpec:
    """The branch, tag, version or moment that was typed; its name is known to be there, its version is not looked for.

    Raises NotFound with near names, InvalidOption for a version of a tag, and Refused for a name that is both a branch
    and a tag.
    """
    if typed.expression is None:
        return spec_of_branch(None, typed)
    found = find_ref(location, typed.expression, None)
    version = typed.expression.version if typed.version is None else typed.version
    if found.kind == "tag" and (version is not None or typed.as_of is not None):
        at = PinnedVersion(found.branch, found.version or 0)
        raise InvalidOption(f"Tag '{found.name}' is one version, so it takes no other one.", hint=f"It is at {at}.")
    if typed.expression.back:
        if typed.version is not None or typed.as_of is not None:
            raise InvalidOption(f"'{typed.expression}' chooses a version already.", hint="Take out '~', or AS OF.")
        pin = resolve_expression(location, typed.expression, None)
        return RefSpec(branch=pin.branch, version=pin.version)
    return RefSpec(tag=found.name) if found.kind == "tag" else spec_of_branch(branch_or_none(found.branch), typed)


def _ambiguous(typed: str, held: Sequence[tuple[Candidate, RefSpec]]) -> Refused:
    ways = []
    for candidate, spec in held:
        ref = typed[len(candidate.name) + 1 :]
        ways.append(
            f"`{candidate.name}{MARK}{'tags' if spec.tag else 'heads'}/{ref}`" if ref else f"`{typed}{MARK}main`"
        )
    tables = " and ".join(f"'{candidate.name}'" for candidate, _ in held)
    return Refused(
        f"'{typed}' can mean more than one table: {tables}, with what is behind '{MARK}' as a ref.",
        hint=f"Write {' or '.join(ways)}.",
    )
