"""Pushes: the remote gets what the local branch has, and never loses what somebody else gave it."""

import shutil
from contextlib import suppress
from pathlib import Path

import lance
import pytest
from support.local_datasets import contents
from support.meanwhile import meanwhile
from support.merge_datasets import add, assert_sound, clean_all, head, row_ids, table
from support.remote_datasets import (
    assert_all_sound,
    assert_follows,
    assert_same,
    begun,
    branch_off,
    fetched,
    ids_of,
    made_clone,
    merged,
    origin,
    pulled,
    pushed,
    read,
    refused,
)
from test_remotes_fetching import (
    CHANGES,
    appended,
    column_dropped,
    compacted,
    deleted,
    emptied,
    overwritten_otherwise,
    unprotected,
    updated,
)

from lance_spark import LanceTable
from lance_spark.errors import Conflict, NotFound, Refused
from lance_spark.log.log import log
from lance_spark.merge import replay_commits
from lance_spark.merge.ancestry import Graph
from lance_spark.refs.refs import alter_branch, remove_branch
from lance_spark.remotes import push as pushing
from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.when(day=0.5)

SHALLOW, PLANTED = pytest.param(("shallow", True), id="shallow-stable"), pytest.param(("planted", False), id="planted")
DEEP = pytest.param(("deep", False), id="deep")
ANY_WAY = pytest.mark.parametrize("made", [SHALLOW, PLANTED, DEEP], indirect=True)


@pytest.fixture(params=[SHALLOW, PLANTED])
def made(request):
    """How the clone is made, and whether rows have stable ids."""
    return request.param


@pytest.fixture
def other(root, source, made):
    """Somebody else's clone."""
    made_clone(source, str(root / "other.lance"), made[0])
    return str(root / "other.lance")


@pytest.mark.when(day=1)
def test_a_handle_pushes_a_tag(source, local):
    table = LanceTable.for_path(local)
    table.tags.create("v9")
    assert table.remotes.push_tag("v9", source, dry_run=True).created
    assert "v9" not in lance.dataset(source).tags.list()
    assert table.remotes.push_tag("v9", source).created
    assert lance.dataset(source, version="v9").to_table() == lance.dataset(local, version="v9").to_table()


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_push_brings_what_changed(source, local, change):
    change(head(local))
    before = head(source).version
    result = pushed(local, source)
    assert_same(local, None, source, None)
    assert_follows(local, source)
    assert result.created is False
    assert result.version is None or result.version > before
    again = contents(source)
    assert pushed(local, source).version is None
    assert contents(source) == again
    appended(head(local))
    pushed(local, source)
    assert_same(local, None, source, None)


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize(
    "several",
    [
        (updated, *CHANGES[6:8], appended, deleted),
        (CHANGES[10], updated, compacted, appended),
        (CHANGES[6], compacted, deleted, CHANGES[7]),
        (overwritten_otherwise, appended, deleted),
        (deleted, compacted, updated, appended),
    ],
    ids=lambda changes: "-".join(change.__name__ for change in changes),
)
def test_a_push_brings_several_changes(source, local, other, several):
    for change in several:
        change(head(local))
    pushed(local, source)
    assert_same(local, None, source, None)
    pulled(other, source)
    assert_same(other, None, source, None)


def test_nothing_to_push_changes_nothing(source, local):
    before = contents(source)
    result = pushed(local, source)
    assert (result.version, result.created, result.replayed.up_to_date) == (None, False, True)
    assert contents(source) == before


def test_the_message_of_a_push(source, local):
    add(local, 300, 301)
    pushed(local, source, message="Rows of today")
    add(local, 301, 302)
    pushed(local, source)
    assert [entry.message for entry in log(locate(source), None)][:2] == [
        f"Push main@{head(local).version}",
        "Rows of today",
    ]


def test_a_push_that_is_no_fast_forward_is_refused_until_it_is_pulled(source, local, other):
    add(other, 500, 502)
    pushed(other, source)
    add(local, 600, 601)
    told = refused(Refused, lambda: pushed(local, source), source, local)
    assert "fast-forward" in told
    pulled(local, source)
    assert ids_of(local) == sorted([*ids_of(source), 600])
    pushed(local, source)
    assert_same(local, None, source, None)
    pulled(other, source)
    assert_same(other, None, source, None)
    assert {500, 501, 600} < set(ids_of(other))


