"""Changing what branches and tags say about themselves: how long they live, who owns them, who may write to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lance_spark import hints
from lance_spark.actions.resolve import check_branch
from lance_spark.actions.sync.write_guards import check_own
from lance_spark.errors import Refused
from lance_spark.location import DatasetLocation
from lance_spark.options.text import names_of
from lance_spark.refs.edit import check_tag_stays
from lance_spark.refs.lifetime import EXPIRE_AFTER, Lifetime, changed_metadata, read_lifetime
from lance_spark.refs.names import MAIN, is_service_tag, is_stream_tag
from lance_spark.refs.resolve import missing
from lance_spark.store import refs
from lance_spark.store.datasets import open_latest

Settings = Mapping[str, object]
"""By name; see ``refs.lifetime``."""


def check_settings(settings: Settings, tag: bool = False) -> None:
    """Raise InvalidOption for settings that a new branch or tag cannot have."""
    changed_metadata({}, settings, tag=tag)


def branch_lifetime(location: DatasetLocation, branch: str | None) -> Lifetime:
    """What a branch (None for main) says about itself. Raises NotFound, CorruptData."""
    check_branch(location, branch)
    return read_lifetime(refs.read_metadata(location, branch) or {})


def alter_branch(
    location: DatasetLocation,
    branch: str | None,
    settings: Settings,
    unset: str | Sequence[str] = (),
    dry_run: bool = False,
) -> Lifetime:
    """Set and remove settings of a branch (None for main); returns those that it has then.

    Raises InvalidOption, NotFound, and Refused for main, which cannot expire, and for a branch that follows a remote's.
    """
    open_latest(location)
    check_branch(location, branch)
    check_own(location, branch)
    before = refs.read_metadata(location, branch) or {}
    after = changed_metadata(before, settings, names_of(unset))
    if branch is None and EXPIRE_AFTER in after:
        raise Refused(
            f"Branch '{MAIN}' cannot expire: it is the dataset.",
            hint="retain_versions, owner and protected can be set.",
        )
    if after == before or dry_run:
        return read_lifetime(after)
    if branch is None:
        refs.replace_main(location, after)
    else:
        refs.replace_metadata(location, branch, after)
    return read_lifetime(after)


def alter_tag(
    location: DatasetLocation, tag: str, settings: Settings, unset: str | Sequence[str] = (), dry_run: bool = False
) -> Lifetime:
    """Set and remove settings of a tag; returns those that it has then.

    Raises InvalidOption, NotFound, and Refused for a tag that a frozen set, a clone, a merge or a stream relies on.
    """
    table = refs.read_refs(location)
    known = table.tags.get(tag)
    if known is None:
        raise missing("tag", tag, table.tags)
    after = changed_metadata(known.metadata, settings, names_of(unset), tag=True)
    if EXPIRE_AFTER in after and after.get(EXPIRE_AFTER) != known.metadata.get(EXPIRE_AFTER):
        check_tag_stays(table, tag)
        _check_no_service(tag)
    if after != known.metadata and not dry_run:
        refs.replace_tag_metadata(location, tag, after)
    return read_lifetime(after)


def _check_no_service(tag: str) -> None:
    """Raise Refused for a tag that has to stay as long as something else is there, whatever its age."""
    if is_stream_tag(tag):
        raise Refused(
            f"Tag '{tag}' cannot expire: a streaming query goes on from it.",
            hint=hints.of("Once that query is over: ", hints.delete_tag(tag, force=True), "."),
        )
    if is_service_tag(tag):
        raise Refused(
            f"Tag '{tag}' protects what a clone or another branch reads, for as long as that is there.",
            hint="Delete the clone or the branch; or the tag itself once nothing needs it.",
        )
