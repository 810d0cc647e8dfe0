"""Properties of a dataset that is in no catalog: the metadata of the table, as Lance keeps it, branch by branch.

A table with a row in a catalog has its properties there (lance_spark.actions.catalog.properties): they are the table's,
whatever branch is read, and other tools of the catalog see them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lance_spark.actions.sync.write_guards import check_writable
from lance_spark.catalog.entries import check_properties
from lance_spark.errors import Refused
from lance_spark.location import DatasetLocation
from lance_spark.store.table_metadata import change_table_metadata, read_table_metadata

_SETTINGS = "lance."
"""Begins the keys of settings that make pylance do something, such as its automatic cleanup."""


def read_properties(location: DatasetLocation, branch: str | None) -> dict[str, str]:
    """The properties on a branch (None for main). Raises NotFound."""
    return read_table_metadata(location, branch)


def alter_properties(
    location: DatasetLocation, branch: str | None, put: Mapping[str, str] | None = None, unset: Sequence[str] = ()
) -> dict[str, str]:
    """Set and remove properties on a branch, as one version; returns those that it has then.

    Raises NotFound, InvalidOption for what is no text, and Refused for settings of Lance itself, some of which lose
    data unless they are checked.
    """
    given = check_properties(put)
    settings = sorted(key for key in {*given, *unset} if key.startswith(_SETTINGS))
    if settings:
        raise Refused(
            f"'{settings[0]}' is a setting of Lance and no property.",
            hint="For automatic cleanup there is LanceTable.enable_auto_cleanup, which checks that no data is lost.",
        )
    check_writable(location, branch)
    before = read_properties(location, branch)
    wanted = {**before, **given}
    after = {key: value for key, value in wanted.items() if key not in set(unset)}
    changes: dict[str, str | None] = {key: value for key, value in after.items() if before.get(key) != value}
    changes |= dict.fromkeys(before.keys() - after.keys())
    if changes:
        change_table_metadata(location, branch, changes)
    return after
