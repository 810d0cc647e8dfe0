"""MERGE as a table of cases: what SQL and Delta say of it, each beside a plain model."""
# ruff: noqa: ARG005 - conditions take both sides

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_spark import LanceTable
from support.row_changes import SCHEMA, ModelClause, changing_table, check_table, modelled, row_ids, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACES = [("exp", True), (None, False), ("exp", False), (None, True)]
"""Branch, and whether row ids are stable. The table of merges takes them in turn."""

UPDATE_ALL = ModelClause("when_matched_update_all")
INSERT_ALL = ModelClause("when_not_matched_insert_all")
DELETE = ModelClause("when_matched_delete")
NEWER = ModelClause("when_matched_update_all", ("source.x > target.x",), lambda t, s: s["x"] > t["x"])
GONE = ModelClause("when_matched_delete", ("source.day = 'gone'",), lambda t, s: s["day"] == "gone")
PRUNE = ModelClause("when_not_matched_by_source_delete", ("target.day = 'mon'",), lambda t, s: t["day"] == "mon")
ROWS = [(1, 5, "a"), (3, 5, "b"), (12, 0, "gone"), (25, 9, "c"), (40, 1, "d"), (None, 7, "n")]

CASES: dict[str, tuple[Any, list[tuple[Any, ...]], list[ModelClause]]] = {
    "upsert": ("id", ROWS, [UPDATE_ALL, INSERT_ALL]),
    "update only": ("id", ROWS, [UPDATE_ALL]),
    "insert only": ("id", ROWS, [INSERT_ALL]),
    "delete only": ("id", ROWS, [DELETE]),
    "the first clause whose condition is true": ("id", ROWS, [NEWER, GONE, INSERT_ALL]),
    "conditions in the other order": ("id", ROWS, [GONE, UPDATE_ALL, INSERT_ALL]),
    "no clause fits": ("id", [(1, -1, "a")], [NEWER]),
    "nothing matches": ("id", [(99, 1, "z")], [UPDATE_ALL]),
    "an empty source": ("id", [], [UPDATE_ALL, INSERT_ALL, PRUNE]),
    "rows that the source does not have": ("id", ROWS, [UPDATE_ALL, INSERT_ALL, PRUNE]),
    "all rows that the source does not have": (
        "id",
        ROWS,
        [ModelClause("when_not_matched_by_source_delete")],
    ),
    "set columns by both sides": (
        "id",
        ROWS,
        [
            ModelClause(
                "when_matched_update",
                ({"x": "target.x + source.x", "day": "source.day"}, "target.id < 20"),
                lambda t, s: t["id"] < 20,
                {"x": lambda t, s: t["x"] + s["x"], "day": lambda t, s: s["day"]},
            ),
            ModelClause(
                "when_not_matched_insert",
                ({"id": "source.id", "x": "source.x * 2"}, "source.id IS NOT NULL"),
                lambda t, s: s["id"] is not None,
                {"id": lambda t, s: s["id"], "x": lambda t, s: s["x"] * 2},
            ),
            ModelClause(
                "when_not_matched_by_source_update",
                ({"day": "upper(target.day)"}, "target.x = 1"),
                lambda t, s: t["x"] == 1,
                {"day": lambda t, s: t["day"].upper()},
            ),
        ],
    ),
    "a condition that is null is not true": (
        "id",
        [(1, None, "a"), (2, 5, "b")],
        [ModelClause("when_matched_update_all", ("source.x > 0",), lambda t, s: s["x"] is not None and s["x"] > 0)],
    ),
    "keys that are null are inserted": ("id", [(None, 1, "a"), (None, 2, "b")], [UPDATE_ALL, INSERT_ALL]),
    "a new key twice is inserted twice": ("id", [(50, 1, "a"), (50, 2, "b")], [UPDATE_ALL, INSERT_ALL]),
    "several rows delete one row": ("id", [(1, 1, "a"), (1, 2, "b")], [DELETE, INSERT_ALL]),
    "of several rows one applies": ("id", [(1, -1, "a"), (1, 2, "b")], [NEWER]),
    "a condition as the key": (
        "target.id = source.id AND target.day = 'tue'",
        ROWS,
        [UPDATE_ALL, INSERT_ALL],
    ),
    "a key of two columns": (["id", "day"], [(1, 7, "mon"), (2, 7, "tue"), (14, 7, "tue")], [UPDATE_ALL, INSERT_ALL]),
    "a condition without equality": (
        "target.id BETWEEN source.id AND source.x",
        [(1, 2, "a"), (15, 16, "b")],
        [ModelClause("when_matched_update", ({"day": "source.day"},), None, {"day": lambda t, s: s["day"]})],
    ),
    "values are those from before": (
        "id",
        [(1, 5, "a"), (2, 6, "b")],
        [
            ModelClause(
                "when_matched_update",
                ({"id": "target.x + 100", "x": "int(target.id)"},),
                None,
                {"id": lambda t, s: t["x"] + 100, "x": lambda t, s: t["id"]},
            ),
        ],
    ),
    "a key is updated to that of another row": (
        "id",
        [(1, 5, "a")],
        [ModelClause("when_matched_update", ({"id": "source.id + 1"},), None, {"id": lambda t, s: s["id"] + 1})],
    ),
    "of several inserts the first that holds": (
        "id",
        [(50, 5, "a"), (51, 0, "b"), (52, None, "c"), (1, 9, "d")],
        [
            ModelClause("when_not_matched_insert_all", ("source.x > 3",), lambda t, s: (s["x"] or 0) > 3),
            ModelClause(
                "when_not_matched_insert",
                ({"id": "source.id", "day": "'none'"}, "source.x IS NULL"),
                lambda t, s: s["x"] is None,
                {"id": lambda t, s: s["id"], "day": lambda t, s: "none"},
            ),
        ],
    ),
    "of several clauses for rows that the source does not have the first that holds": (
        "id",
        ROWS,
        [
            PRUNE,
            ModelClause(
                "when_not_matched_by_source_update",
                ({"x": "target.x + 1"}, "target.day = 'tue'"),
                lambda t, s: t["day"] == "tue",
                {"x": lambda t, s: t["x"] + 1},
            ),
            ModelClause("when_not_matched_by_source_update", ({"x": "7"},), None, {"x": lambda t, s: 7}),
        ],
    ),
    "keys that are null match by null-safe equality": (
        "target.id <=> source.id",
        [(None, 5, "a"), (1, 6, "b")],
        [UPDATE_ALL, INSERT_ALL],
    ),
    "a condition that never holds, and a constant one": (
        "false",
        [(1, 5, "a")],
        [UPDATE_ALL, ModelClause("when_not_matched_insert_all", ("true",))],
    ),
    "several rows delete one row under a condition": ("id", [(1, 1, "gone"), (1, 2, "gone")], [GONE]),
    "one of several rows deletes and none updates": ("id", [(1, -1, "gone"), (1, -2, "b")], [GONE, NEWER]),
    "nothing is to be done for rows that match": (
        "id",
        ROWS,
        [ModelClause("when_not_matched_by_source_delete", ("target.x = 2",), lambda t, s: t["x"] == 2), INSERT_ALL],
    ),
}
MATCHES: dict[str, Any] = {
    "target.id <=> source.id": lambda t, s: t["id"] == s["id"],
    "false": lambda t, s: False,
    "id": lambda t, s: t["id"] is not None and t["id"] == s["id"],
    "target.id = source.id AND target.day = 'tue'": lambda t, s: t["id"] == s["id"] is not None and t["day"] == "tue",
    "('id', 'day')": lambda t, s: (t["id"], t["day"]) == (s["id"], s["day"]),
    "target.id BETWEEN source.id AND source.x": lambda t, s: t["id"] is not None and s["id"] <= t["id"] <= s["x"],
}


def check_merge(spark: SparkSession, uri: str, name: str) -> None:
    """Run the case of that name, and compare the table with the model's."""
    on, given, clauses = CASES[name]
    branch, stable = PLACES[list(CASES).index(name) % len(PLACES)]
    location = changing_table(uri, branch, stable)
    before, known = rows_of(location, branch), row_ids(location, branch)
    table = LanceTable.for_path(uri, spark=spark).checkout(branch=branch or "main")
    merge = table.merge(spark.createDataFrame(given, "id bigint, x int, day string"), on=on)
    for clause in clauses:
        merge = getattr(merge, clause.method)(*clause.arguments)
    result = merge.execute(message=name)
    rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in given]
    matches = MATCHES[str(tuple(on) if isinstance(on, list) else on)]
    check_table(location, branch, modelled(before, rows, matches, clauses))
    after = rows_of(location, branch)
    assert len(after) - len(before) == result.rows_inserted - result.rows_deleted
    keys_change = any("update" in clause.method and "id" in (clause.values or {}) for clause in clauses)
    if stable and not keys_change:
        now = row_ids(location, branch)
        assert all(now[key] == known[key] for key in now.keys() & known.keys() if key is not None)
