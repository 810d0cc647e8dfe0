"""What streams have yet to learn of versions is noted before a cleanup deletes these."""

from __future__ import annotations

from lance_spark.cleanup.document import PlanFacts
from lance_spark.cleanup.stream_tags import first_sink, going_after
from lance_spark.cleanup.survey import Survey
from lance_spark.store.stream_notes import leave_note


def note_for_streams(facts: PlanFacts, now: Survey) -> None:
    """Note what the versions that go hold of the batches of streams. No request where no stream is behind.

    ``now`` has the tags as they are when deleting begins: a plan may be days old. A query that begins later begins with
    the newest version, which stays.
    """
    for index, chain in facts.survey.owned():
        sink = first_sink(now.refs.tags.values(), chain.branch)
        going = [] if sink is None else [*going_after(chain, facts.verdicts[index].removed, sink)]
        if sink is not None and going:
            leave_note(facts.survey.location, chain.branch, sink, going)
