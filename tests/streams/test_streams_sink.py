"""A stream's batches into a branch, without Spark: exactly once, wherever it breaks, and whoever commits in between."""

import shutil
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import lance
import pyarrow as pa
import pytest
from support.cleanup_datasets import KEEPING, clean
from support.killed import Killed, kill
from support.local_datasets import contents, make_dataset, numbers
from support.meanwhile import meanwhile
from support.stream_queries import Query

from lance_spark import LanceCatalog
from lance_spark.errors import Conflict, InvalidOption, NotFound, Refused, StorageFailure
from lance_spark.optimize import automatic
from lance_spark.storage.datasets import locate
from lance_spark.storage.versions import version_paths
from lance_spark.streams import query_records, sink
from lance_spark.streams.sink import commit_stream, plan_stream, resume_stream
from lance_spark.write import data_files as write_commit


@pytest.fixture
def query(uri, tmp_path):
    return Query(uri, tmp_path / "c")


def ids(uri, branch=None):
    dataset = lance.dataset(uri)
    dataset = dataset.checkout_version((branch, None)) if branch else dataset
    return sorted(dataset.to_table().column("id").to_pylist())


def through(last):
    return list(range(10 * last + 10))


def test_batches_are_versions_that_say_whose_they_are_and_the_tag_is_at_the_last_one(query, uri):
    for number in range(3):
        query.batch(number)
    dataset = lance.dataset(uri)
    assert ids(uri) == through(2)
    assert dataset.tags.list()[query.tag]["version"] == dataset.version
    said = dataset.read_transaction(dataset.version).transaction_properties
    assert (said["lance_spark.stream.query"], said["lance_spark.stream.batch"]) == (query.id, "2")


def test_the_same_batch_again_is_skipped_whatever_its_rows_are(query, uri):
    for number in (0, 0, 1, 1, 1, 2, 2):
        query.batch(number)
    assert ids(uri) == through(2)


def test_a_checkpoint_made_anew_with_the_same_id_is_refused_and_not_skipped(uri, tmp_path):
    """Its first batches have other rows than those of the same number before: skipped, they would be missing."""
    query = Query(uri, tmp_path / "c", query_id="orders")
    for number in range(3):
        query.batch(number)
    shutil.rmtree(tmp_path / "c")
    anew = Query(uri, tmp_path / "c", query_id="orders")
    stream, fragments = anew.write(numbers(10, 500))
    with pytest.raises(Refused, match="the checkpoint is new") as refused:
        commit_stream(stream, fragments, 0)
    assert "new query_id" in refused.value.hint
    Query(uri, tmp_path / "c", query_id="orders-2").batch(0, numbers(10, 500))
    assert ids(uri) == [*through(2), *range(500, 510)]


STEPS = {
    "before the dataset": (write_commit, "commit", "before"),
    "after the dataset": (write_commit, "commit", "after"),
    "before the first tag, or its move": (query_records.refs, "create_tag", "before"),
    "after the first tag": (query_records.refs, "create_tag", "after"),
    "before the commit": (write_commit, "commit_checked", "before"),
    "after the commit": (write_commit, "commit_checked", "after"),
    "before the tag moves": (query_records.refs, "move_tag", "before"),
    "after the tag moved": (query_records.refs, "move_tag", "after"),
}


@pytest.mark.parametrize("failing", [Killed, StorageFailure], ids=["killed", "store fails"])
@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("step", STEPS)
def test_a_batch_that_broke_anywhere_is_in_once_after_the_next_try(step, batch, failing, query, uri, monkeypatch):
    if batch:
        query.batch(0)
    where, name, when = STEPS[step]
    real = getattr(where, name)

    def broken(*given, **named):
        if when == "after":
            real(*given, **named)
        raise failing("broken")

    with monkeypatch.context() as patch:
        patch.setattr(where, name, broken)
        happens = not (batch and ("dataset" in step or "first" in step))
        if happens:
            with pytest.raises(failing):
                query.batch(batch)
    query.batch(batch)
    query.batch(batch + 1)
    assert ids(uri) == through(batch + 1)
    dataset = lance.dataset(uri)
    assert dataset.tags.list()[query.tag]["version"] == dataset.version


