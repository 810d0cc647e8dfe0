"""A remote and its clone, for the files that say with a fixture ``made`` how the clone is made."""

import pytest
from support.remote_datasets import Prepared


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def root(prepared, made):
    return prepared.cloned(*made)


@pytest.fixture
def source(root):
    return str(root / "source.lance")


@pytest.fixture
def local(root):
    return str(root / "local.lance")
