"""What all tests of fsck share."""

import pytest

from lance_spark.fsck import fsck


@pytest.fixture(autouse=True)
def _looks_again_at_once(monkeypatch):
    """Nothing changes in these datasets while they are looked at again."""
    monkeypatch.setattr(fsck, "_PAUSE", 0.0005)