def test_a_batch_that_others_overtake_reads_each_of_their_versions_once(query, uri, monkeypatch):
    """With a manifest of some megabytes and twenty commits a second, it would never be the first."""
    query.batch(0)
    for _ in range(5):
        lance.write_dataset(numbers(2, 100), uri, mode="append")
    commit, read = write_commit.commit_checked, query_records.read_transactions
    tries, seen = [], []

    def overtaken(*given):
        tries.append(1)
        if len(tries) < 4:
            lance.write_dataset(numbers(2, 100), uri, mode="append")
            raise Conflict("another process was first")
        return commit(*given)

    def reading(location, branch, versions):
        seen.extend(versions)
        return read(location, branch, versions)

    monkeypatch.setattr(write_commit, "commit_checked", overtaken)
    monkeypatch.setattr(query_records, "read_transactions", reading)
    query.batch(1)
    assert len(tries) == 4
    assert len(seen) == len({*seen}) == 8
    assert ids(uri) == sorted([*through(1), *[100, 101] * 8])


def test_the_first_batch_starts_where_other_writers_have_come_to(query, uri, monkeypatch):
    """From the version where it was planned, pylance read all later ones at each attempt: it was never the first."""
    make_dataset(uri)
    written = query.write(numbers(10))
    for start in range(100, 105):
        lance.write_dataset(numbers(1, start), uri, mode="append")
    commit, starts = write_commit.commit_checked, []

    def overtaken(job, fragments):
        starts.append(job.start.version)
        if len(starts) < 3:
            lance.write_dataset(numbers(1, 200 + len(starts)), uri, mode="append")
            raise Conflict("another process was first")
        return commit(job, fragments)

    monkeypatch.setattr(write_commit, "commit_checked", overtaken)
    commit_stream(*written, 0)
    assert starts == [6, 7, 8]
    assert sorted(ids(uri)) == sorted([0, 1, 2, *range(10), *range(100, 105), 201, 202])


def test_a_first_batch_stays_where_it_was_planned_if_a_column_changed(query, uri):
    make_dataset(uri)
    written = query.write(numbers(10))
    lance.dataset(uri).alter_columns({"path": "id", "name": "key"})
    with pytest.raises(Conflict, match=r"'id' .* was altered or dropped"):
        commit_stream(*written, 0)


def test_versions_of_others_between_commit_and_tag_do_not_hide_the_batch(query, uri, monkeypatch):
    query.batch(0)
    with monkeypatch.context() as patch:
        patch.setattr(query_records.refs, "move_tag", kill)
        with pytest.raises(Killed):
            query.batch(1)
    for number in range(5):
        lance.write_dataset(numbers(1, 1000 + number), uri, mode="append")
    query.batch(1)
    query.batch(2)
    assert ids(uri) == through(2) + list(range(1000, 1005))


def test_a_version_that_is_gone_is_refused_with_the_way_on(query, uri):
    query.batch(0)
    lance.write_dataset(numbers(1, 1000), uri, mode="append")
    lance.write_dataset(numbers(1, 1001), uri, mode="append")
    lose(uri, lance.dataset(uri).version - 1)
    before = contents(uri)
    stream, fragments = query.write(numbers(10, 10))
    with pytest.raises(Refused) as refused:
        commit_stream(stream, fragments, 1)
    assert f"streams.resume('{query.id}', last_batch=0)" in refused.value.hint
    assert before.items() <= contents(uri).items()
    resume_stream(locate(uri), None, query.id, last_batch=0)
    query.batch(1)
    query.batch(1)
    assert ids(uri) == [*through(1), 1000, 1001]


def test_a_version_that_is_gone_before_the_last_batch_does_not_matter(query, uri, monkeypatch):
    query.batch(0)
    lance.write_dataset(numbers(1, 1000), uri, mode="append")
    with monkeypatch.context() as patch:
        patch.setattr(query_records.refs, "move_tag", kill)
        with pytest.raises(Killed):
            query.batch(1)
    lose(uri, lance.dataset(uri).version - 1)
    query.batch(1)
    query.batch(2)
    assert ids(uri) == [*through(2), 1000]


def lose(uri, version):
    Path(uri, version_paths(locate(uri), None)[version]).unlink()


def test_a_first_batch_whose_beginning_was_cleaned_away_has_a_way_on_as_well(query, uri, monkeypatch):
    make_dataset(uri, numbers(1, 1000))
    with monkeypatch.context() as patch:
        patch.setattr(write_commit, "commit_checked", kill)
        with pytest.raises(Killed):
            query.batch(0)
    for number in (1001, 1002):
        lance.write_dataset(numbers(1, number), uri, mode="append")
    lose(uri, 2)
    with pytest.raises(Refused) as refused:
        query.batch(0)
    assert "last_batch=-1" in refused.value.hint
    resume_stream(locate(uri), None, query.id, last_batch=-1)
    query.batch(0)
    query.batch(0)
    assert ids(uri) == [*through(0), 1000, 1001, 1002]


