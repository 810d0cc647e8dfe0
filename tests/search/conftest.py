"""What tests of searches share."""

import pytest

from lance_spark.search import search_rules


@pytest.fixture
def small_tasks(monkeypatch):
    """As if there were much to do: each segment is a task, and fragments without an index are several."""
    monkeypatch.setattr(search_rules, "FLAT_BYTES", 100)
    monkeypatch.setattr(search_rules, "SEGMENT_BYTES", 1)
