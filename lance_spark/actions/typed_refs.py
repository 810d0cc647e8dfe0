"""From what SQL says about a version to a spec that is there."""

from __future__ import annotations

from lance_spark.actions.expressions import find_ref, resolve_expression
from lance_spark.actions.resolve import resolve
from lance_spark.errors import InvalidOption
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion, RefSpec
from lance_spark.refs.names import branch_or_none
from lance_spark.refs.typed import TypedRef, spec_of_branch


def find_spec(location: DatasetLocation, typed: TypedRef) -> RefSpec:
    """The branch, tag, version or moment that was typed; its name is known to be there, its version is not looked for.

    Raises NotFound with near names, InvalidOption for a version of a tag, and Refused for a name that is both a branch
    and a tag.
    """
    if typed.expression is None:
        return spec_of_branch(None, typed)
    found = find_ref(location, typed.expression, None)
    version = typed.expression.version if typed.version is None else typed.version
    if found.kind == "tag":
        if version is not None or typed.as_of is not None:
            at = PinnedVersion(found.branch, found.version or 0)
            raise InvalidOption(f"Tag '{found.name}' is one version, so it takes no other one.", hint=f"It is at {at}.")
        if not typed.expression.back:
            return RefSpec(tag=found.name)
    if typed.expression.back:
        if typed.version is not None or typed.as_of is not None:
            raise InvalidOption(f"'{typed.expression}' chooses a version already.", hint="Take out '~', or AS OF.")
        pin = resolve_expression(location, typed.expression, None)
        return RefSpec(branch=pin.branch, version=pin.version)
    return spec_of_branch(branch_or_none(found.branch), typed)


def pin_typed(location: DatasetLocation, typed: TypedRef) -> PinnedVersion:
    """The version that was typed, right now. Raises as :func:`find_spec`, and NotFound for an unknown version."""
    return resolve(location, find_spec(location, typed))