def test_the_tag_keeps_the_last_batch_from_pylances_cleanup(query, uri):
    query.batch(0)
    for number in range(4):
        lance.write_dataset(numbers(1, 1000 + number), uri, mode="append")
    tagged = lance.dataset(uri).tags.list()[query.tag]["version"]
    lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0), error_if_tagged_old_versions=False)
    assert tagged in [version["version"] for version in lance.dataset(uri).versions()]


def test_a_batch_starts_where_others_have_come_to(query, uri):
    """From where it was planned, each attempt read all that others had committed since, and they were always faster."""
    query.batch(0)
    stream, fragments = query.write(numbers(1, 10))
    for number in range(3):
        lance.write_dataset(numbers(1, 500 + number), uri, mode="append")
    lance.dataset(uri).delete("id = 500")
    newest = lance.dataset(uri).version
    commit_stream(stream, fragments, 1)
    dataset = lance.dataset(uri)
    assert (dataset.version, dataset.read_transaction(dataset.version).read_version) == (newest + 1, newest)
    assert ids(uri) == [*through(0), 10, 501, 502]


@pytest.mark.parametrize("how", ["overwritten", "restored"])
def test_a_table_whose_rows_were_replaced_is_refused(how, query, uri):
    query.batch(0)
    query.batch(1)
    if how == "overwritten":
        lance.write_dataset(numbers(1), uri, mode="overwrite")
    else:
        lance.dataset(uri, version=2).restore()
    stream, fragments = query.write(numbers(10, 20))
    with pytest.raises(Refused, match="replaced all rows"):
        commit_stream(stream, fragments, 2)
    resume_stream(locate(uri), None, query.id, last_batch=1)
    query.batch(2)
    assert ids(uri)[-10:] == list(range(20, 30))


def test_a_table_that_was_deleted_is_not_made_anew(query, uri, tmp_path):
    query.batch(0)
    shutil.rmtree(uri)
    stream, fragments = query.write(numbers(10, 10))
    with pytest.raises(Refused, match=r"tag .* is missing"):
        commit_stream(stream, fragments, 1)
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(uri)
    make_dataset(uri)
    stream, fragments = query.write(numbers(10, 10))
    with pytest.raises(Refused, match=r"tag .* is missing"):
        commit_stream(stream, fragments, 1)
    assert ids(uri) == [0, 1, 2]


def test_a_branch_that_was_made_anew_is_refused(uri, tmp_path):
    make_dataset(uri, numbers(1, 500))
    query = Query(uri, tmp_path / "c", branch="ingest", create_branch="true")
    query.batch(0)
    query.batch(1)
    assert ids(uri) == [500]
    assert ids(uri, "ingest") == [*through(1), 500]
    dataset = lance.dataset(uri)
    shutil.rmtree(f"{uri}/tree/ingest")
    Path(uri, "_refs/branches/ingest.json").unlink()
    with pytest.raises(Refused, match="to which query"):
        query.plan()
    branch = dataset.create_branch("ingest")
    for number in range(4):
        lance.write_dataset(numbers(1, 600 + number), branch.uri, mode="append")
    stream, fragments = query.write(numbers(10, 20))
    with pytest.raises(Refused, match="no longer belongs to the query"):
        commit_stream(stream, fragments, 2)


def test_a_query_that_turns_to_another_branch_is_refused(uri, tmp_path, query):
    query.batch(0)
    lance.dataset(uri).create_branch("other")
    turned = Query(uri, tmp_path / "c", branch="other")
    stream, fragments = turned.write(numbers(10, 10))
    with pytest.raises(Refused, match="is on branch 'main'"):
        commit_stream(stream, fragments, 1)


def test_several_queries_write_into_one_branch(uri, tmp_path):
    first, second = (Query(uri, tmp_path / name, query_id=name) for name in "ab")
    for number in range(3):
        streams = [query.write(numbers(10, start + 10 * number)) for query, start in ((first, 0), (second, 1000))]
        for stream, fragments in reversed(streams) if number else streams:
            try:
                commit_stream(stream, fragments, number)
            except Conflict:  # both made the dataset; Spark restarts the query
                second.batch(number, numbers(10, 1000 + 10 * number))
    assert ids(uri) == through(2) + list(range(1000, 1030))
    assert sorted(lance.dataset(uri).tags.list()) == ["stream-a", "stream-b"]


