"""One remote and two clones, changed, fetched, pulled, pushed, cleaned up in any order: no row is lost or doubled."""

import shutil
import tempfile
import time
from contextlib import nullcontext
from datetime import timedelta
from itertools import count
from unittest.mock import patch

import lance
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from support.merge_model import Column, State
from support.remote_model import Git, Place

from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.core.location import DatasetLocation
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, Refused
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.refs.refs import create_branch_at
from lance_spark.remotes.clone import clone
from lance_spark.remotes.fetch import Remote, fetch
from lance_spark.remotes.pull import pull
from lance_spark.remotes.push import push
from lance_spark.storage.datasets import locate, pin_latest

CHANGES = ("append", "append", "delete", "update", "upsert", "add", "drop", "compact")
ALL = CleanupPolicy(
    older_than=timedelta(0),
    commit_window=timedelta(0),
    delete_unverified=True,
    error_if_tagged_old_versions=False,
)
MAY_REFUSE = ("cannot commit both at once", "mixes rows from before the base")
NOT_FORWARD = "not a fast-forward"
REMOTE, CLONES = "r", ("a", "b")


SEVERAL = st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 2)), min_size=1, max_size=3)


class Remotes(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.git = Git()
        self.keys, self.tokens, self.values = count(), count(1), count(1000)
        self.remote = Remote("origin", self.location(REMOTE))

    def teardown(self):
        shutil.rmtree(self.directory)

    def location(self, dataset):
        return locate(f"{self.directory}/{dataset}.lance")

    def dataset(self, place):
        return lance.dataset(self.location(place.dataset).branch_uri(place.branch or None))

    @initialize(stable=st.booleans(), size=st.integers(1, 2))
    def create(self, stable, size):
        rows = {key: {0: 7 * key} for key in (next(self.keys) for _ in range(4 * size))}
        state = State((Column(0, "v"),), rows)
        uri = self.location(REMOTE).uri
        lance.write_dataset(table(state, rows), uri, max_rows_per_file=4, enable_stable_row_ids=stable)
        self.git.commit(Place(REMOTE, ""), state)
        self.change(Place(REMOTE, ""), "delete", 1)
        self.branch(REMOTE, "b", "")
        self.change(Place(REMOTE, "b"), "append", 1)
        self.change(Place(REMOTE, ""), "update", 2)
        for dataset in CLONES:
            # The first one by pylance, the other one as between two stores.
            apart = patch.object(DatasetLocation, "store", property(lambda self: self.uri))
            with apart if dataset == "b" else nullcontext():
                clone(self.remote, pin_latest(self.remote.location, None), self.location(dataset), LocalRunner())
            self.git.heads[Place(dataset, "")] = self.git.heads[Place(REMOTE, "")]
            self.follow(dataset)
            self.check(dataset, REMOTE)

    def follow(self, dataset, *branches):
        """The following branches are where the remote's are."""
        for branch in branches or self.git.branches(REMOTE):
            self.git.heads[Place(dataset, f"origin/{branch or 'main'}")] = self.git.heads[Place(REMOTE, branch)]

    @rule(data=st.data(), dataset=st.sampled_from((REMOTE, *CLONES)), changes=SEVERAL)
    def change_a_branch(self, data, dataset, changes):
        branch = data.draw(st.sampled_from(self.git.branches(dataset)))
        for change, number in changes:
            self.change(Place(dataset, branch), change, number)
        self.check(dataset)

    @rule(data=st.data(), changes=SEVERAL, dataset=st.sampled_from(CLONES))
    def change_the_remote_and_pull(self, data, changes, dataset):
        self.change_a_branch(data, REMOTE, changes)
        self.pull(data, dataset)

    @rule(data=st.data(), changes=SEVERAL, dataset=st.sampled_from(CLONES), pull=st.booleans())
    def change_a_clone_and_push(self, data, changes, dataset, pull):
        self.change_a_branch(data, dataset, changes)
        if pull:
            self.pull(data, dataset)
        self.push(data, dataset)

    def change(self, place, change, number):
        before, dataset = self.git.state(place), self.dataset(place)
        version = dataset.version
        after = getattr(self, f"_{change}")(dataset, before, number)
        # A version in which nothing changed is none to a fetch.
        if after != before or (change == "compact" and self.dataset(place).version != version):
            self.git.commit(place, after)

    def _append(self, dataset, state, number):
        new = {
            key: {token: 7 * key + token for token, _ in state.columns}
            for key in (next(self.keys) for _ in range(number + 1))
        }
        lance.write_dataset(table(state, new), dataset.uri, mode="append", max_rows_per_file=2)
        return State(state.columns, {**state.rows, **new})

    def _delete(self, dataset, state, number):
        dataset.delete(f"id % 5 = {number}")
        return State(state.columns, {key: row for key, row in state.rows.items() if key % 5 != number})

    def _update(self, dataset, state, number):
        if not state.columns:
            return state
        token, name = state.columns[number % len(state.columns)]
        value = next(self.values)
        dataset.update({name: str(value)}, where=f"id % 4 = {number}")
        changed = {key: {**row, token: value} for key, row in state.rows.items() if key % 4 == number}
        return State(state.columns, {**state.rows, **changed})

    def _upsert(self, dataset, state, number):
        old = sorted(state.rows)[number : number + 1]
        keys, value = [*old, next(self.keys)], next(self.values)
        rows = {key: {token: value for token, _ in state.columns} for key in keys}
        dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(table(state, rows))
        return State(state.columns, {**state.rows, **rows})

    def _add(self, dataset, state, number):
        if len(state.columns) > number:
            return state
        token = next(self.tokens)
        # A name of its own: pylance may give the id of a dropped column to a new one of the same name. Where a cleanup
        # deleted the versions in between, nothing tells that from new values.
        name = f"c{token}"
        dataset.add_columns({name: f"id * {token}"})
        rows = {key: {**row, token: key * token} for key, row in state.rows.items()}
        return State((*state.columns, Column(token, name)), rows)

    def _drop(self, dataset, state, number):
        if len(state.columns) <= number:
            return state
        token, name = state.columns[number]
        dataset.drop_columns([name])
        rows = {
            key: {other: value for other, value in row.items() if other != token} for key, row in state.rows.items()
        }
        return State(tuple(column for column in state.columns if column.token != token), rows)

    def _compact(self, dataset, state, _):
        dataset.optimize.compact_files()
        return state

    @rule(data=st.data(), dataset=st.sampled_from((REMOTE, *CLONES)), name=st.sampled_from(("b", "b/c")))
    def make_a_branch(self, data, dataset, name):
        if Place(dataset, name) not in self.git.heads:
            known = [*self.git.branches(dataset), *self.git.branches(dataset, following=True)]
            self.branch(dataset, name, data.draw(st.sampled_from(known)))
            self.check(dataset)

    def branch(self, dataset, name, source):
        location = self.location(dataset)
        create_branch_at(location, name, pin_latest(location, source or None))
        self.git.heads[Place(dataset, name)] = self.git.heads[Place(dataset, source)]

    @rule(dataset=st.sampled_from(CLONES))
    def fetch(self, dataset):
        fetch(self.location(dataset), self.remote, LocalRunner())
        self.follow(dataset)
        self.check(dataset, REMOTE)

    @rule(data=st.data(), dataset=st.sampled_from(CLONES))
    def pull(self, data, dataset):
        source = data.draw(st.sampled_from(self.git.branches(REMOTE)))
        into = Place(dataset, data.draw(st.sampled_from([source] if source in self.git.branches(dataset) else [""])))
        followed = Place(dataset, f"origin/{source or 'main'}")
        location = self.location(dataset)
        self.merge(
            followed,
            into,
            lambda: pull(location, self.remote, source or None, into.branch or None, LocalRunner()).merged,
            source,
        )

    @rule(data=st.data(), dataset=st.sampled_from((REMOTE, *CLONES)))
    def merge_a_branch(self, data, dataset):
        own = self.git.branches(dataset)
        into = Place(dataset, data.draw(st.sampled_from(own)))
        known = [branch for branch in [*own, *self.git.branches(dataset, following=True)] if branch != into.branch]
        if known:
            source = Place(dataset, data.draw(st.sampled_from(known)))
            location = self.location(dataset)
            pin = pin_latest(location, source.branch or None)
            self.merge(source, into, lambda: merge(location, pin, into.branch or None, MergeOptions(), LocalRunner()))

    def merge(self, source, into, action, pulled=None):
        if pulled is not None:
            parents = self.lineage(pulled)
        try:
            result, refusal = action(), None
        except (Conflict, Refused) as problem:
            result, refusal = None, problem
        if pulled is not None:
            self.follow(into.dataset, *parents)
        if refusal is not None:
            if self.git.holds(source, into) and pulled is not None:
                raise AssertionError(f"a pull into a branch without changes was refused: {refusal}")
            self.check(into.dataset)
            return
        outcomes = self.git.outcomes(into, source)
        if result.version is None:
            assert result.up_to_date
            assert self.git.state(into) in outcomes
            self.git.agree(into, source)
        else:
            found = self.found(into)
            matching = [state for state in outcomes if (sorted(["id", *state.names]), state.plain()) == found]
            assert matching, (found, outcomes)
            if matching[0] != outcomes[0] and matching[0] in outcomes[1::2]:
                assert any("no value in column" in note for note in result.notes), result
            self.git.merge(into, source, matching[0])
        self.check(into.dataset)

    def lineage(self, branch):
        """What a fetch of one branch fetches: those that it was made from as well."""
        table = lance.dataset(self.location(REMOTE).uri).branches.list()
        found = [branch]
        while found[-1] and table[found[-1]]["parent_branch"] is not None:
            found.append(table[found[-1]]["parent_branch"])
        return [*found, ""]

    @rule(data=st.data(), dataset=st.sampled_from(CLONES))
    def push(self, data, dataset):
        self.push_branch(dataset, data.draw(st.sampled_from(self.git.branches(dataset))))

    def push_branch(self, dataset, branch, again=False):
        here, there = Place(dataset, branch), Place(REMOTE, branch)
        forward = there not in self.git.heads or self.git.holds(here, there)
        agreed = not forward and self.git.agrees(here, there)
        known = self.lineage(branch) if there in self.git.heads else self.git.branches(REMOTE)
        try:
            result = push(self.location(dataset), self.remote, branch or None, LocalRunner())
        except (Conflict, Refused) as refusal:
            self.follow(dataset, *known)
            self.check(dataset, REMOTE)
            if there not in self.git.heads and branch in lance.dataset(self.remote.location.uri).branches.list():
                raise AssertionError("a push that was refused left a branch") from refusal
            if forward and NOT_FORWARD in str(refusal) and not again:
                # Rows may be there by another way, as from a branch that was merged there too: the pull has nothing.
                pull(self.location(dataset), self.remote, branch or None, branch or None, LocalRunner())
                self.check(dataset)
                self.push_branch(dataset, branch, again=True)
            elif forward and not any(told in str(refusal) for told in MAY_REFUSE):
                raise
            return
        if result.version is None and not result.created:
            assert self.git.state(there) == self.git.state(here)
        else:
            if not forward:
                assert agreed
                self.git.commit(here, self.git.state(here), self.git.heads[there])
            self.git.heads[there] = self.git.heads[here]
        self.follow(dataset, *known, branch)
        self.check(dataset, REMOTE)

    @rule(dataset=st.sampled_from((REMOTE, *CLONES)))
    def clean_up(self, dataset):
        time.sleep(0.002)
        report = plan_cleanup(self.location(dataset), ALL, LocalRunner(1), time.time_ns()).apply()
        assert report.complete, report
        self.check(REMOTE, *CLONES)

    def check(self, *datasets):
        """Every branch has the rows and columns it should have, each once."""
        for place in self.git.heads:
            if place.dataset in datasets:
                state = self.git.state(place)
                assert self.found(place) == (sorted(["id", *state.names]), state.plain()), place

    def found(self, place):
        dataset = self.dataset(place)
        rows = dataset.to_table(with_row_id=True).to_pylist()
        assert len({row.pop("_rowid") for row in rows}) == len(rows)
        by_key = {row.pop("id"): row for row in rows}
        assert len(by_key) == len(rows), place
        return sorted(dataset.schema.names), by_key


def table(state, rows):
    columns = {"id": pa.array(rows, pa.int64())}
    columns |= {name: pa.array([row[token] for row in rows.values()], pa.int64()) for token, name in state.columns}
    return pa.table(columns)


TestRemoteHistories = Remotes.TestCase
TestRemoteHistories.settings = settings(max_examples=max(6, settings().max_examples // 5), stateful_step_count=12)
