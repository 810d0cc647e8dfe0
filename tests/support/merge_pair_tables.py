"""The changes and verbs of ``merge_pairs.py`` on real datasets, and what must hold after each."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import lance
import pyarrow as pa

from lance_spark import LanceTable
from lance_spark.columns.columns import add_filled_columns, alter_columns, update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, Refused
from lance_spark.format.evolution import COMMENT, AddColumn
from lance_spark.format.operations import PRIMARY_KEY
from lance_spark.merge.publish import TablePublish, publish_table, remember_publish
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.refs.refs import create_branch_at
from lance_spark.storage.datasets import locate, pin_latest
from support.backfills import LocalValues
from support.cleanup_datasets import place
from support.merge_pairs import (
    FIRST,
    SECOND,
    Clash,
    Inapplicable,
    Spec,
    State,
    Value,
    begun,
    check_back,
    history,
    merged,
)

Act = Callable[["Chain", Spec, State], object]


class Layout(NamedTuple):
    """How a table is made."""

    stable: bool = False
    keyed: bool = False

    def begun(self) -> State:
        """What both sides begin with."""
        return begun(self.keyed, self.keyed and not self.stable)

    def __str__(self) -> str:
        return f"{'stable ids' if self.stable else 'addresses'}, {'keyed' if self.keyed else 'no key'}"


LAYOUTS = [Layout(stable, keyed) for stable in (False, True) for keyed in (False, True)]


class Chain(NamedTuple):
    """A branch of a dataset, None for main."""

    uri: str
    branch: str | None = None

    @property
    def head(self) -> lance.LanceDataset:
        """Its newest version, opened from scratch."""
        return lance.dataset(place(self.uri, self.branch))

    @property
    def table(self) -> LanceTable:
        table = LanceTable.for_path(self.uri)
        return table.checkout(branch=self.branch) if self.branch else table


# --- Changes, as pylance makes them, and as this package does where it has a way of its own


def nested(plain: Mapping[str, Value]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for path, value in plain.items():
        column, _, inner = path.partition(".")
        if inner:
            row.setdefault(column, {})[inner] = value
        else:
            row[column] = value
    return row


def flat(row: Mapping[str, Any]) -> dict[str, Value]:
    """A row by the paths of its values; fields in a struct that is NULL count as NULL."""
    plain: dict[str, Value] = {}
    for column, value in row.items():
        if isinstance(value, dict):
            plain.update({f"{column}.{inner}": each for inner, each in value.items()})
        else:
            plain[column] = value
    return plain


def _rows(chain: Chain, spec: Spec, state: State, *numbers: object) -> pa.Table:
    """Rows of the version that the change leads to, as pylance takes them."""
    after = history(state, spec)[-1]
    plain = [{column.path: after.rows[n].get(key) for key, column in after.columns.items()} for n in numbers]
    return pa.Table.from_pylist([nested(row) for row in plain], schema=chain.head.schema)


def _where(spec: Spec) -> str:
    return f"id in ({', '.join(map(str, spec.touched))})"


def _append(chain: Chain, spec: Spec, state: State) -> object:
    return lance.write_dataset(_rows(chain, spec, state, spec.identity), place(*chain), mode="append")


def _delete(chain: Chain, spec: Spec, state: State) -> object:
    return chain.head.delete(_where(spec))


def _value(spec: Spec, state: State) -> tuple[str, int]:
    return state.columns[spec.name("v", "w")].path, 70 + spec.number


def _update(chain: Chain, spec: Spec, state: State) -> object:
    path, value = _value(spec, state)
    return chain.head.update({path: str(value)}, where=_where(spec))


def _in_place(chain: Chain, spec: Spec, state: State) -> object:
    path, value = _value(spec, state)
    schema = pa.schema([chain.head.schema.field(name) for name in ("id", path)])
    rows = pa.table({"id": [*spec.touched], path: [value] * 2}, schema=schema)
    return chain.head.merge_insert("id").when_matched_update_all().execute(rows)


def _upsert(chain: Chain, spec: Spec, state: State) -> object:
    rows = _rows(chain, spec, state, spec.touched[0], spec.identity)
    return chain.head.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def _part(chain: Chain, spec: Spec, state: State) -> object:
    """Rows deleted and written in one commit, as an overwrite of a part does."""
    dataset, uri = chain.head, place(*chain)
    new = spec.touched[0] if state.by_key else spec.identity
    written = lance.fragment.write_fragments(_rows(chain, spec, state, new), dataset, mode="append")
    changed = {fragment.fragment_id: fragment.delete(_where(spec)) for fragment in dataset.get_fragments()}
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[key for key, left in changed.items() if left is None],
        updated_fragments=[left for left in changed.values() if left is not None],
        new_fragments=[*written],
    )
    return lance.LanceDataset.commit(uri, operation, read_version=dataset.version)


def _overwrite(chain: Chain, spec: Spec, state: State) -> object:
    return lance.write_dataset(_rows(chain, spec, state, spec.identity), place(*chain), mode="overwrite")


def _values(chain: Chain, name: str, of: Callable[[int], int]) -> LocalValues:
    schema = chain.head.schema
    kind = schema.field(name).type if name in schema.names else pa.int64()
    return LocalValues(
        locate(chain.uri), lambda batch: {name: [of(n) for n in batch["id"].to_pylist()]}, **{name: kind}
    )


def _add_empty(chain: Chain, spec: Spec, state: State) -> object:
    return chain.head.add_columns(pa.field(spec.name("c", "d"), pa.int64()))


def _add_constant(chain: Chain, spec: Spec, state: State) -> object:
    values = _values(chain, spec.name("c", "d"), lambda _: spec.number)
    return add_filled_columns(locate(chain.uri), chain.branch, values, BackfillOptions(resume=False))


def _add_computed(chain: Chain, spec: Spec, state: State) -> object:
    """With a record of what it read. pylance leaves none: the column would be empty in every changed row."""
    name, source = spec.name("c", "d"), _value(spec, state)[0]

    def function(batch: pa.RecordBatch) -> dict[str, list[Any]]:
        return {name: [None if value is None else value + 1 for value in batch[source].to_pylist()]}

    values = LocalValues(locate(chain.uri), function, **{name: chain.head.schema.field(source).type})
    values.inputs = values.reads = (source,)
    return add_filled_columns(locate(chain.uri), chain.branch, values, BackfillOptions(resume=False))


def _add_strict(chain: Chain, spec: Spec, state: State) -> object:
    return chain.head.add_columns({spec.name("c", "d"): f"cast({spec.number} as bigint)"})


def _fill(chain: Chain, spec: Spec, state: State) -> object:
    values = _values(chain, _value(spec, state)[0], lambda n: n + 7000 * spec.number)
    return update_filled_columns(locate(chain.uri), chain.branch, values, BackfillOptions(resume=False))


def _drop(first: str, second: str) -> Act:
    return lambda chain, spec, state: chain.head.drop_columns([state.columns[spec.name(first, second)].path])


def _alter(first: str, second: str, **change: Any) -> Act:
    return lambda chain, spec, state: chain.head.alter_columns(
        {"path": state.columns[spec.name(first, second)].path, **change}
    )


def _rename(first: str, second: str) -> Act:
    def rename(chain: Chain, spec: Spec, state: State) -> object:
        path = state.columns[spec.name(first, second)].path
        return chain.head.alter_columns({"path": path, "name": f"{path.rpartition('.')[2]}_{spec.number}"})

    return rename


def _comment(chain: Chain, spec: Spec, state: State) -> object:
    return chain.head.update_field_metadata({_value(spec, state)[0]: {COMMENT: str(spec.number)}})


def _key(chain: Chain, spec: Spec, state: State) -> object:
    return chain.head.update_field_metadata({"id": {PRIMARY_KEY: "true"}})


def _add_field(chain: Chain, spec: Spec, state: State) -> object:
    step = AddColumn(("s", spec.name("z", "zz")), pa.int64())
    return alter_columns(locate(chain.uri), chain.branch, [step], LocalRunner(1))


def _index(chain: Chain, spec: Spec, state: State) -> object:
    return chain.head.create_scalar_index(_value(spec, state)[0], "BTREE")


def _compact(chain: Chain, spec: Spec, state: State) -> object:
    return chain.head.optimize.compact_files()


def _sort(chain: Chain, spec: Spec, state: State) -> object:
    options = OptimizeOptions(sort_by=[_value(spec, state)[0]], own_only=False)
    return optimize(locate(chain.uri), chain.branch, options, LocalRunner(1))


def _restore(chain: Chain, spec: Spec, state: State) -> object:
    version = chain.head.version
    chain.head.delete(_where(spec))
    return chain.table.restore(version)


def _configure(chain: Chain, spec: Spec, state: State) -> object:
    return chain.head.update_config({spec.name("one", "two"): str(spec.number)})


ACTS: dict[str, Act] = {
    "nothing": lambda *_: None,
    "append": _append,
    "delete": _delete,
    "update": _update,
    "update in place": _in_place,
    "upsert": _upsert,
    "overwrite a part": _part,
    "overwrite": _overwrite,
    "add empty": _add_empty,
    "add constant": _add_constant,
    "add computed": _add_computed,
    "add NOT NULL": _add_strict,
    "fill": _fill,
    "drop": _drop("v", "w"),
    "rename": _rename("v", "w"),
    "cast": _alter("v", "w", data_type=pa.int32()),
    "set NOT NULL": _alter("v", "w", nullable=False),
    "allow NULL": _alter("r", "q", nullable=True),
    "comment": _comment,
    "declare a key": _key,
    "add a field": _add_field,
    "drop a field": _drop("s.x", "s.y"),
    "rename a field": _rename("s.x", "s.y"),
    "index": _index,
    "compact": _compact,
    "sort": _sort,
    "restore": _restore,
    "configure": _configure,
}


def apply(chain: Chain, spec: Spec, state: State) -> list[State]:
    """Make a change to a branch in that state; returns the states of its versions, the one before first."""
    states = history(state, spec)
    try:
        ACTS[spec.kind](chain, spec, state)
    except OSError as problem:
        if "index(es) attached" not in str(problem):
            raise
        raise Inapplicable("pylance casts no indexed column") from None
    return states


# --- Tables, made once, and put back to where they were


def schema_of(state: State) -> pa.Schema:
    """The columns as Arrow has them."""
    fields: dict[str, Any] = {}
    for column in state.columns.values():
        metadata = {COMMENT: column.comment} if column.comment else {}
        metadata |= {PRIMARY_KEY: "true"} if column.key else {}
        name = column.path.rpartition(".")[2]
        made = pa.field(name, getattr(pa, column.type)(), column.nullable, metadata or None)
        fields.setdefault(column.path.partition(".")[0], []).append(made)
    return pa.schema(
        [each[0] if each[0].name == name else pa.field(name, pa.struct(each)) for name, each in fields.items()]
    )


class Places:
    """A directory with tables of every layout, each with the branch ``exp`` and a clone."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._saved: dict[Layout, Path] = {}

    def fresh(self, layout: Layout) -> Path:
        """The directory with ``t.lance`` and its clone ``c.lance`` as they began: they name their places."""
        root = self._directory / f"{layout.stable}-{layout.keyed}"
        if layout not in self._saved:
            _make(root / "t.lance", layout)
            LanceTable.for_path(str(root / "t.lance")).clone(str(root / "c.lance"))
            self._saved[layout] = Path(shutil.copytree(root, f"{root}.saved"))
        return put_back(root, self._saved[layout])


