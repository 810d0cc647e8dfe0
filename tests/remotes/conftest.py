"""A remote and its clone."""

import pytest
from support.remote_datasets import Prepared


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"))


@pytest.fixture(params=[("shallow", False), ("planted", True)], ids=["shallow", "planted-stable"])
def made(request):
    """How the clone is made, and whether rows have stable ids."""
    return request.param


@pytest.fixture
def stable(made):
    return made[1]


@pytest.fixture
def root(prepared, made):
    return prepared.cloned(*made)


@pytest.fixture
def source(root):
    return str(root / "source.lance")


@pytest.fixture
def local(root):
    return str(root / "local.lance")
