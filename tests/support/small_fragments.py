"""Tables of many small fragments with every kind of index, and what has to hold of them whatever a compaction did."""

from __future__ import annotations

from collections.abc import Iterable

import lance
import numpy as np
import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.refs.refs import create_branch

ROWS = 10
"""In each fragment."""
INDEXES = ("id_idx", "k_idx", "s_idx", "v_idx")


def rows(ids: Iterable[int]) -> pa.Table:
    """Rows whose values follow from their ids."""
    ids = list(ids)
    vectors = np.array([vector(key) for key in ids], "float32").reshape(-1)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "k": pa.array([key % 5 for key in ids], pa.int32()),
            "s": [f"word{key % 7} and more" for key in ids],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 4),
        }
    )


def vector(key: int) -> list[float]:
    return [float(key), float(key % 3), 1.0, 0.0]


def append(root: str, first: int, fragments: int) -> None:
    """Fragments of ten rows, a version each."""
    for start in range(first, first + ROWS * fragments, ROWS):
        lance.write_dataset(rows(range(start, start + ROWS)), root, mode="append")


def fragmented(uri: str, stable: bool, inherited: int = 4, own: int = 4) -> DatasetLocation:
    """Main with ``inherited`` fragments and an index of each kind; the branch exp has ``own`` fragments more."""
    lance.write_dataset(rows(range(ROWS)), uri, enable_stable_row_ids=stable)
    append(uri, ROWS, inherited - 1)
    add_indexes(uri)
    location = DatasetLocation.at(uri)
    create_branch(location, "exp", RefSpec())
    append(location.branch_uri("exp"), inherited * ROWS, own)
    return location


def add_indexes(root: str) -> None:
    """One of each kind on the rows that are there."""
    lance.dataset(root).create_scalar_index("id", "BTREE")
    lance.dataset(root).create_scalar_index("k", "BITMAP")
    lance.dataset(root).create_scalar_index("s", "INVERTED")
    lance.dataset(root).create_index("v", "IVF_FLAT", num_partitions=2)


def check_rows(root: str, ids: Iterable[int]) -> None:
    """The table has these rows and is sound; by each of its indexes one finds what is there."""
    expected = set(ids)
    dataset = lance.dataset(root)
    dataset.validate()
    assert dataset.to_table().sort_by("id").to_pylist() == rows(sorted(expected)).to_pylist()
    for key in {*list(expected)[::7], min(expected), max(expected)}:
        assert found(dataset, filter=f"id = {key}") == {key}
        nearest = {"column": "v", "q": vector(key), "k": 1, "nprobes": 2}
        assert found(dataset, nearest=nearest) == {key}
    assert found(dataset, filter="k = 3") == {key for key in expected if key % 5 == 3}
    assert found(dataset, full_text_query="word4") == {key for key in expected if key % 7 == 4}


def found(dataset: lance.LanceDataset, **question: object) -> set[int]:
    ids: list[int] = dataset.scanner(columns=["id"], **question).to_table()["id"].to_pylist()
    assert len(ids) == len(set(ids))
    return set(ids)


def sizes(root: str) -> list[int]:
    """Rows of each fragment."""
    return [fragment.count_rows() for fragment in lance.dataset(root).get_fragments()]


def covered(root: str) -> dict[str, set[int]]:
    """Which of the fragments each index knows, by its name."""
    dataset = lance.dataset(root)
    there = {fragment.fragment_id for fragment in dataset.get_fragments()}
    names: dict[str, set[int]] = {}
    for index in dataset.list_indices():
        names.setdefault(index["name"], set()).update(there & set(index["fragment_ids"]))
    return names


def all_covered(root: str) -> dict[str, set[int]]:
    """What :func:`covered` is where every index knows every fragment."""
    there = {fragment.fragment_id for fragment in lance.dataset(root).get_fragments()}
    return dict.fromkeys(INDEXES, there)
