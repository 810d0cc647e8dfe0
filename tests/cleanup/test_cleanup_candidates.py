"""Candidates, sums and outcomes: every file that was decided on is told once, with its branch and its end."""

from collections import Counter
from datetime import datetime, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.cleanup import sweep_rules

pytestmark = pytest.mark.pure

NAMES = ("main", "exp/a")


def decided(path, size=10, chain=0, kind="data", action="delete", reason="why", verified=True, files=1):
    """A row of DECIDED; without a path one that sums up files that stay."""
    return {
        **dict.fromkeys(("path", "key", "local"), path),
        "kind": kind,
        "chain": chain,
        "size": size,
        "modified_ns": 1_700_000_000_123_456_000 if path else None,
        "action": action,
        "reason": reason,
        "verified": verified,
        "files": files,
    }


def batches_of(rows, schema=sweep_rules.DECIDED, size=2):
    return iter(pa.Table.from_pylist(rows, schema).to_batches(max_chunksize=size))


def test_candidates_are_the_files_that_go_with_their_whole_path_and_branch():
    rows = [
        decided("tree/exp/a/data/x.lance", chain=1, kind="blob", verified=False),
        decided("README", action="keep"),
        decided(None, action="keep", verified=None, files=7),
        decided("data/y.lance", action="missing", verified=None),
    ]
    batches = sweep_rules.to_candidates(batches_of(rows), "s3://b/t", NAMES)
    assert [row for batch in batches for row in batch.to_pylist()] == [
        {
            "path": "s3://b/t/tree/exp/a/data/x.lance",
            "kind": "blob",
            "size": 10,
            "last_modified": datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=timezone.utc),
            "branch": "exp/a",
            "reason": "why",
            "verified": False,
            **dict.fromkeys(("file", "key", "local"), "tree/exp/a/data/x.lance"),
        }
    ]
    assert [batch.schema for batch in sweep_rules.to_candidates(batches_of(rows[:1]), "/t", NAMES)] == [
        sweep_rules.CANDIDATES
    ]


def test_manifests_are_told_from_other_candidates():
    (batch,) = sweep_rules.to_candidates(batches_of([decided("m", kind="manifest"), decided("d")]), "/t", NAMES)
    assert sweep_rules.is_manifest(batch).to_pylist() == [True, False]


def test_the_oldest_manifest_of_each_branch_is_deleted_first_whatever_the_scheme_of_its_name():
    newer = [(number, f"_versions/{2**64 - 1 - number:020}.manifest") for number in (3, 12, 1)]
    older = [(number, f"_versions/{number}.manifest") for number in (2, 10)]
    paths = [path for _, path in newer + older] + [f"tree/exp/a/{path}" for _, path in newer]
    branches = ["main"] * 5 + ["exp/a"] * 3
    rows = [{"file": path, "branch": branch} for path, branch in zip(paths, branches, strict=True)]
    numbers = {path: number for number, path in newer + older}
    ordered = sweep_rules.in_deletion_order(pa.Table.from_pylist(rows, sweep_rules.CANDIDATES)).to_pylist()
    assert [(row["branch"], numbers[row["file"].removeprefix("tree/exp/a/")]) for row in ordered] == [
        *(("exp/a", number) for number in (1, 3, 12)),
        *(("main", number) for number in (1, 2, 3, 10, 12)),
    ]
    assert sweep_rules.in_deletion_order(sweep_rules.CANDIDATES.empty_table()).num_rows == 0


ROWS = st.builds(
    decided,
    path=st.sampled_from(["data/a", "data/b", "data/é"]),
    size=st.integers(0, 2**50),
    chain=st.sampled_from([0, 1]),
    kind=st.sampled_from(["data", "index"]),
    action=st.sampled_from(["delete", "keep", "missing"]),
    reason=st.sampled_from(["why", "because"]),
    verified=st.sampled_from([None, True, False]),
    files=st.integers(1, 9),
)


@given(rows=st.lists(ROWS, max_size=12), cut=st.integers(0, 12))
def test_sums_of_parts_add_up_to_those_of_the_whole(rows, cut):
    parts = [batch for part in (rows[:cut], rows[cut:]) for batch in sweep_rules.sum_up(batches_of(part), NAMES)]
    total = sweep_rules.add_up(pa.Table.from_batches(parts, sweep_rules.SUMS))
    assert total.schema.equals(sweep_rules.SUMS)
    files, size, paths = Counter(), Counter(), {}
    for row in rows:
        group = row["kind"], NAMES[row["chain"]], row["action"], row["reason"], row["verified"]
        files[group] += row["files"]
        size[group] += row["size"]
        paths[group] = min(paths.get(group, row["path"]), row["path"])
    groups = [tuple(row[name] for name in sweep_rules.SUMS.names[:5]) for row in total.to_pylist()]
    assert len(set(groups)) == len(groups)
    assert {group: row["files"] for group, row in zip(groups, total.to_pylist(), strict=True)} == files
    assert {group: row["bytes"] for group, row in zip(groups, total.to_pylist(), strict=True)} == size
    assert {group: row["example"] for group, row in zip(groups, total.to_pylist(), strict=True)} == paths
    assert [group[:4] for group in groups] == sorted(group[:4] for group in groups)


def candidates(*files):
    rows = [
        {"path": f"/t/{file}", "kind": "data", "size": 10, "branch": "main", "reason": "why", "file": file}
        for file in files
    ]
    return pa.RecordBatch.from_pylist(rows, sweep_rules.CANDIDATES)


def test_every_candidate_has_one_end_and_what_is_in_none_of_them_became_live():
    batch = sweep_rules.outcome_rows(candidates(*"abcdef"), deleted="ab", gone="c", failed={"d": "AccessDenied"})
    assert batch.schema.equals(sweep_rules.OUTCOMES)
    ends = {row["outcome"]: (row["reason"], row["files"], row["bytes"], row["example"]) for row in batch.to_pylist()}
    assert ends == {
        "deleted": ("why", 2, 20, "a"),
        "already gone": ("why", 1, 10, "c"),
        "failed": ("why", 1, 10, "d: AccessDenied"),
        "kept": ("became live", 2, 20, "e"),
    }


def test_outcomes_of_batches_add_up():
    batches = [sweep_rules.outcome_rows(candidates(*files), "abc", (), {}) for files in ("ab", "cx")]
    rows = sweep_rules.add_up(pa.Table.from_batches(batches)).to_pylist()
    assert [(row["outcome"], row["files"], row["bytes"], row["example"]) for row in rows] == [
        ("kept", 1, 10, "x"),
        ("deleted", 3, 30, "a"),
    ]
    assert sweep_rules.add_up(sweep_rules.OUTCOMES.empty_table()).num_rows == 0
