"""Merging branches of older writers, whose refs do not tell a branch from a later one of the same name."""

import json
from pathlib import Path
from urllib.parse import quote

import lance
from support.local_datasets import ids, make_dataset, numbers

from lance_spark.engine.local import LocalRunner
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.refs.refs import delete_branch
from lance_spark.storage.datasets import locate, pin_latest


def old_branch(uri, name):
    """A branch whose ref has no identifier, as older releases left it."""
    lance.dataset(uri).create_branch(name)
    file = Path(uri, "_refs", "branches", f"{quote(name, safe='')}.json")
    entry = json.loads(file.read_text())
    del entry["identifier"]
    file.write_text(json.dumps(entry))
    return f"{uri}/tree/{name}"


def append(path, start, count):
    lance.write_dataset(numbers(count, start), path, mode="append")


def merged(uri, source, into=None):
    """The result, and the rows of the branch that was merged into."""
    location = locate(uri)
    result = merge(location, pin_latest(location, source), into, MergeOptions(), LocalRunner())
    return result, sorted(ids(uri, **({"branch": into} if into else {})))


def test_branches_without_identifiers_are_not_taken_for_main(uri):
    make_dataset(uri)
    exp = old_branch(uri, "exp")
    append(exp, 10, 2)
    append(uri, 20, 2)
    result, rows = merged(uri, "exp")
    assert not result.fast_forward
    assert rows == [0, 1, 2, 10, 11, 20, 21]
    append(exp, 30, 1)
    append(uri, 40, 1)
    result, rows = merged(uri, "exp")
    assert result.base == "exp@2"
    assert rows == [0, 1, 2, 10, 11, 20, 21, 30, 40]
    assert merged(uri, "exp")[0].up_to_date


def test_branches_without_identifiers_are_not_taken_for_each_other(uri):
    make_dataset(uri)
    one, other = old_branch(uri, "one.x"), old_branch(uri, "other")
    append(one, 10, 2)
    append(other, 20, 2)
    append(other, 22, 2)
    assert merged(uri, "one.x", "other")[1] == [0, 1, 2, 10, 11, 20, 21, 22, 23]
    assert merged(uri, "other")[1] == [0, 1, 2, 10, 11, 20, 21, 22, 23]
    delete_branch(locate(uri), "one.x")
    delete_branch(locate(uri), "other")
    assert sorted(ids(uri)) == [0, 1, 2, 10, 11, 20, 21, 22, 23]
