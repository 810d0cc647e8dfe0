"""Hints for three kinds of user: Python, SQL and the shell.

One rule can raise its error in all three: ``t.branches.delete``, ``CALL lake.system.drop_branch`` and
``lance-git branch -d`` all refuse to delete a branch that a tag needs. The caller that displays the error knows which
language the user typed, and renders the hint in it with :func:`said`. Everywhere else, a hint is its Python text.

Each verb is spelled here once, in all three languages. If a language lacks a verb, the hint names one that has it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Literal

Language = Literal["python", "sql", "shell"]

CATALOG, TABLE = "<catalog>", "<table>"
"""In SQL, placeholders that only the statement can fill: the catalog's name, and the table's name in it."""


class Hint(str):
    """What to do. The value itself is the Python text; attributes hold the SQL and shell texts."""

    __slots__ = ("shell", "sql")

    sql: str
    shell: str

    def __new__(cls, python: str, sql: str | None = None, shell: str | None = None) -> Hint:
        """A language that is left out uses the Python text."""
        made = super().__new__(cls, python)
        made.sql = str(python) if sql is None else sql
        made.shell = str(python) if shell is None else shell
        return made

    def __reduce__(self) -> tuple[type[Hint], tuple[str, str, str]]:
        return Hint, (str(self), self.sql, self.shell)


def of(*parts: str) -> Hint:
    """A sentence of plain texts and verbs; each verb is rendered in each language."""
    return Hint(*("".join(_in(part, language) for part in parts) for language in ("python", "sql", "shell")))


def said(text: str, language: Language, catalog: str | None = None, table: str | None = None) -> str:
    """A hint in one language; plain text is unchanged. SQL hints get the catalog and table names if they are known."""
    told = _in(text, language)
    for mark, name in ((CATALOG, catalog), (TABLE, table)):
        told = told.replace(mark, name) if name is not None else told
    return told


def _in(text: str, language: Language) -> str:
    if not isinstance(text, Hint) or language == "python":
        return str(text)
    return text.sql if language == "sql" else text.shell


def python_only(python: str) -> Hint:
    return Hint(python, f"{python} in Python", f"{python} in Python")


def shell_only(shell: str) -> Hint:
    return Hint(f"{shell} in a shell", f"{shell} in a shell", shell)


def call(procedure: str, **arguments: object) -> str:
    """A statement that calls a procedure for a table."""
    given = {"table": TABLE, **arguments}
    return f"CALL {CATALOG}.system.{procedure}({', '.join(f'{name} => {_sql(given[name])}' for name in given)})"


def _sql(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else "'{}'".format(str(value).replace("'", "''"))


def quoted(*words: str) -> str:
    return " ".join(word if word.isalpha() and word.isupper() else shlex.quote(word) for word in words)


# --- namespaces


def create_namespace(name: str) -> Hint:
    return Hint(
        f"lake.create_namespace({name!r})",
        f"CREATE NAMESPACE {CATALOG}.{name}",
        quoted("lance-catalog", "create", name),
    )


def delete_lake_ref(kind: str, name: str) -> Hint:
    """Delete a branch or a tag of a whole lake."""
    return Hint(
        f"lake.{'tags' if kind == 'tag' else 'branches'}.delete({name!r})",
        f"CALL {CATALOG}.system.drop_lake_{kind}(name => {_sql(name)})",
        quoted("lance-catalog", kind, "-d", name),
    )


def restore_lake_ref(kind: str, name: str) -> Hint:
    """Restore a deleted branch or tag of a whole lake."""
    python = f"lake.{'tags' if kind == 'tag' else 'branches'}.restore({name!r})"
    return Hint(python, f"{python} in Python", quoted("lance-catalog", kind, "--restore", name))


LAKE_REFLOG = Hint("lake.reflog()", "lake.reflog() in Python", "lance-catalog reflog")


def unprotect_lake_branch(name: str) -> Hint:
    """Remove the protection of a branch of a whole lake."""
    python = f"lake.branches.alter({name!r}, protected=False)"
    return Hint(python, f"{python} in Python", quoted("lance-catalog", "branch", "--alter", name, "--no-protected"))


RECOVER = Hint("lake.recover()", f"CALL {CATALOG}.system.recover()", "lance-catalog recover")
MIGRATE = Hint("lake.migrate()", f"CALL {CATALOG}.system.migrate()", "lance-catalog migrate")


# --- branches and tags


def create_branch(name: str, source: str | None = None) -> Hint:
    """``source`` is a branch other than main, or None for main."""
    given = {} if source is None else {"from": source}
    beside = "" if source is None else f", branch={source!r}"
    words = [name] if source is None else [name, source]
    return Hint(
        f"t.branches.create({name!r}{beside})",
        call("create_branch", name=name, **given),
        quoted("lance-git", "branch", *words),
    )


def delete_branch(name: str, force: bool = False) -> Hint:
    """Delete a branch and its files; ``force`` even if a branch of the lake made it."""
    if force:
        return python_only(f"t.branches.delete({name!r}, force=True)")
    return Hint(
        f"t.branches.delete({name!r})", call("drop_branch", name=name), quoted("lance-git", "branch", "-d", name)
    )


def restore_branch(name: str) -> Hint:
    """Restore a deleted branch whose files were kept."""
    python = f"t.branches.restore({name!r})"
    return Hint(python, f"{python} in Python", quoted("lance-git", "branch", "--restore", name))


def unprotect_branch(name: str) -> Hint:
    python = f"t.branches.alter({name!r}, protected=False)"
    return Hint(python, f"{python} in Python", quoted("lance-git", "branch", "--alter", name, "--no-protected"))


def create_tag(name: str) -> Hint:
    return Hint(f"t.tags.create({name!r})", call("create_tag", name=name), quoted("lance-git", "tag", name))


def move_tag(name: str, branch: str | None = None, version: int | None = None) -> Hint:
    """Move a tag to a version; without one, the text leaves the version open."""
    if version is None:
        python, ref = f"t.tags.move({name!r}, branch=..., version=...)", "REF"
    else:
        on = "" if branch is None else f"branch={branch!r}, "
        python, ref = f"t.tags.move({name!r}, {on}version={version})", f"{branch or 'main'}@{version}"
    return Hint(python, f"{python} in Python", quoted("lance-git", "tag", "-f", name, ref))


def delete_tag(name: str, force: bool = False) -> Hint:
    """``force`` deletes a tag even if something is known to need it."""
    forced = {"force": True} if force else {}
    return Hint(
        f"t.tags.delete({name!r}{', force=True' if force else ''})",
        call("drop_tag", name=name, **forced),
        quoted("lance-git", "tag", "-d", name, *(["-f"] if force else [])),
    )


def unfreeze(name: str) -> Hint:
    """Delete a frozen set but keep its rows."""
    return python_only(f"t.frozen.delete({name!r})")


def rename_branch(name: str) -> Hint:
    """Only for a branch without versions of its own; Python has no verb for it."""
    return shell_only(quoted("lance-git", "branch", "-m", name, "NEW"))


def own_branch(name: str, following: str) -> Hint:
    """A branch to work on, instead of one that follows a remote's branch."""
    if name == "main":
        return Hint("t.checkout(branch='main')", f"{CATALOG}.{TABLE}", "lance-git switch main")
    made = create_branch(name, following)
    return Hint(made, made.sql, quoted("lance-git", "switch", name))


