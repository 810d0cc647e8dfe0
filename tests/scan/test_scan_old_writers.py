"""Datasets that released versions of Lance wrote, from 0.5.9 on, read like pylance reads them."""

import os
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.local_datasets import pin, rows

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "old-writers"
TWO_FRAGMENTS_OF_ONE_ID = "v0.16.0/wrong_data_version_no_fix.lance"


def found():
    for directory, folders, files in os.walk(SAMPLES):
        if "_versions" in folders or "_latest.manifest" in files:
            folders.clear()
            yield os.path.relpath(directory, SAMPLES)


pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the old datasets are not part of the repository")


@pytest.fixture(params=sorted(found()))
def sample(request, tmp_path):
    """A copy that may be written to, and what is in it by version; skips what pylance itself cannot read."""
    copy = tmp_path / "table"
    shutil.copytree(SAMPLES / request.param, copy)
    expected = {}
    for version in lance.dataset(str(copy)).versions():
        try:
            expected[version["version"]] = lance.dataset(str(copy), version=version["version"]).to_table()
        except (OSError, ValueError):
            continue
    if not expected:
        pytest.skip("pylance cannot read it either")
    return request.param, str(copy), expected


def test_every_version_has_the_rows_that_pylance_reads(sample):
    name, copy, expected = sample
    for version, table in expected.items():
        for split_size in (2**27, 20_000):
            if name == TWO_FRAGMENTS_OF_ONE_ID and split_size == 20_000:
                continue  # pylance hands out the first of the two for the id, so they cannot be read apart
            assert rows(copy, version=version, split_size=split_size) == table.to_pylist(), (version, split_size)
    assert pin(copy).version == lance.dataset(copy).version


def test_a_filter_keeps_the_rows_it_should(sample):
    name, copy, expected = sample
    if name.startswith("v0.16.0/wrong_data_version"):
        pytest.skip("pylance cannot filter it")
    version, table = next(reversed(expected.items()))
    integers = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    for column in integers[:2]:
        value = next(iter(table[column].to_pylist()), 0)
        for predicate in (f"{column} = {value}", f"{column} > {value}"):
            theirs = lance.dataset(copy, version=version).to_table(filter=predicate).to_pylist()
            assert rows(copy, version=version, filter=predicate, split_size=20_000) == theirs, predicate
