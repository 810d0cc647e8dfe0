"""What each role can do: the table of docs/reference/roles.md and its policies, on a store that enforces them."""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from support.policies import action_of, enforced
from support.s3_tables import Kept, objects, storage_options, write

from lance_spark import CleanupPolicy, LanceTable
from lance_spark.core.location import DatasetLocation
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import PermissionDenied
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions
from lance_spark.fsck.repair import fsck_and_repair
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.refs.refs import delete_branch
from lance_spark.remotes.clone import clone
from lance_spark.remotes.fetch import Remote
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.failures import translated
from lance_spark.streams.sink import commit_stream, plan_stream
from lance_spark.write.data_files import write_rows

pytestmark = pytest.mark.s3

DOCS = Path(__file__).parents[2] / "docs"
POLICIES = (DOCS / "operations" / "permissions.md").read_text()
ROLES = (DOCS / "reference" / "roles.md").read_text()
BUCKET = "roles-of-the-page"
URI = f"s3://{BUCKET}/flights.lance"
ROOT = "flights.lance/"
HEADINGS = {
    "reader": "Reader",
    "branch writer": "Branch writer",
    "with its refs": "Branch writer with its refs",
    "publisher": "Publisher",
    "maintainer": "Maintainer",
}
YES, NO, UNPROTECTED, NOT_NOTED = "yes", "no", "unprotected", "not noted"
NOTES = {UNPROTECTED: "cleanup there may delete", NOT_NOTED: "not noted on a branch"}
"""What a result says."""
ALL_BUT_NEWEST = CleanupPolicy(retain_versions=1, commit_window=timedelta(0), error_if_tagged_old_versions=False)


def policy_of(heading: str) -> dict[str, Any]:
    found = re.search(rf"^### {heading}\n\n```json\n(.*?)```", POLICIES, re.M | re.S)
    return json.loads(found[1].replace("arn:aws:s3:::bucket", f"arn:aws:s3:::{BUCKET}"))


def table() -> dict[str, dict[str, str]]:
    """What the page says: by what is done, the word for each role."""
    lines = ROLES.split("\n")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    first = next(index for index, row in enumerate(rows) if row[1:] == list(HEADINGS))
    return {row[0]: dict(zip(HEADINGS, row[1:], strict=True)) for row in rows[first + 2 :] if len(row) == 6}


TABLE = table()


def access_key(role: str) -> str:
    return "AKID" + role.replace(" ", "-")


@dataclass(frozen=True)
class Actor:
    """Somebody with a role, who does one thing."""

    storage: dict[str, str]
    scratch: Path

    @property
    def main(self) -> LanceTable:
        return LanceTable.for_path(URI, self.storage)

    @property
    def branch(self) -> LanceTable:
        return self.main.checkout(branch="exp")

    def open(self, branch: str | None) -> lance.LanceDataset:
        return lance.dataset(f"{URI}/tree/{branch}" if branch else URI, storage_options=self.storage)

    def read(self) -> None:
        for ref in ({}, {"branch": "exp"}, {"tag": "v1"}, {"version": 1}):
            assert self.main.checkout(**ref).count_rows("id > 0")

    def look(self) -> None:
        t = self.main
        assert t.fsck().findings == ()
        t.log(all=True), t.storage(), t.branches.list(), t.reflog()
        t.cleanup(ALL_BUT_NEWEST).report()

    def clone(self) -> tuple[str, ...]:
        source = Remote("origin", self.main.location)
        target = DatasetLocation.at(str(self.scratch / "clone.lance"))
        return clone(source, pin_latest(source.location, None), target, LocalRunner(2)).notes

    def rows(self) -> None:
        with translated(self.main.location, "changing rows"):
            self.open("exp").delete("id = 5")
            self.open("exp").update({"id": "60"}, "id = 6")

    def columns(self) -> None:
        self.branch.rename_columns({"note": "remark"})
        self.branch.drop_columns(["remark"])

    def replay(self) -> None:
        self.branch.revert(self.branch.version)
        self.branch.cherry_pick("other", 3)

    def merge(self, source: str, into: str | None) -> tuple[str, ...]:
        location = self.main.location
        return merge(location, pin_latest(location, source), into, MergeOptions(), LocalRunner(2)).notes

    def stream(self) -> None:
        one = pa.table({"id": pa.array([9], pa.int64())})
        options = {"path": URI, "branch": "exp", "query_id": "q"}
        options |= {f"storage.{key}": value for key, value in self.storage.items()}
        for number in range(2):
            stream = plan_stream(options, one.schema, False)
            commit_stream(stream, write_rows(stream.job, one.to_batches()), number)

    def own_tags(self) -> None:
        self.main.tags.move("exp-1", branch="exp", version=3)
        self.main.tags.delete("exp-1")

    def transaction(self) -> None:
        with self.main.transaction("m") as step:
            lance.write_dataset(
                pa.table({"id": pa.array([9], pa.int64())}),
                step.location.branch_uri(step.branch),
                mode="append",
                storage_options=self.storage,
            )

    def clean(self, branches: tuple[str, ...]) -> None:
        assert self.main.cleanup(ALL_BUT_NEWEST, branches=branches).apply().complete

    def repair(self) -> None:
        location = DatasetLocation.at(URI, self.storage)
        options = RepairOptions(on_main=True)
        report = fsck_and_repair(location, FsckOptions(), options, LocalRunner(2), time.time_ns())
        assert report.repaired.outcomes