LIST_BRANCHES = Hint("t.branches.list()", f"SELECT * FROM {CATALOG}.{TABLE}.branches", "lance-git branch")
REFLOG = Hint("t.reflog(...)", "t.reflog(...) in Python", "lance-git reflog")
LOG = Hint("t.log()", f"SELECT * FROM {CATALOG}.{TABLE}.versions", "lance-git log")


# --- versions


READ_VERSION = Hint("option('version', ...)", "VERSION AS OF ...", "lance-git checkout -b NAME @VERSION")
CHERRY_PICK = Hint(
    "t.cherry_pick(branch, version)", call("cherry_pick", ref="BRANCH@VERSION"), "lance-git cherry-pick REF"
)
REVERT = Hint(
    "t.revert(version)", f"CALL {CATALOG}.system.revert(table => '{TABLE}', version => ...)", "lance-git revert REF"
)
PREFER = Hint("prefer='theirs' or 'ours'", "prefer => 'theirs' or 'ours'", "--theirs or --ours")


def merge(branch: str, into: str | None = None, prefer: str = "", on: Sequence[str] = ()) -> Hint:
    """Merge a branch; ``prefer`` is a side, or several by column, and ``on`` are columns by which rows are matched."""
    target = {} if into is None else {"into": into}
    return Hint(
        f"t.branches.merge({branch!r}{_python(target)}{_python(_replaying(prefer, on))})",
        call("merge_branch", branch=branch, **target, **_replaying(prefer, on)),
        quoted("lance-git", "merge", *_shell(prefer, on), branch),
    )


def cherry_pick(branch: str, version: int, into: str | None = None, prefer: str = "", on: Sequence[str] = ()) -> Hint:
    target = {} if into is None else {"into": into}
    return Hint(
        f"t.cherry_pick({branch!r}, {version}{_python(_replaying(prefer, on))})",
        call("cherry_pick", ref=f"{branch}@{version}", **target, **_replaying(prefer, on)),
        quoted("lance-git", "cherry-pick", *_shell(prefer, on), f"{branch}@{version}"),
    )


