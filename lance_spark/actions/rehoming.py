"""Gives a branch or clone its own copy of indexes that it inherited, so that a compaction can rewrite them.

pylance writes the new files of an index into the branch, and registers them where the old ones are: in the parent.
The branch cannot be read any more then.
"""

from __future__ import annotations

from lance_spark.actions.merge.copying import copy_each
from lance_spark.compaction.choosing import indexes_to_rehome
from lance_spark.compaction.model import OptimizePlan
from lance_spark.errors import CorruptData
from lance_spark.location import DatasetLocation
from lance_spark.manifest.indexes import IndexRecord
from lance_spark.merge.copies import Copy
from lance_spark.merge.snapshot import Root
from lance_spark.refs.model import PinnedVersion
from lance_spark.runner.interface import Engine
from lance_spark.store import copying, version_reader
from lance_spark.store.index_commit import commit_indexes
from lance_spark.store.relocate_commit import read_version


def rehome(location: DatasetLocation, plan: OptimizePlan, engine: Engine) -> PinnedVersion:
    """Copy the inherited indexes that cover a plan's fragments, and register the copies: one version.

    Raises Conflict when another commit came in between, CorruptData if an index has no files.
    """
    head = read_version(location, plan.pin)
    bases = version_reader.snapshot_of(location, plan.pin, head.contents).bases
    found = indexes_to_rehome(head.indexes, {key for task in plan.tasks for key in task.ids})
    target = DatasetLocation(location.branch_uri(plan.pin.branch), location.options)
    items = [
        (DatasetLocation(bases[index.base_id].uri, location.options), copy, target)
        for index in found
        for copy in index_copies(location, index, bases[index.base_id])
    ]
    copy_each("optimize", items, engine)
    own = [index._replace(base_id=None) for index in found]
    return commit_indexes(location, head.pin, own, found, {})


def index_copies(location: DatasetLocation, index: IndexRecord, root: Root) -> list[Copy]:
    """The files of an index that is in that place. Raises CorruptData if they are not there."""
    directory = f"_indices/{index.uuid}"
    source = DatasetLocation(root.uri, location.options)
    paths = [*copying.files_below(source, directory)]
    missing = [name for name, _ in index.needed if name and f"{directory}/{name}" not in paths]
    if missing or not paths:
        raise CorruptData(
            f"The index '{index.name}' has lost files: {root.uri}/{directory}.",
            hint="Drop it, and make it again.",
        )
    return [Copy(root, path, path) for path in paths]
