"""All procedures, by name."""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.actions.procedures.branches import CREATE_BRANCH, DROP_BRANCH
from lance_spark.actions.procedures.checking import FSCK
from lance_spark.actions.procedures.cleaning import CLEANUP
from lance_spark.actions.procedures.cloning import CLONE
from lance_spark.actions.procedures.indexing import CREATE_INDEX
from lance_spark.actions.procedures.merging import CHERRY_PICK, MERGE_BRANCH, REVERT
from lance_spark.actions.procedures.migrating import MIGRATE
from lance_spark.actions.procedures.optimizing import OPTIMIZE
from lance_spark.actions.procedures.procedure import Procedure
from lance_spark.actions.procedures.restoring import RESTORE
from lance_spark.actions.procedures.storing import EXPIRE_REFS, STORAGE
from lance_spark.actions.procedures.tags import CREATE_TAG, DROP_TAG
from lance_spark.errors import NotFound
from lance_spark.show.near import meant

PROCEDURES: Mapping[str, Procedure] = {
    found.name: found
    for found in (
        CREATE_BRANCH,
        DROP_BRANCH,
        CREATE_TAG,
        DROP_TAG,
        MERGE_BRANCH,
        CHERRY_PICK,
        REVERT,
        RESTORE,
        CREATE_INDEX,
        CLEANUP,
        OPTIMIZE,
        FSCK,
        STORAGE,
        EXPIRE_REFS,
        CLONE,
        MIGRATE,
    )
}


def find_procedure(name: str) -> Procedure:
    """The procedure of a name, in any case. Raises NotFound with near names."""
    found = PROCEDURES.get(name.lower())
    if found is None:
        raise NotFound(f"There is no procedure {name}.", hint=meant(name, sorted(PROCEDURES)))
    return found