def revert(version: int, branch: str | None = None, prefer: str = "", on: Sequence[str] = ()) -> Hint:
    target = {} if branch is None else {"branch": branch}
    return Hint(
        f"t.revert({version}{_python(_replaying(prefer, on))})",
        call("revert", version=version, **target, **_replaying(prefer, on)),
        quoted("lance-git", "revert", *_shell(prefer, on), f"{branch or 'main'}@{version}"),
    )


def transaction(prefer: str = "", on: Sequence[str] = ()) -> Hint:
    return python_only(f"with t.transaction({_python(_replaying(prefer, on)).lstrip(', ')}) as ...")


def _replaying(prefer: str, on: Sequence[str]) -> dict[str, str]:
    given = {"on": ",".join(on), "prefer": prefer}
    return {name: value for name, value in given.items() if value}


def _python(given: Mapping[str, str]) -> str:
    return "".join(
        f", {name}={value.split(',')!r}" if name == "on" and "," in value else f", {name}={value!r}"
        for name, value in given.items()
    )


def _shell(prefer: str, on: Sequence[str]) -> list[str]:
    side = [f"--{prefer}"] if prefer in ("ours", "theirs") else ["-X", prefer] if prefer else []
    return [*(word for name in on for word in ("--on", name)), *side]


MERGE_ON = Hint("on=[...]", "on => array(...)", "--on COLUMN")
RESTORE_VERSION = Hint(
    "t.checkout(branch=..., version=...).restore()",
    call("restore", ref="BRANCH@VERSION"),
    "lance-git restore BRANCH@VERSION",
)
DIFF = shell_only("lance-git diff A..B")


def on_branch(root: str, branch: str) -> Hint:
    sql = f"`{root}@{branch}`"
    return Hint(f"option('branch', {branch!r})", sql, quoted("lance-git", "-C", root, "log", branch))


def at_place(uri: str) -> Hint:
    """Name a dataset: in a shell its place is in front of the verb."""
    return Hint(f"LanceTable.for_path({uri!r})", f"`{uri}`", f"{quoted('lance-git', '-C', uri)} VERB, then the ref")


# --- files, columns and indexes


def optimize(**arguments: object) -> Hint:
    """Compact small fragments; ``arguments`` are Python's."""
    python = f"t.optimize({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    return Hint(python, call("optimize", **arguments), f"{python} in Python")


def create_index(column: str | None = None, **arguments: object) -> Hint:
    """Create an index; ``arguments`` are Python's. SQL supports some of them; for the others the hint uses Python."""
    given = "".join(f", {name}={value!r}" for name, value in arguments.items())
    python = f"t.indexes.create({column!r}{given})" if column is not None else "t.indexes.create(...)"
    known = arguments.keys() <= {"kind", "name", "replace"}
    sql = call("create_index", column=column or "COLUMN", **arguments) if known else f"{python} in Python"
    return Hint(python, sql, f"{python} in Python")


def as_vectors(column: str) -> Hint:
    """Make vectors, which have a length, of lists of numbers that all have the same."""
    new = f"{column.replace('.', '_')}_vector"
    return python_only(f"t.add_columns({{{new!r}: {column!r}}}, vector={{{new!r}: 384}})")


COMPACT_WAL = python_only("t.compact_wal()")
OPTIMIZE_INDEXES = python_only("t.indexes.optimize()")
REPLACE = Hint("replace=True", "replace => true")


def change_layout() -> Hint:
    python = "t.layout.partition_by(...) or t.layout.cluster_by(...)"
    return Hint(
        python, f"ALTER TABLE {CATALOG}.{TABLE} PARTITIONED BY (...) or CLUSTER BY (...)", f"{python} in Python"
    )


def drop_constraint() -> Hint:
    python = "t.constraints.drop(...)"
    return Hint(python, f"ALTER TABLE {CATALOG}.{TABLE} DROP CONSTRAINT ...", f"{python} in Python")


def rename_column(name: str) -> Hint:
    python = f"t.rename_columns({{{name!r}: ...}})"
    return Hint(python, f"ALTER TABLE {CATALOG}.{TABLE} RENAME COLUMN `{name}` TO ...", f"{python} in Python")


def widen_column(name: str, type_name: str) -> Hint:
    """Give a column a wider type; ``type_name`` is that of Spark's SQL."""
    python = f"t.alter_columns({{{name!r}: {type_name!r}}})"
    sql = f"ALTER TABLE {CATALOG}.{TABLE} ALTER COLUMN `{name}` TYPE {type_name}"
    return Hint(python, sql, f"{python} in Python")


