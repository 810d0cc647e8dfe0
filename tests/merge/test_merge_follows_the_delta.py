"""A merge after a compaction of many fragments looks at what changed: not at every version, deletion or fragment."""

from collections import Counter

import lance
import pyarrow as pa
import pytest
from support.merge_datasets import exp, head, rows, run

from lance_spark.format import contents
from lance_spark.storage import files

FRAGMENTS = 400


@pytest.fixture
def uri(tmp_path):
    """Many fragments of two rows, and a branch."""
    where = str(tmp_path / "t.lance")
    numbers = pa.table({"id": pa.array(range(2 * FRAGMENTS), pa.int64())})
    lance.write_dataset(numbers, where, max_rows_per_file=2)
    lance.dataset(where).create_branch("exp")
    return where


def test_what_is_read_and_decoded(uri, monkeypatch):
    exp(uri).delete("id in (3, 500)")
    head(uri).optimize.compact_files(target_rows_per_fragment=20)
    asked, decoded = Counter(), Counter()
    read, decode = files.read, contents.fragment_of
    monkeypatch.setattr(files, "read", lambda place, path: asked.update([path]) or read(place, path))
    monkeypatch.setattr(contents, "fragment_of", lambda one: decoded.update([one.id]) or decode(one))
    run(uri)
    assert [row["id"] for row in rows(head(uri))] == [n for n in range(2 * FRAGMENTS) if n not in (3, 500)]
    assert len([path for path in asked if "_deletions/" in path]) == 2
    assert max(times for path, times in asked.items() if path.endswith(".manifest")) == 1
    # The compaction changed every fragment, so each is decoded: as it was, as it is, and in what the version says.
    assert sum(decoded.values()) < 4 * FRAGMENTS
