"""Looks at a dataset until what it sees fits together: a dataset that changes is not a corrupt one.

Branches come and go while a survey is taken. What does not fit together is looked at again. It is an error only if it
still does not fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

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

ATTEMPTS = 8
Taking = Callable[[DatasetLocation, Sequence[str], Sequence[str]], Survey]
_PAUSE = 0.02
"""Seconds before the second look, twice as long before each further one."""


def take_survey(location: DatasetLocation, clones: tuple[str, ...], clones_from: tuple[str, ...]) -> Survey:
    """The dataset as it is, with all that its refs promise.

    Raises CorruptData for what two surveys in a row do not show, Conflict for a dataset that never stops changing,
    NotFound.
    """
    taken, lasting = look_at(location, clones, clones_from)
    if lasting:
        raise lasting[0].error()
    return taken


def look_at(
    location: DatasetLocation, clones: tuple[str, ...], clones_from: tuple[str, ...], take: Taking | None = None
) -> tuple[Survey, list[Contradiction]]:
    """The dataset as it is, and what two surveys in a row show that does not fit together.

    ``take`` takes a survey in another way. Raises CorruptData for a ref file that cannot be understood, Conflict and
    NotFound as take_survey.
    """
    before: list[Contradiction] = []
    for attempt in range(ATTEMPTS):
        taken = (take or survey)(location, clones, clones_from)
        if not any(chain.versions for _, chain in taken.owned()):
            open_latest(location)  # tells "there is no dataset" from a listing that shows none
        now = contradictions(taken)
        lasting = [contradiction for contradiction in now if contradiction in before]
        if lasting or not now:
            return taken, lasting
        before = now
        time.sleep(_PAUSE * 2**attempt)
    raise Conflict(
        f"Branches and tags of {location.uri} came and went each of the {ATTEMPTS} times it was looked at; nothing was "
        f"deleted. The last time: {before[0].message}",
        hint="Run it again when fewer branches are made and deleted at the same time.",
    )


def check_gone(
    before: Survey, clones: tuple[str, ...], clones_from: tuple[str, ...], gone: Collection[Manifest]
) -> None:
    """Raise CorruptData if manifests that could not be read are listed all the same, or were the newest of a branch.

    Others went with their branch, or with another cleanup. Raises Conflict if a whole clone went with them.
    """
    left = list(gone)
    for attempt in range(ATTEMPTS):
        if not left:
            return
        time.sleep(_PAUSE * 2**attempt if attempt else 0)
        now = survey(before.location, clones, clones_from)
        there = {repository.uri for repository in now.repositories}
        for manifest in left:
            if manifest.repository not in there:
                raise Conflict(
                    f"The clone at {manifest.repository} was there, and was gone when its versions were read.",
                    hint="If it was moved, name its new place as a clone; then run this again.",
                )
        left = not_explained(before, now, left)
    raise CorruptData(
        f"The manifest {left[0].path} of {left[0].repository} was listed and is gone.",
        hint="No file that it may name was deleted. Check the file system, or restore the manifest.",
    )


def confirm_newest(
    before: Survey, clones: tuple[str, ...], clones_from: tuple[str, ...], latest: Collection[Manifest]
) -> list[Manifest]:
    """Those of the newest versions whose files a listing lacks that are still the newest of their branches.

    Others went with their branch, or with another cleanup: pylance may remove files before the manifest. So a version
    that is there and no longer the newest is waited for. Raises Conflict if it stays.
    """
    left = list(latest)
    for attempt in range(ATTEMPTS):
        time.sleep(_PAUSE * 2**attempt if attempt else 0)
        now = survey(before.location, clones, clones_from)
        left = of_branches(now, left)
        lasting = still_newest(now, left)
        if not left or (lasting and attempt):
            return lasting
    raise Conflict(
        f"Files of {left[0].path} of {left[0].repository} were not listed, and there is a newer version by now: "
        "another cleanup may be removing this one.",
        hint="Nothing was deleted. Run it again once no other cleanup is running.",
    )
