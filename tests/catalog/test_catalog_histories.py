"""Any history of a catalog, against a dictionary; pylance's own namespace reads along where it is right."""

import shutil
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from lance.namespace import DirectoryNamespace
from lance_namespace import DescribeTableRequest, ListNamespacesRequest, ListTablesRequest

from lance_spark.catalog import lookup
from lance_spark.catalog.doctor import examine
from lance_spark.catalog.migrate import migrate
from lance_spark.catalog.removing import drop_namespace, drop_table, plan_orphans, rename_table
from lance_spark.catalog.tables import (
    alter_namespace,
    alter_table,
    confirm,
    declare_table,
    deregister_table,
    register_table,
    withdraw,
)
from lance_spark.errors import AlreadyExists, NotFound, Refused

NAMES = ["a", "b", "ü", "x y"]
PROPERTIES = [{}, {"k": "v"}, {"k": "w", "ü": "ß"}]
PYLANCE = {
    "v2": {"dir_listing_enabled": "false"},
    "compatibility": {"dir_listing_to_manifest_migration_enabled": "true"},
}

part = st.sampled_from(NAMES)
anywhere = st.lists(part, min_size=1, max_size=3).map(tuple)
properties = st.sampled_from(PROPERTIES)


class Histories(RuleBasedStateMachine):
    """A model of what there should be, and the catalog."""

    mode: str

    @initialize()
    def begin(self):
        self.root = Path(tempfile.mkdtemp())
        self.catalog = lookup.open_catalog(str(self.root), mode=self.mode)
        self.spaces: dict[tuple, dict] = {}
        self.tables: dict[tuple, tuple] = {}
        """Value (None while it is only declared) and properties."""
        self.rowless: set[tuple] = set()
        """Tables that are directories only."""
        self.away: dict[tuple, tuple] = {}
        """Deregistered: path, value, properties."""
        self.count = 0

    def teardown(self):
        shutil.rmtree(self.root)

    @property
    def by_name(self):
        """Whether tables in the root are directories of V1."""
        return self.mode != "v2"

    def refuses(self, error, act):
        with pytest.raises(error):
            act()

    def why_not(self, name, table=True):
        """The error for something new of this name; None where there should be none."""
        if self.mode == "v1" and (len(name) > 1 or not table):
            return Refused
        if name in self.tables or name in self.spaces:
            return AlreadyExists
        if len(name) > 1 and name[:-1] not in self.spaces:
            return NotFound
        return None

    def hides(self, name):
        """Whether a deregistered table holds the directory that a new one would get."""
        return self.by_name and len(name) == 1 and name in self.away and self.away[name][0] == f"{name[0]}.lance"

    def why_no_table(self, name):
        return Refused if self.mode == "v1" and len(name) > 1 else NotFound

    def write(self, uri):
        self.count += 1
        lance.write_dataset(pa.table({"id": [self.count]}), uri)
        return self.count

    @rule(name=anywhere, given=properties)
    def make_namespace(self, name, given):
        error = self.why_not(name, table=False)
        if error is not None:
            return self.refuses(error, lambda: lookup.create_namespace(self.catalog, name, given))
        assert lookup.create_namespace(self.catalog, name, given)
        self.spaces[name] = given
        return None

    @rule(name=anywhere, given=properties, ends=st.sampled_from(["written", "written", "declared", "withdrawn"]))
    def make_table(self, name, given, ends):
        given = {} if self.mode == "v1" else given
        error = self.why_not(name) or (AlreadyExists if self.hides(name) else None)
        if error is not None:
            return self.refuses(error, lambda: declare_table(self.catalog, name, given))
        declared = declare_table(self.catalog, name, given)
        assert lookup.describe_table(self.catalog, name).declared
        value = self.write(declared.location.uri) if ends == "written" else None
        confirm(self.catalog, declared)
        assert withdraw(self.catalog, declared) is (ends == "withdrawn") or ends == "declared"
        if ends == "declared":
            return self.refuses(AlreadyExists, lambda: self.declare_again(name))
        if ends == "written":
            self.tables[name] = (value, given)
            if self.mode == "v1":
                self.rowless.add(name)
        return None

    def declare_again(self, name):
        declared = declare_table(self.catalog, name)
        self.tables[name] = (None, {})
        if self.mode == "v1":
            self.rowless.add(name)
        declare_table(self.catalog, name)
        withdraw(self.catalog, declared)

    @precondition(lambda self: self.by_name)
    @rule(name=part)
    def somebody_writes_a_directory(self, name):
        if (self.root / f"{name}.lance").exists() or (name,) in self.spaces or (name,) in self.tables:
            return
        self.tables[(name,)] = (self.write(str(self.root / f"{name}.lance")), {})
        self.rowless.add((name,))

    @rule(name=anywhere)
    def remove_table(self, name):
        if name not in self.tables:
            if self.hides(name) and name not in self.spaces:
                drop_table(self.catalog, name)  # what V1 deregistered can be dropped
                del self.away[name]
                return None
            return self.refuses(self.why_no_table(name), lambda: drop_table(self.catalog, name))
        assert not drop_table(self.catalog, name).data_kept
        self.forget(name)
        return None

    def forget(self, name):
        del self.tables[name]
        self.rowless.discard(name)

    @rule(old=anywhere, new=anywhere)
    def rename(self, old, new):
        act = lambda: rename_table(self.catalog, old, new)  # noqa: E731
        if self.mode == "v1":
            return self.refuses(Refused, act)
        if old not in self.tables:
            return self.refuses(NotFound, act)
        error = self.why_not(new)
        if error is not None:
            return self.refuses(error, act)
        assert act().left_behind is None
        self.tables[new] = self.tables[old]
        self.forget(old)
        return None

    @rule(name=anywhere)
    def deregister(self, name):
        if name not in self.tables:
            return self.refuses(self.why_no_table(name), lambda: deregister_table(self.catalog, name))
        if name in self.away:
            return None
        removed = deregister_table(self.catalog, name)
        assert removed.properties == self.tables[name][1]
        self.away[name] = (removed.path, self.tables[name][0], removed.properties)
        self.forget(name)
        return None

    @precondition(lambda self: self.away)
    @rule(data=st.data(), other=anywhere)
    def register(self, data, other):
        name = data.draw(st.sampled_from(sorted(self.away)))
        path, value, given = self.away[name]
        new = name if self.mode == "v1" else data.draw(st.sampled_from([name, other]))
        if (self.hides(new) and new != name) or not (self.root / path).exists():
            return None
        error = self.why_not(new)
        if error is not None:
            return self.refuses(error, lambda: register_table(self.catalog, new, path, given))
        register_table(self.catalog, new, path, given)
        self.tables[new] = (value, given)
        if self.mode == "v1":
            self.rowless.add(new)
        del self.away[name]
        return None

    @rule(name=anywhere, cascade=st.booleans())
    def remove_namespace(self, name, cascade):
        act = lambda: drop_namespace(self.catalog, name, cascade)  # noqa: E731
        if self.mode == "v1":
            return self.refuses(Refused, act)
        if name not in self.spaces:
            return self.refuses(NotFound, act)
        inside = [found for found in (*self.spaces, *self.tables) if found[: len(name)] == name and found != name]
        if inside and not cascade:
            return self.refuses(Refused, act)
        act()
        for found in [*inside, name]:
            self.spaces.pop(found, None)
            self.tables.pop(found, None)
        return None

    @rule(name=anywhere, given=properties)
    def alter(self, name, given):
        if self.mode == "v1":
            return
        if name in self.spaces:
            alter_namespace(self.catalog, name, given, ["ü"] if "ü" not in given else [])
            kept = {key: value for key, value in self.spaces[name].items() if key != "ü"}
            self.spaces[name] = {**kept, **given}
        elif name in self.tables and name not in self.rowless:
            alter_table(self.catalog, name, given)
            value, before = self.tables[name]
            self.tables[name] = (value, {**before, **given})
        else:
            self.refuses((NotFound, Refused), lambda: alter_table(self.catalog, name, given))

    @precondition(lambda self: self.mode == "compatibility")
    @rule()
    def migrate(self):
        done = migrate(self.catalog)
        assert {found.parts for found in done.tables} == self.rowless
        self.rowless.clear()

    @rule(limit=st.integers(1, 3))
    def pages_are_the_whole(self, limit):
        token, found = None, []
        while True:
            page = lookup.list_tables(self.catalog, recursive=True, limit=limit, page_token=token)
            found += page.identifiers
            token = page.next_token
            if token is None:
                break
        assert tuple(found) == lookup.list_tables(self.catalog, recursive=True).identifiers

    @invariant()
    def it_is_as_the_model_says(self):
        if not hasattr(self, "catalog"):
            return
        tables = lookup.list_tables(self.catalog, recursive=True)
        assert [found.parts for found in tables] == sorted(self.tables, key=lambda name: "$".join(name))
        spaces = lookup.list_namespaces(self.catalog, recursive=True)
        assert [found.parts for found in spaces] == sorted(self.spaces, key=lambda name: "$".join(name))
        for name, (value, given) in self.tables.items():
            info = lookup.describe_table(self.catalog, name)
            assert (info.properties, info.declared) == (given, value is None)
            assert info.registered == (name not in self.rowless)
            if value is not None:
                assert lance.dataset(info.location.uri).to_table()["id"].to_pylist() == [value]
        for name, given in self.spaces.items():
            assert lookup.describe_namespace(self.catalog, name).properties == given

    @rule(name=anywhere)
    def a_look_says_what_there_is(self, name):
        if self.mode == "v1" and len(name) > 1:
            return
        assert lookup.table_exists(self.catalog, name) == (name in self.tables)
        if self.mode != "v1":
            assert lookup.namespace_exists(self.catalog, name) == (name in self.spaces)
            here = [found.name for found in lookup.list_tables(self.catalog)]
            assert here == sorted(found[0] for found in self.tables if len(found) == 1)

    @rule()
    def nothing_is_left_behind_and_nothing_is_wrong(self):
        soon = datetime.now(timezone.utc) + timedelta(days=2)
        assert plan_orphans(self.catalog, soon, datasets=True).orphans == ()
        assert {found.kind for found in examine(self.catalog, soon)} <= {"not registered"}
        expected = {lookup.locate_table(self.catalog, name).uri for name in self.tables}
        expected |= {str(self.root / path) for path, _, _ in self.away.values()} | {str(self.root / "__manifest")}
        assert {str(path) for path in self.root.iterdir()} <= expected

    @precondition(lambda self: self.mode in PYLANCE)
    @rule()
    def pylance_sees_the_same(self):
        theirs = DirectoryNamespace(root=str(self.root), **PYLANCE[self.mode])
        ascii_only = [name for name in ((), *self.spaces) if all(part.isascii() for part in name)]
        for space in ascii_only:  # of other namespaces it lists what is deeper, too
            spaces = theirs.list_namespaces(ListNamespacesRequest(id=list(space))).namespaces
            assert sorted(spaces) == sorted(name[-1] for name in self.spaces if name[:-1] == space)
            tables = theirs.list_tables(ListTablesRequest(id=list(space))).tables
            expected = sorted(name[-1] for name in self.tables if name[:-1] == space)
            if self.mode == "compatibility":  # it does not find the mark of a deregistered table called 'ü'
                tables, expected = [[name for name in some if name.isascii()] for some in (tables, expected)]
            assert sorted(tables) == expected
        for name, (value, _) in self.tables.items():
            if value is not None and all(part.isascii() for part in name):
                location = theirs.describe_table(DescribeTableRequest(id=list(name))).location
                assert lance.dataset(location).to_table()["id"].to_pylist() == [value]


class V1(Histories):
    mode = "v1"


class V2(Histories):
    mode = "v2"


class Compatibility(Histories):
    mode = "compatibility"


SIZE = settings(max_examples=max(8, settings().max_examples // 3), stateful_step_count=25)
TestV1 = V1.TestCase
TestV1.settings = SIZE
TestV2 = V2.TestCase
TestV2.settings = SIZE
TestCompatibility = Compatibility.TestCase
TestCompatibility.settings = SIZE