@ANY_WAY
def test_taking_turns(source, local, other):
    for number in range(4):
        for uri, start in ((local, 1000), (other, 2000)):
            pulled(uri, source)
            add(uri, start + 2 * number, start + 2 * number + 2)
            head(uri).update({"v": str(number)}, f"id = {start + 2 * number}")
            head(uri).delete(f"id = {10 + number + start // 200}")
            pushed(uri, source)
    pulled(local, source)
    for uri in (local, other):
        assert_same(uri, None, source, None)
    expected = {n for n in range(30) if n not in (4, 15)} - {*range(15, 19), *range(20, 24)}
    assert ids_of(source) == sorted(expected | set(range(1000, 1008)) | set(range(2000, 2008)))
    assert_all_sound(source, local, other)


def test_what_both_changed_is_settled_on_one_side(source, local, other):
    for uri, value in ((local, 1), (other, 2)):
        head(uri).update({"v": str(value)}, "id = 7")
    pushed(other, source)
    refused(Conflict, lambda: pulled(local, source), source, local)
    refused(Refused, lambda: pushed(local, source), source, local)
    lance.dataset(local, version=head(local).version - 1).restore()
    pulled(local, source)
    assert_same(local, None, source, None)
    pushed(local, source)
    assert_same(local, None, source, None)


def test_a_branch_that_was_made_here(source, local, other):
    branch_off(local, "mine")
    add(local, 700, 703, "mine")
    head(local, "mine").delete("id = 701")
    result = pushed(local, source, "mine")
    assert result.created
    assert_same(local, "mine", source, "mine")
    assert_follows(local, source)
    fetched(other, source)
    assert_follows(other, source)
    merged(other, "origin/mine")
    assert ids_of(other) == sorted([*ids_of(source), 700, 702])
    pushed(other, source)
    pulled(local, source)
    assert merged(local, "mine").up_to_date
    assert_same(local, None, source, None)


def test_a_branch_of_a_branch_that_was_not_pushed(source, local, other):
    add(local, 690, 691)
    branch_off(local, "first")
    add(local, 700, 702, "first")
    branch_off(local, "first/second", "first")
    add(local, 710, 712, "first/second")
    compacted(head(local, "first/second"))
    assert pushed(local, source, "first/second").created
    assert_same(local, "first/second", source, "first/second")
    assert pushed(local, source, "first").created
    assert_same(local, "first", source, "first")
    pushed(local, source)
    fetched(other, source)
    assert_follows(other, source)
    for branch in ("origin/first", "origin/main", "origin/first/second"):
        with suppress(Conflict):
            merged(other, branch)
    assert len(ids_of(other)) == len(set(ids_of(other)))
    for branch in ("first", "first/second"):
        merged(local, branch)
    assert ids_of(local) == sorted([*ids_of(source), 700, 701, 710, 711])


def test_a_branch_that_follows_another_ones_place(source, local):
    """A local branch made from a following one is pushed to the branch that it came from, or to a new one."""
    branch_off(local, "exp", "origin/exp")
    add(local, 700, 702, "exp")
    assert not pushed(local, source, "exp").created
    assert_same(local, "exp", source, "exp")
    branch_off(local, "fork", "origin/exp/deep")
    add(local, 800, 801, "fork")
    assert pushed(local, source, "fork").created
    assert_same(local, "fork", source, "fork")
    assert_follows(local, source)


def test_a_branch_of_the_same_name_that_shares_nothing_newer(source, local):
    branch_off(local, "exp")
    add(local, 700, 702, "exp")
    refused(Refused, lambda: pushed(local, source, "exp"), source, local)
    pulled(local, source, "exp", "exp")
    pushed(local, source, "exp")
    assert_same(local, "exp", source, "exp")
    assert {100, 102, 700} < set(ids_of(source, "exp"))


def test_merging_a_remotes_branch_and_pushing_back(source, local, other):
    merged(local, "origin/exp")
    pushed(local, source)
    assert_same(local, None, source, None)
    merged(local, "origin/exp/deep")
    pushed(local, source)
    assert ids_of(source) == sorted({*range(30), 100, 102} - {4, 15})
    pulled(other, source)
    assert merged(other, "origin/exp").up_to_date
    assert merged(other, "origin/exp/deep").up_to_date
    assert_same(other, None, source, None)
    assert_all_sound(source, local, other)


