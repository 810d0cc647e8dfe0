"""Which versions a branch has, by the names of their manifests. No manifest is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from lance_spark.layout.key_ranges import KeyRange
from lance_spark.layout.names import (
    manifest_paths,
    read_manifest_name,
    sorts_newest_first,
    versions_directory,
)
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import files


def version_paths(location: DatasetLocation, branch: str | None) -> dict[int, str]:
    """The versions of a branch, ascending, and the paths of their manifests. One listing."""
    directory = versions_directory(branch)
    names = files.list_names(location, directory)
    return dict(sorted(_versions(f"{directory}/{name}" for name in names)))


def version_numbers(location: DatasetLocation, branch: str | None) -> list[int]:
    """The versions of a branch, ascending. One listing."""
    return list(version_paths(location, branch))


def has_version(location: DatasetLocation, pin: PinnedVersion) -> bool:
    """Whether a version is there. No listing: one request in all but the oldest datasets."""
    return any(files.exists(location, path) for path in manifest_paths(pin.branch, pin.version))


def newest_first(
    location: DatasetLocation, branch: str | None, newest: int | None = None, above: int | None = None
) -> Iterator[tuple[int, str]]:
    """(version, path of its manifest) of a branch, descending, from ``newest`` or the newest one on, down to ``above``.

    S3 is asked for a page of names when the first path of the page is taken, and for none beyond the bounds. Elsewhere,
    and with names of the older scheme, which tell nothing of their order, all versions are listed.
    """
    if location.uri.startswith("s3://"):
        from lance_spark.store.listing import list_paths  # pulls in pyarrow, for which commands do not wait

        directory = versions_directory(branch)
        after = f"{directory}/" if newest is None else manifest_paths(branch, newest)[0].removesuffix(".manifest")
        until = f"{directory}0" if above is None else manifest_paths(branch, above)[0]
        listed = _versions(list_paths(location, KeyRange(after, until)))
        first = next(listed, None)
        if first is not None and sorts_newest_first(first[1].rpartition("/")[2]):
            yield from _between(chain([first], listed), newest, above)
            return
    yield from _between(reversed(version_paths(location, branch).items()), newest, above)


def _between(versions: Iterable[tuple[int, str]], newest: int | None, above: int | None) -> Iterator[tuple[int, str]]:
    for version, path in versions:
        if (newest is None or version <= newest) and (above is None or version > above):
            yield version, path


def _versions(paths: Iterable[str]) -> Iterator[tuple[int, str]]:
    for path in paths:
        name = read_manifest_name(path.rpartition("/")[2])
        if name is not None and not name.detached:
            yield name.version, path
