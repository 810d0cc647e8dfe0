"""Pages of a store that is slow, refuses, or is not there: our error and hint, also where one table is hit."""

import lance
import pyarrow as pa
import pytest
from support.shown_pages import HOST, Tags, client_of, opened

from lance_spark.storage.datasets import locate
from lance_spark.ui.looking import Subject
from lance_spark.ui.server import Serving

pytestmark = [pytest.mark.s3, pytest.mark.when(day=0)]
PAGES = (
    "",
    "graph",
    "version",
    "rows",
    "diff?a=main&b=exp",
    "diff-rows?a=main&b=exp",
    "row?column=id&value=1",
    "storage",
)


@pytest.fixture
def shown(table, storage):
    lance.write_dataset(pa.table({"id": [1, 2], "name": ["a", "b"]}), table, storage_options=storage)
    lance.dataset(table, storage_options=storage).create_branch("exp", storage_options=storage)
    lance.dataset(f"{table}/tree/exp", storage_options=storage).update({"name": "'x'"}, where="id = 1")
    return table


def words(client, page):
    answer = client.get(f"/token/{page}")
    return answer.status_code, "".join(Tags(answer.get_data(as_text=True)).words)


def test_pages_of_a_dataset_on_a_store(shown, storage_through, storage):
    client = opened(location=locate(shown, storage_through))
    for page in PAGES:
        status, told = words(client, page)
        assert status == 200, told
        assert not any(value in told for key, value in storage.items() if "secret" in key)
    assert "Branch exp changed this row." in words(client, "row?column=id&value=1")[1]


@pytest.mark.parametrize("page", PAGES)
def test_a_store_that_refuses(shown, storage_through, faulty, page):
    faulty.rule = lambda _: "403 AccessDenied"
    status, told = words(opened(location=locate(shown, storage_through)), page)
    assert status in (403, 504)
    assert "Traceback" not in told


@pytest.mark.parametrize("page", PAGES)
def test_a_store_that_keeps_silent(shown, storage_through, faulty, page):
    faulty.rule = lambda _: "silent 30"
    serving = Serving(Subject(location=locate(shown, storage_through)), token="token", patience=1)
    status, told = words(client_of(serving), page)
    assert status == 504
    assert "has not answered" in told
    assert HOST not in told