def test_a_merge_that_was_pushed_is_known_at_the_remote(source, local):
    """There the branch is merged again, or goes on and is."""
    merged(local, "origin/exp")
    pushed(local, source)
    before = ids_of(source)
    compacted(head(source))
    assert merged(source, "exp").up_to_date
    add(source, 110, 112, "exp")
    merged(source, "exp")
    assert ids_of(source) == sorted([*before, 110, 111])
    pulled(local, source)
    assert_same(local, None, source, None)


@ANY_WAY
def test_a_push_to_an_empty_place_creates_it(source, local, tmp_path):
    backup = str(tmp_path / "backup.lance")
    refused(NotFound, lambda: pushed(local, backup, "exp", "backup"), local, source, backup)
    merged(local, "origin/exp")
    first = pushed(local, backup, name="backup")
    assert (first.created, str(first).splitlines()[0]) == (True, f"The dataset was created at backup ({backup}).")
    assert not pushed(local, backup, name="backup").created
    assert_same(local, None, backup, None)
    for change in (updated, deleted, appended):
        change(head(local))
        pushed(local, backup, name="backup")
        assert_same(local, None, backup, None)
    branch_off(local, "mine")
    add(local, 900, 901, "mine")
    pushed(local, backup, "mine", "backup")
    assert_same(local, "mine", backup, "mine")
    assert_follows(local, backup, "backup")
    expected = read(backup)
    shutil.rmtree(source)
    shutil.rmtree(local)
    assert read(backup) == expected
    again = str(tmp_path / "again.lance")
    made_clone(backup, again)
    assert_same(again, None, backup, None)
    assert_same(again, "origin/mine", backup, "mine")


@pytest.mark.parametrize("version", ["2.0", "2.1", "legacy"])
def test_a_created_remote_has_the_format_and_columns_of_the_local_one(tmp_path, version):
    local, backup = str(tmp_path / "local.lance"), str(tmp_path / "backup.lance")
    begun(local, data_storage_version=version)
    head(local).add_columns({"a": "id", "b": "id"})
    head(local).drop_columns(["a"])
    pushed(local, backup)
    assert_same(local, None, backup, None)
    assert head(backup).data_storage_version == head(local).data_storage_version


def test_an_empty_table_is_pushed_to_an_empty_place(tmp_path):
    local, backup = str(tmp_path / "local.lance"), str(tmp_path / "backup.lance")
    lance.write_dataset(table(0, 0), local)
    pushed(local, backup)
    assert_same(local, None, backup, None)
    add(local, 0, 3)
    pushed(local, backup)
    assert_same(local, None, backup, None)


def test_an_index_goes_along_or_is_named(source, local):
    head(local).create_scalar_index("id", "BTREE")
    add(local, 300, 305)
    head(local).create_scalar_index("v", "BTREE")
    result = pushed(local, source)
    names = {index.name for index in head(source).describe_indices()}
    assert names | set(result.replayed.indexes_missing) == {"id_idx", "v_idx"}
    assert names == set(result.replayed.indexes_carried)
    assert_same(local, None, source, None)


def test_a_dry_run_changes_nothing_at_the_remote(source, local, tmp_path):
    add(local, 300, 301)
    branch_off(local, "mine")
    before = contents(source)
    result = pushed(local, source, dry_run=True)
    assert (result.version, result.created, result.replayed.summary.rows_added) == (None, False, 1)
    result = pushed(local, source, "mine", dry_run=True)
    assert (result.version, result.created) == (None, True)
    result = pushed(local, str(tmp_path / "empty.lance"), name="empty", dry_run=True)
    assert (result.version, result.created) == (None, True)
    assert contents(source) == before
    assert not Path(tmp_path / "empty.lance").exists()
    assert "empty/main" not in lance.dataset(local).branches.list()


