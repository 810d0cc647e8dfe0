"""Any history of a lake with branches and tags, against plain dicts: after every step each reads as the model says."""

import shutil
import tempfile
from copy import deepcopy

import lance
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from lance_namespace import CreateTableRequest, DropTableRequest
from support.branched_lakes import Mortal, clean_up, delete_row, grow_old, ids, later, make_lake, rows, write
from support.catalogs import pylance
from support.killed import Killed
from support.lake_model import Branch, Clash, Table, World, merged

from lance_spark import LanceCatalog
from lance_spark.catalog.removing import collect_orphans, plan_orphans
from lance_spark.errors import AlreadyExists, Conflict, NotFound, Refused
from lance_spark.lake import audit

START = ("a", "ns.b", "ns.c", "ns.d", "ns.e")
NAMES = (*START, "f", "ns.g", "s.h")
SPACES = ("s", "r")
BRANCHES = ("x", "y")
TAGS = ("t", "u")
MAIN = "main"

name = st.sampled_from(NAMES)
place = st.sampled_from([MAIN, *BRANCHES, *BRANCHES])
branch = st.sampled_from(BRANCHES)
step = st.integers(0, 80)
"""Before which change a process dies; 0 for one that lives."""


class Lakes(RuleBasedStateMachine):
    """The lake beside a model of main, of its branches and of its tags."""

    @initialize(mode=st.sampled_from(["v2", "compatibility"]))
    def begin(self, mode):
        self.root = tempfile.mkdtemp()
        self.lake = make_lake(f"{self.root}/lake", START, mode)
        self.mode, self.count, self.keys = mode, 100, len(START)
        spaces = {"ns": {}}
        self.main = World({key: Table(given, {0, 1, 2}) for key, given in enumerate(START)}, spaces)
        self.by_name = {0} if mode == "compatibility" else set()
        """Tables whose directories are tables by their names."""
        self.branches: dict[str, Branch] = {}
        self.tags: dict[str, World] = {}
        self.deleted: dict[str, Branch] = {}
        """Branches that were deleted and could be restored."""
        self.unsafe: set[str] = set()
        """Those of them of which something may be gone since."""

    def teardown(self):
        if hasattr(self, "root"):
            shutil.rmtree(self.root)

    # --- Places

    def at(self, where):
        return self.lake if where == MAIN else self.lake.checkout(branch=where)

    def world(self, where):
        return self.main if where == MAIN else self.branches[where].world

    def exists(self, where):
        return where == MAIN or where in self.branches

    def key(self, where, given):
        return self.world(where).named(given) if self.exists(where) else None

    def version(self, key):
        """Main's newest version of a table."""
        table = self.main.tables[key]
        return 0 if table.rows is None else lance.dataset(self.lake.describe_table(table.name).location.uri).version

    def versions(self):
        return {key: self.version(key) for key in self.main.tables}

    def is_needed(self, key):
        """Whether a branch or tag pins it, or would lose it."""
        held = [branch.world.tables.get(key) for branch in self.branches.values()]
        held += [tag.tables.get(key) for tag in self.tags.values()]
        return any(table is not None and table.rows is not None for table in held)

    def joins(self, where, key):
        """The first change of a table that the branch does not cover."""
        here = self.branches.get(where)
        if here is not None and key in here.follows:
            here.follows.discard(key)
            here.base.tables[key].rows = set(self.main.tables[key].rows)
            here.known[key] = self.version(key)

    def write_model(self, where, key, rows):
        self.world(where).tables[key].rows = rows
        if where == MAIN:
            for here in self.branches.values():
                if key in here.follows:
                    here.world.tables[key].rows = set(rows)
                    here.base.tables[key].rows = set(rows)

    # --- Tables

    @rule(where=place, given=name)
    def append(self, where, given):
        key = self.key(where, given)
        if key is None:
            return
        rows = self.world(where).tables[key].rows
        if rows is None and where != MAIN and key not in self.branches[where].new:
            with pytest.raises((Refused, NotFound)):
                write(self.at(where), given, 1)
            return
        self.count += 1
        self.joins(where, key)
        write(self.at(where), given, self.count)
        self.write_model(where, key, {*(rows or ()), self.count})

    @rule(where=place, given=name, data=st.data())
    def delete_a_row(self, where, given, data):
        key = self.key(where, given)
        rows = None if key is None else self.world(where).tables[key].rows
        if not rows:
            return
        gone = data.draw(st.sampled_from(sorted(rows)))
        self.joins(where, key)
        delete_row(self.at(where), given, gone)
        self.write_model(where, key, rows - {gone})

    @rule(where=place, given=name, filled=st.booleans())
    def create(self, where, given, filled):
        if not self.exists(where) or not self.world(where).takes(given):
            return
        self.keys, self.count = self.keys + 1, self.count + 1
        key = self.keys
        if filled:
            write(self.at(where), given, self.count)
        else:
            self.at(where).declare_table(given)
        self.world(where).tables[key] = Table(given, {self.count} if filled else None)
        if where != MAIN:
            self.branches[where].new.add(key)
        elif self.mode == "compatibility" and "." not in given:
            self.by_name.add(key)

    @rule(where=place, given=name)
    def drop(self, where, given):
        key = self.key(where, given)
        if key is None:
            return
        if where == MAIN:
            if any(key in here.follows for here in self.branches.values()):
                return
            refused = self.is_needed(key)
        else:
            refused = key in self.branches[where].follows or key in self.by_name
        if refused:
            with pytest.raises(Refused):
                self.at(where).drop_table(given)
            return
        self.at(where).drop_table(given)
        del self.world(where).tables[key]
        self.unsafe |= set(self.deleted)

    @rule(where=place, given=name, new=name)
    def rename(self, where, given, new):
        key = self.key(where, given)
        if key is None or not self.world(where).takes(new) or key in self.by_name:
            return
        self.at(where).rename_table(given, new)
        self.world(where).tables[key].name = new

    @rule(where=place, given=name, value=st.sampled_from(["1", "2", None]), which=st.sampled_from("kl"))
    def alter(self, where, given, value, which):
        key = self.key(where, given)
        if key is None:
            return
        if value is None:
            self.at(where).alter_table(given, unset=which)
            self.world(where).tables[key].properties.pop(which, None)
        else:
            self.at(where).alter_table(given, {which: value})
            self.world(where).tables[key].properties[which] = value

    @rule(where=place, space=st.sampled_from(SPACES))
    def create_or_drop_a_namespace(self, where, space):
        if not self.exists(where):
            return
        world = self.world(where)
        if space not in world.spaces:
            self.at(where).create_namespace(space)
            world.spaces[space] = {}
        elif world.is_empty(space):
            self.at(where).drop_namespace(space)
            del world.spaces[space]

    # --- Branches and tags

    @rule(given=branch, some=st.sampled_from([None, None, ("ns.b", "ns.c"), ("ns",)]), at=step)
    def branch_the_lake(self, given, some, at):
        if given in self.branches:
            return
        known = [each for each in some or () if each in self.main.spaces or self.main.named(each) is not None]
        chosen = None if some is None else known
        covered = {
            key
            for key, table in self.main.tables.items()
            if chosen is None or any(table.name == each or table.name.startswith(f"{each}.") for each in chosen)
        }
        self.dying(at, lambda: self.lake.branches.create(given, chosen))
        made = {each.name: each for each in self.lake.branches}.get(given)
        if made is None or not made.ready:
            assert at, "it lived"
            if made is not None:
                with pytest.raises(NotFound, match="incomplete"):
                    self.at(given)
                self.lake.branches.delete(given)
                self.deleted.pop(given, None)
            self.unsafe.add(given)
            return
        self.deleted.pop(given, None)  # a new branch takes its name
        begins = Branch(deepcopy(self.main), deepcopy(self.main))
        begins.follows = set(self.main.tables) - covered
        begins.known = {key: self.version(key) for key in covered}
        self.branches[given] = begins
        # What has no data is not covered in a way that lets the branch write it.
        begins.follows -= {key for key in begins.follows if self.main.tables[key].rows is None}

    @rule(given=branch, purge=st.booleans(), at=step)
    def delete_the_branch(self, given, purge, at):
        if given not in self.branches:
            return
        self.dying(at, lambda: self.lake.branches.delete(given, purge))
        made = {each.name: each for each in self.lake.branches}.get(given)
        if made is not None:
            assert at, "it lived"
            if made.ready:
                return
            self.lake.branches.delete(given, purge)
        grow_old(f"{self.lake.catalog.uri}/__manifest/tree")
        deleted = self.branches.pop(given)
        self.deleted.pop(given, None)
        self.unsafe.discard(given)
        if not purge:
            self.deleted[given] = deleted

    @rule(given=branch, at=step)
    def restore_the_branch(self, given, at):
        if given in self.branches:
            with pytest.raises(AlreadyExists):
                self.lake.branches.restore(given)
            return
        here = self.deleted.get(given)
        if here is None:
            return
        if not here.follows <= self.main.tables.keys():
            return  # what follows a table that is gone cannot be read
        try:
            lived = self.dying(at, lambda: self.lake.branches.restore(given))
            if not lived and not {each.name: each.ready for each in self.lake.branches}.get(given):
                self.lake.branches.restore(given)
        except (Refused, NotFound):
            assert given in self.unsafe, "nothing of it is gone"
            assert [each.name for each in self.lake.branches] == sorted(self.branches)
            return
        self.branches[given] = self.deleted.pop(given)
        for key in here.follows:
            here.world.tables[key].rows = set(self.main.tables[key].rows)
            here.base.tables[key].rows = set(self.main.tables[key].rows)

    # --- Short ways to main

    @rule(given=name, other=name, fails=st.booleans())
    def run_a_transaction(self, given, other, fails):
        keys = {key for each in (given, other) if (key := self.main.named(each)) is not None}
        keys = {key for key in keys if self.main.tables[key].rows is not None}
        rows = {key: self.main.tables[key].rows for key in keys}
        self.count += 1
        try:
            with self.lake.transaction("tx") as there:
                for key in sorted(keys):
                    write(there, self.main.tables[key].name, self.count)
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            assert fails
            return
        for key in keys:
            self.write_model(MAIN, key, {*rows[key], self.count})

    @rule(given=name, other=name)
    def publish_branches_of_tables(self, given, other):
        keys = {key for each in (given, other) if (key := self.main.named(each)) is not None}
        keys = {key for key in keys if self.main.tables[key].rows is not None}
        if not keys:
            return
        self.count += 1
        names = [self.main.tables[key].name for key in sorted(keys)]
        for each in names:
            uri = self.lake.describe_table(each).location.uri
            lance.write_dataset(rows(self.count), lance.dataset(uri).create_branch("p"), mode="append")
        early, main = self.lake.checkout(published=True), deepcopy(self.main.seen())
        assert self.lake.publish("p", tables=names).state == "published"
        assert self.found(early) == main
        for key in keys:
            self.write_model(MAIN, key, {*self.main.tables[key].rows, self.count})
        for each in names:
            self.lake.table(each).branches.delete("p", purge=True)

    # --- pylance's namespace, in turn with ours

    @rule(given=name)
    def pylance_creates(self, given):
        if not self.main.takes(given):
            return
        self.keys, self.count = self.keys + 1, self.count + 1
        with pa.BufferOutputStream() as sink:
            with pa.ipc.new_stream(sink, rows(self.count).schema) as stream:
                stream.write_table(rows(self.count))
            content = sink.getvalue().to_pybytes()
        pylance(self.lake.catalog).create_table(CreateTableRequest(id=given.split(".")), content)
        self.main.tables[self.keys] = Table(given, {self.count})
        if self.mode == "compatibility" and "." not in given:
            self.by_name.add(self.keys)

    @rule(given=name)
    def pylance_drops(self, given):
        """It knows nothing of what refs need."""
        key = self.main.named(given)
        if key is None or self.is_needed(key) or any(key in here.follows for here in self.branches.values()):
            return
        pylance(self.lake.catalog).drop_table(DropTableRequest(id=given.split(".")))
        del self.main.tables[key]
        self.unsafe |= set(self.deleted)

    @rule(given=branch, at=step, audited=st.booleans())
    def merge(self, given, at, audited):
        here = self.branches.get(given)
        if here is None:
            return
        if any(here.world.tables[key].rows is None for key in here.new & here.world.tables.keys()):
            with pytest.raises(Refused, match="has no data"):
                self.lake.branches.merge(given)
            return
        before = self.versions()
        try:
            after = merged(here, self.main, before)
        except Clash:
            with pytest.raises(Conflict):
                self.lake.branches.merge(given)
            return
        look = (lambda there: self.found(there) == after.seen()) if audited else None
        early, main = self.lake.checkout(published=True), deepcopy(self.main.seen())
        try:
            lived = self.dying(at, lambda: self.lake.branches.merge(given, look))
        except Conflict:
            if not self.may_clash(here, before):
                raise
            assert self.found(early) == main
            return
        late = self.lake.checkout(published=True)
        seen = self.found(late)
        assert seen in (main, after.seen()), "a reader of complete publishes sees a mixture"
        assert self.found(early) == main
        LanceCatalog(self.lake.catalog.uri, mode=self.mode).recover()
        assert self.found(early) == main
        assert self.found(late) == seen
        if not lived and self.found(self.lake) != after.seen():
            return  # then it is wholly before: the invariant looks
        self.main = after
        self.published(here, before)

    def may_clash(self, here, versions):
        """Rows that main and the branch deleted, or moved by a compaction."""
        return any(
            here.covers(key)
            and (here.base.tables[key].rows or set()) - (here.world.tables[key].rows or set())
            and versions.get(key, 0) > here.known.get(key, 0)
            for key in here.base.tables.keys() & here.world.tables.keys()
        )

    def published(self, here, before):
        for key in here.world.tables.keys() & self.main.tables.keys():
            version = self.version(key)
            if key not in before or (version > before[key] and before[key] == here.known.get(key)):
                here.known[key] = version
        here.base = deepcopy(here.world)

    @rule(given=st.sampled_from(TAGS))
    def tag_or_untag(self, given):
        if given in self.tags:
            self.lake.tags.delete(given)
            del self.tags[given]
        else:
            self.lake.tags.create(given)
            self.tags[given] = deepcopy(self.main)

    # --- Upkeep

    @rule(given=name)
    def compact(self, given):
        key = self.main.named(given)
        if key is not None and self.main.tables[key].rows is not None:
            lance.dataset(self.lake.describe_table(given).location.uri).optimize.compact_files()

    @rule()
    def clean(self):
        clean_up(self.lake)
        self.unsafe |= set(self.deleted)

    @rule()
    def sweep(self):
        audit.sweep(self.lake.catalog, later())
        collect_orphans(plan_orphans(self.lake.catalog, later()))

    def dying(self, at, act):
        """Whether it lived."""
        with Mortal(self.lake.catalog.uri, at).living():
            try:
                act()
            except Killed:
                return False
        return True

    # --- What there is

    @rule(given=branch)
    def the_difference_names_what_changed(self, given):
        here = self.branches.get(given)
        if here is None:
            return
        rows = {change.name for change in self.lake.branches.diff(given).changes}
        base, now = here.base, here.world
        changed = {
            (now.tables.get(key) or base.tables[key]).name
            for key in {*base.tables, *now.tables}
            if base.tables.get(key) != now.tables.get(key) and key not in here.follows
        }
        changed |= {
            now.tables[key].name
            for key in here.follows & now.tables.keys()
            if (base.tables[key].name, base.tables[key].properties)
            != (now.tables[key].name, now.tables[key].properties)
        }
        changed |= {space for space in SPACES if base.spaces.get(space) != now.spaces.get(space)}
        assert changed <= rows
        assert len(rows - changed) <= self.undone(here), "changes that undid each other leave versions"

    def undone(self, here):
        return len(here.world.tables)

    @rule()
    def pylance_reads_main(self):
        theirs = pylance(self.lake.catalog)
        from lance_namespace import ListTablesRequest

        for space in ("", *self.main.spaces):
            found = theirs.list_tables(ListTablesRequest(id=[space] if space else [])).tables
            expected = {table.name for table in self.main.tables.values() if table.name.rpartition(".")[0] == space}
            assert set(found) == {each.rpartition(".")[2] for each in expected}

    def found(self, lake):
        names = lake.list_tables(recursive=True)
        described = {each: lake.describe_table(each) for each in names}
        there = {
            each: (None if info.declared else ids(lake, each), info.properties) for each, info in described.items()
        }
        return there, {space: lake.describe_namespace(space).properties for space in lake.list_namespaces()}

    @invariant()
    def everything_reads_as_the_model_says(self):
        if not hasattr(self, "lake"):
            return
        assert self.found(self.lake) == self.main.seen(), MAIN
        for given, here in self.branches.items():
            assert self.found(self.at(given)) == here.world.seen(), f"branch {given}"
        for given, world in self.tags.items():
            assert self.found(self.lake.checkout(tag=given)) == world.seen(), f"tag {given}"
        assert [each.name for each in self.lake.branches if each.ready] == sorted(self.branches)


TestLakeHistories = Lakes.TestCase
TestLakeHistories.settings = settings(max_examples=max(3, settings().max_examples // 4), stateful_step_count=25)
