"""Any history of a service's catalog in which ours and other clients take turns, against a dictionary."""

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import lance
import lance_namespace as asked
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.service_lakes import service_lake

from lance_spark import LanceCatalog
from lance_spark.errors import AlreadyExists, NotFound, Refused
from lance_spark.storage import services

pytestmark = pytest.mark.when(spark="newest", day=0)
SPACES, TABLES = ["a", "b"], ["t", "u"]

space = st.sampled_from(SPACES)
table = st.tuples(space, st.sampled_from(TABLES))


class Histories(RuleBasedStateMachine):
    """Ours is asked as people ask it; theirs is pylance's client, or that of ``lance-namespace-impls``."""

    impl: str
    endpoint: str | None = None

    @initialize()
    def begin(self):
        self.count = 0
        self.spaces: set[str] = set()
        self.tables: dict[tuple[str, str], list[int]] = {}
        self.away: dict[tuple[str, str], tuple[str, list[int]]] = {}
        """Deregistered by ours: where they are, and their rows."""
        self.stack = ExitStack()
        self.root = Path(tempfile.mkdtemp())
        self.lake = self.stack.enter_context(service_lake(self.impl, self.root / "lake", self.endpoint))
        self.ours, self.theirs = self.lake.connect(), self.lake.client

    def teardown(self):
        if hasattr(self, "stack"):
            self.stack.close()
            shutil.rmtree(self.root, ignore_errors=True)

    def rows(self):
        self.count += 1
        return pa.table({"id": pa.array([self.count], pa.int64())})

    def refused(self, error, act):
        with pytest.raises(error):
            act()

    @rule(name=space, ours=st.booleans())
    def make_namespace(self, name, ours):
        where = {"location": str(self.root / "lake" / name)} if self.impl == "glue" else {}
        if name in self.spaces:
            self.refused(AlreadyExists, lambda: self.ours.create_namespace(name, where))
            assert not self.ours.create_namespace(name, where, exist_ok=True)
        elif ours:
            assert self.ours.create_namespace(name, where)
        else:
            self.theirs.create_namespace(asked.CreateNamespaceRequest(id=[name], properties=where))
        self.spaces.add(name)

    @rule(name=space, ours=st.booleans())
    def drop_namespace(self, name, ours):
        if name not in self.spaces:
            return self.refused(NotFound, lambda: self.ours.drop_namespace(name))
        if any(each[0] == name for each in self.tables):
            return self.refused(Refused, lambda: self.ours.drop_namespace(name))
        if ours:
            self.ours.drop_namespace(name)
        else:
            self.theirs.drop_namespace(asked.DropNamespaceRequest(id=[name]))
        self.spaces.discard(name)
        return None

    @rule(name=table, ours=st.booleans())
    def make_table(self, name, ours):
        if name[0] not in self.spaces:
            return self.refused(NotFound, lambda: self.ours.write_table(self.rows(), list(name)))
        if name in self.tables:
            return self.refused(AlreadyExists, lambda: self.ours.write_table(self.rows(), list(name)))
        if name in self.away and self.impl == "glue":  # its directory is that of the old one
            return self.refused(AlreadyExists, lambda: self.ours.write_table(self.rows(), list(name)))
        if ours:
            self.ours.write_table(self.rows(), list(name))
        else:
            at = self.theirs.declare_table(asked.DeclareTableRequest(id=list(name))).location
            lance.write_dataset(self.rows(), at)
        self.tables[name] = [self.count]
        return None

    @rule(name=table, ours=st.booleans())
    def append(self, name, ours):
        if name not in self.tables:
            return self.refused(NotFound, lambda: self.ours.table(list(name)))
        if ours:
            self.ours.write_table(self.rows(), list(name), "append")
        else:
            at = self.theirs.describe_table(asked.DescribeTableRequest(id=list(name))).location
            lance.write_dataset(self.rows(), at, mode="append")
        self.tables[name].append(self.count)
        return None

    @rule(name=table)
    def branch_and_merge(self, name):
        if name in self.tables:
            found = self.ours.table(list(name))
            branch = f"exp{self.count}"
            found.branches.create(branch)
            self.ours.write_table(self.rows(), list(name), "append", branch=branch)
            found.branches.merge(branch)
            self.tables[name].append(self.count)

    @rule(name=table)
    def deregister(self, name):
        if name not in self.tables:
            return self.refused(NotFound, lambda: self.ours.deregister_table(list(name)))
        if name not in self.away:
            self.away[name] = (self.ours.deregister_table(list(name)).path, self.tables.pop(name))
        return None

    @precondition(lambda self: self.away)
    @rule(data=st.data(), onto=table)
    def register(self, data, onto):
        name = data.draw(st.sampled_from(sorted(self.away)))
        place, rows = self.away[name]
        spelled = place if self.impl == "glue" else Path(place).name
        if onto[0] not in self.spaces:
            return self.refused(NotFound, lambda: self.ours.register_table(list(onto), spelled))
        if onto in self.tables:
            return self.refused(AlreadyExists, lambda: self.ours.register_table(list(onto), spelled))
        self.ours.register_table(list(onto), spelled)
        del self.away[name]
        self.tables[onto] = rows
        return None

    @precondition(lambda self: self.impl != "glue")
    @rule(name=table, ours=st.booleans())
    def drop(self, name, ours):
        if name not in self.tables:
            return self.refused(NotFound, lambda: self.ours.drop_table(list(name)))
        if ours:
            self.ours.drop_table(list(name))
        else:
            self.theirs.drop_table(asked.DropTableRequest(id=list(name)))
        del self.tables[name]
        return None

    @invariant()
    def all_say_the_same(self):
        if not hasattr(self, "lake"):
            return
        assert set(self.ours.list_namespaces()) == self.spaces
        for name in self.spaces:
            there = sorted(each for each in self.tables if each[0] == name)
            assert self.ours.list_tables(name) == [".".join(each) for each in there]
            listed = self.theirs.list_tables(asked.ListTablesRequest(id=[name])).tables
            assert sorted(listed) == [leaf for _, leaf in there]
        for name, rows in self.tables.items():
            found = self.ours.table(list(name))
            assert sorted(lance.dataset(found.location.uri).to_table()["id"].to_pylist()) == sorted(rows)
            theirs = self.theirs.describe_table(asked.DescribeTableRequest(id=list(name))).location
            assert theirs.rstrip("/").removeprefix("file://") == found.location.uri
        if self.impl == "rest":
            directory = LanceCatalog(str(self.root / "lake"))
            assert set(directory.list_tables(recursive=True)) == {".".join(each) for each in self.tables}


class Rest(Histories):
    impl = "rest"


class Glue(Histories):
    impl = "glue"


@pytest.fixture
def told(monkeypatch):
    monkeypatch.setattr(services, "SHORT", 0.0)


EXAMPLES = settings(max_examples=max(2, settings().max_examples // 40), stateful_step_count=15)


@pytest.mark.usefixtures("told")
def test_any_history_behind_rest():
    run(Rest)


@pytest.mark.usefixtures("told")
def test_any_history_in_glue(moto):
    Glue.endpoint = moto
    run(Glue)


def run(machine):
    run_state_machine_as_test(machine, settings=EXAMPLES)
