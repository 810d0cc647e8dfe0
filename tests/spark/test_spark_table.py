"""LanceTable as a handle: where it stands, what it reads, restoring and cloning."""

import pickle

import lance
import pyarrow as pa
import pytest
from support.frames import all_files, ids, numbers, save

from lance_spark import LanceTable
from lance_spark.errors import AlreadyExists, InvalidOption, NotFound, Refused

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("both_ways")]


@pytest.fixture
def table(spark, uri):
    """Version 1 has 0 to 4, version 2 has 0 to 9; tag ``one`` is at 1; branch ``exp`` is at 2."""
    lance.write_dataset(batch(0, 5), uri)
    dataset = lance.write_dataset(batch(5, 10), uri, mode="append")
    dataset.tags.create("one", 1)
    dataset.create_branch("exp", 2)
    return LanceTable.for_path(uri, spark=spark)


def batch(first, last):
    values = list(range(first, last))
    return pa.table({"id": pa.array(values, pa.int64()), "s": [{"a": v, "b": f"n{v}"} for v in values]})


def test_a_handle_at_a_branch_follows_it_and_one_at_a_version_stands_still(table, uri):
    exp = table.checkout(branch="exp")
    still = [table.checkout(tag="one"), table.checkout(version=1), table.checkout(as_of=moment(uri, 1))]
    assert [handle.count_rows() for handle in (table, exp, *still)] == [10, 10, 5, 5, 5]
    lance.write_dataset(batch(10, 12), uri, mode="append")
    lance.dataset(uri).tags.update("one", 3)
    lance.write_dataset(batch(20, 21), f"{uri}/tree/exp", mode="append")
    assert [handle.count_rows() for handle in (table, exp, *still)] == [12, 11, 5, 5, 5]
    assert [(handle.branch, handle.version) for handle in (table, exp, *still)] == [
        ("main", 3),
        ("exp", 3),
        ("main", 1),
        ("main", 1),
        ("main", 1),
    ]
    assert exp.checkout(branch="main").count_rows() == 12


def moment(uri, version):
    found = next(entry for entry in lance.dataset(uri).versions() if entry["version"] == version)
    return found["timestamp"].astimezone()


def test_to_df_is_pinned_and_takes_the_read_options(table, uri):
    frame = table.to_df()
    some = table.checkout(branch="exp").to_df(columns=["s.b", "id"], filter="id > 6", limit=2, with_row_id=True)
    lance.write_dataset(batch(10, 12), uri, mode="append")
    lance.dataset(uri).checkout_version(("exp", None)).delete("true")
    assert ids(frame.select("id")) == list(range(10))
    assert some.columns == ["s", "id", "_rowid"]
    assert [(row.s.b, row.id) for row in some.collect()] == [("n7", 7), ("n8", 8)]
    assert table.to_df().count() == 12


def test_count_rows_with_and_without_a_filter(table, uri):
    lance.dataset(uri).delete("id = 3")
    assert table.count_rows() == 9
    assert table.count_rows("id >= 8") == 2
    assert table.checkout(tag="one").count_rows("s.a >= 3") == 2
    assert table.count_rows("id > 100") == 0


def test_schema_is_that_of_the_data_frame(table):
    assert table.schema == table.to_df().schema
    assert table.schema.simpleString() == "struct<id:bigint,s:struct<a:bigint,b:string>>"


def test_versions_are_the_history_of_the_branch(spark, table, uri):
    save(numbers(spark, 50, 51), uri, branch="exp", commit_message="more")
    found = table.versions()
    assert found.schema.simpleString() == "struct<version:bigint,timestamp:timestamp,metadata:map<string,string>>"
    assert [row.version for row in found.orderBy("version").collect()] == [1, 2]
    expected = [entry["timestamp"].replace(tzinfo=None) for entry in lance.dataset(uri).versions()]
    assert [row.timestamp for row in found.orderBy("version").collect()] == expected
    assert table.checkout(branch="exp").versions().agg({"version": "max"}).collect() == [(3,)]
    assert found.where("version = 2").collect()[0].metadata["total_rows"] == "10"


@pytest.mark.when(spark="newest")
def test_restore_makes_an_older_version_the_newest(table, uri):
    restored = table.checkout(version=1).restore()
    assert (restored.version, restored.count_rows(), table.count_rows()) == (3, 5, 5)
    assert lance.dataset(uri, version=2).count_rows() == 10
    lance.write_dataset(batch(20, 21), f"{uri}/tree/exp", mode="append")
    assert table.checkout(branch="exp", version=2).restore().count_rows() == 10
    assert (lance.dataset(f"{uri}/tree/exp").version, lance.dataset(uri).version) == (4, 3)
    with pytest.raises(Refused, match="already the newest of branch 'main'"):
        restored.restore()