def put_back(root: Path, saved: Path) -> Path:
    shutil.rmtree(root, ignore_errors=True)
    return Path(shutil.copytree(saved, root))


def _make(path: Path, layout: Layout) -> None:
    state = layout.begun()
    for numbers in (FIRST, SECOND):
        rows = [nested({column.path: state.rows[n][key] for key, column in state.columns.items()}) for n in numbers]
        table = pa.Table.from_pylist(rows, schema=schema_of(state))
        mode = "append" if path.exists() else "create"
        lance.write_dataset(table, str(path), mode=mode, enable_stable_row_ids=layout.stable)
    create_branch_at(locate(str(path)), "exp", pin_latest(locate(str(path)), None))


# --- Verbs


@dataclass
class Scene:
    """Two sides that made their changes, and what a verb must make of them."""

    verb: str
    theirs: Spec
    ours: Spec
    target: Chain
    """What the verb changes."""
    base: State
    mine: State
    """What the target has before."""
    other: State
    run: Callable[..., Any]
    back: Callable[[], object] = lambda: None
    """The other direction, afterwards."""
    partner: Chain | None = None
    """What the other direction makes equal to the target."""
    dry: bool = True
    """Whether the verb takes ``dry_run``."""
    exact: State | None = None
    """What the target must have, without a merge: of a restore."""
    expected: State | None = field(init=False, default=None)
    clash: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.settle("")

    def settle(self, prefer: str) -> None:
        """What the verb must give if it prefers a side."""
        self.expected, self.clash = None, ""
        if prefer:
            self.run = partial(self.run, prefer=prefer)
        try:
            self.expected = self.exact or merged(self.base, self.mine, self.other, prefer)
            if self.verb == "revert":
                check_back(self.base, self.mine, self.other)
        except Clash as clash:
            self.clash = str(clash)


