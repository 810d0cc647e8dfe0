"""Any order of writes, refs, clones, cleanups and crashes: what is kept reads back, what nobody needs is gone."""

import shutil
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from unittest import mock

import lance
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.cleanup_model import NOW, Model, Place, clean, listed, plan, read, table_of, unnamed

from lance_spark.cleanup import cleanup, stored_plans
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.clones.clone import shallow_clone
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import Refused
from lance_spark.refs.refs import delete_branch
from lance_spark.storage import small_files
from lance_spark.storage.datasets import locate

BRANCHES = ("a", "a/b", "c", "ü")
TAGS = ("t1", "t2")
CHANGES = ("append", "delete", "update", "overwrite", "compact", "add", "drop", "index", "append", "leave fragments")
POLICIES = st.builds(
    dict,
    older_than=st.sampled_from([NOW, NOW, NOW, None]),
    retain_versions=st.sampled_from([None, None, 1, 2, 4]),
    versions=st.sampled_from([None, None, None, {1, 3, 5, 7}, {4, 5, 6}]),
    delete_unverified=st.booleans(),
    error_if_tagged_old_versions=st.sampled_from([False, False, True]),
    keep_fork_versions=st.booleans(),
)
AT_ONCE = {"commit_window": NOW}
LAST = {"older_than": NOW, "delete_unverified": True, "error_if_tagged_old_versions": False}


def several(least, most):
    return st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 2)), min_size=least, max_size=most)


class Crash(Exception):
    """The process ended here."""


