"""Words of Delta, pandas, git, pylance and PySpark that people type on our objects, and what to type instead. Pure.

A plain AttributeError would leave somebody who knows Delta with the list of all names.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.core.calls import Words, telling, wrong_call
from lance_spark.core.irreversible import proposable
from lance_spark.errors import InvalidOption, NoSuchName, WrongArguments

_CLEANUP = "t.cleanup(CleanupPolicy(older_than=timedelta(days=7))), which shows a plan; plan.apply() deletes."
_UPSERT = "t.merge(df, on='id').when_matched_update_all().when_not_matched_insert_all().execute()"
_FEW = 12
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

OF_TABLES: Mapping[str, str] = {
    "add": "t.write(df) for rows, t.add_columns({'speed': 'distance / air_time'}) for a column",
    "add_column": "t.add_columns({'speed': 'distance / air_time'})",
    "alias": "t.merge(df, on='id'): in its conditions, the two sides are called target and source.",
    "append": "t.write(df)",
    "check": "t.fsck()",
    "checkout_version": "t.checkout(version=3)",
    "cleanup_old_versions": _CLEANUP,
    "columns": "t.schema.names",
    "commit": "t.write(df, commit_message='...'): each verb is a version of its own",
    "compact": "t.optimize()",
    "compact_files": "t.optimize()",
    "copy": "t.clone('copy.lance', 'deep')",
    "count": "t.count_rows()",
    "create": "LanceCatalog(root).write_table(df, 'docs') for a table, t.branches.create('exp') for a branch",
    "create_branch": "t.branches.create('exp')",
    "create_index": "t.indexes.create('id')",
    "create_scalar_index": "t.indexes.create('id')",
    "create_tag": "t.tags.create('v1')",
    "delete_branch": "t.branches.delete('exp')",
    "delete_tag": "t.tags.delete('v1')",
    "describe": "print(t), t.schema or t.storage()",
    "detail": "print(t), t.schema or t.storage()",
    "df": "t.to_df()",
    "drop": "LanceCatalog(root).drop_table('ns.flights') for a table, t.drop_columns('speed') for a column",
    "drop_column": "t.drop_columns('speed')",
    "dtypes": "t.schema",
    "fetch": "t.remotes.fetch('origin')",
    "filter": "t.to_df(filter='delay > 60')",
    "forName": "LanceCatalog(root).table('ns.flights')",
    "forPath": "LanceTable.for_path(path)",
    "for_name": "LanceCatalog(root).table('ns.flights')",
    "freeze": "t.frozen.create('v1', split={'train': 0.9, 'val': 0.1})",
    "info": "print(t), t.schema or t.storage()",
    "insert": "t.write(df)",
    "load": "LanceTable.for_path(path)",
    "merge_branch": "t.branches.merge('exp')",
    "merge_insert": _UPSERT,
    "open": "LanceTable.for_path(path)",
    "pull": "t.remotes.pull('origin')",
    "push": "t.remotes.push('origin')",
    "read": "t.to_df(), or t.head() without Spark",
    "rename": "t.rename_columns({'old': 'new'}) for a column, LanceCatalog(root).rename_table('a', 'b') for a table",
    "rename_column": "t.rename_columns({'old': 'new'})",
    "replace": "t.write(df, mode='overwrite')",
    "reset": "t.restore(version=3)",
    "restoreToTimestamp": "t.checkout(as_of='2026-01-31').restore()",
    "restoreToVersion": "t.restore(version=3)",
    "rollback": "t.restore(version=3)",
    "sample": "t.to_df().sample(0.1), or t.head(100) without Spark",
    "save": "t.write(df)",
    "select": "t.to_df().select(...)",
    "show": "t.to_df().show()",
    "shape": "t.count_rows() and t.schema",
    "size": "t.count_rows(), or t.storage() for bytes",
    "stats": "t.storage()",
    "switch": "t.checkout(branch='exp')",
    "tag": "t.tags.create('v1')",
    "tail": "t.to_df(filter='...'): rows have no order; t.head() shows some",
    "toDF": "t.to_df()",
    "toPandas": "t.to_df().toPandas()",
    "to_arrow": "t.to_df().toArrow(), or t.head(1000) without Spark",
    "to_pandas": "t.to_df().toPandas()",
    "to_table": "t.to_df().toArrow()",
    "undo": "t.revert(version=7), or t.restore(version=6)",
    "upsert": _UPSERT,
    "vacuum": _CLEANUP,
    "where": "t.to_df().where(...)",
}
_CREATE, _DELETE = "t.{0}.create('exp')", "t.{0}.delete('exp')"
_OF_ALL: Mapping[str, str] = {
    "add": _CREATE,
    "drop": _DELETE,
    "remove": _DELETE,
    "new": _CREATE,
    "names": "[each.name for each in t.{0}]",
}


def _of(collection: str, **own: str) -> Mapping[str, str]:
    return {name: text.format(collection) for name, text in _OF_ALL.items()} | own


OF_BRANCHES = _of(
    "branches",
    checkout="t.checkout(branch='exp')",
    diff="t.checkout(branch='exp').diff('main')",
    get="t.branches['exp']",
    rename="t.branches.create('new', branch='old'), then t.branches.delete('old')",
    switch="t.checkout(branch='exp')",
)
OF_LAKE_BRANCHES: Mapping[str, str] = {
    "checkout": "lake.checkout(branch='etl')",
    "get": "lake.branches['etl']",
    "publish": "lake.branches.merge('etl')",
    "switch": "lake.checkout(branch='etl')",
}
OF_TAGS = _of("tags", checkout="t.checkout(tag='v1')", get="t.tags['v1']", update="t.tags.move('v1', version=3)")
OF_FROZEN = _of(
    "frozen",
    freeze="t.frozen.create('v1', split={'train': 0.9, 'val': 0.1})",
    get="t.frozen.batches('v1'), or t.frozen.read('v1') with Spark",
    load="t.frozen.batches('v1'), or t.frozen.read('v1') with Spark",
    open="t.frozen.batches('v1'), or t.frozen.read('v1') with Spark",
)
OF_INDEXES: Mapping[str, str] = {
    "add": "t.indexes.create('id')",
    "build": "t.indexes.create('id')",
    "delete": "t.indexes.drop('id_idx')",
    "get": "t.indexes['id_idx'], or t.indexes.stats('id_idx')",
    "rebuild": "t.indexes.create('id', replace=True)",
    "remove": "t.indexes.drop('id_idx')",
}
OF_REMOTES: Mapping[str, str] = {
    "add": "t.remotes.at('s3://bucket/docs', name='origin').fetch(): a fetch remembers the name",
    "create": "t.remotes.at('s3://bucket/docs', name='origin').fetch(): a fetch remembers the name",
    "get": "t.remotes['origin']",
    "set_url": "t.remotes.at('s3://bucket/docs', name='origin').fetch()",
}
OF_OPTIMIZE: Mapping[str, str] = {
    "executeCompaction": "t.optimize() alone: it has compacted the table already.",
    "executeZOrderBy": "t.optimize(zorder=['day', 'carrier'])",
    "where": "t.optimize(where='...')",
}
OF_CATALOGS: Mapping[str, str] = {
    "create_table": "lake.write_table(df, 'ns.flights')",
    "createTable": "lake.write_table(df, 'ns.flights')",
    "cleanup": "lake.maintain(), or lake.table('ns.flights').cleanup(): each shows a plan",
    "drop": "lake.drop_table('ns.flights')",
    "exists": "lake.table_exists('ns.flights')",
    "fsck": "lake.maintain(), or lake.table('ns.flights').fsck()",
    "getTable": "lake.table('ns.flights')",
    "get_table": "lake.table('ns.flights')",
    "load_table": "lake.table('ns.flights')",
    "list": "lake.list_tables('ns')",
    "log": "lake.publishes(), or lake.table('ns.flights').log()",
    "open": "lake.table('ns.flights')",
    "open_table": "lake.table('ns.flights')",
    "optimize": "lake.maintain(), or lake.table('ns.flights').optimize()",
    "read": "lake.table('ns.flights')",
    "read_table": "lake.table('ns.flights')",
    "tables": "lake.list_tables('ns')",
    "write": "lake.write_table(df, 'ns.flights')",
}

_APPLY = "plan.apply(), which does what print(plan) shows"
OF_PLANS: Mapping[str, str] = {
    "commit": _APPLY,
    "delete": _APPLY,
    "execute": _APPLY,
    "files": "plan.candidates()",
    "run": _APPLY,
    "show": "print(plan)",
}
_DRY = "the same call without dry_run=True, which does it"
OF_MERGE_RESULTS: Mapping[str, str] = {"apply": _DRY, "commit": _DRY, "execute": _DRY, "run": _DRY, "rows": "summary"}
OF_FSCK_REPORTS: Mapping[str, str] = {
    "errors": "report.findings",
    "fix": "t.repair()",
    "ok": "report.sound",
    "problems": "report.findings",
}
OF_HISTORIES: Mapping[str, str] = {
    "head": "t.log(5)",
    "show": "print(t.log())",
    "to_df": "t.history()",
    "to_pandas": "t.history().toPandas(), or t.log().entries without Spark",
}
OF_DIFFS: Mapping[str, str] = {"rows": "t.diff('main', rows=True)", "to_pandas": "t.diff('main', rows=True).examples"}
OF_A_BRANCH: Mapping[str, str] = {
    "checkout": "t.checkout(branch='exp')",
    "delete": "t.branches.delete('exp')",
    "diff": "t.checkout(branch='exp').diff('main')",
    "head": "t.checkout(branch='exp').head()",
    "log": "t.checkout(branch='exp').log()",
    "merge": "t.branches.merge('exp')",
    "version": "t.checkout(branch='exp').version",
    "write": "t.checkout(branch='exp').write(df)",
}
OF_A_TAG: Mapping[str, str] = {
    "checkout": "t.checkout(tag='v1')",
    "delete": "t.tags.delete('v1')",
    "head": "t.checkout(tag='v1').head()",
    "move": "t.tags.move('v1', version=3)",
}
OF_AN_INDEX: Mapping[str, str] = {
    "delete": "t.indexes.drop('id_idx')",
    "drop": "t.indexes.drop('id_idx')",
    "optimize": "t.indexes.optimize('id_idx')",
    "stats": "t.indexes.stats('id_idx')",
    "type": "kind",
}
_BATCHES, _READ = "t.frozen.batches('v1')", "t.frozen.read('v1') with Spark, t.frozen.batches('v1') without"
OF_A_FROZEN_SET: Mapping[str, str] = {
    "batches": _BATCHES,
    "delete": "t.frozen.delete('v1')",
    "load": _READ,
    "read": _READ,
    "split": "sizes",
    "splits": "sizes",
    "to_df": "t.frozen.read('v1')",
    "to_pandas": "t.frozen.read('v1').toPandas()",
}
OF_A_REMOTE: Mapping[str, str] = {
    "fetch": "t.remotes.fetch(remote)",
    "pull": "t.remotes.pull(remote)",
    "push": "t.remotes.push(remote)",
}
OF_TABLE_INFO: Mapping[str, str] = {"name": "identifier", "schema": "lake.table('docs').schema"}
OF_TRAINING: Mapping[str, str] = {
    "batch_size": "batches.order.batch_size",
    "read": _BATCHES,
    "to_pandas": _READ,
    "to_table": _BATCHES,
}
OF_THE_PACKAGE: Mapping[str, str] = {
    "Catalog": "LanceCatalog(root)",
    "Policy": "CleanupPolicy or MaintenancePolicy",
    "Table": "LanceTable.for_path(path)",
    "catalog": "LanceCatalog(root)",
    "connect": "LanceCatalog(root) for a directory of tables, LanceTable.for_path(path) for one",
    "create_table": "LanceCatalog(root).write_table(df, 'docs')",
    "dataset": "LanceTable.for_path(path)",
    "for_path": "LanceTable.for_path(path)",
    "load": "LanceTable.for_path(path)",
    "merge": "t.branches.merge('exp') for branches, t.merge(df, on='id') for rows",
    "open": "LanceTable.for_path(path)",
    "read": "LanceTable.for_path(path)",
    "read_table": "LanceTable.for_path(path)",
    "table": "LanceTable.for_path(path)",
    "version": "lance_spark.__version__",
    "write": "LanceCatalog(root).write_table(df, 'docs'), or df.write.format('lance') with Spark",
    "write_dataset": "LanceCatalog(root).write_table(df, 'docs'), or df.write.format('lance') with Spark",
    "write_table": "LanceCatalog(root).write_table(df, 'docs')",
}
"""Of ``lance_spark`` itself."""


_POLICY = "t.cleanup(CleanupPolicy(older_than=timedelta(days=7)))"
_VERSIONS = "t.diff('@3'), of version 3 and this one; t.diff('exp@3') of one on a branch"
_REPAIR = "t.repair(dry_run=True), which shows what t.repair() does"
CALLS_OF_TABLES: Words = {
    ("LanceTable", ""): "LanceTable.for_path('flights.lance')",
    ("LanceTable", "path"): "LanceTable.for_path('flights.lance')",
    ("LanceTable", "uri"): "LanceTable.for_path('flights.lance')",
    ("add_columns", ""): "t.add_columns({'speed': 'distance / air_time'})",
    ("alter_columns", "types:str"): "t.alter_columns({'speed': 'double'})",
    ("checkout", "create"): "t.branches.create('exp'), then t.checkout(branch='exp')",
    ("checkout", "ref"): "t.checkout(branch='exp'), t.checkout(tag='v1') or t.checkout(version=3)",
    ("cherry_pick", ""): "t.cherry_pick('exp', 7), with the number of the version",
    ("cleanup", "days"): _POLICY,
    ("cleanup", "dry_run"): "t.cleanup() alone shows a plan; its apply() deletes.",
    ("cleanup", "older_than"): _POLICY,
    ("cleanup", "retain_versions"): "t.cleanup(CleanupPolicy(retain_versions=5))",
    ("clone", "deep"): "t.clone('copy.lance', 'deep')",
    ("delete", ""): "t.delete('delay > 60')",
    ("diff", ""): "t.diff('main'), or t.diff('@3') for version 3",
    ("diff", "ref:int"): _VERSIONS,
    ("diff", "rows:str"): "t.diff('main..exp'), of two refs",
    ("diff", "version"): _VERSIONS,
    ("fsck", "fix"): _REPAIR,
    ("fsck", "repair"): _REPAIR,
    ("head", "count:str"): "t.head(columns=['id'])",
    ("log", "branch"): "t.checkout(branch='exp').log()",
    ("log", "count:str"): "t.checkout(branch='exp').log()",
    ("optimize", "where:str"): "t.optimize(where='day = 3')",
    ("rename_columns", "names:str"): "t.rename_columns({'old': 'new'})",
    ("restore", "tag"): "t.checkout(tag='v1').restore()",
    ("restore", "branch"): "t.checkout(branch='exp', version=3).restore()",
    ("revert", ""): "t.revert(7), with the number of the version",
    ("update", ""): "t.update({'delay': '0'}, where='id = 3')",
    ("write", ""): "t.write(df)",
}
CALLS_OF_BRANCHES: Words = {
    ("create", ""): "t.branches.create('exp')",
    ("merge", ""): "t.branches.merge('exp')",
    ("merge", "ours"): "t.branches.merge('exp', prefer='ours')",
    ("merge", "theirs"): "t.branches.merge('exp', prefer='theirs')",
    ("merge", "squash"): "t.branches.merge('exp'): a merge is one version anyway",
}
CALLS_OF_CATALOGS: Words = {
    ("checkout", "create"): "lake.branches.create('exp'), then lake.checkout(branch='exp')",
    ("write_table", ""): "lake.write_table(df, 'docs')",
    ("rename_table", ""): "lake.rename_table('docs', 'texts')",
    ("table", ""): "lake.table('docs')",
}
CALLS_OF_POLICIES: Words = {
    ("CleanupPolicy", "days"): "CleanupPolicy(older_than=timedelta(days=7)), or older_than='7d'",
    ("CleanupPolicy", "retain"): "CleanupPolicy(retain_versions=5)",
}
_MAINTENANCE = "MaintenancePolicy(cleanup=CleanupPolicy(older_than='7d')), or {'cleanup': {'older_than': '7d'}}"
CALLS_OF_MAINTENANCE: Words = {
    ("MaintenancePolicy", word): _MAINTENANCE for word in ("older_than", "retain_versions", "days", "before_version")
}
CALLS_OF_TRAINING: Words = {
    ("Batching", ""): "Batching(256)",
    ("Batching", "num_workers"): "FrozenBatches(uri, name, Batching(256)).loader(num_workers=2)",
    ("Batching", "shuffle"): "Batching(256, reshuffle=True)",
    ("FrozenBatches", ""): "FrozenBatches(uri, name, Batching(256), split='train')",
    ("FrozenBatches", "batch_size"): "FrozenBatches(uri, name, Batching(256), split='train')",
    ("FrozenBatches", "shuffle"): "FrozenBatches(uri, name, Batching(256, reshuffle=True), split='train')",
    ("FrozenRows", ""): "FrozenRows(uri, name, split='train')",
}


_ROWS = "t.to_df() has the rows, t.head() some without Spark, and t.checkout(branch='exp') another branch."
_NO_ROWS = "t.update({{'x': '0'}}, where='id = 3') changes rows, and t.add_columns({{'y': 'x + 1'}}) adds a column."
ASKED_OF_TABLES: Mapping[str, str] = {
    "__call__": _ROWS,
    "__len__": "t.count_rows()",
    "__setitem__": _NO_ROWS,
    "__delitem__": "t.drop_columns('x') for a column, t.delete('id = 3') for rows",
    "__next__": "t.head(1), or t.to_df().first()",
    "__enter__": "t = LanceTable.for_path(path): there is nothing to close.",
}
ASKED_OF_CATALOGS: Mapping[str, str] = {
    "__call__": "lake.table('docs')",
    "__len__": "len(lake.list_tables())",
    "__setitem__": "lake.write_table(df, 'docs')",
    "__delitem__": "lake.drop_table('docs')",
    "__enter__": "lake = LanceCatalog(root): there is nothing to close.",
}


ASKED_OF_COLLECTIONS: Mapping[str, str] = {
    "__call__": "{0}[{1}] for one, {0}.list() for all",
    "__setitem__": "{0}.create({1}, ...)",
    "__delitem__": "{0}.delete({1})",
}
ASKED_OF_INDEXES: Mapping[str, str] = {
    "__call__": "{0}[{1}] for one, {0}.list() for all",
    "__delitem__": "{0}.drop({1})",
}
ASKED_OF_REMOTES: Mapping[str, str] = {
    "__call__": "t.remotes[{1}] for one, t.remotes.list() for all",
    "__setitem__": "t.remotes.at('s3://bucket/docs', name={1}).fetch(): a fetch remembers the name",
}
ASKED_OF_TRAINING: Mapping[str, str] = {
    "__getitem__": "FrozenRows(uri, name)[3] for a row, next(iter(batches)) for the first batch",
    "__next__": "next(iter(batches))",
}
ASKED_OF_PLANS: Mapping[str, str] = {
    "__call__": "plan.apply()",
    "__getitem__": "plan.report() tells what it would do, and plan.apply() does it.",
    "__len__": "plan.report() tells what it would do, and plan.apply() does it.",
}
ASKED_OF_REPORTS: Mapping[str, str] = {
    "__getitem__": "report.findings, report.to_arrow()",
    "__len__": "len(report.findings)",
}
ASKED_OF_HISTORIES: Mapping[str, str] = {"__getitem__": "t.log().entries[0]"}
ASKED_OF_DIFFS: Mapping[str, str] = {"__getitem__": "t.diff('main', rows=True).examples"}


def _names_of(kind: type) -> list[str]:
    """What users find on an object of a class; of results also the fields that have no default."""
    values = () if getattr(kind, "_typed", "") else getattr(kind, "__dataclass_fields__", ())
    return [name for name in sorted({*dir(kind), *values}) if not name.startswith("_")]


def missing(kind: type, name: str, words: Mapping[str, str], owner: object) -> AttributeError:
    """The error for an attribute that does not exist: the hint has the word that does it here, or one like it."""
    if name.startswith("_"):
        return AttributeError(f"'{kind.__name__}' object has no attribute '{name}'", name=name, obj=owner)
    message = f"{kind.__name__} has no '{name}'."
    if name in words:
        return NoSuchName(message, hint=f"Use {words[name]}")
    known = _names_of(kind)
    spelled = _HUMP.sub("_", name).lower()
    near = [spelled] if spelled in known else difflib.get_close_matches(spelled, proposable(known), n=1)
    if near:
        return NoSuchName(message, hint=f"Did you mean '{near[0]}'?")
    of_items = getattr(kind, "_item", "")
    item = f"{of_items.format(name)}. " if of_items else ""
    every = f"It has {', '.join(known)}." if len(known) <= _FEW else f"help({kind.__name__}) lists what it has."
    return NoSuchName(message, hint=item + every)


def missing_in_package(name: str, known: Collection[str]) -> AttributeError:
    """The error for a name that ``lance_spark`` does not have."""
    if name.startswith("_"):
        return AttributeError(f"module 'lance_spark' has no attribute '{name}'")
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean '{near[0]}'?" if near else f"It has {', '.join(known)}."
    if name in OF_THE_PACKAGE:
        hint = f"Use {OF_THE_PACKAGE[name]}"
    return NoSuchName(f"lance_spark has no '{name}'.", hint=hint)


_NOT_DONE: Mapping[str, str] = {
    "__call__": "is no function, and takes no (...)",
    "__getitem__": "takes no [...], and is nothing to loop over",
    "__setitem__": "sets nothing by [...]",
    "__delitem__": "deletes nothing by [...]",
    "__len__": "has no length",
    "__next__": "gives nothing one by one",
    "__enter__": "needs no 'with'",
}
"""What Python's grammar asks of an object, and what ours say that do not do it."""


