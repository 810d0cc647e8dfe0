"""The branches of a deep clone are copied where other files are: by the engine, on Spark where there is much."""

from support.remote_datasets import assert_same, begun, origin

from lance_spark.engine.local import LocalRunner
from lance_spark.remotes.clone import CloneOptions, clone
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
