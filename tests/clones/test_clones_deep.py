"""The branches of a deep clone are copied where other files are: by the engine, on Spark where there is much."""

import lance
import pyarrow as pa
from support.remote_datasets import assert_same, begun, origin

from lance_spark.engine.local import LocalRunner
from lance_spark.remotes.clone import CloneOptions, clone
from lance_spark.remotes.push import push
from lance_spark.storage.datasets import locate, pin_latest


class Engine:
    """Threads that note what they were asked for."""

    def __init__(self):
        self.asked = []

    def tell(self, progress):
        pass

    def for_work(self, operation, work):
        self.asked.append((operation, work.copies, work.copied_bytes > 0))
        return LocalRunner(2)


def test_the_engine_is_told_how_much_there_is_to_copy(tmp_path):
    source, target, engine = begun(str(tmp_path / "source.lance")), str(tmp_path / "deep.lance"), Engine()
    pin = pin_latest(locate(source), None)
    clone(origin(source), pin, locate(target), engine, CloneOptions(deep=True))
    for branch in ("exp", "exp/deep"):
        assert_same(target, f"origin/{branch}", source, branch)
    assert any(copies and size for _, copies, size in engine.asked)
    assert "clone" in {operation for operation, _, _ in engine.asked}


def test_blobs_that_refer_to_objects_below_a_base_path_can_be_read_wherever_they_are_copied(tmp_path):
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects/video").write_bytes(b"0123456789")
    base = lance.DatasetBasePath(f"file://{tmp_path}/objects", "objects", id=7)
    blobs = lance.blob_array([lance.Blob.from_uri(f"file://{tmp_path}/objects/video", position=2, size=3), b"own"])
    rows = pa.table([[1, 2], blobs], pa.schema([pa.field("id", pa.int64()), lance.blob_field("b")]))
    source, target, third = (str(tmp_path / f"{name}.lance") for name in ("source", "deep", "third"))
    lance.write_dataset(rows, source, data_storage_version="2.2", initial_bases=[base])
    clone(origin(source), pin_latest(locate(source), None), locate(target), LocalRunner(1), CloneOptions(deep=True))
    lance.write_dataset(rows, target, mode="append")
    push(locate(target), origin(third, "third"), None, LocalRunner(1))
    for uri, times in ((target, 2), (third, 2)):
        found = lance.dataset(uri).to_table(blob_handling="all_binary")
        assert found["b"].to_pylist() == [b"234", b"own"] * times
