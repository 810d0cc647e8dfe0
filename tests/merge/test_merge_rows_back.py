"""Rows that come back in fragments in which somebody wrote columns while they were deleted."""

import lance
import pyarrow as pa
import pytest
from support.backfills import LocalValues
from support.merge_datasets import assert_sound, error_of, exp, forked, head, rows, run

from lance_spark.columns.columns import add_filled_columns, update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, NotCommittable
from lance_spark.merge.merge import revert
from lance_spark.storage.datasets import locate

OPTIONS = BackfillOptions(resume=False)


def values(uri, name, times):
    kinds = {name: pa.int64()}
    return LocalValues(locate(uri), lambda batch: {name: [times * n for n in batch["id"].to_pylist()]}, **kinds)


WRITES = {
    "new values": lambda uri, branch: update_filled_columns(locate(uri), branch, values(uri, "v", 7), OPTIONS),
    "a new column": lambda uri, branch: add_filled_columns(locate(uri), branch, values(uri, "w", 7), OPTIONS),
    "a column of pylance": lambda uri, branch: head(uri, branch).add_columns({"w": "id * 7"}),
}
COLUMN = {"new values": "v", "a new column": "w", "a column of pylance": "w"}


def reverted(uri, version):
    return revert(locate(uri), PinnedVersion(None, version), None, LocalRunner())


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def uri(request, tmp_path):
    return forked(str(tmp_path / "t.lance"), request.param, index=False)


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("write", WRITES)
def test_a_revert_does_not_bring_rows_back_with_values_of_their_neighbours(uri, write):
    head(uri).delete("id in (3, 15)")
    deleted = head(uri).version
    WRITES[write](uri, None)
    before = rows(head(uri))
    with pytest.raises(Conflict, match=f"no values in column '{COLUMN[write]}', which was written while") as refusal:
        reverted(uri, deleted)
    assert "t.revert(version)" in refusal.value.hint
    assert rows(head(uri)) == before


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("write", WRITES)
def test_what_the_hint_says_leads_out(uri, write):
    head(uri).delete("id in (3, 15)")
    deleted = head(uri).version
    WRITES[write](uri, None)
    reverted(uri, head(uri).version)
    reverted(uri, deleted)
    WRITES[write](uri, None)
    assert [(row["id"], row[COLUMN[write]]) for row in rows(head(uri))] == [(n, 7 * n) for n in range(30)]
    assert_sound(head(uri))


@pytest.mark.parametrize("back_on_main", [True, False])
def test_a_merge_does_not_bring_rows_back_with_values_of_their_neighbours(tmp_path, back_on_main):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": pa.array(range(5), pa.int64()), "v": pa.array(range(5), pa.int64())}), uri)
    head(uri).delete("id = 3")
    lance.dataset(uri).create_branch("exp")
    if back_on_main:
        reverted(uri, 2)
        WRITES["new values"](uri, "exp")
        assert "no values in column 'v'" in str(error_of(uri))
        return
    WRITES["new values"](uri, None)
    revert(locate(uri), PinnedVersion(None, 2), "exp", LocalRunner())
    assert [row["id"] for row in rows(exp(uri))] == [*range(5)]
    assert "no values in column 'v'" in str(error_of(uri))


def test_other_rows_that_were_deleted_since_do_not_matter(uri):
    WRITES["new values"](uri, "exp")
    head(uri).delete("id = 3")
    run(uri)
    assert [(row["id"], row["v"]) for row in rows(head(uri))] == [(n, 7 * n) for n in range(30) if n != 3]


@pytest.mark.parametrize("index", [True, False])
def test_columns_that_changed_while_rows_return_are_refused_by_the_dry_run_too(tmp_path, index):
    """Committed together, an index would miss the rows."""
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": pa.array(range(5), pa.int64()), "v": pa.array(range(5), pa.int64())}), uri)
    head(uri).delete("id = 3")
    if index:
        head(uri).create_scalar_index("id", "BTREE")
    head(uri).create_branch("exp")
    revert(locate(uri), PinnedVersion(None, 2), "exp", LocalRunner())
    exp(uri).add_columns(pa.field("w", pa.int64()))
    if not index:
        run(uri)
        assert [row["id"] for row in rows(head(uri))] == [*range(5)]
        return
    planned, done = error_of(uri, dry_run=True), error_of(uri)
    assert isinstance(planned, NotCommittable)
    assert str(planned) == str(done)
    assert "indexes would miss those rows" in str(done)
    assert "w" not in head(uri).schema.names


LATER = {
    "delete": lambda uri: head(uri).delete("id = 7"),
    "update": lambda uri: head(uri).update({"v": "v + 1"}, "id = 7"),
    "upsert": lambda uri: head(uri).merge_insert("id").when_matched_update_all().execute(pa.table({"id": [7]})),
}


@pytest.mark.parametrize("later", LATER)
def test_a_delete_between_two_other_changes_of_the_same_fragment_is_reverted(uri, later):
    head(uri).delete("id = 5")
    head(uri).delete("id in (3, 15)")
    deleted = head(uri).version
    LATER[later](uri)
    expected = {row["id"] for row in rows(head(uri))} | {3, 15}
    reverted(uri, deleted)
    assert sorted(row["id"] for row in rows(head(uri))) == sorted(expected)
    assert 5 not in expected
    assert_sound(head(uri))
