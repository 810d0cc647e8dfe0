"""A pull with a reset: the branch becomes what the remote's is, and no row of its own is lost."""

import lance
import pytest
from support.merge_datasets import add, assert_sound, head, rows, run, table
from support.remote_datasets import branch_off, made_clone, origin, pulled, pushed

from lance_spark import LanceTable
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, InvalidOption, Refused
from lance_spark.refs.refs import alter_branch
from lance_spark.remotes import reset as resetting
from lance_spark.remotes.reset import check_reset, reset
from lance_spark.storage.datasets import locate

half = pytest.mark.when(day=0.5)
"""By day with or without stable row ids."""


@pytest.fixture(params=[False, True], ids=["", "stable"])
def places(tmp_path, request):
    """A source with three rows, and a clone that cannot pull: both updated row 1. The clone has rows 100, 101 too."""
    source, local = (str(tmp_path / f"{name}.lance") for name in ("source", "local"))
    lance.write_dataset(table(0, 3), source, enable_stable_row_ids=request.param)
    made_clone(source, local)
    add(local, 100, 102)
    head(local).update({"v": "5"}, where="id = 1")
    head(local).delete("id = 101")
    head(source).update({"v": "6"}, where="id = 1")
    add(source, 110, 111)
    head(source).optimize.compact_files()
    return source, local


def run_reset(places, branch=None, into=None, **options):
    source, local = places
    return reset(locate(local), origin(source), branch, into, LocalRunner(), **options)


def pairs(uri, branch=None):
    return [(row["id"], row["v"]) for row in rows(head(uri, branch))]


THEIRS = [(0, 0), (1, 6), (2, 20), (110, 1100)]


@half
def test_the_hint_of_a_conflict_leads_out(places):
    source, local = places
    with pytest.raises(Conflict) as caught:
        pulled(local, source)
    assert "lance-git pull --reset origin main" in caught.value.told("shell")
    run_reset(places)
    assert pulled(local, source).merged.up_to_date
    assert pushed(local, source).version is None


@half
def test_the_branch_is_the_remotes_and_its_own_rows_are_on_another(places):
    source, local = places
    result = run_reset(places)
    assert pairs(local) == pairs(source) == THEIRS
    assert result.kept == "reset/main-4"
    assert pairs(local, result.kept) == sorted([*THEIRS, (1, 5), (100, 1000)])
    assert_sound(head(local))
    assert_sound(head(local, result.kept))


@half
def test_everything_goes_on_afterwards(places):
    source, local = places
    kept = run_reset(places).kept
    add(source, 120, 121)
    head(source).update({"v": "9"}, where="id = 2")
    add(local, 130, 131)
    head(local).update({"v": "8"}, where="id = 0")
    pulled(local, source)
    pushed(local, source)
    head(local, kept).delete("v = 6")
    run(local, kept)
    pushed(local, source)
    assert pairs(local) == pairs(source) == [(0, 8), (1, 5), (2, 9), (100, 1000), (110, 1100), (120, 1200), (130, 1300)]
    assert_sound(head(local))


@half
def test_once_more_there_is_nothing_to_do(places):
    run_reset(places)
    again = run_reset(places)
    assert again.merged.up_to_date
    assert again.kept is None


@half
def test_a_dry_run_changes_nothing(places):
    _, local = places
    before = pairs(local)
    result = run_reset(places, dry_run=True)
    assert (result.kept, result.merged.version) == (None, None)
    assert pairs(local) == before
    assert [name for name in lance.dataset(local).branches.list() if name.startswith("reset/")] == []


@half
def test_without_rows_of_ones_own_there_is_no_other_branch(places):
    source, local = places
    run_reset(places)
    head(source).delete("id = 2")
    assert run_reset(places).kept is None
    assert pairs(local) == pairs(source)


@half
def test_with_other_columns_the_other_branch_is_the_whole_one(places):
    source, local = places
    head(local).add_columns({"w": "id * 2"})
    before = rows(head(local))
    result = run_reset(places)
    assert pairs(local) == THEIRS
    assert head(local).schema.names == ["id", "v"]
    assert rows(head(local, result.kept)) == before
    assert pulled(local, source).merged.up_to_date