def test_two_drivers_of_one_query_leave_each_batch_once(query, uri, monkeypatch):
    """A paused driver has looked, and goes on after another one has committed the batch."""
    query.batch(0)
    mine, other = query.write(numbers(10, 10)), query.write(numbers(10, 10))

    def go_ahead():
        commit_stream(*other, 1)
        query.batch(2)

    meanwhile(monkeypatch, write_commit, "commit_checked", go_ahead)
    commit_stream(*mine, 1)
    assert ids(uri) == through(2)
    query.batch(2)  # its driver was killed before it noted that it was done
    assert ids(uri) == through(2)
    query.batch(3)
    assert ids(uri) == through(3)


def test_of_two_drivers_in_complete_mode_the_paused_one_does_not_bring_an_older_result_back(query, uri, monkeypatch):
    first, second, third = (numbers(5 + number, 100 * number) for number in range(3))
    query.batch(0, first, overwrite=True)
    mine, other = (query.write(second, overwrite=True) for _ in range(2))

    def go_ahead():
        commit_stream(*other, 1)
        query.batch(2, third, overwrite=True)

    meanwhile(monkeypatch, write_commit, "commit_checked", go_ahead)
    with pytest.raises(Refused, match="another driver is ahead"):
        commit_stream(*mine, 1)
    assert ids(uri) == third["id"].to_pylist()
    query.batch(2, third, overwrite=True)
    assert ids(uri) == third["id"].to_pylist()
    query.batch(3, first, overwrite=True)
    assert ids(uri) == first["id"].to_pylist()


def test_the_tag_does_not_go_back_to_what_a_paused_driver_committed(query, uri, monkeypatch):
    query.batch(0)
    mine = query.write(numbers(10, 10))
    meanwhile(monkeypatch, sink, "settle", lambda: query.batch(2))
    commit_stream(*mine, 1)
    dataset = lance.dataset(uri)
    assert dataset.tags.list()[query.tag]["version"] == dataset.version
    assert ids(uri) == through(2)


def test_of_two_drivers_the_paused_one_may_be_killed_after_its_commit(query, uri, monkeypatch):
    query.batch(0)
    mine, other = query.write(numbers(10, 10)), query.write(numbers(10, 10))
    real = write_commit.commit_checked

    def slow(job, fragments):
        monkeypatch.setattr(write_commit, "commit_checked", real)
        commit_stream(*other, 1)
        real(job, fragments)
        raise Killed

    monkeypatch.setattr(write_commit, "commit_checked", slow)
    with pytest.raises(Killed):
        commit_stream(*mine, 1)
    assert len(ids(uri)) == 30
    query.batch(2)
    assert ids(uri) == through(2)


def test_of_two_drivers_each_with_an_empty_first_batch_nobody_is_refused(query, uri, monkeypatch):
    make_dataset(uri, numbers(1, 500))
    mine = query.write(numbers(0))
    meanwhile(monkeypatch, write_commit, "commit_checked", lambda: query.batch(0, numbers(0)))
    commit_stream(*mine, 0)
    query.batch(1)
    assert ids(uri) == [*range(10, 20), 500]


def test_an_empty_batch_makes_no_version_except_for_the_first(query, uri):
    for number in range(3):
        stream, _ = query.write(numbers(0))
        commit_stream(stream, [], number)
    assert lance.dataset(uri).version == 2
    query.batch(3)
    assert ids(uri) == list(range(30, 40))


def test_complete_mode_replaces_all_rows_also_those_that_came_since(query, uri):
    for number in range(3):
        stream, fragments = query.write(numbers(5, 100 * number), overwrite=True)
        if number:
            lance.dataset(uri).create_scalar_index("id", "BTREE")
        commit_stream(stream, fragments, number)
        query.batch(number, numbers(5, 100 * number), overwrite=True)
        assert ids(uri) == list(range(100 * number, 100 * number + 5))


@pytest.mark.parametrize("moment", ["between two batches", "during a batch"])
def test_complete_mode_takes_back_no_change_of_columns(query, uri, tmp_path, moment):
    query.batch(0, numbers(3), overwrite=True)
    query.batch(1, numbers(4), overwrite=True)
    if moment == "between two batches":
        lance.dataset(uri).add_columns({"z": "id"})
    stream, fragments = query.write(numbers(5), overwrite=True)
    if moment == "during a batch":
        lance.dataset(uri).add_columns({"z": "id"})
    with pytest.raises(Conflict, match="column 'z' was added") as caught:
        commit_stream(stream, fragments, 2)
    assert "empty checkpoint" in caught.value.hint
    assert lance.dataset(uri).schema.names == ["id", "z"]
    both = numbers(2).append_column("z", pa.array([7, 8], pa.int64()))
    query.batch(2, both, overwrite=True)
    assert lance.dataset(uri).to_table().to_pylist() == both.to_pylist()
    Query(uri, tmp_path / "other").batch(0, numbers(6), overwrite=True)
    assert lance.dataset(uri).schema.names == ["id"]


