"""A query that was down while others committed and a cleanup took what they committed: it goes on, each batch once."""

import json
import random
import shutil
from datetime import timedelta
from pathlib import Path

import lance
import pytest
from support.cleanup_datasets import KEEPING, NOW, age_all, clean, files, plan, versions
from support.command_line import call
from support.killed import Killed
from support.local_datasets import make_dataset, numbers
from support.stream_queries import KILLED, Query, die, on, others

from lance_spark.cleanup import cleanup
from lance_spark.cleanup.auto import enable_auto_cleanup
from lance_spark.cleanup.cleanup import Recheck
from lance_spark.errors import Refused, StorageFailure
from lance_spark.storage import files as stored
from lance_spark.storage import refs, small_files
from lance_spark.storage.datasets import locate
from lance_spark.streams import query_records
from lance_spark.streams.sink import commit_stream
from lance_spark.survey import noted_versions
from lance_spark.write import data_files as write_commit

pytestmark = pytest.mark.filterwarnings("error")
TO_TWO = {**KEEPING, "retain_versions": 2}


def ids(uri, branch=None):
    return sorted(on(uri, branch).to_table().column("id").to_pylist())


def through(last):
    return list(range(10 * last + 10))


def notes(uri, branch=None):
    root = Path(uri, "tree", branch) if branch else Path(uri)
    return sorted(root.joinpath("_streams").glob("*"))


@pytest.fixture(params=[None, "ingest"], ids=["main", "branch"])
def branch(request):
    return request.param


@pytest.fixture
def query(uri, tmp_path, branch):
    make_dataset(uri, numbers(1, 500))
    if branch is not None:
        lance.dataset(uri).create_branch(branch)
    return Query(uri, tmp_path / "c", **({"branch": branch} if branch else {}))


