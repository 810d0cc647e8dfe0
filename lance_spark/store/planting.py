"""Writes a version of another dataset down here: its metadata, while its files stay where they are.

pylance's own shallow clone cannot leave its store, and makes a new dataset only. So a chain first gets the columns
without a row, and then all fragments, named by the places they are in.
"""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.replay.assemble import Assembly
from lance_spark.replay.placing import Reference, place
from lance_spark.replay.snapshot import Snapshot
from lance_spark.replay.threeway import Change
from lance_spark.store import chains
from lance_spark.store.datasets import open_latest, open_pinned
from lance_spark.store.failures import translated
from lance_spark.store.replaying import add_bases, base_path, fragment_json, fragments_from


def begin(
    target: DatasetLocation,
    source: DatasetLocation,
    pin: PinnedVersion,
    properties: Mapping[str, str],
    places: bool = True,
) -> None:
    """Create a dataset with the columns of a version, and no rows yet; with ``places`` it may read the version's files.

    Raises AlreadyExists, Conflict.
    """
    import lance
    from lance.dataset import Transaction

    theirs = open_pinned(source, pin)
    snapshot = chains.read_snapshot(source, pin)
    roots = dict.fromkeys(snapshot.bases.values()) if places else {}
    bases = [base_path(root, number) for number, root in enumerate(roots, start=1)]
    operation = lance.LanceOperation.Overwrite(theirs.lance_schema, [], initial_bases=bases)
    with translated(target, "creating the dataset"):
        lance.LanceDataset.commit(
            target.uri,
            Transaction(0, operation, transaction_properties=dict(properties)),
            storage_options=target.storage_options,
            enable_stable_row_ids=snapshot.contents.has_stable_row_ids,
            max_retries=0,
        )


def empty(
    target: DatasetLocation,
    branch: str | None,
    source: DatasetLocation,
    pin: PinnedVersion,
    properties: Mapping[str, str],
) -> None:
    """Take all rows out of a chain and give it the columns of a version. Raises Conflict for a concurrent commit."""
    import lance
    from lance.dataset import Transaction

    ours, theirs = open_latest(target, branch), open_pinned(source, pin)
    operation = lance.LanceOperation.Overwrite(theirs.lance_schema, [])
    with translated(target, "committing"):
        lance.LanceDataset.commit(
            target.branch_uri(branch),
            Transaction(ours.version, operation, transaction_properties=dict(properties)),
            storage_options=target.storage_options,
            max_retries=0,
        )


def fill(
    target: DatasetLocation,
    branch: str | None,
    source: DatasetLocation,
    pin: PinnedVersion,
    properties: Mapping[str, str],
) -> int:
    """Give a chain without rows all fragments of a version, where they are; returns its newest version.

    The fragments keep their ids, because names of deletion files begin with them. Raises Conflict.
    """
    import lance
    from lance.dataset import Transaction

    theirs = chains.read_snapshot(source, pin)
    ours = chains.read_snapshot(target, _newest(target, branch))
    missing = [root for root in dict.fromkeys(theirs.bases.values()) if root not in ours.bases.values()]
    if missing:
        add_bases(target, branch, missing)
        ours = chains.read_snapshot(target, _newest(target, branch))
    added = _fragments(source, ours, theirs)
    if not added:
        return ours.pin.version
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[], updated_fragments=[], new_fragments=fragments_from(added), fields_modified=[]
    )
    with translated(target, "committing"):
        dataset = lance.LanceDataset.commit(
            target.branch_uri(branch),
            Transaction(ours.pin.version, operation, transaction_properties=dict(properties)),
            storage_options=target.storage_options,
            max_retries=0,
        )
    return int(dataset.version)


def _fragments(source: DatasetLocation, ours: Snapshot, theirs: Snapshot) -> list[dict[str, object]]:
    change = Change(added=tuple(theirs.contents.fragments()))
    placed = place(change, ours, theirs, Reference(everything=True), sidecars=False)
    kept_ids = {fragment.id: fragment.id for fragment in change.added}
    assembly = Assembly(theirs, placed.with_ids(kept_ids), {})
    dataset = open_pinned(source, theirs.pin)
    return [assembly.added(fragment, fragment_json(dataset, fragment)) for fragment in change.added]


def _newest(target: DatasetLocation, branch: str | None) -> PinnedVersion:
    return PinnedVersion(branch, int(open_latest(target, branch).version))
