"""Settings of a remote in its clones: each branch has those of the branch that it follows, until it has its own."""

import lance
import pyarrow as pa
import pytest
from support.command_line import call
from support.remote_datasets import WAYS, fetched, made_clone, pulled, pushed

from lance_spark import LanceTable

CONSTRAINT = "lance_spark.constraints.positive"


@pytest.fixture
def source(tmp_path):
    """A branch that was made before main had its settings, and has others."""
    uri = str(tmp_path / "source")
    lance.write_dataset(pa.table({"id": [1, 2], "x": [1, 2]}), uri)
    main = LanceTable.for_path(uri)
    main.branches.create("exp")
    main.branches.create("plain")
    exp = main.checkout(branch="exp")
    main.constraints.add("positive", "x > 0")
    main.layout.partition_by("id")
    lance.dataset(uri).update_metadata({"team": "ops"})
    exp.constraints.add("positive", "x >= 0")
    exp.write(pa.table({"id": [3], "x": [0]}), mode="append")
    return uri


def settings(uri, branch=None):
    found = lance.dataset(uri) if branch is None else lance.dataset(uri).checkout_version((branch, None))
    return found.config(), found.metadata


def assert_alike(local, source):
    for branch in (None, "exp", "plain"):
        assert settings(local, f"origin/{branch or 'main'}") == settings(source, branch), branch


@pytest.mark.parametrize("way", WAYS)
def test_a_clone_has_the_settings_of_each_branch(tmp_path, source, way):
    local = str(tmp_path / "local")
    made_clone(source, local, way)
    assert settings(local) == settings(source) != ({}, {})
    assert_alike(local, source)
    main = LanceTable.for_path(source)
    main.checkout(branch="exp").constraints.drop("positive")
    main.checkout(branch="plain").constraints.add("low", "x < 9")
    main.constraints.add("low", "x < 90")
    main.write(pa.table({"id": [4], "x": [4]}), mode="append")
    fetched(local, source)
    assert_alike(local, source)
    LanceTable.for_path(local).constraints.add("mine", "id > 0")
    pulled(local, source)
    assert settings(local)[0] == {**settings(source)[0], "lance_spark.constraints.mine": "id > 0"}
    pushed(local, source)
    assert settings(local) == settings(source)
    assert_alike(local, source)


@pytest.mark.parametrize("rows", [True, False])
def test_a_new_remote_gets_the_settings(tmp_path, source, rows):
    target = str(tmp_path / "new")
    if not rows:
        lance.dataset(source).delete("true")
    pushed(source, target)
    assert settings(target) == settings(source)
    assert lance.dataset(target).count_rows() == (2 if rows else 0)


TAKEN = {"--theirs": "x >= 0", "--ours": "x > 0"}


@pytest.fixture
def workspace(tmp_path):
    """Main and exp with other conditions of one constraint, and a clone with a third one."""
    (tmp_path / "columns.csv").write_text("x\n1\n")
    assert call(tmp_path, "init", "t.lance", "--from", "columns.csv").code == 0
    place = tmp_path / "t.lance"
    table = LanceTable.for_path(str(place))
    assert call(tmp_path, "clone", "t.lance", "copy.lance").code == 0
    table.branches.create("exp")
    table.checkout(branch="exp").constraints.add("positive", TAKEN["--theirs"])
    return place


@pytest.mark.parametrize("step", TAKEN)
@pytest.mark.parametrize("verb", ["merge", "cherry-pick", "revert", "pull"])
def test_a_conflict_of_settings_says_how_to_go_on(workspace, verb, step):
    place, table = workspace, LanceTable.for_path(str(workspace))
    if verb == "revert":
        table.constraints.add("positive", TAKEN["--theirs"])
        table.constraints.drop("positive")
    here = place.parent / "copy.lance" if verb == "pull" else place
    LanceTable.for_path(str(here)).constraints.add("positive", TAKEN["--ours"])
    if verb == "pull":
        table.constraints.add("positive", TAKEN["--theirs"])
    versions = lance.dataset(str(place)).checkout_version(("exp", None)).version
    typed = {
        "merge": ["merge", "exp"],
        "cherry-pick": ["cherry-pick", f"exp@{versions}"],
        "revert": ["revert", f"main@{lance.dataset(str(place)).version - 1}"],
        "pull": ["pull"],
    }[verb]
    before = settings(str(here))
    refused = call(here, *typed)
    assert refused.code == 12
    assert f"both sides changed setting '{CONSTRAINT}': 'x > 0' in ours, 'x >= 0' in theirs" in refused.err
    assert "say whose is taken: --theirs or --ours" in refused.err
    assert settings(str(here)) == before
    done = call(here, *typed, step)
    assert done.code == 0, done
    assert settings(str(here))[0] == {CONSTRAINT: TAKEN[step]}
    assert call(here, *typed, "-X", f"{CONSTRAINT}=theirs").code == 0