def _no_operator(operator: str) -> Callable[..., Any]:
    def refused(self: Hinting, *args: Any, **_kwargs: Any) -> Any:
        kind = type(self)
        given = args[0] if args and isinstance(args[0], str) else "..."
        hint = kind._asked.get(operator, "").format(kind._typed, repr(given))
        if operator == "__getitem__" and kind._item:
            hint = kind._item.format(given)
        if not hint:
            hint = f"It has {', '.join(_names_of(kind))}."
        raise WrongArguments(f"{kind.__name__} {_NOT_DONE[operator]}.", hint=hint)

    refused.__name__ = operator
    return refused


_REFUSED = {operator: _no_operator(operator) for operator in _NOT_DONE}


def _refuse_operators(kind: type[Hinting]) -> None:
    """Have a class say what to type instead of what it does not do: ``t.branches('exp')``, ``len(t)``."""
    for operator, refused in _REFUSED.items():
        if operator in vars(kind):
            continue
        own = next((vars(base)[operator] for base in kind.__mro__[1:] if operator in vars(base)), None)
        does = next(
            (vars(base)[operator] for base in kind.__mro__ if vars(base).get(operator, refused) is not refused), None
        )
        if operator in vars(kind).get("_asked", ()) or (does is None and operator in ("__call__", "__getitem__")):
            setattr(kind, operator, refused)
            if operator == "__enter__":  # Python looks for both first
                kind.__exit__ = refused  # type: ignore[attr-defined]
            if operator == "__len__":  # a table counts as true, as any object
                kind.__bool__ = lambda _self: True  # type: ignore[attr-defined]
        elif does is not own:  # a base that comes first refuses what a later one does
            setattr(kind, operator, does)


