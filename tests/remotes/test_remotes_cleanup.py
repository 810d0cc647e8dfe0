"""Cleanups at either end: a clone reads everything it has, and goes on, whatever is deleted at its remote."""

import os
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import lance
import pytest
from support.branched_lakes import Mortal
from support.cleanup_datasets import age_all
from support.killed import Killed
from support.local_datasets import contents
from support.merge_datasets import add, clean_all, head
from support.remote_datasets import (
    assert_all_sound,
    assert_follows,
    assert_same,
    begun,
    fetched,
    ids_of,
    made_clone,
    merged,
    pulled,
    pushed,
    read,
    refused,
)
from test_remotes_fetching import appended, compacted, deleted, overwritten, updated

from lance_spark.errors import PermissionDenied, Refused
from lance_spark.storage import refs
from lance_spark.survey import clone_records


def ours(uri):
    age_all(uri, 30)
    clean_all(uri)


def pylances(uri):
    age_all(uri, 30)
    for branch in (None, *lance.dataset(uri).branches.list()):
        head(uri, branch).cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)


CLEANUPS = pytest.mark.parametrize("clean", [ours, pylances], ids=["ours", "pylance"])


def every_branch(uri):
    return {branch: read(uri, branch) for branch in (None, *lance.dataset(uri).branches.list())}


@pytest.mark.when(day=0.3)
@CLEANUPS
@pytest.mark.parametrize("change", [compacted, overwritten, updated], ids=lambda change: change.__name__)
def test_what_a_clone_reads_outlives_a_cleanup_at_the_remote(source, local, clean, change):
    before = every_branch(local)
    for branch in (None, "exp", "exp/deep"):
        change(head(source, branch))
    clean(source)
    assert every_branch(local) == before
    assert_all_sound(local)
    fetched(local, source)
    clean(source)
    assert_follows(local, source)
    assert read(local) == before[None]
    pulled(local, source)
    assert_same(local, None, source, None)


@CLEANUPS
def test_every_fetched_version_outlives_it(source, local, clean):
    """Also those between, at which a fetch had to stop: of them later merges are counted."""
    versions = {}
    for number in range(3):
        head(source).add_columns({f"w{number}": "id"})
        updated(head(source))
        fetched(local, source)
        versions |= every_version(local, "origin/main")
        compacted(head(source))
        clean(source)
    assert every_version(local, "origin/main") == versions
    assert len(versions) >= 6


def every_version(uri, branch):
    found = (entry["version"] for entry in head(uri, branch).versions())
    return {version: read(uri, branch, version) for version in found}


def test_a_clone_that_is_cleaned_up_goes_on(source, local):
    add(local, 300, 303)
    updated(head(local))
    for branch in (None, "exp"):
        appended(head(source, branch))
    fetched(local, source)
    ours(local)
    merged(local, "origin/main")
    merged(local, "origin/exp")
    ours(local)
    pushed(local, source)
    ours(local)
    assert_same(local, None, source, None)
    deleted(head(source))
    add(source, 800, 801, "exp")
    fetched(local, source)
    ours(local)
    assert_follows(local, source)
    pulled(local, source)
    merged(local, "origin/exp")
    assert ids_of(local) == sorted([*ids_of(source), 800])
    assert_all_sound(local, source)


def test_after_pylances_cleanup_of_a_clone_everything_is_there_or_it_says_what_is_missing(source, local):
    """It does not know which versions the next merge is counted from."""
    add(local, 300, 303)
    appended(head(source))
    fetched(local, source)
    before = every_branch(local)
    pylances(local)
    assert every_branch(local) == before
    assert "no longer exists" in refused(Refused, lambda: pulled(local, source), source, local)
    appended(head(source))
    fetched(local, source)
    assert_follows(local, source)


def test_tags_that_protect_nothing_any_more_are_taken_away(source, local):
    """Else no cleanup at the remote would ever free anything."""
    for _ in range(15):
        overwritten(head(source))
        pulled(local, source)
        ours(local)
    tags = [name for name in lance.dataset(source).tags.list() if name.startswith("clone-")]
    assert len(tags) < 15
    assert_follows(local, source)
    ours(source)
    assert_follows(local, source)
    assert_same(local, None, source, None)


@pytest.mark.when(day={"at": [2]})
@pytest.mark.parametrize("at", [1, 2, 3])
def test_what_a_killed_fetch_brought_outlives_pylances_cleanup(tmp_path, at):
    """The next fetch finds everything there, and would not know that a tag is missing."""
    source, local = f"{tmp_path}/source.lance", f"{tmp_path}/local.lance"
    begun(source, True)
    made_clone(source, local, "planted")
    appended(head(source))
    with suppress(Killed), Mortal(str(tmp_path), at).living():
        fetched(local, source)
    before = read(local, "origin/main")
    overwritten(head(source))
    pylances(source)
    assert read(local, "origin/main") == before


def test_the_next_fetch_protects_what_could_not_be_protected(tmp_path):
    source, local = f"{tmp_path}/source.lance", f"{tmp_path}/local.lance"
    begun(source, True)
    made_clone(source, local, "planted")
    appended(head(source))

    with patch.object(refs.TagWriter, "create", side_effect=PermissionDenied("no")):
        assert "could not record" in fetched(local, source).notes[0]
    assert not fetched(local, source).notes
    before = read(local, "origin/main")
    overwritten(head(source))
    pylances(source)
    assert read(local, "origin/main") == before


def test_a_remote_where_nothing_may_be_written(tmp_path, made, monkeypatch):
    """It can be cloned and fetched from; that nothing protects what is read there is told."""
    source, local = begun(str(tmp_path / "source.lance"), made[1]), str(tmp_path / "local.lance")

    def denied(where, *_):
        if getattr(where, "location", where).uri == source:
            raise PermissionDenied("no")

    before = contents(source)
    for module, name in ((refs.TagWriter, "create"), (refs.TagWriter, "move"), (clone_records, "write_record")):
        monkeypatch.setattr(module, name, denied)
    result = made_clone(source, local, made[0])
    assert "could not record" in result.notes[0]
    assert_follows(local, source)
    assert_same(local, None, source, None)
    assert contents(source) == before
    appended(head(source))
    assert "could not record" in fetched(local, source).notes[0]
    assert_follows(local, source)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_only_be_read(tmp_path, made):
    source, local = begun(str(tmp_path / "source.lance"), made[1]), str(tmp_path / "local.lance")
    directories = [path for path in (Path(source), *Path(source).rglob("*")) if path.is_dir()]
    for path in directories:
        path.chmod(0o555)
    try:
        result = made_clone(source, local, made[0])
        assert "could not record" in result.notes[0]
        assert_follows(local, source)
    finally:
        for path in directories:
            path.chmod(0o755)
