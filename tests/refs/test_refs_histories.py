"""Any order of writes, deletions, branches, tags and restores: every ref and every old version keeps its rows."""

import shutil
import tempfile

import lance
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import AlreadyExists, NotFound, Refused
from lance_spark.merge.restore import restore
from lance_spark.refs import refs
from lance_spark.scan.fragment_reads import count_rows, read_batches
from lance_spark.scan.read import PinnedRead, plan_read, read_schema
from lance_spark.storage.datasets import locate
from lance_spark.tables.read import pin_read
from lance_spark.tables.write import begin, finish, give_up, plan_write
from lance_spark.write.data_files import write_rows

BRANCHES = ("a", "a/b", "a/b/c", "b", "ü")
TAGS = ("t1", "t2")
SCHEMA = pa.schema([("id", pa.int64())])
Place = tuple[str | None, int]
"""A branch, None for main, and a version on it."""


class Refs(RuleBasedStateMachine):
    """A dataset on disk beside a dict of what each version of each branch must hold."""

    def __init__(self):
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.uri = f"{self.directory}/table.lance"
        self.location = locate(self.uri)
        self.rows: dict[Place, list[int]] = {}
        self.parent: dict[str, str | None] = {}
        self.tags: dict[str, Place] = {}
        self.pinned: list[tuple[PinnedRead, list[int]]] = []
        self.next_id = 0

    def teardown(self):
        shutil.rmtree(self.directory)

    def head(self, branch):
        return max(version for on, version in self.rows if on == branch)

    def heads(self):
        return [(branch, self.head(branch)) for branch in (None, *self.parent)]

    def batch(self, count):
        ids = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        return ids, pa.record_batch([pa.array(ids, pa.int64())], schema=SCHEMA)

    def job(self, branch, count, tasks=1, overwrite=False, **options):
        given = {"path": self.uri, **options, **({"branch": branch} if branch else {})}
        job = begin(plan_write(given, SCHEMA, overwrite))
        written = [self.batch(count) for _ in range(tasks)]
        fragments = [fragment for _, batch in written for fragment in write_rows(job, [batch])]
        return job, fragments, [number for ids, _ in written for number in ids]

    def pin(self, **options):
        return pin_read({"path": self.uri, **{key: str(value) for key, value in options.items() if value is not None}})

    def read(self, pinned, split_size):
        schema = read_schema(pinned)
        options = pinned.options.__class__(**{**pinned.options.__dict__, "split_size": split_size})
        plan = plan_read(PinnedRead(pinned.location, pinned.pin, options), schema, cores=2)
        batches = (batch for part in plan.partitions for batch in read_batches(plan.scan, part))
        return [number for batch in batches for number in batch["id"].to_pylist()]

    @initialize(count=st.integers(0, 3))
    def create(self, count):
        job, fragments, ids = self.job(None, count)
        assert finish(job, fragments) == 1
        self.rows[None, 1] = ids

    @rule(data=st.data(), count=st.integers(1, 3), tasks=st.integers(1, 2), overwrite=st.booleans())
    def write(self, data, count, tasks, overwrite):
        branch, version = data.draw(st.sampled_from(self.heads()))
        job, fragments, ids = self.job(branch, count, tasks, overwrite)
        assert finish(job, fragments) == version + 1
        self.rows[branch, version + 1] = ids if overwrite else self.rows[branch, version] + ids

    @rule(data=st.data(), count=st.integers(1, 3))
    def give_up_a_job(self, data, count):
        branch, _ = data.draw(st.sampled_from(self.heads()))
        job, fragments, _ = self.job(branch, count)
        give_up(job, fragments)

    @rule(data=st.data(), remainder=st.integers(0, 2))
    def delete_rows(self, data, remainder):
        branch, version = data.draw(st.sampled_from(self.heads()))
        before = self.rows[branch, version]
        after = [number for number in before if number % 3 != remainder]
        lance.dataset(self.location.branch_uri(branch)).delete(f"id % 3 = {remainder}")
        made = lance.dataset(self.location.branch_uri(branch)).version
        assert made <= version + 1
        self.rows[branch, made] = after

    @rule(data=st.data())
    def restore_version(self, data):
        branch, version = data.draw(st.sampled_from(sorted(self.rows, key=str)))
        pin = self.pin(branch=branch, version=version).pin
        newest = self.head(branch)
        if version == newest:
            with pytest.raises(Refused):
                restore(self.location, pin, LocalRunner())
            return
        assert restore(self.location, pin, LocalRunner()).version == newest + 1
        restored = self.read(self.pin(branch=branch), 2**27)
        assert sorted(restored) == sorted(self.rows[branch, version])
        # A fragment 0 that comes back has another id, and so comes last: the order may be another one, for good.
        self.rows[branch, newest + 1] = restored

    @rule(data=st.data(), name=st.sampled_from(BRANCHES), by_write=st.booleans())
    def make_branch(self, data, name, by_write):
        branch, version = data.draw(st.sampled_from(sorted(self.rows, key=str)))
        source = {"from_branch": branch or "main", "from_version": str(version), "create_branch": "true"}
        if name in self.parent:
            with pytest.raises(AlreadyExists):
                refs.create_branch(self.location, name, RefSpec(branch=branch, version=version))
        elif by_write:
            job, fragments, ids = self.job(name, 1, **source)
            assert finish(job, fragments) == version + 1
            self.rows[name, version] = self.rows[branch, version]
            self.rows[name, version + 1] = self.rows[branch, version] + ids
            self.parent[name] = branch
        else:
            made = refs.create_branch(self.location, name, RefSpec(branch=branch, version=version))
            assert (made.parent_branch, made.parent_version) == (branch, version)
            self.rows[name, version] = self.rows[branch, version]
            self.parent[name] = branch

    @rule(name=st.sampled_from(BRANCHES))
    def remove_branch(self, name):
        if name not in self.parent:
            with pytest.raises(NotFound):
                refs.delete_branch(self.location, name)
            return
        needed = (
            name in self.parent.values()
            or any(branch == name for branch, _ in self.tags.values())
            or any(other.startswith(f"{name}/") for other in self.parent)
        )
        if needed:
            with pytest.raises(Refused):
                refs.delete_branch(self.location, name)
            return
        refs.delete_branch(self.location, name)
        del self.parent[name]
        self.rows = {place: rows for place, rows in self.rows.items() if place[0] != name}
        self.pinned = [(read, rows) for read, rows in self.pinned if read.pin.branch != name]

    @rule(data=st.data(), name=st.sampled_from(TAGS), move=st.booleans())
    def put_tag(self, data, name, move):
        branch, version = data.draw(st.sampled_from(sorted(self.rows, key=str)))
        target = RefSpec(branch=branch, version=version)
        if move == (name in self.tags):
            (refs.move_tag if move else refs.create_tag)(self.location, name, target)
            self.tags[name] = (branch, version)
            return
        with pytest.raises(NotFound if move else AlreadyExists):
            (refs.move_tag if move else refs.create_tag)(self.location, name, target)

    @precondition(lambda self: self.tags)
    @rule(data=st.data())
    def remove_tag(self, data):
        name = data.draw(st.sampled_from(sorted(self.tags)))
        refs.delete_tag(self.location, name)
        del self.tags[name]

    @rule(data=st.data())
    def keep_a_read(self, data):
        branch, version = data.draw(st.sampled_from(self.heads()))
        self.pinned.append((self.pin(branch=branch), self.rows[branch, version]))

    @invariant()
    def every_ref_and_every_read_that_was_kept_gives_its_rows(self):
        if not self.rows:
            return
        assert [branch.name for branch in refs.list_branches(self.location)] == sorted(self.parent)
        assert {tag.name: (tag.branch, tag.version) for tag in refs.list_tags(self.location)} == self.tags
        for branch, version in self.heads():
            newest = self.pin(branch=branch)
            assert newest.pin.version == version
            assert self.read(newest, 2**27) == self.rows[branch, version]
            assert count_rows(self.location, newest.pin) == len(self.rows[branch, version])
        for name, place in self.tags.items():
            assert self.read(self.pin(tag=name), 1) == self.rows[place]
        for read, rows in self.pinned:
            assert self.read(read, 70_000) == rows

    @rule()
    def every_version_of_the_past_gives_its_rows_to_us_and_to_pylance(self):
        for (branch, version), rows in self.rows.items():
            assert self.read(self.pin(branch=branch, version=version), 2**27) == rows
            theirs = lance.dataset(self.location.branch_uri(branch), version=version)
            assert theirs.to_table()["id"].to_pylist() == rows


TestRefs = Refs.TestCase
TestRefs.settings = settings(max_examples=max(6, settings().max_examples // 2), stateful_step_count=20)