VERBS: dict[str, Callable[[Actor], tuple[str, ...] | None]] = {
    "read every branch, tag and version": Actor.read,
    "logs, differences, `storage`, `fsck`, plans of cleanups": Actor.look,
    "clone to a place of one's own": Actor.clone,
    "append to the branch, overwrite it": lambda who: (
        [write(URI, who.storage, [7], overwrite, branch="exp") for overwrite in (False, True)] and None
    ),
    "delete and update rows of the branch": Actor.rows,
    "rename and drop columns of the branch": Actor.columns,
    "optimize the branch": lambda who: who.branch.optimize() and None,
    "create an index on the branch": lambda who: who.branch.indexes.create("id") and None,
    "restore an older version of the branch": lambda who: who.main.checkout(branch="exp", version=3).restore() and None,
    "revert on the branch, cherry-pick to it": Actor.replay,
    "clean up the branch alone": lambda who: who.clean(("exp",)),
    "merge main into the branch": lambda who: who.merge(None, "exp"),
    "set the branch's owner, expiry and protection": lambda who: who.main.branches.alter("exp", owner="me") and None,
    "stream into the branch": Actor.stream,
    "create a branch `exp/...`": lambda who: who.main.branches.create("exp/new") and None,
    "create a tag `exp-...`": lambda who: who.main.tags.create("exp-2", branch="exp"),
    "move and delete a tag `exp-...`": Actor.own_tags,
    "create any other tag": lambda who: who.main.tags.create("v2"),
    "create any other branch": lambda who: who.main.branches.create("new") and None,
    "delete any other branch": lambda who: delete_branch(who.main.location, "spare"),
    "merge the branch into main": lambda who: who.merge("exp", None),
    "write to main and to other branches": lambda who: (
        [write(URI, who.storage, [7], branch=name) for name in ("main", "other")] and None
    ),
    "optimize main": lambda who: who.main.optimize() and None,
    "create an index on main": lambda who: who.main.indexes.create("id") and None,
    "restore an older version of main": lambda who: who.main.checkout(version=1).restore() and None,
    "a transaction on main": Actor.transaction,
    "freeze a training set": lambda who: who.main.frozen.create("set", seed=1) and None,
    "clean up main or everything": lambda who: who.clean(()),
    "repair": Actor.repair,
}
BY_TASKS = {
    "append to the branch, overwrite it",
    "delete and update rows of the branch",
    "write to main and to other branches",
}
"""Here it is a task, or pylance, that is denied: it does not know what the others did."""


@pytest.fixture(scope="module")
def world(moto, client) -> Kept:
    """Main with two branches and one to spare, each with versions that may go; tags; a column to change."""
    client.create_bucket(Bucket=BUCKET)
    storage = storage_options(moto)
    write(URI, storage, [1, 2, 3])
    write(URI, storage, [4])
    t = LanceTable.for_path(URI, storage)
    for name in ("exp", "other", "spare"):
        t.branches.create(name)
        write(URI, storage, [5], branch=name)
        write(URI, storage, [6], branch=name)
    lance.dataset(f"{URI}/tree/exp", storage_options=storage).add_columns({"note": "cast(id as string)"})
    write(URI, storage, [10])
    t.tags.create("v1", version=1)
    t.tags.create("exp-1", branch="exp")
    t.tags.create("other-1", branch="other", version=4)
    return Kept(client, BUCKET)


@pytest.fixture
def denied(world, faulty) -> Iterator[list[tuple[str, str]]]:
    """What the store denied: permission and key, in order."""
    world.put_back()
    rule = enforced({access_key(role): policy_of(heading) for role, heading in HEADINGS.items()})
    refused: list[tuple[str, str]] = []

    def noting(request):
        answer = rule(request)
        if answer is not None:
            refused.append((action_of(request), f"s3://{request.bucket}/{request.key}"))
        return answer

    faulty.rule = noting
    return refused


