"""lance-git on a dataset in S3: the workspace is here, the data there, and no secret is on this disk."""

import json
import re

import pyarrow as pa
import pytest
from pyarrow import parquet
from support.s3_tables import objects, opened, rows, write

from lance_spark.cli.main import main

pytestmark = pytest.mark.s3


@pytest.fixture
def lance_git(tmp_path, monkeypatch, capsys, storage):
    """Runs a command in a directory, with the storage options of the store or with others."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, options=storage):
        pairs = [part for key, value in options.items() for part in ("--storage", f"{key}={value}")]
        code = main([*pairs, *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_day_with_a_dataset_on_s3(lance_git, table, storage, tmp_path, client, bucket):
    columns = pa.BufferOutputStream()
    parquet.write_table(pa.table({"id": pa.array([], pa.int64())}), columns)
    client.put_object(Bucket=bucket, Key="columns.parquet", Body=columns.getvalue().to_pybytes())

    code, out, _ = lance_git("init", table, "--from", f"s3://{bucket}/columns.parquet")
    assert (code, out) == (0, f"Dataset {table} created with the columns id; workspace in {tmp_path}/table.\n")
    write(table, storage, [1, 2])
    work = ("-C", str(tmp_path / "table"))
    assert lance_git(*work, "checkout", "-b", "exp")[0] == 0
    write(table, storage, [3], branch="exp")
    assert lance_git(*work, "tag", "v1")[1] == "Tag 'v1' was put on exp@3.\n"
    assert lance_git(*work, "restore", "exp~1", "--yes")[0] == 0
    assert rows(table, storage, "exp", 4) == [1, 2]

    listed = json.loads(lance_git(*work, "branch", "-v", "--json")[1])
    own = [
        entry["Size"]
        for entry in client.get_paginator("list_objects_v2")
        .paginate(Bucket=bucket, Prefix="warehouse/table.lance/tree/exp/")
        .search("Contents")
    ]
    exp = listed["branches"][1]
    assert (exp["head"], exp["versions"], exp["files"], exp["own_bytes"]) == (4, 3, len(own), sum(own))

    assert lance_git(*work, "branch", "-m", "exp", "other")[0] == 3
    assert lance_git(*work, "branch", "idle", "main")[0] == 0
    assert lance_git(*work, "branch", "-m", "idle", "busy")[0] == 0
    assert set(opened(table, storage).branches.list()) == {"exp", "busy"}
    assert lance_git(*work, "gc", "--json")[0] == 0
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or not re.search(r"hush-hush|AKIDTEST", path.read_text()), path


def test_a_uri_after_c_is_the_dataset(lance_git, table, storage, client, bucket, tmp_path):
    write(table, storage, [1, 2])
    write(table, storage, [3], branch="exp", create_branch="true")
    before = objects(client, bucket)
    there = ("-C", table)
    for spelling in (table, f"{table}/", table.replace("s3://", "s3a://")):
        code, out, _ = lance_git("-C", spelling, "log")
        assert (code, out.split()[0]) == (0, "main@1"), spelling
    for verb in (("log", "exp"), ("status",), ("branch", "-v"), ("tag",), ("remote",), ("diff", "main..exp", "--rows")):
        found, named = lance_git(*there, *verb, "--json"), lance_git("--dataset", table, *verb, "--json")
        assert found == named
        assert found[0] == 0, found
    refused = lance_git(*there, "switch", "exp")
    assert refused[:2] == (2, "")
    assert f"lance-git init {table} creates a workspace for it." in refused[2]
    code, _, err = lance_git("-C", f"{table}/tree/exp", "log")
    assert code == 2
    assert "is the directory of branch 'exp'" in err
    assert objects(client, bucket) == before

    assert lance_git(*there, "tag", "v1", "exp")[1] == "Tag 'v1' was put on exp@2.\n"
    assert lance_git(*there, "merge", "exp")[0] == 0
    assert rows(table, storage) == [1, 2, 3]
    assert not list(tmp_path.iterdir())


def test_an_existing_dataset_gets_a_workspace_here(lance_git, table, storage, client, bucket, tmp_path):
    write(table, storage, [1, 2])
    write(table, storage, [3], branch="exp", create_branch="true")
    before = objects(client, bucket)
    place = f"{tmp_path}/table"
    code, out, _ = lance_git("init", table)
    said = f"Dataset {table} already exists and stays as it is; workspace created in {place}.\n"
    assert (code, out) == (0, said)
    assert lance_git("-C", place, "switch", "exp")[0] == 0
    code, out, _ = lance_git("init", table)
    assert (code, out) == (0, f"Dataset {table} and its workspace in {place} already exist.\n")
    assert lance_git("-C", place, "status")[1].startswith("On branch exp")
    code, _, err = lance_git("init", table, "other", "--from", f"s3://{bucket}/columns.parquet")
    assert code == 11
    assert "Leave --from out" in err
    assert objects(client, bucket) == before
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


@pytest.mark.when(day=0)  # by day in test_storage_unreachable_s3.py, and typed in test_remotes_cli.py
def test_nobody_answers_is_not_absent(lance_git, table, storage, closed_port, tmp_path):
    dead = {**storage, "aws_endpoint": closed_port, "client_max_retries": "1", "client_retry_timeout": "1"}
    code, out, err = lance_git("init", table, options=dead)
    assert (code, out) == (20, "")
    assert "could not be reached" in err
    assert "hush-hush" not in err
    assert not list(tmp_path.iterdir())
    code, _, err = lance_git("-C", table, "log", options=dead)
    assert code == 20
    assert "hush-hush" not in err
    for named in ("--dataset", "-C"):
        code, _, err = lance_git(named, "s3://no-such-bucket/t.lance", "branch")
        assert code == 10
        assert "hush-hush" not in err
    code, _, err = lance_git("init", table, "--from", "s3://no-such-bucket/t.parquet")
    assert code == 10
    assert not list(tmp_path.iterdir())