def write_new_branch(name: str) -> Hint:
    """Create the branch in the write itself, or before it."""
    made = create_branch(name)
    return Hint("option('create_branch', 'true')", made.sql, made.shell)


def storage_option(key: str, value: str) -> Hint:
    """Give one storage option: a key of ``storage_options`` has no prefix."""
    python = f"storage_options={{{key!r}: {value!r}}}, or .option('storage.{key}', {value!r}) in Spark"
    return Hint(python, f"register(..., storage_options={{{key!r}: {value!r}}})", f"--storage {key}={value}")


STORAGE = Hint("option('storage.aws_access_key_id', ...)", "register(..., storage_options=...)", "--storage KEY=VALUE")


CATALOG_ROOT = Hint("", "", ", which -C or LANCE_CATALOG names")


# --- upkeep


FSCK = Hint("t.fsck()", call("fsck"), "lance-git fsck")
KEEP_TAGGED = Hint(
    "CleanupPolicy(error_if_tagged_old_versions=False)",
    "t.cleanup(CleanupPolicy(error_if_tagged_old_versions=False)) in Python",
    'on_tagged = "keep" in a policy file, or --on-tagged keep of the job',
)
COMMIT_WINDOW = Hint("CleanupPolicy(commit_window=...)", "commit_window => '...'", "--commit-window")
UNVERIFIED_AGE = Hint("CleanupPolicy(unverified_age=...)", "unverified_age => '...'", "--unverified-age")
STORE_PLAN = Hint("t.cleanup().store(...)", "t.cleanup().store(...) in Python", "--plan-dir")
RELOCATE = Hint("t.relocate()", "t.relocate() in Python", "lance-git relocate")
RELOCATE_DRY_RUN = Hint(
    "t.relocate(dry_run=True)", "t.relocate(dry_run=True) in Python", "lance-git relocate --dry-run"
)


def known_base(base: str) -> Hint:
    """Name a base path where nothing is, for a cleanup; a maintenance takes it from its policy."""
    python = f"CleanupPolicy(known_bases=[{base!r}])"
    shell = f"--known-base {quoted(base)}, or known_bases = [{json.dumps(base)}] below [cleanup] in a policy file"
    return Hint(python, f"known_bases => {_sql(base)}", shell)


def undo_repair(record: str) -> Hint:
    python = f"t.undo_repair({record!r})"
    return Hint(python, f"{python} in Python", quoted("lance-git", "fsck", "--undo", record))


def deep_clone(target: str) -> Hint:
    shell = f"{quoted('lance-git', 'clone', '--deep')} SRC {shlex.quote(target)}"
    return Hint(f"t.clone({target!r}, 'deep')", call("clone", target=target, deep=True), shell)


# --- remotes


def pull(remote: str, branch: str, reset: bool = False, prefer: str = "", on: Sequence[str] = ()) -> Hint:
    """Fetch and merge, or reset."""
    given = f"{', reset=True' if reset else ''}{_python(_replaying(prefer, on))}"
    python = f"t.checkout(branch={branch!r}).remotes.pull({remote!r}{given})"
    options = [*(["--reset"] if reset else []), *_shell(prefer, on)]
    return Hint(python, f"{python} in Python", quoted("lance-git", "pull", *options, remote, branch))


def fetch_unrelated(remote: str) -> Hint:
    """Follow another dataset that took the remote's place."""
    python = f"t.remotes.fetch({remote!r}, allow_unrelated_histories=True)"
    return Hint(python, f"{python} in Python", quoted("lance-git", "fetch", "--allow-unrelated-histories", remote))


def fetch(remote: str, branch: str) -> Hint:
    """Update what follows one branch of a remote."""
    python = f"t.remotes.fetch({remote!r}, {branch!r})"
    return Hint(python, f"{python} in Python", quoted("lance-git", "fetch", remote, branch))


SINGLE_BRANCH = Hint("single_branch=True", "single_branch => true", "--single-branch")
"""What a clone takes to follow one branch."""


def push(remote: str, branch: str) -> Hint:
    return Hint(
        f"t.remotes.push({remote!r}, {branch!r})",
        f"t.remotes.push({remote!r}, {branch!r}) in Python",
        quoted("lance-git", "push", remote, branch),
    )


def set_url(remote: str) -> Hint:
    """Change a remote's URI. Python names a remote by its URI."""
    python = "t.remotes.at(uri, name=...)"
    return Hint(python, f"{python} in Python", quoted("lance-git", "remote", "set-url", remote, "URI"))