@pytest.fixture
def act(faulty, tmp_path):
    """Do something in a role; returns what the result notes."""

    def acting(verb: str, role: str) -> tuple[str, ...]:
        storage = {**storage_options(faulty.endpoint), "aws_access_key_id": access_key(role)}
        done = VERBS[verb](Actor(storage, tmp_path))
        return done if isinstance(done, tuple) else ()

    return acting


def test_the_table_is_about_what_is_tested_here():
    assert list(TABLE) == list(VERBS)
    assert {word for row in TABLE.values() for word in row.values()} == {YES, NO, UNPROTECTED, NOT_NOTED}


def test_each_role_may_do_what_the_one_before_may():
    for verb, row in TABLE.items():
        denied = [word == NO for word in row.values()]
        assert denied == sorted(denied, reverse=True), verb


def borders() -> Iterator[tuple[str, str]]:
    """The last role that may not do something, and the first one that may, unless a test below tries it anyway."""
    for verb, row in TABLE.items():
        roles = list(row)
        may = next(index for index, role in enumerate(roles) if row[role] == YES)
        below = verb in IN_ONE_GO and roles[may] == "branch writer"
        yield from ((verb, role) for role in roles[max(0, may - 1) : may + (not below)])


IN_ONE_GO = [
    verb
    for verb, row in TABLE.items()
    if row["branch writer"] == YES
    if verb not in ("rename and drop columns of the branch", "revert on the branch, cherry-pick to it")
]
"""What can be done one after the other on one branch."""
CELLS = [(verb, role) for verb, row in TABLE.items() for role in row]
LIKE_ALL_RIGHTS = {"write to main and to other branches", "optimize main", "create an index on main"}
"""Done with all rights in other tests on S3: by day only that they are denied."""
BY_DAY = {(verb, role) for verb, role in borders() if TABLE[verb][role] == NO or verb not in LIKE_ALL_RIGHTS}


@pytest.mark.when(day=1.0)  # of each verb the roles at the border
@pytest.mark.parametrize(
    ("verb", "role"),
    [pytest.param(*cell, marks=[] if cell in BY_DAY else pytest.mark.when(day=0)) for cell in CELLS],
)
def test_a_role_can_do_what_the_table_says_and_nothing_else(client, denied, act, verb, role):
    if verb == "repair":
        client.delete_object(Bucket=BUCKET, Key=f"{ROOT}_refs/branches/other.json")
    before = objects(client, BUCKET)
    if TABLE[verb][role] != NO:
        notes = " ".join(act(verb, role))
        told = {word for word, text in NOTES.items() if text in notes}
        assert told == {TABLE[verb][role]} - {YES}, notes
        return
    with pytest.raises(PermissionDenied) as caught:
        act(verb, role)
    assert objects(client, BUCKET) == before
    permission, _, place = caught.value.missing.partition(" on ")
    assert any(permission == action and uri.startswith(place) for action, uri in denied), (caught.value, denied)
    assert f"{caught.value.missing} is missing" in caught.value.message
    by_task = verb in BY_TASKS or (verb, role) == ("stream into the branch", "reader")
    assert ("Nothing was changed." in caught.value.message) == (not by_task)


def test_what_a_branch_writer_may_do_leaves_all_else_as_it_was(client, denied, act):
    before = {key: etag for key, etag in objects(client, BUCKET).items() if not key.startswith(f"{ROOT}tree/exp/")}
    for verb in IN_ONE_GO:
        act(verb, "branch writer")
    after = objects(client, BUCKET)
    assert {key: etag for key, etag in after.items() if not key.startswith(f"{ROOT}tree/exp/")} == before
    assert denied == []


def allowed(*patterns: str, verbs: tuple[str, ...] = ("s3:PutObject", "s3:DeleteObject")) -> dict[str, Any]:
    """A policy to read everything, and to write and delete below these patterns."""
    below = [f"arn:aws:s3:::{BUCKET}/{ROOT}{pattern}" for pattern in patterns]
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": ["s3:ListBucket", "s3:GetObject"], "Resource": "*"},
            {"Effect": "Allow", "Action": list(verbs), "Resource": below},
        ],
    }