def _branch_scene(verb: str, root: Path, layout: Layout, theirs: Spec, ours: Spec) -> Scene:
    uri = str(root / "t.lance")
    main, exp = Chain(uri), Chain(uri, "exp")
    start = layout.begun()
    before = exp.head.version
    states = apply(exp, theirs, start)
    made = range(before + 1, exp.head.version + 1)
    mine = apply(main, ours, start)[-1]
    runs: dict[str, Callable[..., Any]] = {
        "merge": partial(main.table.branches.merge, "exp"),
        "by reference": partial(main.table.branches.merge, "exp", reference=True),
        "publish": partial(_publish, uri),
    }
    if verb == "cherry-pick":
        if not made:
            raise Inapplicable("no version")
        run = partial(main.table.cherry_pick, "exp", made[-1])
        back = partial(_still_merges, main, exp)
        return Scene(verb, theirs, ours, main, states[-2], mine, states[-1], run, back)
    back = partial(_both_ways, main, exp)
    return Scene(verb, theirs, ours, main, start, mine, states[-1], runs[verb], back, exp, dry=verb != "publish")


def _publish(uri: str) -> None:
    location = locate(uri)
    publish = TablePublish(location, pin_latest(location, "exp"), pin_latest(location, None).version, "p1")
    remember_publish(publish, publish_table(publish, LocalRunner(1)))


