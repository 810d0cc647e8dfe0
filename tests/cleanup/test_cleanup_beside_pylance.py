"""Our dry run beside ``explain_cleanup_old_versions``, on random histories without branches.

The same files, except for these improvements on pylance 14.0.2:

- manifests that a writer staged and did not finish (``<number>.manifest-<uuid>``) go when they are old enough;
- transaction and deletion files that no version names go by their age alone: pylance does not list those newer than
  its oldest kept manifest, not even with ``delete_unverified``;
- files of a version that is detached stay: pylance does not look at detached versions.

And one difference in words: pylance calls files older than a week unverified although a removed version names them.
"""

import os
import random
from datetime import timedelta

import lance
import pytest
from support.cleanup_datasets import BLOB_DIGITS, NOW, UUID, age_all, candidates, plan, put
from support.kinds import NIGHT
from support.local_datasets import numbers

KINDS = {"temporary_manifest": "staging"}


def append(uri, rng):
    lance.write_dataset(numbers(rng.randint(1, 9), rng.randrange(1000)), uri, mode="append", max_rows_per_file=4)


def overwrite(uri, rng):
    lance.write_dataset(numbers(rng.randint(1, 9), rng.randrange(1000)), uri, mode="overwrite", max_rows_per_file=4)


def delete(uri, rng):
    lance.dataset(uri).delete(f"id % {rng.randint(2, 5)} = 0")


def update(uri, rng):
    lance.dataset(uri).update({"id": "id + 1"}, where=f"id % {rng.randint(2, 5)} = 1")


def compact(uri, rng):
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=rng.choice([8, 1000]))


def index(uri, rng):
    lance.dataset(uri).create_scalar_index("id", rng.choice(["BTREE", "BITMAP"]), replace=True)


def extend_index(uri, rng):
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=rng.randint(0, 2))


def restore(uri, rng):
    versions = lance.dataset(uri).versions()
    lance.dataset(uri, version=rng.choice(versions)["version"]).restore()


def configure(uri, rng):
    lance.dataset(uri).update_config({"key": str(rng.random())})


def clean(uri, rng):
    lance.dataset(uri).cleanup_old_versions(
        retain_versions=rng.randint(2, 4), older_than=NOW, error_if_tagged_old_versions=False
    )


def tag(uri, rng):
    versions = lance.dataset(uri).versions()
    name = f"t{rng.randrange(3)}"
    dataset = lance.dataset(uri)
    if name in dataset.tags.list():
        dataset.tags.delete(name)
    dataset.tags.create(name, rng.choice(versions)["version"])


STEPS = (append, append, append, overwrite, delete, delete, update, compact, index, extend_index, restore, configure)
RARE = (tag, tag, clean)


def history(uri, rng):
    lance.write_dataset(numbers(9), uri, max_rows_per_file=4, enable_stable_row_ids=rng.random() < 0.3)
    for _ in range(rng.randint(3, 12)):
        rng.choice(STEPS * 2 + RARE)(uri, rng)


def policy(uri, rng):
    numbers_there = [entry["version"] for entry in lance.dataset(uri).versions()]
    return rng.choice(
        [
            {"older_than": NOW},
            {"older_than": timedelta(days=1)},
            {"retain_versions": rng.randint(1, 4)},
            {"retain_versions": rng.randint(1, 4), "older_than": NOW},
            {"versions": rng.sample(numbers_there, rng.randint(1, len(numbers_there)))},
        ]
    )


def explained(uri, **given):
    explained = lance.dataset(uri).explain_cleanup_old_versions(
        **given, error_if_tagged_old_versions=False, include_files=True, max_files=100_000
    )
    assert not explained.candidate_files_truncated
    root = os.path.realpath(uri).lstrip("/")
    return {os.path.relpath(file.path, root): KINDS.get(file.kind, file.kind) for file in explained.candidate_files}


def ours(uri, **given):
    made = plan(uri, **given, error_if_tagged_old_versions=False)
    return {row["file"]: row["kind"].replace("blob", "data") for row in made.candidates().to_pylist()}


ORPHANS = (
    "data/orphan.lance",
    "data/a/orphan.lance",
    f"data/orphan/{BLOB_DIGITS}.blob",
    "data/notes.txt",
    "_deletions/1-2-3.arrow",
    "_transactions/1-orphan.txn",
    f"_indices/{UUID}/part/page.lance",
    "notes.txt",
)


@pytest.mark.parametrize("seed", range(480 if NIGHT else 24))
def test_the_same_files_go_as_with_pylance_on_random_histories(uri, seed):
    rng = random.Random(seed)
    history(uri, rng)
    if rng.random() < 0.5:
        for path in ORPHANS:
            put(uri, path, rng.choice([8, 30]))
    days = rng.choice([0, 0, 3])
    if days:
        age_all(uri, days, under="data")
    for _ in range(3):
        given = policy(uri, rng)
        unverified = rng.random() < 0.2
        assert ours(uri, **given, delete_unverified=unverified) == explained(uri, **given, delete_unverified=unverified)


@pytest.fixture
def small(uri):
    for version in range(3):
        lance.write_dataset(numbers(3, 10 * version), uri, mode="overwrite" if version else "create")
    return uri


def test_staged_manifests_go_when_they_are_old_enough(small):
    put(small, f"_versions/2.manifest-{UUID}", 30)
    assert candidates(plan(small)) - explained(small, older_than=NOW).keys() == {f"_versions/2.manifest-{UUID}"}


def test_fresh_transaction_and_deletion_files_that_no_version_names_go_when_asked(small):
    fresh = {"_transactions/9-orphan.txn", "_deletions/9-9-9.bin"}
    for path in fresh:
        put(small, path)
    given = {"older_than": NOW, "delete_unverified": True}
    assert candidates(plan(small, **given)) - explained(small, **given).keys() == fresh


def test_files_of_detached_versions_stay(small):
    needed = f"data/{lance.dataset(small).get_fragments()[0].data_files()[0].path}"
    fragments = lance.fragment.write_fragments(numbers(2, 50), small)
    operation = lance.LanceOperation.Append(fragments)
    lance.LanceDataset.commit(small, operation, read_version=3, detached=True)
    lance.write_dataset(numbers(3, 90), small, mode="overwrite")
    assert explained(small, older_than=NOW).keys() - candidates(plan(small)) == {needed}
