"""The data source and LanceTable on S3: options reach the executors, jobs commit once and clean up after themselves."""

import pytest
from support.faulty_store import only_below
from support.frames import failing
from support.s3_tables import objects, opened, rows, write

from lance_spark import LanceTable

pytestmark = [pytest.mark.s3, pytest.mark.spark, pytest.mark.when(spark="newest")]


@pytest.fixture
def options(storage_through):
    """Options of a load or save that reach the store through the proxy."""
    return {f"storage.{key}": value for key, value in storage_through.items()}


def save(frame, uri, options, mode="append", **more):
    frame.write.format("lance").mode(mode).options(**options, **more).save(uri)


def load(spark, uri, options, **more):
    return spark.read.format("lance").options(**options, **more).load(uri)


def ids(frame):
    return sorted(row[0] for row in frame.collect())


def test_options_and_every_spelling_reach_driver_and_executors(spark, table, storage, faulty, options):
    faulty.rule = lambda request: None if request.access_key == "AKIDTEST" else "403 AccessDenied"
    key = table.removeprefix("s3://")
    plain = {name.replace("aws_", ""): value for name, value in options.items()}
    save(spark.range(0, 30, 1, 3), f"s3a://{key}/", options)
    save(spark.range(30, 40), f"s3n://{key}", plain, branch="exp/delays", create_branch="true")
    handle = LanceTable.for_path(f"S3://{key}//", {name[8:]: value for name, value in plain.items()}, spark=spark)
    handle.tags.create("t", branch="exp/delays")
    assert [branch.name for branch in handle.branches.list()] == ["exp/delays"]
    for uri, given in ((table, options), (f"s3a://{key}", plain), (f"s3n://{key}/", options)):
        assert ids(load(spark, uri, given, branch="exp/delays", filter="id > 5")) == list(range(6, 40))
    assert ids(load(spark, table, options)) == list(range(30)) == ids(handle.to_df())
    at_tag = handle.checkout(tag="t")
    assert (at_tag.count_rows(), at_tag.count_rows("id < 10"), at_tag.versions().count()) == (40, 10, 2)
    assert rows(table, storage, "exp/delays") == list(range(40))


def test_a_branch_is_written_by_spark_with_permission_for_its_directory_only(spark, table, storage, faulty, options):
    write(table, storage, [1])
    opened(table, storage).create_branch("b", storage_options=storage)
    faulty.rule = only_below("tree/b/")
    save(spark.range(2, 6, 1, 2), table, options, branch="b")
    save(spark.range(6, 8), table, options, "overwrite", branch="b")
    assert rows(table, storage, "b") == [6, 7]
    assert rows(table, storage) == [1]


@pytest.mark.when(day=0)
def test_rows_and_columns_of_a_branch_change_with_permission_for_its_directory_only(
    spark, table, bucket, client, storage, faulty, storage_through
):
    write(table, storage, [1, 2, 3])
    opened(table, storage).create_branch("b", storage_options=storage)
    faulty.rule = only_below("tree/b/")
    main = LanceTable.for_path(table, storage_through, spark=spark)
    branch = main.checkout(branch="b")
    before = {key: etag for key, etag in objects(client, bucket).items() if "/tree/b/" not in key}
    branch.delete("id = 1")
    branch.update({"id": "id + 10"}, "id = 2")
    branch.merge(spark.createDataFrame([(3,), (4,)], "id bigint"), "id").when_not_matched_insert_all().execute()
    branch.add_columns({"twice": "id * 2"})
    branch.optimize(own_only=False)
    branch.indexes.create("id")
    for change in (main.delete, lambda where: main.update({"id": "0"}, where), lambda _: main.add_columns({"x": "id"})):
        with pytest.raises(Exception, match=r"s3:PutObject on s3://.*/table.lance/\w+/ is missing"):
            change("id = 3")
    assert {key: etag for key, etag in objects(client, bucket).items() if "/tree/b/" not in key} == before
    assert ids(branch.to_df(columns=["twice"])) == [6, 8, 24]


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize(
    "more",
    [{}, {"branch": "b"}, {"branch": "n", "create_branch": "true"}, None],
    ids=["main", "branch", "new branch", "new dataset"],
)
def test_a_failed_job_removes_the_files_it_wrote(
    spark, table, bucket, client, storage, faulty, options, more, tmp_path
):
    if more is not None:
        write(table, storage, [1])
        opened(table, storage).create_branch("b", storage_options=storage)
    before = objects(client, bucket)
    with pytest.raises(Exception, match="own fault"):
        save(failing(spark, tmp_path / "marker"), table, options, **(more or {}))
    written = {request.key for request in faulty.seen if request.method == "PUT" and "/data/" in request.key}
    assert len(written) == 1
    assert objects(client, bucket) == before


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ("403 AccessDenied", "PermissionDenied", "Check the credentials"),
        pytest.param("500 InternalError", "StorageFailure", "Check the endpoint", marks=pytest.mark.when(day=0)),
        pytest.param("404 NoSuchBucket", "NotFound", "Check the bucket name", marks=pytest.mark.when(day=0)),
    ],
)
def test_spark_shows_what_the_store_said_and_what_to_do(spark, table, storage, faulty, options, answer, error, words):
    write(table, storage, [1])
    faulty.rule = lambda _: answer
    impatient = {**options, "storage.client_max_retries": "0"}
    for attempt in (lambda: load(spark, table, impatient), lambda: save(spark.range(3), table, impatient)):
        with pytest.raises(Exception, match=f"lance_spark.errors.{error}: ") as caught:
            attempt()
        first, found, message = str(caught.value).partition(f"lance_spark.errors.{error}: ")
        assert found
        assert "Traceback" not in first
        assert words in message
        assert "hush-hush" not in str(caught.value)
        assert "AKIDTEST" not in str(caught.value)