def _both_ways(main: Chain, exp: Chain) -> None:
    """The branch takes main in, and main what the branch does then."""
    main.table.branches.merge("main", into="exp")


def _still_merges(main: Chain, exp: Chain) -> None:
    """A merge of what was picked may be refused, but does not undo or double anything."""
    with suppress(Conflict, Refused):
        main.table.branches.merge("exp")


def _transaction_scene(verb: str, root: Path, layout: Layout, theirs: Spec, ours: Spec) -> Scene:
    main, start = Chain(str(root / "t.lance")), layout.begun()
    other, mine = history(start, theirs)[-1], history(start, ours)[-1]

    def run() -> None:
        with main.table.transaction() as transaction:
            apply(Chain(main.uri, transaction.branch), theirs, start)
            apply(main, ours, start)

    return Scene(verb, theirs, ours, main, start, mine, other, run, dry=False)


def _revert_scene(verb: str, root: Path, layout: Layout, theirs: Spec, ours: Spec) -> Scene:
    main, start = Chain(str(root / "t.lance")), layout.begun()
    before = main.head.version
    states = apply(main, theirs, start)
    undone = main.head.version
    if undone == before:
        raise Inapplicable("no version")
    mine = apply(main, ours, states[-1])[-1]

    def back() -> None:
        made = main.head.version
        with suppress(Conflict, Refused):
            main.table.revert(made)

    run = partial(main.table.revert, undone)
    other = replace(states[-2], filled=states[-1].filled)  # the opposite of a fill writes all rows, too
    return Scene(verb, theirs, ours, main, states[-1], mine, other, run, back)


