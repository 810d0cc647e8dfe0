"""A publish on S3: the same end, and a window that does not grow with the number of tables."""

from concurrent.futures import ThreadPoolExecutor

import lance
import pytest
from support.local_datasets import numbers

from lance_spark.catalog import journal as journals
from lance_spark.catalog import manifest_commits
from lance_spark.catalog.entry_rules import Entry, RowFilter
from lance_spark.catalog.lake_rules import KEY
from lance_spark.catalog.lookup import locate_table, open_catalog
from lance_spark.catalog.tables import declare_table
from lance_spark.engine.local import LocalRunner
from lance_spark.lake import publish as publishing
from lance_spark.lake.manifest_rules import BranchRows

pytestmark = pytest.mark.s3
ENGINE = LocalRunner()


@pytest.fixture
def catalog(bucket, storage):
    return open_catalog(f"s3://{bucket}/lake", storage_options=storage)


def branch_of(catalog, names, storage):
    """Tables with a branch that has one more row, as the rows of a branch of the lake."""
    for name in names:
        declared = declare_table(catalog, name)
        lance.write_dataset(numbers(3), declared.location.uri, storage_options=storage)
        dataset = lance.dataset(declared.location.uri, storage_options=storage)
        own = dataset.create_branch("etl")
        lance.write_dataset(numbers(1, 10), own, mode="append", storage_options=storage)
    rows = manifest_commits.read_rows(catalog.manifest, RowFilter(everything=True)).entries
    pinned = [
        Entry(row.object_id, "table", row.location, f'{{"{KEY}":"{{\\"version\\":1,\\"branch\\":\\"etl\\"}}"}}')
        for row in rows
    ]
    return BranchRows("etl", rows, tuple(pinned))


def ids(catalog, name, storage):
    return sorted(lance.dataset(locate_table(catalog, name).uri, storage_options=storage).to_table()["id"].to_pylist())


def test_one_of_several_publishers_gets_a_number(catalog, storage):
    names = ["a", "b", "c"]
    plan = publishing.plan_publish(catalog, branch_of(catalog, names, storage), ENGINE)
    several = [publishing.replace(plan.journal, sequence=1, id=f"0000000{number}") for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(lambda each: journals.write_journal(catalog.manifest, each), several))
    assert sum(won) == 1
    assert journals.read_journal(catalog.manifest, 1) == several[won.index(True)]


def test_helpers_at_the_same_time_publish_once(catalog, storage):
    names = ["a", "b", "c"]
    branch = branch_of(catalog, names, storage)
    plan = publishing.plan_publish(catalog, branch, ENGINE)
    journal = publishing.replace(plan.journal, sequence=1)
    assert journals.write_journal(catalog.manifest, journal)
    others = [publishing.replace(journal, id=f"0000000{number}") for number in range(2)]
    with ThreadPoolExecutor(3) as pool:
        assert not any(pool.map(lambda other: journals.write_journal(catalog.manifest, other), others))
        outcomes = list(pool.map(lambda own: publishing.finish(catalog, journal, ENGINE, own), [plan.prepared, {}, {}]))
    assert len(set(outcomes)) == 1
    assert outcomes[0].is_published
    assert [ids(catalog, name, storage) for name in names] == [[0, 1, 2, 10]] * 3
    assert publishing.publish(catalog, lambda: branch, ENGINE) is None


@pytest.mark.parametrize("count", [2, 6])
def test_the_window_costs_each_table_a_few_requests(bucket, storage_through, faulty, count):
    catalog = open_catalog(f"s3://{bucket}/lake", storage_options=storage_through)
    names = [f"t{number}" for number in range(count)]
    plan = publishing.plan_publish(catalog, branch_of(catalog, names, storage_through), ENGINE)
    journal = publishing.replace(plan.journal, sequence=1)
    journals.write_journal(catalog.manifest, journal)
    faulty.seen.clear()
    done = publishing._forward(catalog, journal, ENGINE, plan.prepared)
    assert len(done.tables) == count
    assert len(faulty.seen) <= 15 * count
