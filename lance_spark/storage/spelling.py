"""Names on a disk that does not tell upper from lower case, as macOS and Windows have: ``exp`` is found as ``Exp``.

Branches ``Feature/a`` and ``feature/b`` share the directory ``tree/Feature`` there. In a listing, the files of ``b``
would look like remains of a branch that nobody knows, and a cleanup would delete them. So names that differ in case are
refused when refs are created, and listings spell each directory as its branch does.

Nothing is written to find out: what exists is looked up under another spelling.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from lance_spark.core.layout import VERSIONS, branch_root
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.reflog import BRANCH, LOG, decode
from lance_spark.core.ref_files import BRANCHES, ref_name
from lance_spark.errors import CorruptData, Refused
from lance_spark.hints import Hint
from lance_spark.storage import files


def folds_case(location: DatasetLocation) -> bool:
    """Whether a dataset is on a disk that does not tell upper from lower case; costs one look."""
    with files.reachable(location):
        return location.is_local and _is_same(f"{location.uri}/{VERSIONS}", f"{location.uri}/{VERSIONS.upper()}")


def is_misspelled(location: DatasetLocation, path: str) -> bool:
    """Whether a file that was just read by its path has another name in its directory; elsewhere it is its name."""
    directory, _, name = path.rpartition("/")
    if not location.is_local:
        return False
    above = f"{location.uri}/{directory}"
    with files.reachable(location, path):
        return _is_same(f"{above}/{name}", f"{above}/{name.swapcase()}") and name not in _names(above)


def found_as(location: DatasetLocation, path: str) -> str | None:
    """The beginning of a path that exists under another spelling, as the disk has it; None if nothing does."""
    if not location.is_local:
        return None
    with files.reachable(location, path):
        found = _as_on_disk(location.uri, path, _names)
    return "/".join(found) if found != path.split("/")[: len(found)] else None


def same_on_disk(kind: str, name: str, there: str, hint: Hint | str | None = None, place: str = "") -> Refused:
    """A refusal to create a ref whose files would be those of another one, or lie among them.

    ``place`` is where, if not here, such as " at origin".
    """
    disk = "its disk" if place else "this disk"
    return Refused(
        f"{kind.capitalize()} '{name}' was not created{place}: {disk} does not tell upper from lower case, and "
        f"'{there}' is there, or begins alike.",
        hint=hint or f"Write '{there}', or choose a name that differs in more than its case.",
    )


def _as_on_disk(root: str, path: str, names_in: Callable[[str], Collection[str]]) -> list[str]:
    """The existing first parts of a path, as the disk has them."""
    above, found = root, list[str]()
    for name in path.split("/"):
        if not os.path.lexists(f"{above}/{name}"):
            break
        names = names_in(above)
        other = () if name in names else (one for one in names if _is_same(f"{above}/{one}", f"{above}/{name}"))
        found.append(next(iter(other), name))
        above = f"{above}/{found[-1]}"
    return found


def _names(directory: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()


def _is_same(one: str, other: str) -> bool:
    """Whether two paths lead to one file; a symbolic link is not the file that it leads to."""
    try:
        return os.path.samestat(os.lstat(one), os.lstat(other))
    except (FileNotFoundError, NotADirectoryError):
        return False


@dataclass(frozen=True)
class SpelledRoots:
    """How the branches of a dataset spell their directories, if the disk spells any in another way."""

    branches: Mapping[str, str] = field(default_factory=dict)
    """The directory of each branch as the disk has it, and as the branch does; both begin with ``tree/``. Empty if they
    are the same, as nearly always."""

    def of(self, directory: str) -> str:
        """A directory as its branch spells it."""
        return self.branches.get(directory, directory)

    def leads(self, directory: str) -> bool:
        """Whether the directory of such a branch lies below one, given as the disk has it; "" is the root."""
        return any(not directory or one.startswith(f"{directory}/") for one in self.branches)


def spelling_of(location: DatasetLocation) -> SpelledRoots:
    """The spelling of a dataset's branches, and of deleted ones that can be restored. Raises StorageFailure."""
    if not folds_case(location):
        return SpelledRoots()
    deleted, there = _deleted(location), map(ref_name, files.list_names(location, BRANCHES))
    # A branch that exists comes last: it wins over a deleted one in the same directory.
    roots = [branch_root(name).rstrip("/") for name in (*deleted, *there) if name is not None]
    names_in = cache(_names)  # by directory: there can be thousands of branches
    with files.reachable(location):
        found = {"/".join(_as_on_disk(location.uri, root, names_in)): root for root in roots}
    whole = {actual: root for actual, root in found.items() if actual.count("/") == root.count("/")}
    return SpelledRoots(whole if any(actual != root for actual, root in whole.items()) else {})


def _deleted(location: DatasetLocation) -> Iterator[str]:
    for name in files.list_names(location, LOG):
        content = files.read(location, f"{LOG}/{name}") if name.endswith(".json") else None
        try:
            change = None if content is None else decode(name.removesuffix(".json"), content)
        except CorruptData:
            continue  # whoever needs the record reports it
        if change is not None and change.kind == BRANCH:
            yield change.name