@half
def test_with_new_columns_at_the_remote(places):
    source, local = places
    head(source).add_columns({"w": "id * 2"})
    head(source).drop_columns(["v"])
    run_reset(places)
    assert rows(head(local)) == rows(head(source))
    add_rows = lance.dataset(source).to_table().slice(0, 0)
    assert add_rows.schema == head(local).schema


def test_rows_with_a_key_replace_those_of_the_remote_on_the_other_branch(tmp_path):
    import pyarrow as pa

    key = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    start = table(0, 3).cast(pa.schema([key, pa.field("v", pa.int64())]))
    source, local = str(tmp_path / "source.lance"), str(tmp_path / "local.lance")
    lance.write_dataset(start, source)
    made_clone(source, local)
    head(local).update({"v": "5"}, where="id = 1")
    head(source).update({"v": "6"}, where="id >= 1")
    kept = run_reset((source, local)).kept
    assert pairs(local) == [(0, 0), (1, 6), (2, 6)]
    assert pairs(local, kept) == [(0, 0), (1, 5), (2, 6)]


def test_on_a_branch(tmp_path):
    source, local = str(tmp_path / "source.lance"), str(tmp_path / "local.lance")
    lance.write_dataset(table(0, 3), source)
    branch_off(source, "exp")
    made_clone(source, local)
    branch_off(local, "exp", "origin/exp")
    add(local, 50, 51, "exp")
    head(local, "exp").update({"v": "1"}, where="id = 2")
    head(source, "exp").delete("id = 2")
    kept = run_reset((source, local), "exp", "exp").kept
    assert pairs(local, "exp") == [(0, 0), (1, 10)]
    assert pairs(local, kept) == [(0, 0), (1, 10), (2, 1), (50, 500)]
    assert pairs(local) == [(0, 0), (1, 10), (2, 20)]


@half
def test_what_another_process_commits_meanwhile_is_kept_too(places, monkeypatch):
    source, local = places
    real, calls = resetting._put_aside, []

    def overtaken(*given):
        name = real(*given)
        if not calls:
            add(local, 200, 201)
        calls.append(name)
        return name

    monkeypatch.setattr(resetting, "_put_aside", overtaken)
    kept = run_reset(places).kept
    assert pairs(local) == pairs(source)
    assert len(calls) == 2
    assert (200, 2000) in pairs(local, kept)
    assert calls[0] not in lance.dataset(local).branches.list()


@half
def test_a_protected_branch_is_not_reset(places):
    _, local = places
    branch_off(local, "kept")
    alter_branch(locate(local), "kept", {"protected": True})
    before = pairs(local, "kept")
    with pytest.raises(Refused, match="protected"):
        run_reset(places, None, "kept")
    assert pairs(local, "kept") == before


@pytest.mark.pure
@pytest.mark.parametrize(("ff_only", "message"), [(True, None), (False, "why")])
def test_a_reset_takes_no_options_of_a_merge(ff_only, message):
    with pytest.raises(InvalidOption, match="merges nothing"):
        check_reset(ff_only, message)


def test_settings_go_with_the_rows(places):
    source, local = places
    LanceTable.for_path(source).constraints.add("small", "v < 5000")
    add(source, 120, 121)
    LanceTable.for_path(local).constraints.add("own", "v < 9000")
    run_reset(places)
    assert LanceTable.for_path(local).constraints.list() == {"small": "v < 5000"}
    LanceTable.for_path(source).constraints.drop("small")
    assert pulled(local, source).merged.version is not None
    assert LanceTable.for_path(local).constraints.list() == {}
    LanceTable.for_path(local).constraints.add("more", "v < 7000")
    add(local, 130, 131)
    pushed(local, source)
    assert LanceTable.for_path(source).constraints.list() == {"more": "v < 7000"}
    assert pairs(local) == pairs(source)
    assert pulled(local, source).merged.up_to_date
