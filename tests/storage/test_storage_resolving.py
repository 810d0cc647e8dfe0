"""From branch, tag, version and asOf to one version, on histories made by pylance."""

import shutil
from datetime import timedelta, timezone

import lance
import pytest
from support.local_datasets import ids, make_dataset, numbers, pin, write

from lance_spark.core.refs import RefSpec
from lance_spark.errors import Conflict, InvalidOption, NotFound
from lance_spark.refs.refs import create_branch, create_tag
from lance_spark.scan.read import read_schema
from lance_spark.storage.datasets import locate
from lance_spark.tables.read import pin_read

TICK = timedelta(microseconds=1)


@pytest.fixture
def history(uri):
    """Three versions of main; branch 'dev' forked from the second, with versions 2 to 4."""
    make_dataset(uri, numbers(1), numbers(1, 1), numbers(1, 2))
    create_branch(locate(uri), "dev", RefSpec(version=2))
    write(uri, numbers(1, 10), branch="dev")
    write(uri, numbers(1, 11), branch="dev")
    return uri


def moments(uri, branch=None):
    """Commit time of each version, as pylance tells it."""
    versions = lance.dataset(uri if branch is None else f"{uri}/tree/{branch}").versions()
    return {entry["version"]: entry["timestamp"].astimezone(timezone.utc) for entry in versions}


def ref(branch):
    return {} if branch is None else {"branch": branch}


@pytest.mark.parametrize(("branch", "versions"), [(None, [1, 2, 3]), ("dev", [2, 3, 4])])
def test_as_of_takes_the_newest_version_committed_by_that_moment(history, branch, versions):
    times = moments(history, branch)
    assert sorted(times) == versions
    for version, committed in times.items():
        # pylance hands out microseconds and the manifest holds nanoseconds, cut off and never rounded up.
        assert pin(history, asOf=committed.isoformat(), **ref(branch)).version == version
        assert pin(history, timestampAsOf=(committed + TICK).isoformat(), **ref(branch)).version == version
        earlier = {"asOf": (committed - TICK).isoformat(), **ref(branch)}
        if version == versions[0]:
            with pytest.raises(NotFound, match="no version at or before") as caught:
                pin(history, **earlier)
            assert committed.isoformat() in caught.value.hint
        else:
            assert pin(history, **earlier).version == version - 1
    assert pin(history, asOf="2999-01-01", **ref(branch)).version == versions[-1]


def test_as_of_means_the_same_instant_in_every_time_zone(history):
    second = moments(history)[2]
    for hours in (-11, 0, 14):
        told = second.astimezone(timezone(timedelta(hours=hours))).isoformat()
        assert pin(history, asOf=told).version == 2
    assert pin(history, asOf=second.replace(tzinfo=None).isoformat()).version == 2
    assert pin(history, asOf=second.replace(tzinfo=None).isoformat() + "Z").version == 2


def test_as_of_on_a_branch_never_shows_the_branch_before_it_was_made(history):
    before_the_fork = moments(history)[1].isoformat()
    assert pin(history, asOf=before_the_fork).version == 1
    with pytest.raises(NotFound, match="Branch 'dev'"):
        pin(history, asOf=before_the_fork, branch="dev")


@pytest.mark.parametrize("key", ["version", "versionAsOf"])
def test_a_version_is_counted_on_its_branch(history, key):
    assert ids(history, **{key: 3}) == [0, 1, 2]
    assert ids(history, branch="dev", **{key: 3}) == [0, 1, 10]
    assert ids(history, branch="main", **{key: 1}) == [0]
    with pytest.raises(NotFound, match=r"'dev' has no version 1\.") as caught:
        pin(history, branch="dev", **{key: 1})
    assert "2, 3, 4" in caught.value.hint


@pytest.mark.parametrize("version", [4, 99, 2**40, 2**63 - 1])
def test_a_missing_version_names_the_nearest(history, version):
    with pytest.raises(NotFound, match=f"no version {version}") as caught:
        pin(history, version=version)
    assert "1, 2, 3" in caught.value.hint


@pytest.mark.parametrize("version", [0, -1, "x", 2**70])
def test_what_is_no_version_number_is_refused(history, version):
    with pytest.raises(InvalidOption, match="'version'"):
        pin(history, version=version)


def test_a_missing_branch_or_tag_names_the_nearest(history):
    create_tag(locate(history), "v1.0", RefSpec())
    with pytest.raises(NotFound, match="Did you mean 'dev'"):
        pin(history, branch="devv")
    with pytest.raises(NotFound, match=r"Did you mean 'v1\.0'"):
        pin(history, tag="v1.1")


@pytest.mark.parametrize(
    "options",
    [{}, {"branch": "b"}, {"tag": "t"}, {"version": 3}, {"asOf": "2020-01-01"}, {"branch": "b", "version": 1}],
)
def test_a_missing_dataset_is_what_is_missing_whatever_ref_was_asked_for(uri, options):
    with pytest.raises(NotFound, match="no Lance dataset"):
        pin(uri, **options)


def test_a_pinned_version_does_not_follow_its_branch(history):
    pinned = pin(history, branch="dev")
    write(history, numbers(5, 50), branch="dev")
    assert pin(history, branch="dev").version == pinned.version + 1
    assert ids(history, branch="dev", version=pinned.version) == [0, 1, 10, 11]


def test_a_pin_is_refused_once_another_dataset_stands_in_its_place(uri, tmp_path):
    make_dataset(uri)
    read = pin_read({"path": uri})
    shutil.rmtree(uri)
    make_dataset(uri, numbers(2, 70))
    for number in range(9):  # enough others for the first one's open handle to be closed
        make_dataset(str(tmp_path / f"other{number}"))
        pin(str(tmp_path / f"other{number}"))
    with pytest.raises(Conflict, match="replaced"):
        read_schema(read)
    assert ids(uri) == [70, 71]