def test_a_tag_that_is_taken_for_a_branch_is_answered_and_the_other_way_round(table):
    with pytest.raises(NotFound, match=r"There is no branch 'one'\.\n  hint: It is a tag: tag='one', or option"):
        table.checkout("one")
    with pytest.raises(NotFound, match=r"There is no tag 'exp'\.\n  hint: It is a branch: branch='exp', or option"):
        table.checkout(tag="exp")
    with pytest.raises(NotFound, match=r"There is no tag 'main'\.\n  hint: It is a branch"):
        table.checkout(tag="main")


def test_restore_takes_a_version_of_the_handles_branch(table, uri):
    rows, newest = table.checkout(version=1).count_rows(), table.version
    restored = table.restore(version=1)
    assert (restored.branch, restored.version, restored.count_rows()) == ("main", newest + 1, rows)
    exp = table.checkout(branch="exp")
    at = exp.version
    exp.write(exp.to_df())
    assert exp.count_rows() != exp.restore(at).count_rows()
    assert exp.version == at + 2
    with pytest.raises(NotFound):
        table.restore(99)


@pytest.mark.when(spark="newest")
@pytest.mark.parametrize("kind", ["shallow", "deep"])
def test_a_clone_is_a_dataset_of_its_own(spark, table, uri, tmp_path, kind):
    before = all_files(uri)
    target = str(tmp_path / "copies" / "clone.lance")
    copy = table.checkout(tag="one").clone(target, kind, follow=False)
    assert copy.location.uri == target
    assert ids(copy.to_df(columns=["id"])) == list(range(5))
    save(copy.to_df(filter="id = 4"), target)
    assert (copy.count_rows(), table.count_rows()) == (6, 10)
    after = all_files(uri)
    noted = {path for path in after if "clone-" in path}
    assert sorted(path.partition("/clone-")[0] for path in noted) == (
        ["_clones", "_refs/tags"] if kind == "shallow" else []
    )
    assert {path: size for path, size in after.items() if path not in noted} == before
    assert lance.dataset(target).to_table()["id"].to_pylist() == [0, 1, 2, 3, 4, 4]
    with pytest.raises(AlreadyExists, match="Choose another target"):
        table.clone(target, kind, follow=False)
    with pytest.raises(AlreadyExists):
        table.clone(uri + "/", kind, follow=False)
    assert all_files(uri) == after


@pytest.mark.when(spark="newest")
def test_a_shallow_clone_that_is_not_recorded_leaves_its_source_alone(table, uri, tmp_path):
    before = all_files(uri)
    assert table.clone(str(tmp_path / "clone.lance"), follow=False, record=False).count_rows() == 10
    assert all_files(uri) == before


@pytest.mark.when(spark="newest")
def test_a_shallow_clone_into_another_store_is_recorded_or_refused_before_anything_is_written(table, uri, tmp_path):
    before = all_files(tmp_path)
    with pytest.raises(Refused, match="always recorded"):
        table.clone("s3://elsewhere/clone.lance", follow=False, record=False)
    assert all_files(tmp_path) == before


@pytest.mark.when(spark="newest")
def test_for_path_takes_any_spelling_and_refuses_what_is_not_there(spark, table, uri, tmp_path):
    for spelling in (f"{uri}/", f"file://{uri}", f"file:{uri}"):
        assert LanceTable.for_path(spelling, spark=spark).location == table.location
    with pytest.raises(NotFound, match="There is no Lance dataset at"):
        LanceTable.for_path(str(tmp_path / "nowhere"), spark=spark)
    with pytest.raises(InvalidOption, match="empty"):
        LanceTable.for_path("", spark=spark)


def test_storage_options_of_a_handle_never_show(spark, uri, table, capsys):
    handle = LanceTable.for_path(uri, storage_options={"aws_secret_access_key": "hush-hush"}, spark=spark)
    frame = handle.to_df()
    assert frame.count() == 10
    frame.explain(True)
    plan = capsys.readouterr().out
    assert "Physical Plan" in plan
    for text in (repr(handle), str(handle.location), repr(frame), plan):
        assert "hush-hush" not in text
    assert "hush-hush" in str(pickle.loads(pickle.dumps(handle.location)).storage_options)


def test_errors_of_to_df_name_the_option(table):
    with pytest.raises(Exception, match=r"Unknown option 'limits'.*\n.*Did you mean 'limit'"):
        table.to_df(limits=3)
    with pytest.raises(Exception, match=r"There is no column 'ix'"):
        table.to_df(columns=["ix"]).schema  # noqa: B018  which a client of Spark Connect asks for at the first use
    with pytest.raises(Exception, match=r"Error parsing statement"):
        table.count_rows("id >")