def test_who_writes_between_the_fetch_and_the_push_wins(source, local, monkeypatch):
    """And nothing of it is lost."""
    meanwhile(monkeypatch, pushing, "replay", lambda: add(source, 5000, 5001))
    add(local, 300, 301)
    with pytest.raises(Refused):
        pushed(local, source)
    assert {5000} == set(ids_of(source)) - set(range(1000))
    monkeypatch.undo()
    pulled(local, source)
    pushed(local, source)
    assert {300, 5000} < set(ids_of(source))
    assert_same(local, None, source, None)


def test_who_writes_between_the_plan_and_the_commit_is_not_lost(source, local, monkeypatch):
    from lance_spark.merge import replay_commits

    real = replay_commits.commit

    def late(location, *given):
        if location.uri == source:
            monkeypatch.setattr(replay_commits, "commit", real)
            add(source, 5000, 5001)
        return real(location, *given)

    monkeypatch.setattr(replay_commits, "commit", late)
    add(local, 300, 301)
    head(local).delete("id = 1")
    before = set(ids_of(source))
    try:
        pushed(local, source)
    except Refused:
        assert set(ids_of(source)) == before | {5000}
        pulled(local, source)
        pushed(local, source)
    assert set(ids_of(source)) == (before | {300, 5000}) - {1}
    fetched(local, source)
    assert_follows(local, source)


@ANY_WAY
def test_after_a_cleanup_of_the_clone_merges_and_pushes_still_work(source, local):
    for number in range(3):
        add(local, 300 + number, 301 + number)
        pushed(local, source)
        updated(head(source))
        pulled(local, source)
    add(source, 103, 104, "exp")
    clean_all(local)
    fetched(local, source)
    merged(local, "origin/main")
    merged(local, "origin/exp")
    add(local, 400, 401)
    clean_all(local)
    clean_all(source)
    pushed(local, source)
    assert_same(local, None, source, None)
    assert {103, 300, 301, 302, 400} < set(ids_of(source))
    add(source, 104, 105, "exp")
    fetched(local, source)
    merged(local, "origin/exp")
    assert ids_of(local) == sorted([*ids_of(source), 104])


def test_stable_row_ids_stay(source, local, stable):
    """A row keeps its id at the remote, whoever updates another one, and no two rows ever have one."""
    before = row_ids(head(source))
    head(local).update({"v": "-5"}, "id in (1, 11)")
    add(local, 300, 302)
    compacted(head(local))
    pushed(local, source)
    updated(head(source))
    pulled(local, source)
    add(local, 302, 303)
    pushed(local, source)
    assert_all_sound(source, local)
    if stable:
        after = row_ids(head(source))
        assert {key: after[key] for key in before} == before


def test_a_remote_that_is_no_relative_is_refused(source, local, tmp_path, stable):
    stranger = begun(str(tmp_path / "stranger.lance"), stable)
    refused(Refused, lambda: pushed(local, stranger, name="stranger"), stranger, source)
    branch_off(local, "mine")
    refused(Refused, lambda: pushed(local, stranger, "mine", "stranger"), stranger)


def test_a_missing_branch_is_told(source, local):
    refused(NotFound, lambda: pushed(local, source, "missing"), source, local)
    assert origin(source).name == "origin"


def test_a_branch_from_before_the_first_push_can_be_pushed_as_well(source, local, tmp_path):
    backup = str(tmp_path / "backup.lance")
    branch_off(local, "older")
    add(local, 900, 901, "older")
    appended(head(local))
    pushed(local, backup, name="backup")
    pushed(local, backup, "older", "backup")
    assert_same(local, "older", backup, "older")
    assert_follows(local, backup, "backup")
    merged(backup, "older")
    assert len(ids_of(backup)) == len(set(ids_of(backup))) == len(ids_of(local)) + 1


def test_a_branch_that_cannot_be_followed_is_left_out(source, local):
    branch_off(source, "data")
    add(source, 900, 902)
    assert [found.branch for found in fetched(local, source).branches] == ["main", "exp", "exp/deep"]
    assert_same(local, "origin/main", source, None)


