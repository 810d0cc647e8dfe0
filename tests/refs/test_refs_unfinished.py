"""A branch whose creation was killed between its manifest and its ref file can be created again."""

import os
import shutil
from pathlib import Path

import lance
import pytest
from support.cleanup_datasets import age_all
from support.local_datasets import make_dataset, numbers

from lance_spark.core.refs import RefSpec
from lance_spark.errors import AlreadyExists
from lance_spark.refs.refs import create_branch
from lance_spark.storage.datasets import locate


@pytest.fixture
def unfinished(uri):
    """A dataset of two versions, and what is left of a branch at the first one. Nothing is young."""
    make_dataset(uri, numbers(2), numbers(3, start=2))
    lance.dataset(uri).create_branch("team/x", 1)
    os.remove(Path(uri, "_refs/branches/team%2Fx.json"))
    age_all(uri, 1)
    return uri


def create(uri, version):
    create_branch(locate(uri), "team/x", RefSpec(version=version))
    return lance.dataset(uri).checkout_version(("team/x", None)).to_table()["id"].to_pylist()


@pytest.mark.parametrize(("version", "rows"), [(1, [0, 1]), (2, [0, 1, 2, 3, 4])], ids=["same", "other"])
def test_it_is_made_anew_from_whichever_version(unfinished, version, rows):
    assert create(unfinished, version) == rows
    assert len(list(Path(unfinished, "tree/team/x/_versions").glob("*.manifest"))) == 1


def test_branches_below_it_stay(unfinished):
    lance.dataset(unfinished).create_branch("team/x/y", 2)
    age_all(unfinished, 1)
    assert create(unfinished, 1) == [0, 1]
    below = lance.dataset(unfinished).checkout_version(("team/x/y", None))
    assert below.to_table()["id"].to_pylist() == [0, 1, 2, 3, 4]


def young(uri):
    os.utime(next(Path(uri, "tree/team/x/_versions").glob("*.manifest")))


def with_data(uri):
    Path(uri, "tree/team/x/data").mkdir()
    shutil.copy(next(Path(uri, "data").glob("*.lance")), Path(uri, "tree/team/x/data"))
    age_all(uri, 1)


def with_two_manifests(uri):
    found = next(Path(uri, "tree/team/x/_versions").glob("*.manifest"))
    shutil.copy(found, found.with_name(f"{2**64 - 1 - 9}.manifest"))
    age_all(uri, 1)


@pytest.mark.parametrize("change", [young, with_data, with_two_manifests])
def test_what_may_be_something_else_stays(unfinished, change):
    change(unfinished)
    before = sorted(Path(unfinished).rglob("*"))
    with pytest.raises(AlreadyExists, match="without its ref file") as caught:
        create(unfinished, 1)
    assert "in a minute" in caught.value.hint
    assert sorted(Path(unfinished).rglob("*")) == before
