"""Pages of a dataset that is damaged as the tests of fsck damage it: the reason and what to do, never a traceback."""

import shutil

import pytest
from support.broken_datasets import (
    cut,
    data,
    deletions,
    drop_index,
    index,
    other_version,
    overwrite_middle,
    overwrite_tail,
    ref,
    rich,
    shorter_deletions,
    tag_elsewhere,
    transaction,
    without_ref,
)
from support.cleanup_datasets import manifest
from support.shown_pages import Tags, opened

from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.when(day=0)
DAMAGES = {
    "data is gone": lambda uri: data(uri).unlink(),
    "data is cut": lambda uri: cut(data(uri)),
    "data of a branch is gone": lambda uri: data(uri, "dev").unlink(),
    "data is overwritten": lambda uri: overwrite_tail(data(uri)),
    "data is overwritten inside": lambda uri: overwrite_middle(data(uri)),
    "deletions are gone": lambda uri: deletions(uri).unlink(),
    "deletions are shorter": shorter_deletions,
    "the index is gone": lambda uri: index(uri).unlink(),
    "the index is dropped": drop_index,
    "the newest manifest is cut": lambda uri: cut(manifest(uri, 4), 30),
    "an old manifest is empty": lambda uri: manifest(uri, 2).write_bytes(b""),
    "the manifest of a branch is no manifest": lambda uri: manifest(uri, 5, "dev").write_bytes(b"x" * 500),
    "a manifest of another version": other_version,
    "the transaction is gone": lambda uri: transaction(uri).unlink(),
    "the ref is gone": without_ref,
    "the ref is no JSON": lambda uri: ref(uri, "dev").write_text("{"),
    "the tag is no JSON": lambda uri: ref(uri, "v3", "tags").write_text("nothing"),
    "the tag is elsewhere": tag_elsewhere,
    "all versions are gone": lambda uri: shutil.rmtree(f"{uri}/_versions"),
    "the branch's versions are gone": lambda uri: shutil.rmtree(f"{uri}/tree/dev/_versions"),
    "the dataset is gone": shutil.rmtree,
}
PAGES = (
    "",
    "graph",
    "version?ref=main@1",
    "version?ref=dev",
    "version?ref=v3",
    "rows",
    "rows?ref=dev",
    "diff?a=main&b=dev",
    "diff-rows?a=main&b=dev",
    "row?column=id&value=30",
    "story?column=id&value=30&branch=dev",
    "merge?source=dev&into=main",
    "indexes",
    "storage",
    "dependents",
    "cleanup",
    "check",
    "upkeep",
)


@pytest.mark.parametrize("name", DAMAGES)
def test_every_page_says_what_is_wrong(tmp_path, name):
    uri = rich(f"{tmp_path}/t.lance")
    DAMAGES[name](uri)
    client = opened(location=locate(uri))
    for page in PAGES:
        answer = client.get(f"/token/{page}")
        text = answer.get_data(as_text=True)
        assert answer.status_code != 500, (page, "".join(Tags(text).words)[-600:])
        assert "Traceback" not in text
        assert answer.status_code == 200 or 'role="alert"' in text
