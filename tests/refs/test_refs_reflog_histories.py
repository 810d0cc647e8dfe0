"""Any order of commits, tags, deletions, cleanups, expiry and undoing: a deleted ref comes back whole or not at all."""

import shutil
import tempfile
import time
from datetime import datetime, timedelta, timezone

import lance
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.cleanup_datasets import clean
from support.local_datasets import numbers

from lance_spark import LanceTable
from lance_spark.errors import AlreadyExists, NotFound, Refused
from lance_spark.maintenance.expiry import carry_out, plan_expiry
from lance_spark.maintenance.expiry_rules import ExpiryOptions

BRANCHES, TAGS = ("a", "b"), ("t1", "t2")
SOMEWHERE = st.sampled_from([None, *BRANCHES])
NOTHING_STAYS = {"older_than": timedelta(0), "commit_window": timedelta(0), "error_if_tagged_old_versions": False}


def rows_of(uri, **version):
    return tuple(sorted(lance.dataset(uri, **version).to_table()["id"].to_pylist()))


class Histories(RuleBasedStateMachine):
    """Branches are models of rows; a tag is the rows of its version and the branch that it is on."""

    def __init__(self):
        super().__init__()
        self.uri = f"{tempfile.mkdtemp()}/table.lance"
        self.next = 0
        self.heads, self.parents, self.kept, self.tags, self.former = {}, {}, {}, {}, {}

    def teardown(self):
        shutil.rmtree(self.uri.rpartition("/")[0])

    @initialize()
    def create(self):
        self.heads[None] = self.batch("create", self.uri)
        self.table = LanceTable.for_path(self.uri)

    def batch(self, mode, uri):
        self.next += 1
        lance.write_dataset(numbers(1, self.next), uri, mode=mode)
        return (self.next,)

    @rule(where=SOMEWHERE, overwrites=st.booleans())
    def commit(self, where, overwrites):
        if where in self.heads:
            uri = self.uri if where is None else f"{self.uri}/tree/{where}"
            new = self.batch("overwrite" if overwrites else "append", uri)
            self.heads[where] = new if overwrites else (*self.heads[where], *new)

    @rule(name=st.sampled_from(BRANCHES), start=SOMEWHERE)
    def branch(self, name, start):
        if name not in self.heads and start in self.heads:
            self.table.branches.create(name, branch=start, expire_after="90d")
            self.heads[name], self.parents[name] = self.heads[start], start
            self.kept.pop(name, None)

    @rule(name=st.sampled_from(BRANCHES), keeps=st.booleans())
    def delete(self, name, keeps):
        if name not in self.heads:
            return
        children = [other for other, parent in self.parents.items() if parent == name and other in self.heads]
        if children or any(branch == name for branch, _ in self.tags.values()):
            try:
                self.table.branches.delete(name, purge=not keeps)
            except Refused:
                return
            raise AssertionError("it was needed")
        self.table.branches.delete(name, purge=not keeps)
        rows = self.heads.pop(name)
        if keeps:
            self.kept[name] = rows

    @rule(name=st.sampled_from(BRANCHES))
    def bring_back(self, name):
        try:
            self.table.branches.restore(name)
        except AlreadyExists:
            assert name in self.heads
        except NotFound:
            assert name not in self.kept
        except Refused:
            assert self.parents[name] not in self.heads or self.parents[name] is not None
        else:
            self.heads[name] = self.kept.pop(name)

    @rule(name=st.sampled_from(TAGS), where=SOMEWHERE)
    def tag(self, name, where):
        if where not in self.heads:
            return
        if name in self.tags:
            self.table.tags.move(name, branch=where)
            if self.tags[name] != (where, self.heads[where]):  # a move to the same version is not recorded
                self.former[name] = self.tags[name]
        else:
            self.table.tags.create(name, branch=where)
            self.former.pop(name, None)
        self.tags[name] = where, self.heads[where]

    @rule(name=st.sampled_from(TAGS))
    def untag(self, name):
        if name in self.tags:
            self.table.tags.delete(name)
            self.former[name] = self.tags.pop(name)

    @rule(name=st.sampled_from(TAGS))
    def put_back(self, name):
        """Whatever was recorded last and still holds; a tag on a branch that is gone, or was made again, is refused."""
        was = self.former.get(name)
        try:
            self.table.tags.restore(name)
        except (NotFound, AlreadyExists, Refused):
            assert was is None or was[0] is not None
            return
        found = self.table.tags.list()
        branch = next(tag.branch for tag in found if tag.name == name)
        if was is not None:
            assert branch == was[0]
        now = self.tags.get(name)
        self.tags[name] = branch, rows_of(self.uri, version=name)
        assert was is None or self.tags[name] == was
        self.former.pop(name, None)
        if now is not None:
            self.former[name] = now

    @rule()
    def clean_up(self):
        time.sleep(0.002)
        clean(self.uri, **NOTHING_STAYS)

    @rule(name=st.sampled_from(TAGS), where=SOMEWHERE, moves=st.booleans())
    def a_tag_by_mistake(self, name, where, moves):
        """Steps that seldom follow each other by chance: without the record the cleanup would take the version."""
        self.tag(name, where)
        self.commit(None, True)
        self.commit(where, True)
        if moves:
            self.tag(name, None)
        else:
            self.untag(name)
        self.clean_up()
        self.put_back(name)

    @rule(name=st.sampled_from(BRANCHES))
    def a_branch_by_mistake(self, name):
        self.commit(name, False)
        self.delete(name, True)
        self.commit(None, True)
        self.clean_up()
        self.bring_back(name)

    @rule(days=st.sampled_from([1, 6, 8]))
    def expire(self, days):
        later = datetime.now(timezone.utc) + timedelta(days=days)
        location = self.table.location
        report = carry_out(location, plan_expiry(location, later, ExpiryOptions(timedelta(0))), later)
        assert report.complete
        if days > 7:
            for outcome in report.outcomes:
                self.kept.pop(outcome.name)
            self.former.clear()  # their records are gone as well

    @invariant()
    def every_ref_reads_whole(self):
        listed = lance.dataset(self.uri)
        assert set(listed.branches.list()) == self.heads.keys() - {None}
        assert set(listed.tags.list()) == self.tags.keys()
        for branch, rows in self.heads.items():
            uri = self.uri if branch is None else f"{self.uri}/tree/{branch}"
            assert rows_of(uri) == rows
        for name, (_, rows) in self.tags.items():
            assert rows_of(self.uri, version=name) == rows


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=max(6, settings().max_examples // 5), stateful_step_count=20)