@pytest.mark.parametrize("made_again", [False, True], ids=["new", "made again"])
@pytest.mark.parametrize("call", ["fetch", "create_branch_at"])
def test_rows_that_another_push_brings_to_a_new_branch_meanwhile_stay(
    source, local, other, monkeypatch, call, made_again
):
    if made_again:
        branch_off(source, "mine")
        for each in (local, other):
            fetched(each, source)
        unprotected(source)
        remove_branch(locate(source), "mine", purge=True)
    for row, each in ((700, local), (800, other)):
        lance.dataset(each).create_branch("mine")
        add(each, row, row + 2, "mine")
    real = getattr(pushing, call)

    def late(*arguments, **options):
        monkeypatch.setattr(pushing, call, real)
        if call == "fetch":
            pushed(other, source, "mine")
            return real(*arguments, **options)
        made = real(*arguments, **options)
        if made_again:
            pulled(other, source, "mine", "mine")
        pushed(other, source, "mine")
        return made

    monkeypatch.setattr(pushing, call, late)
    with pytest.raises(Refused, match="fast-forward"):
        pushed(local, source, "mine")
    assert {800, 801} <= set(ids_of(source, "mine"))
    assert not {700, 701} & set(ids_of(source, "mine"))
    pulled(local, source, "mine", "mine")
    pushed(local, source, "mine")
    assert {700, 701, 800, 801} <= set(ids_of(source, "mine"))
    assert_same(local, "mine", source, "mine")


def test_a_branch_that_another_push_is_just_creating_is_a_conflict_and_not_missing(source, local):
    lance.dataset(local).create_branch("new")
    add(local, 200, 202, "new")
    lance.dataset(source).create_branch("new")
    ref = Path(source, "_refs", "branches", "new.json")
    written = ref.read_bytes()
    ref.unlink()  # the first manifest is there, and the ref file is not yet
    with pytest.raises(Conflict, match="Another process is creating branch 'new'"):
        pushed(local, source, "new")
    ref.write_bytes(written)
    pushed(local, source, "new")
    assert {200, 201} <= set(ids_of(source, "new"))


# --- A push to a branch that is where the last fetch left it reads nothing else; what changes meanwhile must be seen


def just_before_the_commit(monkeypatch, event):
    """The event happens after everything is planned and copied, before the last look at the remote."""
    meanwhile(monkeypatch, replay_commits, "open_newest", event)


def just_after_the_look(monkeypatch, event):
    """The event happens after the last look at the remote, before the commit."""
    real, left = replay_commits.open_newest, [event]

    def early(*given, **more):
        found = real(*given, **more)
        while left:
            left.pop()()
        return found

    monkeypatch.setattr(replay_commits, "open_newest", early)


def a_row_less(dataset):
    dataset.delete("id = 3")


def a_row_less_elsewhere(dataset):
    dataset.delete("id = 23")


def a_value_elsewhere(dataset):
    dataset.update({"v": "-1"}, "id = 12")


def a_fragment_less(dataset):
    dataset.delete("id >= 20")


def a_row_more(dataset):
    add(dataset.uri, 700, 701)


MEANWHILE = (a_row_less, a_row_less_elsewhere, a_value_elsewhere, a_fragment_less, a_row_more, column_dropped)


@pytest.mark.parametrize(
    ("mine", "meanwhile"),
    [
        pytest.param(
            mine,
            meanwhile,
            id=f"{mine.__name__}-{meanwhile.__name__}",
            marks=[] if (mine, meanwhile) == (a_row_less, a_value_elsewhere) else pytest.mark.when(day=0),
        )
        for mine in (*MEANWHILE, emptied)
        for meanwhile in MEANWHILE
    ],
)
def test_of_two_pushes_at_once_one_gets_through(source, local, other, monkeypatch, mine, meanwhile):
    """pylance combines changes of different fragments. An index is no change: it may come in between."""
    mine(head(local))
    meanwhile(head(other))
    through = []
    just_after_the_look(monkeypatch, lambda: through.append(pushed(other, source)))
    with pytest.raises((Refused, Conflict)):
        pushed(local, source)
    assert len(through) == 1
    assert_same(other, None, source, None)
    with suppress(Conflict):  # both changed one row or column
        pulled(local, source)
        pushed(local, source)
        assert_same(local, None, source, None)


def replaced(source):
    """The remote deleted, and another dataset with versions of the same numbers made there."""
    shutil.rmtree(source)
    begun(source)


def branch_replaced(source):
    unprotected(source)
    lance.dataset(source).branches.delete("exp/deep")
    lance.dataset(source).branches.delete("exp")
    branch_off(source, "exp")
    add(source, 700, 703, "exp")


