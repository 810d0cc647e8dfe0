"""Properties of a dataset in no catalog; pylance reads them as the table's metadata."""

import lance
import pytest
from support.local_datasets import make_dataset

from lance_spark.catalog.staging import alter_properties, read_properties
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.refs.refs import create_branch


@pytest.fixture
def location(uri):
    make_dataset(uri)
    found = DatasetLocation.at(uri)
    create_branch(found, "exp", RefSpec())
    return found


@pytest.mark.parametrize("branch", [None, "exp"])
def test_properties_are_set_and_removed_on_one_branch(location, branch):
    other = "exp" if branch is None else None
    assert read_properties(location, branch) == {}
    assert alter_properties(location, branch, {"owner": "ops", "a": "1"}) == {"owner": "ops", "a": "1"}
    assert alter_properties(location, branch, {"owner": "me"}, ["a", "nothing"]) == {"owner": "me"}
    assert lance.dataset(location.branch_uri(branch)).metadata == {"owner": "me"}
    assert (read_properties(location, branch), read_properties(location, other)) == ({"owner": "me"}, {})
    assert lance.dataset(location.branch_uri(branch)).count_rows() == 3


def test_what_changes_nothing_makes_no_version(location):
    alter_properties(location, None, {"owner": "ops"})
    version = lance.dataset(location.uri).version
    assert alter_properties(location, None, {"owner": "ops"}, ["nothing"]) == {"owner": "ops"}
    assert lance.dataset(location.uri).version == version


@pytest.mark.parametrize(
    ("put", "unset", "error"),
    [
        ({"lance.auto_cleanup.interval": "1"}, (), Refused),
        ({}, ("lance.auto_cleanup.interval",), Refused),
        ({"a": 1}, (), InvalidOption),
        ({"": "1"}, (), InvalidOption),
    ],
)
def test_what_is_refused(location, put, unset, error):
    with pytest.raises(error):
        alter_properties(location, None, put, unset)
    with pytest.raises(NotFound):
        alter_properties(location, "nothing", {"a": "1"})
