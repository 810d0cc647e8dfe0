"""Tables whose histories are random, to search beside pylance and beside what their rows really are."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from lance_spark import LanceTable
from lance_spark.errors import LanceSparkError

WORDS = ("storm", "late", "night", "berlin", "delay", "gate", "fog", "snow", "early", "bird")
DIMENSION = 4
_KINDS = ("ivf_flat", "ivf_flat", "ivf_pq", "ivf_sq", "ivf_rq", "ivf_hnsw_flat", "ivf_hnsw_sq")
_TYPES = (pa.float32(), pa.float32(), pa.float32(), pa.float16(), pa.float64())


class SearchedTable:
    """A table with vectors and texts, changed by random steps on main and on branches."""

    def __init__(self, uri: str, seed: int) -> None:
        self.uri = uri
        self.rng = random.Random(seed)
        self.type = self.rng.choice(_TYPES)
        self.grid = self.rng.random() < 0.4
        """Whether vectors have few different numbers: then many are equally near."""
        self.nulls = self.rng.choice((0.0, 0.1))
        self.odd = self.rng.choice((0.0, 0.0, 0.05))
        self.stable = self.rng.random() < 0.5
        self.positions = self.rng.random() < 0.5
        self.next_id = 0
        self.done: list[str] = []
        self.branches: list[str | None] = [None]
        lance.write_dataset(
            self.rows(self.rng.randint(1, 150)),
            uri,
            max_rows_per_file=self.rng.choice((20, 50, 1000)),
            enable_stable_row_ids=self.stable,
        )

    def __str__(self) -> str:
        kind = f"{self.type} grid={self.grid} nulls={self.nulls} odd={self.odd} stable={self.stable}"
        return f"{kind} positions={self.positions}: {'; '.join(self.done)}"

    def vector(self) -> list[float] | None:
        """One for a row."""
        if self.rng.random() < self.nulls:
            return None
        if self.rng.random() < self.odd:
            return self.rng.choice(([0.0] * DIMENSION, [float("nan")] + [1.0] * (DIMENSION - 1)))
        if self.grid:
            return [float(self.rng.randint(-1, 1)) for _ in range(DIMENSION)]
        return [self.rng.gauss(0, 1) for _ in range(DIMENSION)]

    def text(self) -> str | None:
        """One for a row."""
        if self.rng.random() < self.nulls:
            return self.rng.choice((None, "", "..."))
        return " ".join(self.rng.choice(WORDS) for _ in range(self.rng.randint(1, 6)))

    def vectors(self, count: int) -> pa.Array:
        """A column of vectors."""
        numbers = [self.vector() for _ in range(count)]
        flat = np.array([each or [0.0] * DIMENSION for each in numbers], "f8").reshape(-1)
        values = pa.array(flat.astype(self.type.to_pandas_dtype()), self.type)
        missing = pa.array([each is None for each in numbers], pa.bool_())
        return pa.FixedSizeListArray.from_arrays(values, DIMENSION, mask=missing)

    def texts(self, count: int) -> pa.Array:
        """A column of texts."""
        return pa.array([self.text() for _ in range(count)], pa.string())

    def rows(self, count: int) -> pa.Table:
        """New rows."""
        ids = range(self.next_id, self.next_id + count)
        self.next_id += count
        return self._table(pa.array(ids, pa.int64()))

    def _table(self, ids: pa.Array) -> pa.Table:
        names = {"id": ids, "k": pa.array([self.rng.randint(0, 4) for _ in ids], pa.int64())}
        return pa.table({**names, "text": self.texts(len(ids)), "v": self.vectors(len(ids))})

    def head(self, branch: str | None) -> lance.LanceDataset:
        """A branch as pylance opens it."""
        dataset = lance.dataset(self.uri)
        return dataset if branch is None else dataset.checkout_version((branch, None))

    def table(self, branch: str | None) -> LanceTable:
        """A branch as this package opens it."""
        t = LanceTable.for_path(self.uri)
        return t if branch is None else t.checkout(branch=branch)

    def step(self) -> None:
        """Change something, or try to."""
        steps: dict[Callable[[str | None], None], int] = {
            self._append: 4,
            self._delete: 2,
            self._update: 2,
            self._upsert: 2,
            self._compact: 1,
            self._index_vectors: 3,
            self._index_texts: 3,
            self._extend: 2,
            self._extend_by_pylance: 1,
            self._branch: 1,
            self._merge: 1,
            self._replace_column: 1,
            self._rename_column: 1,
            self._overwrite: 1 if self.rng.random() < 0.2 else 0,
            self._restore: 1 if self.rng.random() < 0.3 else 0,
        }
        (chosen,) = self.rng.choices(list(steps), list(steps.values()))
        branch = self.rng.choice(self.branches)
        self.done.append(f"{chosen.__name__[1:]} {branch or 'main'}")
        try:
            chosen(branch)
        except LanceSparkError as refused:
            self.done.append(f"({type(refused).__name__})")

    def _append(self, branch: str | None) -> None:
        rows = self.rows(self.rng.randint(1, 60))
        lance.write_dataset(rows, self.head(branch), mode="append", max_rows_per_file=self.rng.choice((10, 1000)))

    def _delete(self, branch: str | None) -> None:
        where = self.rng.choice((f"id % 7 = {self.rng.randint(0, 6)}", f"k = {self.rng.randint(0, 4)}", "id < 15"))
        self.head(branch).delete(where)

    def _update(self, branch: str | None) -> None:
        words = self.rng.choice(WORDS)
        self.head(branch).update({"text": f"'{words} changed'"}, f"id % 5 = {self.rng.randint(0, 4)}")

    def _upsert(self, branch: str | None) -> None:
        there = self.head(branch).to_table(columns=["id"])["id"].to_pylist()
        ids = self.rng.sample(there, min(len(there), 12))
        rows = self._table(pa.array(ids, pa.int64()))
        if self.rng.random() < 0.4:  # Some columns only: pylance writes these beside the others.
            rows = rows.select(["id", self.rng.choice(("v", "text"))])
            self.head(branch).merge_insert("id").when_matched_update_all().execute(rows)
        else:
            self.head(branch).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def _compact(self, branch: str | None) -> None:
        if self.rng.random() < 0.5:
            self.head(branch).optimize.compact_files(target_rows_per_fragment=200)
        else:
            self.table(branch).optimize(own_only=False)

    def _index_vectors(self, branch: str | None) -> None:
        kind = self.rng.choice(_KINDS)
        more: dict[str, Any] = {"num_sub_vectors": 2, "num_bits": 4} if kind == "ivf_pq" else {}
        metric = self.rng.choice(("l2", "l2", "cosine", "dot"))
        self.done.append(f"{kind} {metric}")
        self.table(branch).indexes.create("v", kind=kind, metric=metric, num_partitions=2, replace=True, **more)

    def _index_texts(self, branch: str | None) -> None:
        plain: dict[str, Any] = {"stem": False, "remove_stop_words": False, "with_position": self.positions}
        if self.rng.random() < 0.5:
            self.head(branch).create_scalar_index("text", "INVERTED", replace=True, name="text_idx", **plain)
        else:
            self.table(branch).indexes.create("text", kind="inverted", replace=True, **plain)

    def _extend(self, branch: str | None) -> None:
        self.table(branch).indexes.optimize()

    def _extend_by_pylance(self, branch: str | None) -> None:
        self.head(branch).optimize.optimize_indices(num_indices_to_merge=self.rng.choice((0, 1)))

    def _branch(self, branch: str | None) -> None:
        if len(self.branches) < 3:
            name = f"b{len(self.branches)}-{len(self.done)}"
            self.head(branch).create_branch(name)
            self.branches.append(name)

    def _merge(self, branch: str | None) -> None:
        if branch is not None:
            LanceTable.for_path(self.uri).branches.merge(branch)

    def _replace_column(self, branch: str | None) -> None:
        column = self.rng.choice(("v", "text"))
        self.head(branch).drop_columns([column])
        self._add(branch, column)

    def _rename_column(self, branch: str | None) -> None:
        """A column has another name for a while, so that its indexes are of that one."""
        column = self.rng.choice(("v", "text"))
        self.head(branch).alter_columns({"path": column, "name": "old"})
        self._add(branch, column)
        self.head(branch).drop_columns(["old"])

    def _add(self, branch: str | None, column: str) -> None:
        values = (self.vectors if column == "v" else self.texts)(self.head(branch).count_rows())
        rows = pa.table({column: values})
        self.head(branch).add_columns(rows.to_reader() if rows.num_rows else rows.schema)

    def _overwrite(self, branch: str | None) -> None:
        lance.write_dataset(self.rows(self.rng.randint(1, 80)), self.head(branch), mode="overwrite")

    def _restore(self, branch: str | None) -> None:
        if branch is None:
            versions = [each["version"] for each in lance.dataset(self.uri).versions()]
            old = lance.dataset(self.uri, version=self.rng.choice(versions))
            if {*old.schema.names} == {"id", "k", "text", "v"}:
                old.restore()

    def contents(self, branch: str | None) -> dict[int, tuple[list[float] | None, str | None, int]]:
        """What the rows are: vectors, texts and k, by id."""
        rows = self.head(branch).to_table(columns=["id", "v", "text", "k"]).to_pylist()
        return {row["id"]: (row["v"], row["text"], row["k"]) for row in rows}


def distance(metric: str, one: list[float] | None, query: Any) -> float | None:
    """The distance of a vector; None where it has none."""
    if one is None:
        return None
    vector, other = np.array(one, "f8"), np.array(query, "f8")
    if metric == "l2":
        found = float(((vector - other) ** 2).sum())
    elif metric == "dot":
        found = 1.0 - float(vector @ other)
    else:
        with np.errstate(invalid="ignore", divide="ignore"):
            found = 1.0 - float(vector @ other / np.linalg.norm(vector) / np.linalg.norm(other))
    return found if np.isfinite(found) else None


def matches(text: str | None, words: str, operator: str = "or", letters: int = 0) -> bool:
    """Whether a text has one of the words, or all of them; they may differ by some letters."""
    have = {*re.findall(r"\w+", (text or "").lower())}
    wanted = words.lower().split()
    there = (any(word == each or (letters and alike(word, each, letters)) for each in have) for word in wanted)
    return bool(wanted) and (all if operator == "and" else any)(there)


def alike(one: str, other: str, letters: int) -> bool:
    """Whether words differ by at most so many letters that are others, missing or too many."""
    line = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, line = line, [at]
        for place, each in enumerate(other, 1):
            line.append(min(before[place] + 1, line[-1] + 1, before[place - 1] + (letter != each)))
    return line[-1] <= letters