def test_an_append_that_brings_a_column_is_exactly_once_as_well(uri, tmp_path):
    query = Query(uri, tmp_path / "c", merge_schema="true")
    query.batch(0)
    more = numbers(10, 10).append_column("name", pa.array(["x"] * 10))
    query.batch(1, more)
    query.batch(1, more)
    query.batch(2, more)
    assert len(ids(uri)) == 30
    assert lance.dataset(uri).schema.names == ["id", "name"]


def test_small_fragments_are_compacted_and_every_batch_stays_in_once(uri, tmp_path):
    query = Query(uri, tmp_path / "c", optimize_every="3")
    counts = []
    for number in range(7):
        query.batch(number)
        query.batch(number)
        counts.append(len(lance.dataset(uri).get_fragments()))
    assert ids(uri) == through(6)
    assert counts == [1, 2, 3, 2, 3, 4, 2]  # before a batch, those of the batches before it


@pytest.mark.parametrize(("every", "fragments"), [("1", 2), ("2", 3)])
def test_a_query_that_compacts_leaves_nothing_after_its_tag_that_a_cleanup_may_take(every, fragments, uri, tmp_path):
    query = Query(uri, tmp_path / "c", optimize_every=every)
    for number in range(4):
        query.batch(number)
        assert lance.dataset(uri).tags.list()[query.tag]["version"] == lance.dataset(uri).version
        clean(uri, **KEEPING)
    assert ids(uri) == through(3)
    assert len(lance.dataset(uri).get_fragments()) == fragments


def test_a_compaction_that_fails_does_not_fail_the_batch(uri, tmp_path, monkeypatch):
    query = Query(uri, tmp_path / "c", optimize_every="1")
    monkeypatch.setattr(automatic, "optimize", Mock(side_effect=StorageFailure("no")))
    query.batch(0)
    query.batch(1)
    assert ids(uri) == through(1)


def test_a_column_altered_under_a_batch_is_a_conflict_and_no_file_is_deleted(query, uri):
    query.batch(0)
    stream, fragments = query.write(numbers(10, 10))
    lance.dataset(uri).alter_columns({"path": "id", "data_type": pa.int32()})
    before = contents(uri)
    with pytest.raises(Conflict, match="altered"):
        commit_stream(stream, fragments, 1)
    assert contents(uri) == before


def test_what_cannot_be_said_of_a_stream_is_refused(uri, tmp_path):
    with pytest.raises(InvalidOption, match="checkpoint or query_id is required"):
        plan_stream({"path": uri}, numbers(1).schema, False)
    with pytest.raises(NotFound, match="query id") as missing:
        plan_stream({"path": uri, "checkpointLocation": str(tmp_path)}, numbers(1).schema, False)
    assert "query_id" in missing.value.hint
    with pytest.raises(InvalidOption, match="cannot be the id"):
        plan_stream({"path": uri, "query_id": "a/b"}, numbers(1).schema, False)
    with pytest.raises(InvalidOption, match="create_table"):
        plan_stream({"path": uri, "query_id": "a", "create_table": "true"}, numbers(1).schema, False)
    with pytest.raises(Refused, match="needs a Spark session") as upsert:
        plan_stream({"path": uri, "query_id": "a", "mode": "upsert", "key": "k"}, numbers(1).schema, False)
    assert "streams.upsert" in upsert.value.hint
    assert "key='k'" in upsert.value.hint


def test_a_table_of_a_catalog_is_made_by_the_first_batch(tmp_path):
    lake = tmp_path / "lake"
    lake.mkdir()
    query = Query("orders", tmp_path / "c", catalog=str(lake))
    for number in (0, 0, 1):
        query.batch(number)
    assert ids(str(lake / "orders.lance")) == through(1)


def test_a_table_that_was_dropped_from_its_catalog_is_not_made_anew(tmp_path):
    lake = tmp_path / "lake"
    lake.mkdir()
    query = Query("orders", tmp_path / "c", catalog=str(lake))
    query.batch(0)
    LanceCatalog(str(lake)).drop_table("orders")
    with pytest.raises(Refused, match=r"tag .* is missing"):
        query.batch(1)
    assert not (lake / "orders.lance").exists() or not contents(lake / "orders.lance")
