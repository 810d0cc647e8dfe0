"""Damaged and missing files: each gives the error that tells "absent", "corrupt" and "unreachable" apart."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pytest
import s3fs
from support.local_datasets import contents, ids, make_dataset, numbers, rows, write

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.errors import CorruptData, NotFound, StorageFailure, may_have_happened
from lance_spark.refs.refs import create_branch, list_branches
from lance_spark.storage.datasets import locate
from lance_spark.storage.failures import clean, from_pylance, translated

DAMAGE = {
    "empty": lambda _: b"",
    "short junk": lambda _: b"junkjunkjunk",
    "long junk": lambda _: b"junk" * 2000,
    "cut off": lambda data: data[: len(data) // 2],
    "head missing": lambda data: data[30:],
    "middle overwritten": lambda data: data[: len(data) // 2 - 10] + b"\xff" * 20 + data[len(data) // 2 + 10 :],
    "position beyond the end": lambda data: bytes(100) + (10**9).to_bytes(8, "little") + data[-8:],
    "position before the start": lambda data: bytes(100) + b"\xff" * 8 + data[-8:],
}
damaged = pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)


@damaged
def test_a_corrupt_newest_manifest_is_told_and_older_versions_stay_readable(uri, damage):
    make_dataset(uri, numbers(3), numbers(1, 3))
    manifest = Path(uri, "_versions", f"{2**64 - 3}.manifest")
    manifest.write_bytes(damage(manifest.read_bytes()))
    before = contents(uri)
    for attempt in (
        lambda: rows(uri),
        lambda: rows(uri, version=2),
        lambda: rows(uri, asOf="2999-01-01"),
        lambda: list_branches(locate(uri)),
        lambda: write(uri, numbers(1)),
        lambda: write(uri, numbers(1), overwrite=True),
        lambda: create_branch(locate(uri), "b", RefSpec()),
    ):
        with pytest.raises(CorruptData, match="cannot be read"):
            attempt()
    assert ids(uri, version=1) == [0, 1, 2]
    assert contents(uri) == before


@pytest.mark.parametrize("damage", [None, *(DAMAGE[name] for name in ("empty", "long junk", "cut off"))])
@pytest.mark.parametrize("folder", ["data", "_deletions"])
def test_a_lost_or_damaged_file_of_a_version_is_corrupt_data_and_never_fewer_rows(uri, folder, damage):
    make_dataset(uri, numbers(10)).delete("id = 1")
    (file,) = Path(uri, folder).iterdir()
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    for options in ({}, {"filter": "id > 3"}, {"limit": 2}, {"split_size": 1}):
        with pytest.raises(CorruptData):
            rows(uri, **options)


def empty_directory(path):
    path.mkdir()


def other_files(path):
    path.mkdir()
    (path / "part.parquet").write_text("x")


def no_versions_in_it(path):
    (path / "_versions").mkdir(parents=True)
    (path / "_versions" / "README").write_text("x")


@pytest.mark.parametrize(
    "make",
    [lambda _: None, empty_directory, other_files, no_versions_in_it],
    ids=["nothing", "empty directory", "other files", "no versions"],
)
def test_what_is_no_dataset_is_not_found_by_any_ref(tmp_path, make):
    path = tmp_path / "folder" / "table"
    path.parent.mkdir()
    make(path)
    before = contents(tmp_path)
    for options in ({}, {"branch": "b"}, {"tag": "t"}, {"version": 1}, {"asOf": "2020-01-01"}):
        with pytest.raises(NotFound, match="no Lance dataset at"):
            rows(str(path), **options)
    with pytest.raises(NotFound, match="no Lance dataset at"):
        list_branches(locate(str(path)))
    assert contents(tmp_path) == before


def test_a_file_where_a_dataset_should_be_is_not_found_and_not_overwritten(tmp_path):
    Path(tmp_path, "table").write_text("precious")
    with ThreadPoolExecutor(2) as pool:  # pylance tries again for seconds each time
        attempts = (
            pool.submit(rows, str(tmp_path / "table" / "inside"), branch="b"),
            pool.submit(write, str(tmp_path / "table"), numbers(1)),
        )
    for attempt in attempts:
        with pytest.raises(NotFound):
            attempt.result()
    assert contents(tmp_path).keys() == {"table"}
    assert Path(tmp_path, "table").read_text() == "precious"


@pytest.mark.parametrize(
    "word",
    ["conflict", "403", "forbidden", "connection", "timeout", "corrupt", "already exists", "EOF", "not found", "data"],
)
def test_words_in_a_path_or_a_branch_name_do_not_decide_what_went_wrong(tmp_path, word):
    missing = tmp_path / word / "t.lance"
    with pytest.raises(NotFound, match="no Lance dataset"):
        rows(str(missing))
    assert write(str(missing), numbers(3)) == 1
    with pytest.raises(NotFound, match="no version 9"):
        rows(str(missing), version=9)
    branch = word.replace(" ", "-")
    create_branch(locate(str(missing)), branch, RefSpec())
    with pytest.raises(NotFound, match="no version 9"):
        rows(str(missing), branch=branch, version=9)
    write(str(missing), numbers(1, 5), branch=branch)
    next(Path(missing, "tree", branch, "data").iterdir()).unlink()
    with pytest.raises(CorruptData):
        rows(str(missing), branch=branch)
    shutil.rmtree(missing / "data")
    with pytest.raises(CorruptData):
        rows(str(missing))


SECRETS = {
    "aws_access_key_id": "AKIAVERYSECRET",
    "aws_secret_access_key": "hush+hush/hush",
    "aws_session_token": "token-token-token",
}
UNREACHABLE = {**SECRETS, "endpoint": "http://127.0.0.1:1", "allow_http": "true", "client_max_retries": "0"}


@pytest.mark.parametrize("options", [{}, {"tag": "t"}], ids=["through pylance", "through fsspec"])
def test_a_store_that_does_not_answer_is_never_absent_and_its_error_holds_no_secret(monkeypatch, options):
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    storage = {f"storage.{key}": value for key, value in UNREACHABLE.items()}
    with pytest.raises(StorageFailure) as caught:
        rows("s3://bucket/connection/t.lance", **options, **storage)
    assert not isinstance(caught.value, NotFound)
    assert not [secret for secret in SECRETS.values() if secret in f"{caught.value!r} {caught.value}"]


def test_an_endpoint_that_is_no_url_is_no_damaged_file():
    """pylance panics over it, as it does over bytes that it cannot read."""
    panic = type("PanicException", (BaseException,), {})
    location = DatasetLocation.at("s3://bucket/t.lance")
    for said in ("called `Result::unwrap()` on an `Err` value: RelativeUrlWithoutBase", "InvalidUri(InvalidFormat)"):
        with pytest.raises(StorageFailure, match="is not a URL"), translated(location, "opening the dataset"):
            raise panic(said)
    with pytest.raises(CorruptData), translated(location, "opening the dataset"):
        raise panic("index out of bounds")


def test_a_job_never_takes_a_store_that_does_not_answer_for_an_empty_one():
    with pytest.raises(StorageFailure):
        write("s3://bucket/t.lance", numbers(1), **{f"storage.{key}": value for key, value in UNREACHABLE.items()})


def test_a_commit_whose_outcome_is_unknown_is_no_conflict_after_which_its_files_may_go():
    told = (
        "Wrapped error: Commit result for version 2 is unknown: the commit may or may not have been applied; check the "
        "table state before retrying: commit reported a conflict but the manifest could not be read back"
    )
    vended = locate("s3://lake/t", {"token_provider": "nowhere:keys"})
    for place, why in (
        (locate("/lake/t"), ""),
        (vended, ": status code: 400, ExpiredToken"),
        (vended, ": AccessDenied"),
    ):
        failure = from_pylance(OSError(told + why), place, "committing")
        assert type(failure) is StorageFailure
        assert may_have_happened(failure)


def test_cleaning_a_text_takes_out_secrets_and_source_lines_and_nothing_else():
    location = DatasetLocation.at("s3://bucket/t", {**SECRETS, "region": "eu-central-1", "empty_key": ""})
    text = (
        "denied for AKIAVERYSECRET with hush+hush/hush (token-token-token) in eu-central-1, "
        "/build/rust/lance-io/src/local.rs:273:40"
    )
    assert clean(text, location) == "denied for *** with *** (***) in eu-central-1"


def test_a_location_never_shows_its_secrets():
    location = locate("s3://bucket/t", SECRETS)
    assert not [secret for secret in SECRETS.values() if secret in f"{location!r}{location}"]
    assert location.storage_options == SECRETS


def test_a_predicate_on_a_healthy_dataset_is_still_answered_by_pylance(uri):
    # The counterpart of the damage above: the same calls on whole files raise nothing.
    make_dataset(uri, numbers(10)).delete("id = 1")
    assert ids(uri, filter="id > 3", split_size=1) == lance.dataset(uri).to_table(filter="id > 3")["id"].to_pylist()
