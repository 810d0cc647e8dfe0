"""Removes a branch: its ref file, then its own files, its manifests first.

Not through pylance. Before and after it removes a branch's ref file, pylance reads those of all other branches. It
fails when one of them disappears at that moment: either nothing was removed, or the branch's directory stays without a
ref, and the name cannot be used again. With the last branch that is listed below ``exp/``, pylance also removes the
whole directory ``tree/exp``, even if another job is creating the branch ``exp/new``, whose manifest comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from lance_spark.errors import LanceSparkError, StorageFailure
from lance_spark.layout.key_ranges import KeyRange
from lance_spark.layout.names import branch_root, versions_directory
from lance_spark.location import DatasetLocation
from lance_spark.refs.names import is_dataset_directory
from lance_spark.refs.parse import BRANCHES, ref_file
from lance_spark.store import files


def drop_branch(location: DatasetLocation, name: str, check: Callable[[], None] | None = None) -> None:
    """Remove a branch's ref file and its own files; those of branches below it stay. Safe to repeat.

    Whether it may be removed is decided in lance_spark.refs.edit. ``check`` is called once the ref file is gone, when
    no branch or tag can be created from it any more; if it raises, the ref file is put back.

    Raises PermissionDenied if the ref file may not be removed, and StorageFailure if files of the branch could not be
    removed; then the ref file is gone already.
    """
    drop_ref(location, name, check)
    drop_files(location, name)


def drop_files(location: DatasetLocation, name: str) -> None:
    """Remove the own files of a branch whose ref file is gone; those of branches below it stay. Safe to repeat.

    Raises StorageFailure if files could not be removed.
    """
    from lance_spark.store.deleting import BATCH, delete_batch, remove_empty_directories  # slow to import

    # The listing is complete before the first deletion: files of a new branch of that name must stay.
    paths = iter(_own_files(location, name))
    directories: set[str] = set()
    failed: list[tuple[str, str]] = []
    while batch := list(islice(paths, BATCH)):
        directories |= {above for path in batch for above in _directories(path, branch_root(name).rstrip("/"))}
        failed += delete_batch(location, batch).failed
    if failed:
        _raise_failed(location, name, failed)
    remove_empty_directories(location, sorted(directories))


def drop_ref(location: DatasetLocation, name: str, check: Callable[[], None] | None = None) -> None:
    """Remove a branch's ref file and nothing else; ``check`` as for :func:`drop_branch`."""
    path = ref_file(BRANCHES, name)
    content = files.read(location, path)
    files.delete(location, [path])
    if check is None or content is None:
        return
    try:
        check()
    except LanceSparkError:
        from lance_spark.store.small_files import write_file

        directory, _, file = path.rpartition("/")
        write_file(DatasetLocation(f"{location.uri}/{directory}", location.options), file, content)
        raise


def _own_files(location: DatasetLocation, name: str) -> list[str]:
    """Manifests first: a version without its data must not be opened."""
    from lance_spark.store.listing import list_paths

    root = branch_root(name)
    own = (
        path
        for path in list_paths(location, KeyRange.below(root.rstrip("/")))
        if path.startswith(root) and is_dataset_directory(path[len(root) :].partition("/")[0])
    )
    return sorted(own, key=lambda path: not path.startswith(f"{versions_directory(name)}/"))


def _directories(path: str, top: str) -> Iterator[str]:
    """The directories that a file lies in, down to the branch's own."""
    above = path.rpartition("/")[0]
    while above.startswith(f"{top}/"):
        yield above
        above = above.rpartition("/")[0]
    yield top


def _raise_failed(location: DatasetLocation, name: str, failed: Sequence[tuple[str, str]]) -> None:
    path, reason = failed[0]
    raise StorageFailure(
        f"Branch '{name}' of {location.uri} is deleted, but {len(failed)} of its files could not be removed, such as "
        f"{path}: {reason}",
        hint=f"Remove {location.branch_uri(name)} once the cause is mended.",
    )