ALL_BUT_VERSIONS = ("data/*", "_transactions/*", "_deletions/*", "_indices/*", "_refs/*", "_clones/*", "tree/*")
ALL_BUT_REFS = ("data/*", "_transactions/*", "_deletions/*", "_indices/*", "_versions/*", "tree/*")
LAST_STEPS: dict[str, tuple[tuple[str, ...], Callable[[Actor], object], str]] = {
    "a write": (ALL_BUT_VERSIONS, lambda who: write(URI, who.storage, [7]), "_versions/"),
    "a merge": (ALL_BUT_VERSIONS, lambda who: who.merge("exp", None), "_versions/"),
    "a merge by reference": (
        ALL_BUT_VERSIONS,
        lambda who: who.main.branches.merge("exp", reference=True),
        "_versions/",
    ),
    "an index": (ALL_BUT_VERSIONS, lambda who: who.main.indexes.create("id"), "_versions/"),
    "a transaction": (ALL_BUT_VERSIONS, Actor.transaction, "_versions/"),
    "a branch": (ALL_BUT_REFS, lambda who: who.main.branches.create("new"), "_refs/branches/"),
    "a write to a new branch": (
        ALL_BUT_REFS,
        lambda who: write(URI, who.storage, [7], branch="new", create_branch="true"),
        "_refs/branches/",
    ),
    "a transaction's branch": (ALL_BUT_REFS, Actor.transaction, "_refs/branches/"),
    "a stream": (ALL_BUT_REFS, Actor.stream, "_refs/tags/"),
    "a tag that moves": (("_refs/lance_spark/*",), Actor.own_tags, "_refs/tags/"),
    "a tag that is deleted": (("_refs/lance_spark/*",), lambda who: who.main.tags.delete("exp-1"), "_refs/tags/"),
    "a branch that is deleted": (("tree/*",), lambda who: delete_branch(who.main.location, "spare"), "_refs/branches/"),
    "a branch that is set aside": (
        ("tree/*", "_refs/lance_spark/*"),
        lambda who: who.main.branches.delete("spare"),
        "_refs/branches/",
    ),
    "a clone's tag": (
        ("_clones/*", "../copy.lance/*"),
        lambda who: who.main.clone(f"s3://{BUCKET}/copy.lance", follow=False),
        "_refs/tags/",
    ),
}


@pytest.mark.when(day=0.5)
@pytest.mark.parametrize("verb", LAST_STEPS)
def test_what_is_denied_at_its_last_step_leaves_nothing_behind(client, denied, faulty, tmp_path, verb):
    patterns, act, place = LAST_STEPS[verb]
    policy = json.loads(json.dumps(allowed(*patterns)).replace(f"{ROOT}../", ""))
    faulty.rule = enforced({"AKIDpart": policy})
    before = objects(client, BUCKET)
    with pytest.raises(PermissionDenied, match="Nothing was changed") as caught:
        act(Actor({**storage_options(faulty.endpoint), "aws_access_key_id": "AKIDpart"}, tmp_path))
    assert objects(client, BUCKET) == before
    assert caught.value.missing.endswith(f" on {URI}/{place}")


def test_a_clone_whose_target_is_denied_leaves_no_tag_at_its_source(client, denied, faulty, tmp_path):
    faulty.rule = enforced({"AKIDpart": allowed("*")})
    before = objects(client, BUCKET)
    who = Actor({**storage_options(faulty.endpoint), "aws_access_key_id": "AKIDpart"}, tmp_path)
    for follow in (False, True):
        with pytest.raises(PermissionDenied) as caught:
            who.main.clone(f"s3://{BUCKET}/copy.lance", follow=follow)
        assert caught.value.missing.startswith(f"s3:PutObject on s3://{BUCKET}/copy.lance/")
    assert objects(client, BUCKET) == before


def test_files_that_may_not_be_deleted_are_named_and_nothing_else_is_claimed(client, denied, faulty):
    faulty.rule = enforced({"AKIDpart": allowed("data/*", "_transactions/*", verbs=("s3:PutObject",))})
    before = objects(client, BUCKET)
    storage = {**storage_options(faulty.endpoint), "aws_access_key_id": "AKIDpart"}
    with pytest.raises(PermissionDenied) as caught:
        write(URI, storage, [7])
    assert f"files that were written are left, as s3:DeleteObject on {URI}/data/ is missing" in caught.value.message
    assert "Nothing was changed" not in caught.value.message
    left = {key for key in objects(client, BUCKET) if key not in before}
    assert {key.split("/")[1] for key in left} <= {"data", "_transactions"}
    assert lance.dataset(URI, storage_options=storage).version == 3


def test_copies_that_were_made_before_another_one_was_denied_are_counted(client, denied, faulty, tmp_path):
    world_writes = allowed("data/*", "_versions/*", "_transactions/*")
    rule, copies = enforced({"AKIDpart": world_writes}), []

    def deny_the_second_copy(request):
        if request.writes and "/data/" in request.key and request.access_key == "AKIDpart":
            copies.append(request.key)
            return "403 AccessDenied" if len(copies) > 1 else None
        return rule(request)

    faulty.rule = deny_the_second_copy
    with pytest.raises(PermissionDenied, match=r"No version was made; a cleanup removes the 1 file") as caught:
        Actor({**storage_options(faulty.endpoint), "aws_access_key_id": "AKIDpart"}, tmp_path).merge("exp", None)
    assert "Nothing was changed" not in caught.value.message