@pytest.mark.parametrize("when", ["before", "just before the commit"])
@pytest.mark.parametrize(
    ("branch", "event"),
    [
        (None, lambda source: add(source, 5000, 5001)),
        ("exp", lambda source: add(source, 5000, 5001, "exp")),
        (None, lambda source: alter_branch(locate(source), None, {"protected": True})),
        ("exp", lambda source: alter_branch(locate(source), "exp", {"protected": True})),
        (None, replaced),
        ("exp", replaced),
        ("exp", branch_replaced),
    ],
    ids=[
        "commit",
        "commit to a branch",
        "protected",
        "branch protected",
        "replaced",
        "branch of it",
        "branch replaced",
    ],
)
def test_what_happened_since_the_last_fetch_is_seen(source, local, monkeypatch, branch, event, when):
    if branch is not None:
        branch_off(local, branch, f"origin/{branch}")
    add(local, 300, 301, branch)
    seen = []
    if when == "before":
        event(source)
        seen.append(ids_of(source, branch))
    else:
        just_before_the_commit(monkeypatch, lambda: (event(source), seen.append(ids_of(source, branch))))
    with pytest.raises((Refused, NotFound, Conflict)):
        pushed(local, source, branch)
    assert seen == [ids_of(source, branch)]
    assert 300 not in seen[0]
    assert_sound(head(source, branch))


def test_that_there_is_nothing_to_push_is_only_said_if_the_remote_has_nothing_else(source, local):
    assert pushed(local, source).version is None
    add(source, 5000, 5001)
    with pytest.raises(Refused, match="not a fast-forward"):
        pushed(local, source)


def test_one_push_after_the_other_knows_what_the_one_before_left(source, local):
    for number in range(300, 304):
        add(local, number, number + 1)
        assert pushed(local, source).version is not None
    assert {300, 301, 302, 303} < set(ids_of(source))
    assert_same(local, None, source, None)
    assert {found.state for found in fetched(local, source).branches} == {"up to date"}
    assert_follows(local, source)


def test_a_push_reads_each_followed_branch_once(root, monkeypatch):
    source, local = str(root / "many.lance"), str(root / "clone.lance")
    lance.write_dataset(table(0, 3), source)
    counts, merges_of = {}, Graph._merges_of
    for count in (4, 8):
        for number in range(count // 2, count):
            branch_off(source, f"team/{number}")
            add(source, 100 * number, 100 * number + 1, f"team/{number}")
            add(source, 1000 + number, 1001 + number)
        shutil.rmtree(local, ignore_errors=True)
        made_clone(source, local, "shallow")
        read = []
        with monkeypatch.context() as patch:
            patch.setattr(Graph, "_merges_of", lambda *given, read=read: read.append(given[1]) or merges_of(*given))
            pushing.tell(locate(local), origin(source), None)
        counts[count] = len(read)
    assert counts[8] <= 2 * counts[4] + 2


@pytest.mark.parametrize("merged_there", [False, True])
@pytest.mark.parametrize("more", [False, True])
def test_a_branch_that_the_remote_deleted_is_made_again(root, merged_there, more):
    source, local = str(root / "origin.lance"), str(root / "clone.lance")
    lance.write_dataset(table(0, 3), source)
    made_clone(source, local, "shallow")
    branch_off(local, "dev", "origin/main")
    add(local, 100, 102, "dev")
    pushed(local, source, "dev")
    if merged_there:
        merged(source, "dev")
    unprotected(source)
    remove_branch(locate(source), "dev", purge=True)
    if more:
        add(local, 200, 201, "dev")
    wanted = [0, 1, 2, 100, 101, *([200] if more else [])]
    assert pushed(local, source, "dev").created
    assert ids_of(source, "dev") == ids_of(local, "dev") == wanted
    pulled(local, source, "dev", "dev")
    assert ids_of(local, "dev") == wanted
    add(local, 300, 301, "dev")
    pushed(local, source, "dev")
    assert ids_of(source, "dev") == [*wanted, 300]
    with suppress(Conflict):  # its rows may be there from the first merge
        merged(source, "dev")
        assert ids_of(source) == [*wanted, 300]
    assert len(ids_of(source)) == len({*ids_of(source)})
