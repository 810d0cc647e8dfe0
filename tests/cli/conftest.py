"""A workspace with a dataset that has branches and tags."""

from __future__ import annotations

import pytest
from support.command_line import make_flights


@pytest.fixture
def flights(tmp_path):
    """See ``make_flights``."""
    return make_flights(tmp_path)
