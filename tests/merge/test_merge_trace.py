"""The trace that a merge or the like leaves in its transaction."""

import pytest

from lance_spark.core.refs import PinnedVersion
from lance_spark.format.transactions import MESSAGE
from lance_spark.format.versions import (
    ACTION,
    CHERRY_PICK,
    CLONE,
    FETCH,
    MERGE,
    PUSH,
    RECEIVE,
    RESTORE,
    REVERT,
    SOURCE,
    SOURCE_ID,
    Trace,
    read_trace,
)

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("pin", [PinnedVersion(None, 3), PinnedVersion("a/b", 12), PinnedVersion("an@odd", 1)])
def test_a_trace_reads_as_it_was_left(pin):
    trace = Trace(MERGE, pin, "an identity")
    assert read_trace(trace.properties("why")) == read_trace(trace.properties(None)) == trace


def test_the_properties_are_those_that_others_read():
    found = Trace(CHERRY_PICK, PinnedVersion(None, 3)).properties("why")
    assert found == {ACTION: "cherry-pick", SOURCE: "main@3", SOURCE_ID: "", MESSAGE: "why"}
    assert MESSAGE not in Trace(MERGE, PinnedVersion(None, 3)).properties(None)


@pytest.mark.parametrize("source", ["", "main", "@3", "main@", "main@-1", "main@x"])
def test_what_is_no_trace_is_passed_over(source):
    assert read_trace({ACTION: MERGE, SOURCE: source}) is None
    assert read_trace({ACTION: MERGE}) is None


def test_only_a_merge_has_everything_of_its_source():
    taking = {
        action
        for action in (MERGE, PUSH, RECEIVE, CHERRY_PICK, REVERT, RESTORE, CLONE, FETCH)
        if Trace(action, PinnedVersion(None, 1)).takes_in
    }
    assert taking == {MERGE, PUSH}
