"""What ``LanceTable`` refuses to do with branches and tags: the words, and that nothing changes."""

import lance
import pyarrow as pa
import pytest
from support.local_datasets import contents

from lance_spark import LanceTable
from lance_spark.errors import AlreadyExists, InvalidName, InvalidOption, NotFound, Refused


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two versions, a branch with a branch, and a tag on each: refusals change nothing, so that all can share it."""
    uri = f"{tmp_path_factory.mktemp('refused')}/t.lance"
    for first in (0, 5):
        lance.write_dataset(pa.table({"id": [*range(first, first + 5)]}), uri, mode="append" if first else "create")
    table = LanceTable.for_path(uri)
    table.tags.create("one", version=1)
    table.branches.create("exp")
    table.branches.create("exp/child", branch="exp")
    table.tags.create("deep", branch="exp/child")
    return table


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda t: t.branches.create("exp"), AlreadyExists, "'exp'"),
        (lambda t: t.branches.create("a//b"), InvalidName, "'//'"),
        (lambda t: t.branches.create("main"), InvalidName, "reserved"),
        (lambda t: t.branches.create("new", branch="exq"), NotFound, "Did you mean 'exp'"),
        (lambda t: t.branches.create("new", tag="nope"), NotFound, "'nope'"),
        (lambda t: t.branches.create("new", version=9), NotFound, "Nearest versions: 1, 2"),
        (lambda t: t.branches.create("new", branch="exp", tag="one"), InvalidOption, "'tag'"),
        (lambda t: t.branches.delete("nope"), NotFound, "'nope'"),
        (lambda t: t.branches.delete("exp"), Refused, "'exp/child'"),
        (lambda t: t.branches.delete("exp/child"), Refused, "tag 'deep'"),
        (lambda t: t.tags.create("one"), AlreadyExists, "t.tags.move("),
        (lambda t: t.tags.create("a/b"), InvalidName, "no '/'"),
        (lambda t: t.tags.create("new", version=9), NotFound, "Nearest versions: 1, 2"),
        (lambda t: t.tags.create("new", branch="exq"), NotFound, "Did you mean 'exp'"),
        (lambda t: t.tags.move("nope", version=1), NotFound, "'nope'"),
        (lambda t: t.tags.move("one", version=9), NotFound, "Nearest versions: 1, 2"),
        (lambda t: t.tags.delete("on"), NotFound, "Did you mean 'one'"),
        (lambda t: t.checkout(branch="exq"), NotFound, "Did you mean 'exp'"),
        (lambda t: t.checkout(tag="nope"), NotFound, "'nope'"),
        (lambda t: t.checkout(version=9), NotFound, "Nearest versions: 1, 2"),
        (lambda t: t.checkout(as_of="2001-01-01"), NotFound, "oldest version"),
        (lambda t: t.checkout(tag="one", version=1), InvalidOption, "'tag'"),
        (lambda t: t.checkout(version=1, as_of="2024-01-01"), InvalidOption, "'asOf'"),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(table, act, error, words):
    before = contents(table.location.uri)
    with pytest.raises(error) as caught:
        act(table)
    assert words in str(caught.value)
    assert contents(table.location.uri) == before