@pytest.mark.when(day=0.25)
@pytest.mark.parametrize("cleanups", [1, 3])
@pytest.mark.parametrize("moment", KILLED)
def test_a_query_goes_on_after_130_commits_of_others_and_a_cleanup_down_to_two_versions(
    moment, cleanups, query, uri, branch
):
    number = 0 if moment == "at the first tag" else 1
    if number:
        query.batch(0)
    die(query, number, moment)
    rows = []
    for turn in range(cleanups):
        rows += others(uri, 130 // cleanups, branch, 1000 * (turn + 1))
        clean(uri, **TO_TWO)
    assert len(versions(uri, branch)) <= 4  # the two newest ones, that with the tag, and what the branch was made from
    for again in (number, number, number + 1, number + 2):
        query.batch(again)
    assert ids(uri, branch) == sorted([*through(number + 2), 500, *rows])
    tag, newest = lance.dataset(uri).tags.list()[query.tag], versions(uri, branch)[-1]
    assert (tag["branch"], tag["version"]) == (branch, newest)


@pytest.mark.when(day=0.25)
@pytest.mark.parametrize("moment", KILLED)
def test_the_batch_is_found_whatever_is_cleaned_up_in_which_order(moment, query, uri, branch):
    chance = random.Random(moment)
    number = 0 if moment == "at the first tag" else 1
    if number:
        query.batch(0)
    die(query, number, moment)
    rows = others(uri, 12, branch)
    while True:
        (tag,) = lance.dataset(uri).tags.list().values()
        left = [version for version in versions(uri, branch)[:-1] if version > tag["version"]]
        if not left:
            break
        chosen = chance.sample(left, min(3, len(left)))
        policy = {"versions": frozenset(chosen)} if branch is None else {"older_than": NOW}
        clean(uri, error_if_tagged_old_versions=False, **policy)
    assert len(notes(uri, branch)) == 1
    query.batch(number)
    query.batch(number + 1)
    assert ids(uri, branch) == sorted([*through(number + 1), 500, *rows])


def test_what_somebody_elses_cleanup_took_is_refused_as_before(query, uri, branch):
    query.batch(0)
    die(query, 1, "between commit and tag")
    others(uri, 5, branch)
    clean(uri, **TO_TWO)
    others(uri, 5, branch, 2000)
    before = ids(uri, branch)
    on(uri, branch).cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    query.batch(1)  # it is in a version that our cleanup noted
    with pytest.raises(Refused, match="without the note"):
        query.batch(2)
    assert ids(uri, branch) == before


def test_a_note_is_gone_when_the_stream_is_ahead_of_it(query, uri, branch):
    query.batch(0)
    others(uri, 5, branch)
    clean(uri, **TO_TWO)
    age_all(uri, 30)
    clean(uri, **TO_TWO, delete_unverified=True)  # as long as it is needed it stays, whatever its age is
    assert len(notes(uri, branch)) == 1
    query.batch(1)
    age_all(uri, 30)
    clean(uri, **TO_TWO)
    assert notes(uri, branch) == []


def test_a_note_is_gone_when_the_tag_is_deleted_and_when_the_branch_is(query, uri, branch):
    query.batch(0)
    others(uri, 5, branch)
    clean(uri, **TO_TWO)
    (note,) = notes(uri, branch)
    lance.dataset(uri).tags.delete(query.tag)
    if branch is not None:
        lance.dataset(uri).branches.delete(branch)
        assert not note.exists()
        return
    age_all(uri, 30)
    clean(uri, **TO_TWO)
    assert not note.exists()


def test_nothing_is_written_and_nothing_is_asked_where_no_stream_is_behind(uri, tmp_path, monkeypatch):
    make_dataset(uri)
    asked = []
    monkeypatch.setattr(noted_versions, "read_transactions", lambda *given: asked.append(given) or {})
    monkeypatch.setattr(noted_versions, "_read", lambda *given: asked.append(given))
    others(uri, 5)
    clean(uri, **TO_TWO)
    query = Query(uri, tmp_path / "c")
    with pytest.raises(Refused):
        query.batch(1)
    for number in range(5):
        query.batch(number)
        others(uri, 1, first=2000 + number)
    clean(uri, older_than=NOW, error_if_tagged_old_versions=False)
    query.batch(5)
    assert asked == []
    assert notes(uri) == []


def test_a_note_of_an_earlier_branch_of_the_same_name_says_nothing(uri, tmp_path):
    make_dataset(uri, numbers(1, 500))
    lance.dataset(uri).create_branch("ingest")
    query = Query(uri, tmp_path / "c", branch="ingest")
    query.batch(0)
    others(uri, 8, "ingest")
    clean(uri, **TO_TWO)
    (note,) = notes(uri, "ingest")
    content = note.read_bytes()
    dataset = lance.dataset(uri)
    dataset.tags.delete(query.tag)
    dataset.branches.delete("ingest")
    dataset.create_branch("ingest")
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_bytes(content)
    new = Query(uri, tmp_path / "new", branch="ingest")
    new.batch(0)
    new.batch(1)
    die(new, 2, "between commit and tag")
    others(uri, 4, "ingest")
    for path in sorted(Path(uri, "tree/ingest/_versions").glob("*.manifest"))[1:5]:
        path.unlink()  # the note of the other branch says that these versions hold no batch
    with pytest.raises(Refused, match="without the note"):
        new.batch(2)


def test_two_notes_that_contradict_each_other_prove_nothing(query, uri, branch):
    query.batch(0)
    others(uri, 5, branch)
    clean(uri, **TO_TWO)
    (note,) = notes(uri, branch)
    said = json.loads(note.read_bytes())
    said["versions"] = {"Overwrite": [said["versions"]["Append"][0]]}
    note.with_name(f"99-{'0' * 32}.json").write_text(json.dumps(said))
    with pytest.raises(Refused, match="without the note"):
        query.batch(1)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b'{"format": 2}', b'{"format": 1, "branch": "", "versions": 3}']
)
def test_a_note_that_cannot_be_understood_is_no_evidence(content, query, uri, branch):
    query.batch(0)
    others(uri, 5, branch)
    clean(uri, **TO_TWO)
    (note,) = notes(uri, branch)
    note.write_bytes(content)
    with pytest.raises(Refused, match="without the note"):
        query.batch(1)


def test_rows_that_were_replaced_are_refused_although_the_versions_are_gone(query, uri, branch):
    query.batch(0)
    lance.write_dataset(numbers(1, 700), on(uri, branch), mode="overwrite")
    others(uri, 5, branch)
    clean(uri, **TO_TWO)
    with pytest.raises(Refused, match="replaced all rows"):
        query.batch(1)


def test_a_batch_that_is_in_twice_is_taken_back_after_a_cleanup_as_well(query, uri, branch):
    """Two drivers of one query: both committed the batch, and both died before they looked again."""
    query.batch(0)
    mine, real = query.write(numbers(10, 10)), write_commit.commit_checked

    def slow(job, fragments):
        write_commit.commit_checked = real
        die(query, 1, "between commit and tag")
        real(job, fragments)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_commit, "commit_checked", slow)
        with pytest.raises(Killed):
            commit_stream(*mine, 1)
    assert len(ids(uri, branch)) == 31
    rows = others(uri, 4, branch)
    clean(uri, **TO_TWO)
    query.batch(2)
    query.batch(2)
    query.batch(3)
    assert ids(uri, branch) == sorted([*through(3), 500, *rows])


STEPS = {
    "before the note": (small_files, "write_file", "before", 1),
    "after the note": (small_files, "write_file", "after", 1),
    "before older notes go": (stored, "delete", "before", 1),
    "before a part of the record": (small_files, "write_file", "before", 2),
    "after the record": (small_files, "write_file", "after", 3),
}


