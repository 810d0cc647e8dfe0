"""Writes a version of another dataset down here: its metadata, while its files stay where they are.

pylance's own shallow clone cannot leave its store, and makes a new dataset only. So a chain first gets the columns
without a row, and then all fragments, named by the places they are in.
"""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.errors import Conflict
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Fragment
from lance_spark.refs.model import PinnedVersion
from lance_spark.replay.assemble import Assembly
from lance_spark.replay.placing import Reference, place
from lance_spark.replay.snapshot import Snapshot
from lance_spark.replay.threeway import Change
from lance_spark.store import chains, copying
from lance_spark.store.datasets import find_latest, open_latest, open_pinned
from lance_spark.store.failures import translated
from lance_spark.store.replaying import add_bases, base_path, conflicts, fragment_json, fragments_from


def begin(
    target: DatasetLocation,
    source: DatasetLocation,
    pin: PinnedVersion,
    properties: Mapping[str, str],
    places: bool = True,
) -> None:
    """Create a dataset with the columns of a version, and no rows yet; with ``places`` it may read the version's files.

    A beginning that was interrupted is finished. Raises AlreadyExists, Conflict.
    """
    if find_latest(target, None) is None:
        _create(target, source, pin, properties, places)
    # What pylance creates has field ids of its own; files have values by the ids that columns have at the source.
    if chains.read_contents(target, _newest(target, None)).fields != chains.read_contents(source, pin).fields:
        empty(target, None, source, pin, properties)


def _create(
    target: DatasetLocation, source: DatasetLocation, pin: PinnedVersion, properties: Mapping[str, str], places: bool
) -> None:
    import lance

    theirs = open_pinned(source, pin)
    snapshot = chains.read_snapshot(source, pin)
    roots = dict.fromkeys(snapshot.bases.values()) if places else {}
    with translated(target, "creating the dataset"):
        lance.write_dataset(
            theirs.schema.empty_table(),
            target.uri,
            mode="create",
            storage_options=target.storage_options,
            # Files of the first format cannot lie beside others.
            data_storage_version=theirs.data_storage_version,
            enable_stable_row_ids=snapshot.contents.has_stable_row_ids,
            initial_bases=[base_path(root, number) for number, root in enumerate(roots, start=1)],
            transaction_properties=dict(properties),
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

    Raises Conflict.
    """
    import lance
    from lance.dataset import Transaction

    theirs = chains.read_snapshot(source, pin)
    ours = chains.read_snapshot(target, _newest(target, branch))
    if ours.contents.fragment_count:
        raise Conflict(f"Somebody else wrote to {target.branch_uri(branch)} at the same time.", hint="Run it again.")
    missing = [root for root in dict.fromkeys(theirs.bases.values()) if root not in ours.bases.values()]
    if missing:
        add_bases(target, branch, missing)
        ours = chains.read_snapshot(target, _newest(target, branch))
    added = _fragments(target, source, ours, theirs)
    if not added:
        return ours.pin.version
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[], updated_fragments=[], new_fragments=fragments_from(added), fields_modified=[]
    )
    with conflicts(), translated(target, "committing"):
        dataset = lance.LanceDataset.commit(
            target.branch_uri(branch),
            Transaction(ours.pin.version, operation, transaction_properties=dict(properties)),
            storage_options=target.storage_options,
            max_retries=0,
        )
    return int(dataset.version)


def _fragments(
    target: DatasetLocation, source: DatasetLocation, ours: Snapshot, theirs: Snapshot
) -> list[dict[str, object]]:
    change = Change(added=tuple(theirs.contents.fragments()))
    ids = _ids(change, ours)
    for fragment in change.added:
        if fragment.deletion is not None and ids[fragment.id] != fragment.id:
            _copy_deletion(target, source, (ours, theirs), fragment, ids[fragment.id])
    placed = place(change, ours, theirs, Reference(everything=True), sidecars=False)
    assembly = Assembly(theirs, placed.with_ids(ids), {})
    dataset = open_pinned(source, theirs.pin)
    return [assembly.added(fragment, fragment_json(dataset, fragment)) for fragment in change.added]


def _ids(change: Change, ours: Snapshot) -> dict[int, int]:
    """Fragments keep their ids: names of deletion files begin with them, and indexes know rows by them.

    But pylance takes 0 for no id, and gives the next free one, unless the chain never had a fragment.
    """
    ids = {fragment.id: fragment.id for fragment in change.added}
    if 0 in ids and ours.contents.max_fragment_id >= 0:
        ids[0] = max(*ids, ours.contents.max_fragment_id) + 1
    return ids


def _copy_deletion(
    target: DatasetLocation,
    source: DatasetLocation,
    sides: tuple[Snapshot, Snapshot],
    fragment: Fragment,
    new_id: int,
) -> None:
    """A deletion file is found by the id of its fragment: under another one it has to be copied."""
    ours, theirs = sides
    if fragment.deletion is None:
        return
    there = DatasetLocation(theirs.root_of(fragment.deletion).uri, source.options)
    if there.store != source.store:
        there = DatasetLocation(there.uri, target.options)
    here = DatasetLocation(ours.root.uri, target.options)
    before, after = (f"_deletions/{fragment.deletion.name(key)}" for key in (fragment.id, new_id))
    copying.copy_file(there, before, here, after)


def _newest(target: DatasetLocation, branch: str | None) -> PinnedVersion:
    return PinnedVersion(branch, int(open_latest(target, branch).version))