class Hinting:
    """A class that answers words of other libraries, and arguments that its verbs do not take, with its own."""

    _words: ClassVar[Mapping[str, str]] = {}
    _calls: ClassVar[Words] = {}
    _typed: ClassVar[str] = ""
    """How examples name such an object; by default by the last word of its class: ``plan``, ``report``."""
    _asked: ClassVar[Mapping[str, str]] = {}
    """What to type, by the operator of Python that it does not have."""
    _item: ClassVar[str] = ""
    """What to type instead of ``[name]``."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        _refuse_operators(cls)
        for name, found in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if inspect.isfunction(found):
                setattr(cls, name, telling(cls, found))
            elif isinstance(found, staticmethod):
                setattr(cls, name, staticmethod(telling(cls, found.__func__, method=False)))

    if not TYPE_CHECKING:  # a checker would take every name for an attribute, and every object for a list

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property raised AttributeError itself: show that one
                return object.__getattribute__(self, name)
            raise missing(type(self), name, self._words, self)


class HintingType(type):
    """The same for what people look for on the class itself, such as ``LanceTable.forPath``, and for making objects."""

    _words: Mapping[str, str] = {}

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            raise missing(cls, name, {} if name.startswith("_") else cls._words, cls)

        def __getitem__(cls, name: object) -> Any:
            raise WrongArguments(
                f"{cls.__name__} takes no [...].", hint=cls._words.get("open", f"help({cls.__name__})")
            )

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().__call__(*args, **kwargs)
            except TypeError as failure:
                if isinstance(failure, InvalidOption):
                    raise
                wrong = wrong_call(cls, cls.__init__, (object.__new__(cls), *args), kwargs)
                if wrong is None:
                    raise
                raise wrong from failure
