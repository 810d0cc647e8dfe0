"""Pages of a dataset that is damaged as the tests of fsck damage it: the reason and what to do, never a traceback."""

import shutil

import pytest
from support import broken_datasets
from support.cleanup_datasets import manifest
from support.shown_pages import Tags, opened

from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.when(day=0)
DAMAGES = {
    "data is gone": lambda uri: broken_datasets.data(uri).unlink(),
    "data is cut": lambda uri: broken_datasets.cut(broken_datasets.data(uri)),
    "data of a branch is gone": lambda uri: broken_datasets.data(uri, "dev").unlink(),
    "data is overwritten": lambda uri: broken_datasets.overwrite_tail(broken_datasets.data(uri)),
    "data is overwritten inside": lambda uri: broken_datasets.overwrite_middle(broken_datasets.data(uri)),
    "deletions are gone": lambda uri: broken_datasets.deletions(uri).unlink(),
    "deletions are shorter": broken_datasets.shorter_deletions,
    "the index is gone": lambda uri: broken_datasets.index(uri).unlink(),
    "the index is dropped": broken_datasets.drop_index,
    "the newest manifest is cut": lambda uri: broken_datasets.cut(manifest(uri, 4), 30),
    "an old manifest is empty": lambda uri: manifest(uri, 2).write_bytes(b""),
    "the manifest of a branch is no manifest": lambda uri: manifest(uri, 5, "dev").write_bytes(b"x" * 500),
    "a manifest of another version": broken_datasets.other_version,
    "the transaction is gone": lambda uri: broken_datasets.transaction(uri).unlink(),
    "the ref is gone": broken_datasets.without_ref,
    "the ref is no JSON": lambda uri: broken_datasets.ref(uri, "dev").write_text("{"),
    "the tag is no JSON": lambda uri: broken_datasets.ref(uri, "v3", "tags").write_text("nothing"),
    "the tag is elsewhere": broken_datasets.tag_elsewhere,
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
    uri = broken_datasets.rich(f"{tmp_path}/t.lance")
    DAMAGES[name](uri)
    client = opened(location=locate(uri))
    for page in PAGES:
        answer = client.get(f"/token/{page}")
        text = answer.get_data(as_text=True)
        assert answer.status_code != 500, (page, "".join(Tags(text).words)[-600:])
        assert "Traceback" not in text
        assert answer.status_code == 200 or 'role="alert"' in text
