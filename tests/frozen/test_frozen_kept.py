"""Whatever happens to the table, its branches, clones and remotes: a frozen set keeps its rows, order and lineage."""

import json
from datetime import timedelta

import lance
import pyarrow as pa
import pytest
from support.local_datasets import make_dataset

from lance_spark import CleanupPolicy, LanceTable
from lance_spark.errors import Refused

SPLIT = {"train": 0.8, "val": 0.2}
CALL = {"filter": "id < 90", "split": SPLIT, "by": "patient", "seed": 7}
EVERYTHING = CleanupPolicy(retain_versions=1, commit_window=timedelta(0), error_if_tagged_old_versions=False)


def visits(first=0, count=100):
    ids = list(range(first, first + count))
    return pa.table({"id": ids, "patient": [f"p{n // 5}" for n in ids], "note": [f"note {n}" for n in ids]})


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def uri(tmp_path, request):
    uri = str(tmp_path / "visits.lance")
    make_dataset(uri, visits(), max_rows_per_file=30, enable_stable_row_ids=request.param).delete("id % 7 = 0")
    return uri


def table_at(uri):
    return LanceTable.for_path(uri)


def rows_of(uri, name="s", **options):
    return pa.Table.from_batches(table_at(uri).frozen.batches(name, with_position=True, **options))


def by_pylance(uri, name="s"):
    """The rows of a set without a line of ours."""
    plan = lance.dataset(uri, version=f"frozen-{name}").to_table()
    rows = lance.dataset(uri, version=name).take(plan["row_offset"].to_pylist())
    for at, column in ((len(rows.schema), "split"), (len(rows.schema) + 1, "position")):
        rows = rows.add_column(at, pa.field(f"_{column}", plan.schema.field(column).type, False), plan[column])
    return rows


def change_everything(uri, branch=None):
    """Rows updated, deleted, added and moved to other files, and every version but the newest cleaned away."""
    place = uri if branch is None else f"{uri}/tree/{branch}"
    lance.dataset(place).update({"note": "'late'", "patient": "'somebody'"}, where="id < 60")
    lance.dataset(place).delete("id >= 40 AND id < 70")
    lance.write_dataset(visits(500, 40), place, mode="append")
    lance.dataset(place).optimize.compact_files()
    plans = [f"{uri}/tree/{name}" for name in lance.dataset(uri).branches.list() if name.startswith("frozen/")]
    for every in (uri, place, *plans):
        lance.dataset(every).cleanup_old_versions(
            older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
        )
    table_at(uri).cleanup(EVERYTHING).apply()


def test_rows_that_are_updated_later_stay_as_they_were(uri):
    table_at(uri).frozen.create("s", **CALL)
    before = rows_of(uri)
    change_everything(uri)
    assert rows_of(uri) == before == by_pylance(uri)
    assert before.sort_by("id")["note"].to_pylist() == [f"note {n}" for n in range(90) if n % 7]
    assert table_at(uri).fsck(deep=True).sound


def test_pylance_reads_the_lineage_from_the_properties_of_the_plan(uri):
    table_at(uri).branches.create("exp")
    table_at(uri).checkout(branch="exp").frozen.create("s", code="3f2c9a1", **CALL)
    change_everything(uri, "exp")
    kept = json.loads(lance.dataset(uri, version="frozen-s").schema.metadata[b"lance_spark.frozen"])
    assert (kept["uri"], kept["source"]["branch"], kept["source"]["version"]) == (uri, "exp", 2)
    spec = kept["spec"]
    assert (spec["filter"], spec["by"], spec["seed"], spec["code"]) == ("id < 90", ["patient"], 7, "3f2c9a1")
    assert spec["splits"] == [["train", "0.8"], ["val", "0.2"]]
    assert kept["software"].startswith("lance_spark ")
    assert f"pylance {lance.__version__}" in kept["software"]


def test_a_branch_that_was_frozen_is_not_deleted_by_any_verb(uri):
    table = table_at(uri)
    table.branches.create("exp", expire_after="1h")
    lance.write_dataset(visits(100, 20), f"{uri}/tree/exp", mode="append")
    table.checkout(branch="exp").frozen.create("s", split=SPLIT, seed=1)
    before = rows_of(uri)
    with pytest.raises(Refused, match=r"t\.frozen\.delete\('s'\)"):
        table.branches.delete("exp")
    with pytest.raises(OSError, match="exp"):
        lance.dataset(uri).branches.delete("exp")
    with pytest.raises(OSError, match=r"frozen/s|exp"):
        lance.dataset(uri).branches.delete("frozen/s")
    table.branches.merge("exp")
    table.expire_refs(force=True, warn=timedelta(0))
    change_everything(uri, "exp")
    assert rows_of(uri) == before == by_pylance(uri)


def test_a_clones_own_set_is_kept_while_its_source_is_compacted_and_cleaned(uri, tmp_path):
    """The clone reads files of the source: its tags there move on with each pull, but not away from these."""
    clone = table_at(uri).clone(str(tmp_path / "clone.lance"))
    there = clone.location.uri
    lance.write_dataset(visits(100, 5), there, mode="append")
    clone.frozen.create("s", **CALL)
    before = rows_of(there)
    for number in range(12):  # tags at the source are pruned from the ninth on
        lance.write_dataset(visits(1000 + number, 1), uri, mode="append")
        clone.remotes.pull()
    change_everything(uri)
    clone.remotes.fetch()
    clone.cleanup(EVERYTHING).apply()
    change_everything(uri)
    assert rows_of(there) == before == by_pylance(there)
    assert clone.fsck(deep=True).sound


def test_a_set_stays_at_a_remote_that_is_pushed_to_and_pulled_from(uri, tmp_path):
    table_at(uri).frozen.create("s", **CALL)
    before = rows_of(uri)
    clone = table_at(uri).clone(str(tmp_path / "clone.lance"))
    fetched = f"{clone.location.uri}/tree/origin/frozen/s"
    plan = lance.dataset(uri, version="frozen-s").to_table()
    lance.dataset(clone.location.uri).delete("id < 50")
    clone.remotes.push()
    change_everything(uri)
    clone.remotes.pull()
    clone.cleanup(EVERYTHING).apply()
    assert rows_of(uri) == before == by_pylance(uri)
    assert lance.dataset(fetched).to_table() == plan
    assert table_at(uri).fsck(deep=True).sound
    assert clone.fsck(deep=True).sound