def _restore_scene(verb: str, root: Path, layout: Layout, theirs: Spec, ours: Spec) -> Scene:
    main, start = Chain(str(root / "t.lance")), layout.begun()
    before = main.head.version
    middle = apply(main, theirs, start)[-1]
    version = main.head.version
    mine = apply(main, ours, middle)[-1]
    if main.head.version == before:
        raise Inapplicable("no version")

    def back() -> None:
        main.table.restore(version)
        difference = unlike(main.head, middle)
        assert not difference, f"restored again: {difference}"

    run = partial(main.table.restore, before)
    return Scene(verb, theirs, ours, main, start, mine, start, run, back, dry=False, exact=start)


def _remote_scene(verb: str, root: Path, layout: Layout, theirs: Spec, ours: Spec) -> Scene:
    source, local = Chain(str(root / "t.lance")), Chain(str(root / "c.lance"))
    start = layout.begun()
    run: Callable[..., Any]
    back: Callable[[], object]
    if verb == "pull":
        other, mine = apply(source, theirs, start)[-1], apply(local, ours, start)[-1]
        run = partial(local.table.remotes.pull)
        back = partial(local.table.remotes.push)
        return Scene(verb, theirs, ours, local, start, mine, other, run, back, source)
    other, mine = apply(local, theirs, start)[-1], apply(source, ours, start)[-1]
    if ours.kind != "nothing":
        try:
            local.table.remotes.pull()
        except (Conflict, Refused):
            raise Inapplicable("pull is refused, which is tested as such") from None
        # What is pushed is what the pull made: ours with theirs, which the verb "pull" holds against the model.
        other = replace(merged(start, other, mine), settings={**mine.settings, **other.settings})
    run, back = partial(local.table.remotes.push), partial(local.table.remotes.pull)
    return Scene(verb, theirs, ours, source, mine, mine, other, run, back, local)


SCENES = {
    "merge": _branch_scene,
    "by reference": _branch_scene,
    "cherry-pick": _branch_scene,
    "revert": _revert_scene,
    "restore": _restore_scene,
    "pull": _remote_scene,
    "push": _remote_scene,
    "transaction": _transaction_scene,
    "publish": _branch_scene,
}


# --- What must hold

_FOREIGN = re.compile(r"LanceError|OSError|Invalid user input|rust/|\.rs|[Ff]ield id|Schema error|Traceback|Arrow")
_NOT_TOLD = {"version", "dry_run", "ran_on", "indexes_carried", "indexes_missing", "fetch", "versions"}


def run_pair(
    verb: str, root: Path, layout: Layout, theirs: Spec, ours: Spec, prefer: str = ""
) -> tuple[Scene, str, list[str]]:
    """Both changes and the verb: the scene, what came ("both" or the refusal), and the faults. Raises Inapplicable."""
    scene = SCENES[verb](verb, root, layout, theirs, ours)
    if prefer:
        scene.settle(prefer)
    wrong: list[str] = []
    before = place(*scene.target)
    version = lance.dataset(before).version
    told = _attempt(partial(scene.run, dry_run=True)) if scene.dry else None
    done = _attempt(scene.run)
    if told is not None:
        wrong += _dry_run(told, done)
    head = scene.target.head
    if isinstance(done, Exception):
        wrong += [f"refusal: {why}" for why in _refusal(done)]
        state = scene.mine
        difference = unlike(head, state)
        wrong += [f"refused, but changed: {difference}"] if difference else []
        wrong += ["restore is refused"] if scene.exact is not None else []
        return scene, f"{type(done).__name__}: {done}", wrong + _sound(scene)
    if scene.clash:
        return scene, "both", [*wrong, f"accepted, although {scene.clash}: {_shown(head)}", *_sound(scene)]
    assert scene.expected is not None
    difference = unlike(head, scene.expected)
    wrong += [f"result: {difference}"] if difference else []
    wrong += [f"summary: {why}" for why in _summary(scene, done)] if head.version > version else []
    wrong += _sound(scene)
    if not wrong:
        wrong += _way_back(scene, head.version > version)
    return scene, "both", wrong