@pytest.mark.when(day=0.25)
@pytest.mark.parametrize("fails", [Killed, StorageFailure], ids=["killed", "store fails"])
@pytest.mark.parametrize("step", STEPS)
def test_a_cleanup_that_ends_anywhere_leaves_enough(step, fails, query, uri, branch, monkeypatch):
    query.batch(0)
    die(query, 1, "between commit and tag")
    rows = others(uri, 5, branch)
    clean(uri, **TO_TWO)
    rows += others(uri, 5, branch, 2000)
    where, name, when, time = STEPS[step]
    real, calls = getattr(where, name), []

    def broken(*given, **named):
        calls.append(given)
        if len(calls) == time:
            if when == "after":
                real(*given, **named)
            raise fails("broken")
        return real(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(where, name, broken)
        with pytest.raises(fails):
            clean(uri, **TO_TWO)
    copied = f"{uri}-copy"
    shutil.copytree(uri, copied)
    for place, again in ((copied, False), (uri, True)):
        if again:
            clean(uri, **TO_TWO)
            assert len(notes(uri, branch)) == 1
        one = Query(place, Path(query.options["checkpointLocation"]), **({"branch": branch} if branch else {}))
        for number in (1, 2):
            one.batch(number)
        assert ids(place, branch) == sorted([*through(2), 500, *rows])


def test_two_cleanups_at_once_leave_enough(query, uri, branch, monkeypatch):
    query.batch(0)
    die(query, 1, "between commit and tag")
    rows = others(uri, 6, branch)
    clean(uri, **TO_TWO)
    rows += others(uri, 6, branch, 2000)
    real = small_files.write_file

    def second_one_meanwhile(*given):
        monkeypatch.setattr(small_files, "write_file", real)
        clean(uri, **TO_TWO)
        real(*given)

    monkeypatch.setattr(small_files, "write_file", second_one_meanwhile)
    clean(uri, **TO_TWO)
    for number in (1, 2):
        query.batch(number)
    assert ids(uri, branch) == sorted([*through(2), 500, *rows])


def test_a_batch_tried_again_between_two_cleanups_loses_no_note(query, uri, branch, monkeypatch):
    """The first one has looked at the tags and now deletes; the second one sees the tag wherever it is meanwhile."""
    query.batch(0)
    die(query, 1, "between commit and tag")
    rows = others(uri, 6, branch)
    delete, move, seen = cleanup.delete_batch, refs.move_tag, []

    def moved(*given):
        move(*given)
        monkeypatch.setattr(refs, "move_tag", move)
        both_cleanups()

    def both_cleanups():
        seen.append(delete(*seen.pop()))
        others(uri, 3, branch, 2000)
        clean(uri, **TO_TWO)

    def tried_again(*given):
        monkeypatch.setattr(cleanup, "delete_batch", delete)
        monkeypatch.setattr(refs, "move_tag", moved)
        seen.append(given)
        query.batch(1)
        monkeypatch.setattr(refs, "move_tag", move)
        if seen == [given]:
            both_cleanups()
        return seen[0]

    monkeypatch.setattr(cleanup, "delete_batch", tried_again)
    clean(uri, **TO_TWO)
    assert seen
    query.batch(2)
    assert ids(uri, branch) == sorted([*through(2), 500, *rows, 2000, 2001, 2002])


def test_notes_that_a_cleanup_combines_while_they_are_read_are_found(query, uri, branch, monkeypatch):
    """A listing of a directory that changes may miss the old file and the new one."""
    query.batch(0)
    rows = others(uri, 6, branch)
    clean(uri, **TO_TWO)
    real = stored.list_names

    def torn(location, directory):
        if not directory.endswith("_streams"):
            return real(location, directory)
        monkeypatch.setattr(stored, "list_names", real)
        return []

    monkeypatch.setattr(stored, "list_names", torn)
    query.batch(1)
    assert ids(uri, branch) == sorted([*through(1), 500, *rows])


def test_a_batch_that_is_committed_while_a_cleanup_is_under_way_is_in_once(query, uri, branch, monkeypatch):
    query.batch(0)
    die(query, 1, "between commit and tag")
    rows = others(uri, 6, branch)
    real = cleanup.CleanupPlan._delete

    def meanwhile(*given):
        for number in (1, 1, 2):
            query.batch(number)
        return real(*given)

    monkeypatch.setattr(cleanup.CleanupPlan, "_delete", meanwhile)
    clean(uri, **TO_TWO)
    query.batch(2)
    query.batch(3)
    assert ids(uri, branch) == sorted([*through(3), 500, *rows])


def test_the_tag_never_points_at_a_version_that_a_cleanup_takes_that_moment(query, uri, branch, monkeypatch):
    query.batch(0)
    die(query, 1, "between commit and tag")
    rows = others(uri, 6, branch)
    made, move = plan(uri, **TO_TWO), query_records.refs.move_tag
    delete = cleanup.CleanupPlan._delete

    def meanwhile(*given):
        """The cleanup has looked for tags the last time."""
        with monkeypatch.context() as patch:
            patch.setattr(query_records.refs, "move_tag", lambda *where: (move(*where), delete(*given)))
            patch.setattr(Recheck, "live_keys", lambda _: frozenset())
            query.batch(1)
        return delete(*given)

    monkeypatch.setattr(cleanup.CleanupPlan, "_delete", meanwhile)
    made.apply()
    tag = lance.dataset(uri).tags.list()[query.tag]
    assert tag["version"] in versions(uri, branch)
    query.batch(2)
    assert ids(uri, branch) == sorted([*through(2), 500, *rows])


def test_a_plan_of_yesterday_notes_what_is_needed_today(query, uri, branch):
    query.batch(0)
    rows = others(uri, 4, branch)
    made = plan(uri, **TO_TWO)
    query.batch(1)
    rows += others(uri, 4, branch, 2000)
    made.apply()
    assert notes(uri, branch) == []  # the query is ahead of all that went
    query.batch(2)
    assert ids(uri, branch) == sorted([*through(2), 500, *rows])


def test_pylance_and_the_report_pass_a_note_over(query, uri, branch):
    query.batch(0)
    rows = others(uri, 5, branch)
    clean(uri, **TO_TWO)
    (note,) = notes(uri, branch)
    assert str(note.relative_to(uri)) in files(uri)
    lance.dataset(uri).cleanup_old_versions(
        older_than=timedelta(days=1), delete_unverified=True, error_if_tagged_old_versions=False
    )
    assert note.exists()
    assert sorted(lance.dataset(uri).branches.list()) == ([branch] if branch else [])
    report = clean(uri, **TO_TWO)
    assert "unknown" not in str(report)
    query.batch(1)
    assert ids(uri, branch) == sorted([*through(1), 500, *rows])


def test_two_queries_of_one_branch_both_go_on(uri, tmp_path):
    make_dataset(uri, numbers(1, 500))
    first, second = (Query(uri, tmp_path / name, query_id=name) for name in "ab")
    first.batch(0)
    second.batch(0, numbers(10, 100))
    die(first, 1, "between commit and tag")
    rows = others(uri, 6)
    second.batch(1, numbers(10, 110))
    rows += others(uri, 6, first=2000)
    clean(uri, **TO_TWO)
    first.batch(1)
    second.batch(2, numbers(10, 120))
    first.batch(2)
    assert ids(uri) == sorted([*through(2), 500, *range(100, 130), *rows])


@pytest.mark.when(day=0.2)
@pytest.mark.parametrize("moment", KILLED)
@pytest.mark.parametrize("keeps", [{"older_than": NOW}, {"retain_versions": 1}], ids=["by age", "by number"])
def test_pylances_automatic_cleanup_takes_nothing_after_a_tag(keeps, moment, query, uri, branch):
    """It ends at a tag on an old version. What comes after the tag is not older."""
    policy = {"older_than": None, "retain_versions": None, **keeps}
    enable_auto_cleanup(locate(uri), branch, interval=1, commit_window=NOW, **policy)
    number = 0 if moment == "at the first tag" else 1
    if number:
        query.batch(0)
    die(query, number, moment)
    rows = others(uri, 10, branch)
    for again in (number, number, number + 1, number + 2):
        query.batch(again)
    assert ids(uri, branch) == sorted([*through(number + 2), 500, *rows])
    assert len(versions(uri, branch)) < 4  # it does clean up


def test_fsck_has_nothing_to_say_of_a_note(query, uri, branch):
    query.batch(0)
    others(uri, 5, branch)
    clean(uri, **TO_TWO)
    age_all(uri, 30)
    assert len(notes(uri, branch)) == 1
    assert call(uri, "fsck", "--json").json["findings"] == []


def test_a_branch_that_is_restored_with_the_tag_has_its_notes(uri, tmp_path):
    make_dataset(uri, numbers(1, 500))
    lance.dataset(uri).create_branch("ingest")
    query = Query(uri, tmp_path / "c", branch="ingest")
    query.batch(0)
    die(query, 1, "between commit and tag")
    rows = others(uri, 5, "ingest")
    clean(uri, **TO_TWO)
    for words in (("tag", "-d", query.tag, "-f", "--yes"), ("branch", "-d", "ingest", "--yes")):
        assert call(uri, *words).code == 0
    clean(uri, **TO_TWO)
    for words in (("branch", "--restore", "ingest"), ("tag", "--restore", query.tag)):
        assert call(uri, *words).code == 0
    query.batch(1)
    query.batch(2)
    assert ids(uri, "ingest") == sorted([*through(2), 500, *rows])
