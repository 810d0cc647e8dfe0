"""Writes a version of another dataset into this one: its metadata, while its files stay in place, or are copied.

pylance's own shallow clone stays within one store, and can only make a new dataset. So a chain first gets the columns
without a row, and then all fragments, with the places of their files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lance_spark.errors import Conflict
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Fragment
from lance_spark.merge.assembly import Assembly
from lance_spark.merge.change import MergeChange
from lance_spark.merge.copies import Copy
from lance_spark.merge.placement import InPlacePolicy, place
from lance_spark.merge.snapshot import Root, Snapshot
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import copying, version_reader
from lance_spark.store.commits import commit_on
from lance_spark.store.datasets import find_latest, open_latest, open_pinned
from lance_spark.store.failures import translated
from lance_spark.store.fragment_json import base_path, fragment_json, fragments_from
from lance_spark.store.merge_commit import add_bases, translate_id_conflict
from lance_spark.store.scanning import blob_columns

CopyAll = Callable[[Sequence[tuple[DatasetLocation, Copy, DatasetLocation]]], object]
"""Copies files, each from one place to another."""


def create(
    target: DatasetLocation,
    source: DatasetLocation,
    theirs: Snapshot,
    properties: Mapping[str, str],
    places: bool = True,
) -> None:
    """Create a dataset with the columns of a version, and no rows yet; with ``places`` it may read the version's files.

    Finishes a creation that was interrupted. Raises AlreadyExists, Conflict.
    """
    if find_latest(target, None) is None:
        _create(target, source, theirs, properties, places)
    # pylance gives the columns new ids, but files store values by the ids of the columns at the source.
    if version_reader.read_contents(target, _newest(target, None)).fields != theirs.contents.fields:
        truncate(target, None, source, theirs.pin, properties)


def _create(
    target: DatasetLocation, source: DatasetLocation, snapshot: Snapshot, properties: Mapping[str, str], places: bool
) -> None:
    import lance

    theirs = open_pinned(source, snapshot.pin)
    roots = dict.fromkeys(snapshot.bases.values()) if places else {}
    with translated(target, "creating the dataset"):
        lance.write_dataset(
            theirs.schema.empty_table(),
            target.uri,
            mode="create",
            storage_options=target.storage_options,
            # A dataset cannot have files of the first format beside others.
            data_storage_version=theirs.data_storage_version,
            enable_stable_row_ids=snapshot.contents.has_stable_row_ids,
            initial_bases=[base_path(root, number) for number, root in enumerate(roots, start=1)],
            transaction_properties=dict(properties),
        )


def truncate(
    target: DatasetLocation,
    branch: str | None,
    source: DatasetLocation,
    pin: PinnedVersion,
    properties: Mapping[str, str],
) -> None:
    """Remove all rows of a chain and give it the columns of a version. Raises Conflict for a concurrent commit."""
    import lance

    operation = lance.LanceOperation.Overwrite(open_pinned(source, pin).lance_schema, [])
    commit_on(target, PinnedVersion(branch, open_latest(target, branch).version), operation, properties)


def populate(
    target: DatasetLocation,
    branch: str | None,
    source: DatasetLocation,
    theirs: Snapshot,
    properties: Mapping[str, str],
    copy: CopyAll | None = None,
) -> int:
    """Give a chain without rows all fragments of a version, in place; returns its newest version.

    With ``copy`` it copies the data files, except for those that main has a copy of. Raises Conflict.
    """
    import lance

    ours = version_reader.read_snapshot(target, _newest(target, branch))
    if ours.contents.fragment_count:
        raise Conflict(f"Another process wrote to {target.branch_uri(branch)} at the same time.", hint="Run it again.")
    missing = [root for root in dict.fromkeys(theirs.bases.values()) if root not in ours.bases.values()]
    if missing and copy is None:
        add_bases(target, branch, missing)
        ours = version_reader.read_snapshot(target, _newest(target, branch))
    reference = InPlacePolicy(everything=True) if copy is None else InPlacePolicy(present=_files_of_main(target))
    added = _Transfer(target, source, ours, theirs).fragments(reference, copy)
    if not added:
        return ours.pin.version
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[], updated_fragments=[], new_fragments=fragments_from(added), fields_modified=[]
    )
    with translate_id_conflict():
        return commit_on(target, ours.pin, operation, properties).version


def _files_of_main(target: DatasetLocation) -> dict[tuple[str, int], Root]:
    """The data files in main's own directory, by name and size."""
    main = version_reader.read_snapshot(target, _newest(target, None))
    files = (file for fragment in main.contents.fragments() for file in fragment.files)
    return {(file.path, file.size): main.root for file in files if main.root_of(file) == main.root}


@dataclass(frozen=True)
class _Transfer:
    """A version of one dataset that a branch of another one takes over."""

    target: DatasetLocation
    source: DatasetLocation
    ours: Snapshot
    theirs: Snapshot

    def fragments(self, reference: InPlacePolicy, copy: CopyAll | None) -> list[dict[str, object]]:
        """All fragments of theirs as pylance's JSON, for a commit to ours; files are copied first."""
        change = MergeChange(added=tuple(self.theirs.contents.fragments()))
        ids = _ids(change, self.ours)
        for fragment in change.added:
            if ids[fragment.id] != fragment.id or not reference.everything:
                self._copy_deletion(fragment, ids[fragment.id])
        sidecars = bool(blob_columns(self.source, self.theirs.pin))
        placed = place(change, self.ours, self.theirs, reference, sidecars)
        if copy is not None:
            data = [file for file in placed.copies if file.target.startswith("data/")]
            copy([(self._there(file.source), file, self._here) for file in data])
        assembly = Assembly(self.theirs, placed.with_ids(ids), {})
        dataset = open_pinned(self.source, self.theirs.pin)
        return [assembly.added(fragment, fragment_json(dataset, fragment)) for fragment in change.added]

    def _copy_deletion(self, fragment: Fragment, new_id: int) -> None:
        """A deletion file is found by the id of its fragment: under another one it has to be copied."""
        if fragment.deletion is not None:
            there = self._there(self.theirs.root_of(fragment.deletion))
            before, after = (fragment.deletion.path_for(key) for key in (fragment.id, new_id))
            copying.copy_file(there, before, self._here, after)

    def _there(self, root: Root) -> DatasetLocation:
        """A place of the source's files, with the storage options of whichever dataset is in the same store."""
        there = DatasetLocation(root.uri, self.source.options)
        return there if there.store == self.source.store else DatasetLocation(root.uri, self.target.options)

    @property
    def _here(self) -> DatasetLocation:
        return DatasetLocation(self.ours.root.uri, self.target.options)


def _ids(change: MergeChange, ours: Snapshot) -> dict[int, int]:
    """Fragments keep their ids: names of deletion files begin with them, and indexes know rows by them.

    But pylance takes 0 for no id, and gives the next free one, unless the chain never had a fragment.
    """
    ids = {fragment.id: fragment.id for fragment in change.added}
    if 0 in ids and ours.contents.max_fragment_id >= 0:
        ids[0] = max(*ids, ours.contents.max_fragment_id) + 1
    return ids


def _newest(target: DatasetLocation, branch: str | None) -> PinnedVersion:
    return PinnedVersion(branch, int(open_latest(target, branch).version))