def combined(root: Path, layout: Layout, theirs: Spec, ours: Spec) -> bool:
    """Whether a dry run of a merge has no conflict: no more than the page needs. Raises Inapplicable."""
    told = _attempt(partial(_branch_scene("merge", root, layout, theirs, ours).run, dry_run=True))
    return not isinstance(told, Exception) and not told.conflicts


def _attempt(run: Callable[[], Any]) -> Any:
    """What a verb returned; what it raised."""
    try:
        result = run()
    except Exception as problem:  # noqa: BLE001 - the harness tells what anything raised
        return problem
    return result


def _refusal(problem: Exception) -> Iterator[str]:
    if not isinstance(problem, (Conflict, Refused)):
        yield f"{type(problem).__name__} is none of ours: {problem}"
        return
    if not problem.hint:
        yield f"no hint: {problem.message}"
    if _FOREIGN.search(str(problem)):
        yield f"pylance's words: {problem}"


def _dry_run(told: Any, done: Any) -> Iterator[str]:
    """A dry run says what the run does."""
    told, made = getattr(told, "merged", told), getattr(done, "merged", done)
    told, made = getattr(told, "replayed", told), getattr(made, "replayed", made)
    if isinstance(told, Exception) or told is None:
        if str(told) != str(done):
            yield f"dry run: {told!s} and the run: {done!s}"
    elif told.conflicts:
        if not isinstance(done, Conflict) or not all(str(each) in str(done) for each in told.conflicts):
            yield f"dry run conflicts: {told.conflicts} and the run: {done!s}"
    elif isinstance(done, Exception):
        yield f"dry run: {told!s} and the run: {done!s}"
    else:
        said, did = (
            {key: value for key, value in each.as_record().items() if key not in _NOT_TOLD} for each in (told, made)
        )
        if said != did:
            yield f"dry run: { {key: (said.get(key), did.get(key)) for key in did if said.get(key) != did.get(key)} }"


def _summary(scene: Scene, done: Any) -> Iterator[str]:
    done = getattr(done, "merged", done)
    done = getattr(done, "replayed", done)
    summary = getattr(done, "summary", None)
    if summary is None or scene.expected is None:
        return
    before, after = scene.mine, scene.expected
    count = len(after.rows) - len(before.rows)
    if summary.rows_added - summary.rows_deleted != count:
        yield f"+{summary.rows_added} -{summary.rows_deleted} rows, although the target has {count:+}"
    gone = {before.columns[key].path for key in before.columns.keys() - after.columns.keys()}
    top = {path for path in gone if "." not in path}
    if not top <= {*summary.columns_dropped}:
        yield f"dropped {sorted(top)}, and the summary says {summary.columns_dropped}"
    came = {after.columns[key].path for key in after.columns.keys() - before.columns.keys()}
    if not {path for path in came if "." not in path} <= {*summary.columns_added}:
        yield f"added {sorted(came)}, and the summary says {summary.columns_added}"
    if scene.base.settings != scene.other.settings and not any("settings" in note for note in done.notes):
        yield "settings are left behind without a word"
    if scene.theirs.kind == "index" and not (done.indexes_missing or scene.target.head.list_indices()):
        yield "the index is left behind without a word"


def read(dataset: lance.LanceDataset) -> list[dict[str, Value]]:
    return [flat(row) for row in dataset.to_table().to_pylist()]


