"""Looks at a dataset until what is seen fits together: a moving world is not a corrupt one.

Branches come and go while a survey is taken. What does not fit is looked at again; it is an error if it is still so.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from lance_spark.cleanup.evidence import (
    Contradiction,
    Manifest,
    contradictions,
    not_explained,
    of_branches,
    still_newest,
)
from lance_spark.cleanup.survey import Survey
from lance_spark.errors import Conflict, CorruptData
from lance_spark.location import DatasetLocation
from lance_spark.store.datasets import open_latest
from lance_spark.store.survey import survey

_LOOKS = 8
_PAUSE = 0.02
"""Seconds before the second look, twice as long before each further one."""


def look(location: DatasetLocation, clones: tuple[str, ...], clones_from: tuple[str, ...]) -> Survey:
    """The dataset as it is, with all that its refs promise.

    Raises CorruptData for what two looks in a row do not find, Conflict for a dataset that never holds still, NotFound.
    """
    before: list[Contradiction] = []
    for attempt in range(_LOOKS):
        seen = survey(location, clones, clones_from)
        if not any(chain.versions for _, chain in seen.owned()):
            open_latest(location)  # tells "there is no dataset" from a listing that shows none
        found = contradictions(seen)
        if not found:
            return seen
        lasting = [each for each in found if each in before]
        if lasting:
            raise lasting[0].error()
        before = found
        time.sleep(_PAUSE * 2**attempt)
    raise Conflict(
        f"Branches and tags of {location.uri} came and went each of the {_LOOKS} times it was looked at; nothing was "
        f"deleted. The last time: {before[0].message}",
        hint="Run it again when fewer branches are made and deleted at the same time.",
    )


def check_gone(seen: Survey, clones: tuple[str, ...], clones_from: tuple[str, ...], gone: Collection[Manifest]) -> None:
    """Raise CorruptData if manifests that could not be read are listed all the same, or were the newest of a branch.

    Others went with their branch, or with another cleanup. Raises Conflict if a whole clone went with them.
    """
    left = list(gone)
    for attempt in range(_LOOKS):
        if not left:
            return
        time.sleep(_PAUSE * 2**attempt if attempt else 0)
        now = survey(seen.location, clones, clones_from)
        there = {repository.uri for repository in now.repositories}
        for manifest in left:
            if manifest.repository not in there:
                raise Conflict(
                    f"The clone at {manifest.repository} was there, and was gone when its versions were read.",
                    hint="If it was moved, name its new place as a clone; then run this again.",
                )
        left = not_explained(seen, now, left)
    raise CorruptData(
        f"The manifest {left[0].path} of {left[0].repository} was listed and is gone.",
        hint="No file that it may name was deleted. Check the file system, or restore the manifest.",
    )


def without_excuse(
    seen: Survey, clones: tuple[str, ...], clones_from: tuple[str, ...], latest: Collection[Manifest]
) -> list[Manifest]:
    """Those of the newest versions, whose files a listing lacks, that are the newest ones of their branches still.

    Others went with their branch, or with another cleanup: pylance may remove files before the manifest. So
    a version that is there and no longer the newest one is waited for. Raises Conflict if it stays.
    """
    left = list(latest)
    for attempt in range(_LOOKS):
        time.sleep(_PAUSE * 2**attempt if attempt else 0)
        now = survey(seen.location, clones, clones_from)
        left = of_branches(now, left)
        lasting = still_newest(now, left)
        if not left or (lasting and attempt):
            return lasting
    raise Conflict(
        f"Files of {left[0].path} of {left[0].repository} were not listed, and there is a newer version by now: "
        "another cleanup may be removing this one.",
        hint="Nothing was deleted. Run it again once no other cleanup is running.",
    )
