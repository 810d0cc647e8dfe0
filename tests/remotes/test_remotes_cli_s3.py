"""lance-git and LanceTable with a remote in another store: the workspace is here, the data wherever it was."""

import json
import re

import lance
import pyarrow as pa
import pytest
from support.s3_tables import objects, rows, write

from lance_spark import LanceTable
from lance_spark.cli.main import main
from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.s3


@pytest.fixture
def lance_git(tmp_path, monkeypatch, capsys, storage):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        pairs = [part for key, value in storage.items() for part in ("--storage", f"{key}={value}")]
        code = main([*pairs, *arguments, "--json"])
        said = capsys.readouterr()
        assert code == 0, said.err
        return json.loads(said.out)

    return run


@pytest.fixture
def flights(table, storage):
    write(table, storage, [1, 2])
    write(table, storage, [3], branch="exp", create_branch="true")
    return table


def append(uri, storage, value):
    lance.write_dataset(pa.table({"id": pa.array([value], pa.int64())}), uri, mode="append", storage_options=storage)


def test_a_clone_of_a_bucket_on_this_disk(lance_git, flights, storage, tmp_path):
    place = tmp_path / "table"
    assert lance_git("clone", flights, "--ref", "exp")["workspace"] == str(place)
    work = ("-C", str(place))
    assert rows(str(place), storage) == [1, 2]
    assert rows(f"{place}/tree/exp", storage) == [1, 2, 3]
    append(f"{place}/tree/exp", storage, 4)
    assert lance_git(*work, "status")["remotes"][0]["ahead"] == 1
    assert lance_git(*work, "push")["version"] == 3
    assert rows(flights, storage, "exp") == [1, 2, 3, 4]
    write(flights, storage, [5], branch="exp")
    assert lance_git(*work, "pull")["merge"]["fast_forward"]
    assert rows(f"{place}/tree/exp", storage) == [1, 2, 3, 4, 5]
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or not re.search(rb"hush-hush|AKIDTEST", path.read_bytes()), path


def test_a_clone_in_another_bucket_has_its_workspace_here(lance_git, flights, storage, client, bucket, tmp_path):
    other = f"{bucket}-other"
    client.create_bucket(Bucket=other)
    target = f"s3://{other}/copies/c.lance"
    done = lance_git("clone", flights, target)
    assert (done["target"], done["workspace"]) == (target, str(tmp_path / "c"))
    assert not any("/data/" in key for key in objects(client, other))
    append(target, storage, 6)
    assert lance_git("-C", str(tmp_path / "c"), "push")["version"] == 2
    assert rows(flights, storage) == [1, 2, 6]
    assert lance_git("-C", str(tmp_path / "c"), "switch", "exp")["created_at"]["branch"] == "origin/exp"
    assert lance_git("-C", str(tmp_path / "c"), "status")["remotes"][0]["behind"] == 0


def test_a_shallow_clone_of_a_table_leaves_its_store(flights, storage, tmp_path):
    here = LanceTable(None, locate(flights, storage))
    copy = here.checkout(branch="exp").clone(str(tmp_path / "copy"), storage_options=storage, follow=False)
    assert (copy.branch, copy.count_rows()) == ("exp", 3)
    assert rows(f"{tmp_path}/copy/tree/exp", storage) == [1, 2, 3]
    assert any(tag.name.startswith("clone-") for tag in here.tags.list(all=True))
    assert copy.remotes.list() == {"origin": flights}
    write(flights, storage, [4], branch="exp")
    assert copy.remotes.pull().merged.summary.rows_added == 1
    assert copy.count_rows() == 4