def _ordered(rows: list[dict[str, Value]]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


def _shown(dataset: lance.LanceDataset) -> str:
    with suppress(Exception):
        return str([{key: row.get(key) for key in row if key[0] in "ivwcd"} for row in read(dataset)])
    return "unreadable"


def unlike(dataset: lance.LanceDataset, state: State, settings: bool = True) -> str:
    """How a version differs from a state, with its settings or without; empty if it does not."""
    try:
        found = read(dataset)
    except Exception as problem:  # noqa: BLE001 - what cannot be read is the finding
        return f"unreadable: {problem}"
    wanted = _columns(schema_of(state))
    now = _columns(dataset.schema)
    if wanted != now:
        return f"columns {sorted(set(now.items()) ^ set(wanted.items()))}"
    config = {key: value for key, value in dataset.config().items() if key in ("one", "two")}
    if settings and config != state.settings:
        return f"settings {config}, not {state.settings}"
    if _ordered(found) != _ordered(state.plain()):
        missing = {*_ordered(state.plain())} - {*_ordered(found)}
        strange = {*_ordered(found)} - {*_ordered(state.plain())}
        return f"{len(found)} rows, not {len(state.rows)}; missing {sorted(missing)}, strange {sorted(strange)}"
    return ""


def _columns(schema: pa.Schema) -> dict[str, str]:
    found = {}
    for entry in schema:
        inner = [(f"{entry.name}.{each.name}", each) for each in entry.type] if pa.types.is_struct(entry.type) else []
        for path, each in inner or [(entry.name, entry)]:
            metadata = {key.decode(): value.decode() for key, value in (each.metadata or {}).items()}
            told = {key: value for key, value in metadata.items() if key == COMMENT or key.startswith(PRIMARY_KEY)}
            found[path] = f"{each.type}{'' if each.nullable else ' NOT NULL'} {told or ''}"
    return found


def _sound(scene: Scene) -> list[str]:
    """What fsck and the indexes say."""
    wrong = []
    report = scene.target.table.fsck(deep=True)
    if not report.sound:
        wrong.append(f"fsck: {report}")
    dataset = scene.target.head
    with suppress(Exception):
        rows = read(dataset)
        for index in dataset.list_indices():
            name = index["fields"][0]
            for value in {row.get(name) for row in rows} - {None}:
                found = [flat(row) for row in dataset.to_table(filter=f"{name} = {value}").to_pylist()]
                if _ordered(found) != _ordered([row for row in rows if row.get(name) == value]):
                    wrong.append(f"index on {name}: {value} finds {found}")
    return wrong


def _way_back(scene: Scene, changed: bool) -> Iterator[str]:
    """The other direction works, and both sides are the same then.

    If the verb had nothing to do, the other direction is a pair of its own, which may be a conflict.
    """
    assert scene.expected is not None
    problem = _attempt(scene.back)
    if isinstance(problem, (Conflict, Refused)) and problem.hint and not changed:
        return
    if isinstance(problem, Exception):
        yield f"the other direction: {type(problem).__name__}: {problem}"
        return
    if scene.partner is None:
        if scene.verb == "cherry-pick":
            difference = unlike(scene.target.head, scene.expected)
            if difference:
                yield f"merged after the pick: {difference}"
        return
    difference = unlike(scene.partner.head, scene.expected, settings=False)
    if difference:
        yield f"the other direction: {difference}"
        return
    yield from _goes_on(scene)


def _goes_on(scene: Scene) -> Iterator[str]:
    """What a side writes next, the other one takes."""
    assert scene.partner is not None
    source = scene.partner
    schema = source.head.schema
    plain = dict.fromkeys(_columns(schema), 900)
    lance.write_dataset(pa.Table.from_pylist([nested(plain)], schema=schema), place(*source), mode="append")
    if scene.verb in ("pull", "push"):
        problem = _attempt(scene.run)
    else:
        problem = _attempt(partial(scene.target.table.branches.merge, "exp"))
    if isinstance(problem, Exception):
        yield f"the next merge: {type(problem).__name__}: {problem}"
    elif len(read(scene.target.head)) != len(read(source.head)):
        yield "the next merge: other rows"


__all__ = ["LAYOUTS", "Inapplicable", "Layout", "Places", "Scene", "combined", "run_pair"]