class Histories(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.main = Place(f"{self.directory}/table.lance", "")
        self.model = Model()
        self.next = 0

    def teardown(self):
        try:
            if self.model.rows:
                self.clean_for_good()
        finally:
            shutil.rmtree(self.directory)

    def clean_for_good(self):
        # Clones name files of what they were made from, so theirs are the first versions to go.
        policies = {root: self.policy(**LAST, keep_fork_versions=False) for root in self.model.roots()}
        self.crash(self.main.root, policies[self.main.root], 3, self.last_crash)
        self.everything_that_is_listed_is_what_should_be_and_reads_whole()
        for root in [*reversed(self.model.clones), self.main.root]:
            self.clean(root, policies[root])
        self.everything_that_is_listed_is_what_should_be_and_reads_whole()
        assert unnamed(self.model.places()) == set()
        for root, policy in policies.items():
            assert list(Path(root, "_cleanup").glob("*/_plan.json")) == []
            assert plan(root, policy).report().to_delete == (0, 0)

    def policy(self, **chosen):
        loose = [root for root in self.model.clones if "/loose/" in root]
        if loose and len(loose) % 2:
            return CleanupPolicy(**AT_ONCE, **chosen, clones=loose)
        return CleanupPolicy(**AT_ONCE, **chosen, clones_from=(f"{self.directory}/loose",))

    def clean(self, root, policy):
        time.sleep(0.002)  # else the last version is not older than this run
        places = self.model.places(root)
        left = {place: self.model.kept(place, policy) for place in places}
        clean(root, policy)
        for place in places:
            self.model.rows[place] = {version: self.model.rows[place][version] for version in left[place]}

    def batch(self, count, schema):
        numbers = range(self.next, self.next + count)
        self.next += count
        rows = {number: {name: 7 * number for name in schema.names if name not in ("id", "b")} for number in numbers}
        return rows, table_of(rows, schema)

    def draw_version(self, data):
        return data.draw(st.sampled_from(self.model.versions()))

    @initialize(blobs=st.booleans(), count=st.integers(1, 3), changes=several(3, 6), last_crash=st.floats(0, 1))
    def create(self, blobs, count, changes, last_crash):
        self.last_crash = last_crash
        fields = [pa.field("id", pa.int64()), pa.field("x", pa.int64()), *([lance.blob_field("b")] if blobs else [])]
        rows, table = self.batch(count, pa.schema(fields))
        lance.write_dataset(table, self.main.uri, data_storage_version="2.2" if blobs else "2.1")
        self.model.rows[self.main] = {1: rows}
        for change, number in changes:
            self.change(self.main, change, number)

    @rule(data=st.data(), changes=several(1, 4))
    def change_a_chain(self, data, changes):
        place = data.draw(st.sampled_from(self.model.places()))
        for change, number in changes:
            self.change(place, change, number)

    def change(self, place, change, number):
        before, dataset = self.model.head(place), lance.dataset(place.uri)
        rows = self.changed(dataset, change, number, dict(self.model.rows[place][before]))
        # Some operations commit twice, and some not at all.
        made = range(before + 1, lance.dataset(place.uri).version + 1)
        self.model.rows[place].update(dict.fromkeys(made, rows))

    def changed(self, dataset, change, number, rows):
        """Change the newest version; the rows it has then."""
        added = [name for name in dataset.schema.names if name.startswith("c")]
        if change in ("append", "overwrite", "leave fragments"):
            new, table = self.batch(number + 1, dataset.schema)
            if change == "leave fragments":
                lance.fragment.write_fragments(table, dataset.uri, schema=dataset.schema)
                return rows
            lance.write_dataset(table, dataset.uri, mode=change, max_rows_per_file=2)
            return {**rows, **new} if change == "append" else new
        if change == "delete":
            dataset.delete(f"id % 3 = {number}")
            return {key: row for key, row in rows.items() if key % 3 != number}
        if change == "update":
            dataset.update({"x": "x + 1"}, where=f"id % 3 = {number}")
            return {key: {**row, "x": row["x"] + (key % 3 == number)} for key, row in rows.items()}
        if change == "add" and f"c{number}" not in added:
            dataset.add_columns({f"c{number}": "id * 2"})
            return {key: {**row, f"c{number}": key * 2} for key, row in rows.items()}
        if change == "drop" and added:
            dataset.drop_columns(added[:1])
            return {key: {name: row[name] for name in row if name != added[0]} for key, row in rows.items()}
        if change == "index":
            dataset.create_scalar_index("id", "BTREE", replace=True)
        # pylance 14.0.2 loses track of an index that a branch or a clone was born with when it compacts there.
        if change == "compact" and (dataset.uri == self.main.uri or not dataset.list_indices()):
            dataset.optimize.compact_files()
        return rows

    @rule(data=st.data())
    def restore(self, data):
        place, version = self.draw_version(data)
        if version == (newest := self.model.head(place)):
            return
        lance.dataset(place.uri, version=version).restore()
        self.model.rows[place][newest + 1] = self.model.rows[place][version]

    @rule(data=st.data(), name=st.sampled_from(BRANCHES))
    def branch(self, data, name):
        place, version = self.draw_version(data)
        made = Place(place.root, name)
        if made not in self.model.rows:
            lance.dataset(place.root).create_branch(name, (place.name, version))
            self.model.rows[made] = {version: self.model.rows[place][version]}
            self.model.forks[made] = place, version

    @precondition(lambda self: any(map(self.model.is_free, self.model.forks)))
    @rule(data=st.data())
    def drop_branch(self, data):
        place = data.draw(st.sampled_from(sorted(filter(self.model.is_free, self.model.forks))))
        delete_branch(locate(place.root), place.branch)
        del self.model.rows[place], self.model.forks[place]

    @rule(data=st.data(), name=st.sampled_from(TAGS))
    def put_tag(self, data, name):
        place, version = self.draw_version(data)
        tags = lance.dataset(place.root).tags
        put = tags.update if (place.root, name) in self.model.tags else tags.create
        put(name, (place.name, version))
        self.model.tags[place.root, name] = place, version

    @rule(data=st.data(), name=st.sampled_from(TAGS))
    def drop_tag(self, data, name):
        root = data.draw(st.sampled_from(self.model.roots()))
        if self.model.tags.pop((root, name), None):
            lance.dataset(root).tags.delete(name)

    @precondition(lambda self: self.model.loosely_tagged(self.main.root))
    @rule(data=st.data())
    def drop_the_tag_of_a_clone(self, data):
        name = data.draw(st.sampled_from(self.model.loosely_tagged(self.main.root)))
        lance.dataset(self.main.root).tags.delete(name)
        del self.model.tags[self.main.root, name]

    @precondition(lambda self: len(self.model.clones) < 3)
    @rule(data=st.data(), recorded=st.booleans())
    def clone(self, data, recorded):
        place, version = self.draw_version(data)
        target = f"{self.directory}/{'known' if recorded else 'loose'}/{len(self.model.clones)}.lance"
        shallow_clone(locate(place.root), PinnedVersion(place.name, version), locate(target), record=recorded)
        if recorded:
            self.model.record_clone(place, version, target)
        self.model.clones[target] = place, version
        made = Place(target, "")
        self.model.rows[made] = dict.fromkeys(listed(made), self.model.rows[place][version])

    @rule(data=st.data(), chosen=POLICIES)
    def clean_up(self, data, chosen):
        root, policy = data.draw(st.sampled_from(self.model.roots())), self.policy(**chosen)
        if not self.model.forbidden(root, policy):
            return self.clean(root, policy)
        time.sleep(0.002)
        with pytest.raises(Refused, match="tagged"):
            plan(root, policy)
        return None

    @rule(data=st.data(), size=st.integers(1, 4), part=st.floats(0, 1), chosen=POLICIES)
    def crash_in_a_cleanup(self, data, size, part, chosen):
        root = data.draw(st.sampled_from(self.model.roots()))
        lasting = {"older_than": NOW, "versions": None, "error_if_tagged_old_versions": False}
        self.crash(root, self.policy(**{**chosen, **lasting}), size, part)

    def crash(self, root, policy, size, part):
        """Plan a cleanup, and end after that part of it."""
        time.sleep(0.002)
        made, left = plan(root, policy), {place: self.model.kept(place, policy) for place in self.model.places(root)}
        # Two steps record the plan, and a few remove the record.
        steps = int(part * (6 + made.candidates().num_rows // size))
        with crashing(steps, size), suppress(Crash):
            made.apply()
        for place, kept in left.items():
            now, rows = listed(place), self.model.rows[place]
            assert kept <= now <= rows.keys()
            self.model.rows[place] = {version: rows[version] for version in now}

    @precondition(lambda self: not self.model.clones and not self.model.forks)
    @rule(unverified=st.booleans())
    def clean_up_with_pylance(self, unverified):
        dataset, policy = lance.dataset(self.main.uri), self.policy(**LAST)
        dataset.cleanup_old_versions(NOW, delete_unverified=unverified, error_if_tagged_old_versions=False)
        kept = self.model.kept(self.main, policy)
        self.model.rows[self.main] = {version: self.model.rows[self.main][version] for version in kept}

    @invariant()
    def everything_that_is_listed_is_what_should_be_and_reads_whole(self):
        for place, versions in self.model.rows.items():
            assert listed(place) == versions.keys()
            for version, rows in versions.items():
                assert read(place, version) == rows
        for (root, name), (place, version) in self.model.tags.items():
            found = lance.dataset(root).tags.list()[name]
            assert (found["branch"] or "", found["version"]) == (place.branch, version)


def crashing(steps, size):
    """Delete in small batches, and end after some steps that write or delete anything; a deletion ends half done."""
    left = iter(range(steps))

    def step(real):
        def stepping(place, paths, *rest):
            if next(left, None) is None:
                if not rest:
                    real(place, paths[: len(paths) // 2])
                raise Crash
            return real(place, paths, *rest)

        return stepping

    patches = [
        mock.patch.object(cleanup, "delete_batch", step(cleanup.delete_batch)),
        mock.patch.object(small_files, "write_file", step(small_files.write_file)),
        mock.patch.object(stored_plans.files, "delete", step(stored_plans.files.delete)),
        mock.patch.object(cleanup, "BATCH", size),
    ]
    stack = ExitStack()
    for patch in patches:
        stack.enter_context(patch)
    return stack


TestCleanupHistories = Histories.TestCase
TestCleanupHistories.settings = settings(max_examples=max(6, settings().max_examples // 5), stateful_step_count=20)
