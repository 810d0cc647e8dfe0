"""Rows that are added to a text index get the words that the other rows have, and only those that they have now."""

import lance
import pyarrow as pa
import pytest
from support.searches import search

from lance_spark import LanceTable
from lance_spark.indexes.index_rules import find_kind, settings_of


def ids(uri, words):
    return search(uri, None, words, "text")["id"].to_pylist()


@pytest.mark.parametrize("column", ["text", "text and id"])
@pytest.mark.parametrize("stable", [False, True], ids=["", "stable"])
def test_a_column_that_was_filled_anew_is_not_found_by_its_former_words(uri, column, stable):
    rows = pa.table({"id": range(3), "text": ["storm a", "fog b", "rain c"]})
    lance.write_dataset(rows, uri, enable_stable_row_ids=stable)
    lance.write_dataset(pa.table({"id": [3], "text": ["hail d"]}), uri, mode="append")
    t = LanceTable.for_path(uri)
    t.indexes.create("text", kind="inverted")
    dataset = lance.dataset(uri)
    new = {"_rowid": pa.array([0, 1, 2], pa.uint64()), "text": ["snow a", "fog b", "rain c"]}
    new |= {"id": [0, 1, 2]} if "id" in column else {}
    fragment, fields = dataset.get_fragment(0).update_columns(pa.table(new), left_on="_rowid")
    update = lance.LanceOperation.Update(updated_fragments=[fragment], fields_modified=fields)
    lance.LanceDataset.commit(dataset, update, read_version=dataset.version)
    assert (ids(uri, "storm"), ids(uri, "snow"), ids(uri, "fog"), ids(uri, "hail")) == ([], [0], [1], [3])
    t.indexes.optimize()
    assert (ids(uri, "storm"), ids(uri, "snow"), ids(uri, "fog"), ids(uri, "hail")) == ([], [0], [1], [3])


def test_own_stop_words_hold_for_rows_that_are_added(uri):
    """pylance 14.0.2 does not describe them, so that they got lost."""
    lance.write_dataset(pa.table({"id": [0], "text": ["storm late"]}), uri)
    t = LanceTable.for_path(uri)
    t.indexes.create("text", kind="inverted", custom_stop_words=["storm"])
    lance.write_dataset(pa.table({"id": [1], "text": ["storm gate"]}), uri, mode="append")
    for _ in range(2):
        assert (ids(uri, "storm"), ids(uri, "gate"), ids(uri, "late")) == ([], [1], [0])
        t.indexes.optimize()
    assert lance.dataset(uri).stats.index_stats("text_idx")["num_unindexed_rows"] == 0


TOLD = [
    ({"base_tokenizer": "simple", "block_size": 128, "stem": True}, {"base_tokenizer": "simple", "stem": True}),
    ({"base_tokenizer": "simple", "block_size": 256}, {"base_tokenizer": "simple", "block_size": 256}),
    ({"base_tokenizer": "code", "index_operators": True}, {"analyzer": "code", "index_operators": True}),
    ({"base_tokenizer": "simple", "lance_tokenizer": "json"}, None),
    ({"base_tokenizer": "simple", "document_granularity": "list_element"}, None),
    ({}, None),
]


@pytest.mark.pure
@pytest.mark.parametrize(("described", "settings"), TOLD, ids=str)
def test_an_index_is_extended_as_it_was_built_or_not_at_all(described, settings):
    assert settings_of(find_kind("inverted"), described) == settings
