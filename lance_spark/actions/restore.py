"""Making an older version the newest one again."""

from __future__ import annotations

from lance_spark.errors import Conflict, Refused
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.store import datasets


def restore(location: DatasetLocation, pin: PinnedVersion) -> PinnedVersion:
    """Commit a new version equal to the pinned one, on its branch, and return it.

    A restore conflicts with nothing in pylance: it silently undoes a commit that came in between. So the numbers
    are compared afterwards, and Conflict names the versions that were covered; none of them is lost.
    """
    head = datasets.open_latest(location, pin.branch).version
    if pin.version == head:
        raise Refused(f"Version {head} is the newest of branch '{pin.branch or MAIN}' already.")
    restored = datasets.restore(location, pin)
    if restored != head + 1:
        between = ", ".join(str(version) for version in range(head + 1, restored))
        raise Conflict(
            f"Version {pin} was restored as {restored}, but version {between} was committed meanwhile and is covered.",
            hint=f"Nothing is lost: check version {between} and restore it if it should win.",
        )
    return PinnedVersion(pin.branch, restored)
