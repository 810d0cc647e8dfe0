"""Random histories of row changes, with other writers between computing and committing, beside a dict."""

import lance
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.row_changes import changing_table, check_table, row_ids, rows_of, some, written

from lance_spark.errors import Conflict
from lance_spark.rows.action_rules import DELETE, INSERT, UPDATE
from lance_spark.rows.rows import finish

OPERATIONS = st.dictionaries(st.integers(0, 40), st.sampled_from([DELETE, UPDATE]), max_size=6)
MEANWHILE = st.lists(
    st.one_of(
        st.tuples(st.just("delete"), st.sets(st.integers(0, 40), min_size=1, max_size=3)),
        st.tuples(st.just("update"), st.sets(st.integers(0, 40), min_size=1, max_size=3)),
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.just("change"), OPERATIONS),
    ),
    max_size=3,
)
STEPS = st.lists(st.tuples(OPERATIONS, st.integers(0, 2), MEANWHILE), min_size=1, max_size=4)


class World:
    """A table, and the rows that it has to have."""

    def __init__(self, uri, branch, stable):
        self.location, self.branch, self.stable = changing_table(uri, branch, stable), branch, stable
        self.model = {row["id"]: row for row in rows_of(self.location, branch) if row["id"] is not None}
        self.rest = [row for row in rows_of(self.location, branch) if row["id"] is None]
        self.next = 100
        self.born = row_ids(self.location, branch)

    @property
    def uri(self):
        return self.location.branch_uri(self.branch)

    def rows(self, operations, inserted):
        """Rows of an action frame, and the keys that they change."""
        known = {key: operation for key, operation in operations.items() if key in self.model}
        rows = [(operation, {**self.model[key], "x": 7}) for key, operation in known.items()]
        for _ in range(inserted):
            rows.append((INSERT, {"id": self.next, "x": 8, "day": "new"}))
            self.next += 1
        return rows, set(known)

    def apply(self, rows):
        for operation, row in rows:
            if operation == DELETE:
                del self.model[row["id"]]
            else:
                self.model[row["id"]] = row

    def happens(self, kind, what):
        """Something that another writer commits; the keys of rows that it changed."""
        keys = sorted(self.model.keys() & what) if kind in ("delete", "update") else []
        if kind == "change":
            rows, touched = self.rows(what, 1)
            finish(written(self.location, self.branch, rows))
            self.apply(rows)
            return touched
        if keys and kind == "delete":
            lance.dataset(self.uri).delete(f"id IN ({', '.join(map(str, keys))})")
            self.apply([(DELETE, {"id": key}) for key in keys])
        if keys and kind == "update":
            lance.dataset(self.uri).update({"x": "9"}, where=f"id IN ({', '.join(map(str, keys))})")
            self.apply([(UPDATE, {**self.model[key], "x": 9}) for key in keys])
        if kind == "append":
            lance.write_dataset(some(range(self.next, self.next + what), x=3), self.uri, mode="append")
            self.apply([(INSERT, row) for row in some(range(self.next, self.next + what), x=3).to_pylist()])
            self.next += what
        if kind == "compact":
            dataset = lance.dataset(self.uri)
            shared = [f.fragment_id for f in dataset.get_fragments() if f.metadata.files[0].base_id is not None]
            dataset.optimize.compact_files(excluded_fragment_ids=shared)
        return set(keys)

    def check(self):
        check_table(self.location, self.branch, [*self.model.values(), *self.rest])
        if self.stable:
            now = row_ids(self.location, self.branch)
            assert all(now[key] == known for key, known in self.born.items() if key in now and key in self.model)
        self.born |= row_ids(self.location, self.branch)


@pytest.mark.parametrize(("branch", "stable"), [("exp", True), (None, False)], ids=["stable branch", "plain main"])
@given(steps=STEPS)
def test_a_table_has_the_rows_of_the_model(tmp_path_factory, branch, stable, steps):
    world = World(str(tmp_path_factory.mktemp("rows") / "t.lance"), branch, stable)
    for operations, inserted, meanwhile in steps:
        rows, touched = world.rows(operations, inserted)
        if not rows:
            continue
        change = written(world.location, branch, rows)
        others = set()
        for kind, what in meanwhile:
            others |= world.happens(kind, what)
        if others & touched:
            with pytest.raises(Conflict):
                finish(change)
        else:
            finish(change)
            world.apply(rows)
        world.check()
