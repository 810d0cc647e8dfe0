"""What a commit of this package leaves in a version's transaction: where its changes came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.manifest.transactions import MESSAGE
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN

ACTION, SOURCE, SOURCE_ID = "lance_spark.action", "lance_spark.source", "lance_spark.source_id"
MOVED = "lance_spark.moved_rows"
"""Whether older rows were rewritten: the operation does not say it."""
BRINGS = "lance_spark.brings"
"""Whether it has rows that came by a pick, a revert or a restore, directly or by a merge."""
ADDS_ONLY = "lance_spark.adds_only"
"""Whether it only added rows: it left every older fragment as it was, and no row that it took in had been written
anew or deleted. The operation does not say it."""
REORDERED = "lance_spark.reordered"
"""Whether it only moved rows to other files, in another order. It is no compaction to others, which keeps the order:
who follows rows through compactions, by their order, would take one row for another."""
REPLACES = "lance_spark.replaces"
"""Whether it replaced the whole table: an overwrite may be committed as another operation, and a compaction as one."""
MERGE, CHERRY_PICK, REVERT, RESTORE = "merge", "cherry-pick", "revert", "restore"
CLONE, FETCH, PUSH, RECEIVE, RELOCATE = "clone", "fetch", "push", "receive", "relocate"
"""The branch that follows the remote records a push; the remote itself records that it received one."""
BEGIN = "begin"
"""The first half of a version that is copied from another dataset: it has no rows; the next version brings them."""
HELD = "lance_spark.source_held"
"""What a merged version held of other chains, as JSON: their identities, and the newest version of each. The refs say
it, too, until the merged branch is deleted."""
PUSHER = "lance_spark.pusher"
"""Which dataset sent what was received, and which of its versions."""
BRINGING = frozenset({CHERRY_PICK, REVERT, RESTORE})
"""Actions after which rows lie in two chains although neither has everything of the other."""
_TAKES_IN = frozenset({MERGE, PUSH})
"""Actions after which a version holds everything its source had, as with git's second parent."""


@dataclass(frozen=True)
class Trace:
    """Where the changes of a version came from."""

    action: str
    source: PinnedVersion
    source_id: str = ""
    """Identity of the source's branch, so that a later branch of the same name is not taken for it; "" for main."""
    pusher: str = ""
    """Identifies the dataset and the version that a push came from."""
    held: tuple[tuple[str, int], ...] = ()
    """Of a merge: identities of other chains that the source descends from ("" for main), and the versions of them."""

    @property
    def takes_in(self) -> bool:
        """Whether the version holds everything its source had."""
        return self.action in _TAKES_IN

    def properties(self, message: str | None) -> dict[str, str]:
        """As transaction properties."""
        properties = {ACTION: self.action, SOURCE: str(self.source), SOURCE_ID: self.source_id}
        properties |= {PUSHER: self.pusher} if self.pusher else {}
        properties |= {HELD: json.dumps(dict(self.held))} if self.held else {}
        return {**properties, MESSAGE: message} if message else properties


def read_trace(properties: Mapping[str, str]) -> Trace | None:
    """The trace in transaction properties; None if there is none that can be read."""
    branch, _, version = properties.get(SOURCE, "").rpartition("@")
    if not branch or not version.isdecimal():
        return None
    pin = PinnedVersion(None if branch == MAIN else branch, int(version))
    source_id, pusher = properties.get(SOURCE_ID, ""), properties.get(PUSHER, "")
    return Trace(properties.get(ACTION, ""), pin, source_id, pusher, _read_held(properties.get(HELD, "{}")))


def _read_held(written: str) -> tuple[tuple[str, int], ...]:
    """Nothing where it cannot be read: another tool may write anything."""
    try:
        return tuple((str(chain), int(version)) for chain, version in json.loads(written).items())
    except (ValueError, TypeError, AttributeError):
        return ()
