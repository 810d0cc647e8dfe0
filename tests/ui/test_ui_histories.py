"""Which branch changed a row: random histories of branches, compared with a plain account of every version's rows."""

import random
from itertools import pairwise

import lance
import pyarrow as pa
import pytest

from lance_spark.storage.datasets import locate
from lance_spark.ui.row_history import find_row, tell_row

IDS = range(6)


class Account:
    """The rows of every version, by branch; a branch begins with a copy of its fork."""

    def __init__(self, uri, seed, key="id"):
        self.uri, self.random, self.key = uri, random.Random(seed), key
        rows = pa.table({key: list(IDS), "price": [float(number) for number in IDS]})
        lance.write_dataset(rows, uri, max_rows_per_file=2, enable_stable_row_ids=bool(seed % 2))
        self.versions = {"main": {1: self._read("main")}}
        self.begun = {"main": 0}

    def open(self, branch):
        return lance.dataset(self.uri if branch == "main" else f"{self.uri}/tree/{branch}")

    def _read(self, branch):
        return {row[self.key]: row["price"] for row in self.open(branch).to_table().to_pylist()}

    def step(self):
        branch = self.random.choice(list(self.versions))
        dataset, number = self.open(branch), self.random.choice(IDS)
        present = number in self._read(branch)
        kind = self.random.choice(["update", "update", "delete", "append", "compact", "config", "branch"])
        if kind == "branch" and len(self.versions) < 5:
            made = f"b{len(self.versions)}"
            dataset.create_branch(made)
            fork = dataset.version
            self.versions[made] = {fork: self._read(made)}
            self.begun[made] = fork
            return
        if kind == "update" and present:
            dataset.update({"price": str(float(self.random.randrange(4)))}, where=f"{self.key} = {number}")
        elif kind == "delete" and present:
            dataset.delete(f"{self.key} = {number}")
        elif kind == "append" and not present:
            lance.write_dataset(pa.table({self.key: [number], "price": [9.0]}), dataset.uri, mode="append")
        elif kind == "compact":
            dataset.optimize.compact_files(target_rows_per_fragment=100)
        else:
            dataset.update_config({"some": str(self.random.random())})
        for version in range(max(self.versions[branch]) + 1, self.open(branch).version + 1):
            self.versions[branch][version] = self._at(branch, version)

    def _at(self, branch, version):
        rows = lance.dataset(self.open(branch).uri, version=version).to_table().to_pylist()
        return {row[self.key]: row["price"] for row in rows}

    def changed(self, branch, number):
        """The versions of a branch itself that changed a row, newest first."""
        line = sorted(self.versions[branch].items())
        pairs = pairwise(line)
        found = [late for (_, old), (late, new) in pairs if old.get(number) != new.get(number)]
        return found[::-1]

    def differs(self, branch, number):
        """Whether a row is not what the branch began with."""
        line = self.versions[branch]
        return line[min(line)].get(number) != line[max(line)].get(number)


def check(uri, seed):
    account = Account(uri, seed)
    for _ in range(25):
        account.step()
    location = locate(uri)
    for number in IDS:
        page = find_row(location, "id", str(number))
        told = {one.branch: one for one in page.branches}
        expected = {branch for branch in account.versions if branch != "main" and account.differs(branch, number)}
        assert {one.branch for one in page.changed_by} == expected
        for branch in expected:
            assert told[branch].change is not None
            assert told[branch].change.entry.version == account.changed(branch, number)[0]
            assert told[branch].change.entry.branch == branch
        main = account.changed("main", number)
        if told["main"].change is not None:
            assert told["main"].change.entry.version == (main[0] if main else 1)
        for branch in account.versions:
            own = [each.entry.version for each in tell_row(location, branch, "id", str(number)).changes]
            assert own[: len(account.changed(branch, number))] == account.changed(branch, number)


@pytest.mark.when(day=0)
@pytest.mark.parametrize("seed", range(40))
def test_the_answer_is_that_of_a_plain_account(tmp_path, seed):
    check(f"{tmp_path}/t.lance", seed)


@pytest.mark.when(day=0)
@pytest.mark.parametrize("seed", range(40))
def test_no_version_is_said_to_add_or_delete_a_row_that_another_value_finds(tmp_path, seed):
    uri = f"{tmp_path}/t.lance"
    account = Account(uri, seed, key="number")  # nothing tells the page that it is one
    for _ in range(25):
        account.step()
    for branch, value in ((branch, value) for branch in account.versions for value in (0.0, 1.0, 3.0, 9.0)):
        for change in tell_row(locate(uri), branch, "price", str(value)).changes:
            line = account.versions[change.entry.branch or "main"]
            now = line[change.entry.version]
            before = line.get(change.entry.version - 1, {})
            rows = [{number for number, price in side.items() if price == value} for side in (before, now)]
            if change.kind == "added":
                assert rows[1] - before.keys()
            if change.kind == "deleted":
                assert rows[0] - now.keys()
