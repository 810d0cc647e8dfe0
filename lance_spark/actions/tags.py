"""Listing, creating, moving and deleting tags."""

from __future__ import annotations

from lance_spark.actions.denied import unchanged
from lance_spark.actions.reflog import recorded, tag_change
from lance_spark.actions.resolve import resolve
from lance_spark.location import DatasetLocation
from lance_spark.refs.edit import check_create_tag, check_delete_tag, check_move_tag
from lance_spark.refs.listing import TagList, listed_tags
from lance_spark.refs.model import RefSpec, RefTable, Tag
from lance_spark.refs.names import check_new_tag_name, check_tag_name, is_merge_tag, is_own_tag
from lance_spark.store import refs


def list_tags(location: DatasetLocation, everything: bool = False) -> TagList:
    """Tags, by name; ``everything`` includes those that clones, merges, streams and frozen sets need."""
    return listed_tags(refs.read_refs(location), everything)


def find_tag(location: DatasetLocation, name: str) -> Tag | None:
    """One tag; None where it does not exist. Raises CorruptData."""
    return refs.read_tag(location, name)


def cloned_by(location: DatasetLocation, tag: str) -> str | None:
    """The URI of the clone that a tag protects; None where no note says. Raises CorruptData."""
    from lance_spark.store.survey import recorded_clones  # pulls in pyarrow, for which commands do not wait

    return next((uri for record, uri in recorded_clones(location).items() if tag.startswith(record)), None)


def create_tag(location: DatasetLocation, name: str, target: RefSpec) -> None:
    """Create a tag. Raises InvalidName, AlreadyExists (tags never move silently) or NotFound for the target."""
    check_new_tag_name(name)
    check_create_tag(refs.read_refs(location), name)
    pin = resolve(location, target)
    with unchanged():
        refs.create_tag(location, name, pin)


def check_tag_to_delete(location: DatasetLocation, name: str, force: bool) -> RefTable:
    """All refs, once the tag may be deleted. Raises NotFound; and Refused, with ``force`` only for a frozen set's."""
    check_tag_name(name)
    table = refs.read_refs(location)
    clone = cloned_by(location, name) if is_own_tag(name) and not is_merge_tag(name) else None
    check_delete_tag(table, name, force, clone)
    return table


def move_tag(location: DatasetLocation, name: str, target: RefSpec) -> None:
    """Point an existing tag at another version. Raises NotFound for the tag or the target, Refused for one in use.

    Where it was is written down: see ``actions.reflog``. Not if it was there already: a restore would go back to that.
    """
    check_tag_name(name)
    table = refs.read_refs(location)
    check_move_tag(table, name)
    pin = resolve(location, target)
    if table.tags[name].target.reference == pin.reference:
        refs.move_tag(location, name, pin)  # it is made anew all the same: it expires later
        return
    with recorded(location, tag_change(location, name, table.tags[name], pin)):
        refs.move_tag(location, name, pin)


def delete_tag(location: DatasetLocation, name: str, force: bool = False) -> None:
    """Delete a tag. Raises NotFound, and Refused for one that something relies on; see :func:`check_tag_to_delete`.

    Where it was is written down: see ``actions.reflog``.
    """
    table = check_tag_to_delete(location, name, force)
    if is_own_tag(name):
        refs.delete_tag(location, name)
        return
    with recorded(location, tag_change(location, name, table.tags[name], None)):
        refs.delete_tag(location, name)
