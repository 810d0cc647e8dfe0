"""A column with a default that one side of a merge adds: rows that the other side adds have the default in it."""

import lance
import pyarrow as pa
import pytest
from support.remote_datasets import made_clone, pulled

from lance_spark import LanceTable
from lance_spark.columns.columns import alter_columns
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, NotCommittable
from lance_spark.format.evolution import AddColumn
from lance_spark.format.kept_types import LENGTH_KEY
from lance_spark.storage.datasets import locate

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int64())])
BASE = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}
NEW = {10: 1, 11: 1}


def rows(of):
    return pa.table({"id": [*of], "x": [*of.values()]}, schema=SCHEMA)


def at(uri, branch):
    return lance.dataset(uri) if branch is None else lance.dataset(uri).checkout_version((branch, None))


def add_column(uri, branch, text=None, fill=None):
    step = AddColumn(("c",), pa.int32(), default=text, fill=fill or text)
    alter_columns(locate(uri), branch, [step], LocalRunner())


def set_default(uri, branch, text):
    LanceTable.for_path(uri, branch=branch).alter_columns(defaults={"c": text})


def half(uri, branch):
    """The default is for later rows: those that are there have null."""
    add_column(uri, branch)
    set_default(uri, branch, "5")


def then(**change):
    def made(uri, branch):
        add_column(uri, branch, "5")
        at(uri, branch).update(change, where="id = 2")

    return made


COLUMNS = {
    "no default": (add_column, dict.fromkeys(BASE), None),
    "a default": (lambda uri, branch: add_column(uri, branch, "5"), dict.fromkeys(BASE, 5), 5),
    "a default for later": (half, dict.fromkeys(BASE), 5),
    "another value": (then(c="7"), {**dict.fromkeys(BASE, 5), 2: 7}, 5),
    "a null": (then(c="NULL"), {**dict.fromkeys(BASE, 5), 2: None}, 5),
}
"""What adds the column; its values in the rows of the base; the default."""


def append(uri, branch):
    lance.write_dataset(rows(NEW), at(uri, branch), mode="append")


def update(uri, branch):
    at(uri, branch).update({"x": "x + 100"}, where="id IN (1, 2)")


def upsert(uri, branch):
    merge = at(uri, branch).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows({2: 102, 10: 1}))


def compact(uri, branch):
    at(uri, branch).optimize.compact_files()


def append_and_compact(uri, branch):
    append(uri, branch)
    compact(uri, branch)


def append_and_delete(uri, branch):
    append(uri, branch)
    at(uri, branch).delete("id = 10")


CHANGES = {
    append: {**BASE, **NEW},
    update: {**BASE, 1: 101, 2: 102},
    upsert: {**BASE, 2: 102, 10: 1},
    lambda uri, branch: at(uri, branch).delete("id = 3"): {key: BASE[key] for key in BASE if key != 3},
    compact: BASE,
    append_and_compact: {**BASE, **NEW},
    append_and_delete: {**BASE, 11: 1},
}
NAMES = ["append", "update", "upsert", "delete", "compact", "append and compact", "append and delete"]
UNSURE = (upsert, append_and_compact)
"""No version tells new rows from moved ones, as none does of a remote."""


FORMS = {
    "merge": lambda uri, _, **options: LanceTable.for_path(uri).branches.merge("exp", **options),
    "cherry-pick": lambda uri, _, **options: LanceTable.for_path(uri).cherry_pick(
        "exp", at(uri, "exp").version, **options
    ),
    "pull": lambda uri, theirs, **options: pulled(uri, theirs, **options).merged,
}


@pytest.mark.when(day=0.03)
@pytest.mark.parametrize("found_by", ["nothing", "key", "ids"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("change", CHANGES, ids=NAMES)
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("adds", ["ours", "theirs"])
def test_rows_of_one_side_have_the_default_of_the_other(tmp_path, adds, column, change, form, found_by):
    made, values, default = COLUMNS[column]
    uri, theirs, stable = str(tmp_path / "t"), str(tmp_path / "t"), found_by == "ids"
    lance.write_dataset(rows({key: BASE[key] for key in (1, 2, 3)}), uri, enable_stable_row_ids=stable)
    lance.write_dataset(rows({key: BASE[key] for key in (4, 5)}), uri, mode="append")
    branch = None if form == "pull" else "exp"
    if form == "pull":
        made_clone(theirs, uri := str(tmp_path / "local"))
    else:
        LanceTable.for_path(uri).branches.create("exp")
    before = at(theirs, branch).version
    for is_ours in (True, False):
        (made if (adds == "ours") == is_ours else change)(*((uri, None) if is_ours else (theirs, branch)))
    if form == "cherry-pick" and at(theirs, branch).version > before + 1:
        pytest.skip("a cherry-pick takes one version")
    mine = lance.dataset(uri).to_table().sort_by("id")
    known = {key: values.get(key, default) for key in CHANGES[change]}
    unsure = column == "a default for later" and (change in UNSURE or (form == "pull" and adds == "ours"))
    try:
        done = FORMS[form](uri, theirs, **({"on": ("id",)} if found_by == "key" else {}))
    except (Conflict, NotCommittable):
        rewrites = change in (update, upsert) and found_by == "nothing"
        both = stable and adds == "theirs" and column in ("another value", "a null")
        assert rewrites or both
        assert lance.dataset(uri).to_table().sort_by("id") == mine
        return
    lost = {key for key in known if key not in BASE and (unsure or default is None)}
    assert bool(lost) <= bool(done.notes)
    result = lance.dataset(uri)
    result.validate()
    found = {row["id"]: (row["x"], row["c"]) for row in result.to_table().to_pylist()}
    assert found == {key: (CHANGES[change][key], None if key in lost else known[key]) for key in known}
    assert LanceTable.for_path(uri).fsck(deep=True).findings == ()


@pytest.fixture
def sides(tmp_path):
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(BASE), uri)
    table = LanceTable.for_path(uri)
    table.branches.create("exp")
    return table, table.checkout(branch="exp")


def values(table, name="c"):
    found = lance.dataset(table.location.uri).to_table().to_pylist()
    return {row["id"]: row[name] for row in found}


def test_a_default_is_written_as_its_column_has_it(sides):
    ours, theirs = sides
    uri = ours.location.uri
    append(uri, None)
    steps = [
        AddColumn(("c",), pa.string(), kept={LENGTH_KEY: "char(3)"}, default="'a'", fill="'a  '"),
        AddColumn(("at",), pa.timestamp("us", "UTC"), default="now()", fill="TIMESTAMP '2020-01-01 00:00:00Z'"),
        AddColumn(("plain",), pa.int32()),
    ]
    alter_columns(locate(uri), "exp", steps, LocalRunner())
    theirs.rename_columns({"c": "code"})
    done = ours.branches.merge("exp")
    assert done.notes == ("rows that 'main' added have no values in new columns",)
    assert {*values(ours, "code").values()} == {"a  "}
    moments = values(ours, "at")
    assert moments[10] == moments[11] > moments[1]
    assert values(ours, "plain")[10] is None
    ours.branches.merge("exp", ff_only=False)
    append(uri, None)
    lance.dataset(uri).validate()


@pytest.mark.parametrize("adds", ["ours", "theirs"])
def test_a_column_that_cannot_be_null_is_filled(sides, adds):
    ours, _ = sides
    made, other = (None, "exp") if adds == "ours" else ("exp", None)
    add_column(ours.location.uri, made, "5")
    append(ours.location.uri, other)
    at(ours.location.uri, made).alter_columns({"path": "c", "nullable": False})
    ours.branches.merge("exp")
    assert values(ours) == dict.fromkeys((*BASE, *NEW), 5)
    assert not lance.dataset(ours.location.uri).schema.field("c").nullable


@pytest.mark.parametrize("adds", ["ours", "theirs"])
@pytest.mark.parametrize("condition", ["c > 4", "c IS NOT NULL", "c > x", "c > 5"])
def test_a_default_obeys_the_constraint_that_comes_with_it(sides, adds, condition):
    ours, theirs = sides
    made, other = (None, "exp") if adds == "ours" else ("exp", None)
    add_column(ours.location.uri, made, "5", fill="6")
    append(ours.location.uri, other)
    (ours if adds == "ours" else theirs).constraints.add("wide", condition)
    if condition == "c > 5":
        by = "theirs" if adds == "ours" else "ours"
        with pytest.raises(Conflict, match=rf"CHECK wide \(c > 5\) would be broken by rows of {by}.*\n +c = 5"):
            ours.branches.merge("exp")
        return
    ours.branches.merge("exp")
    assert values(ours) == {**dict.fromkeys(BASE, 6), 10: 5, 11: 5}
    assert ours.fsck(deep=True).findings == ()


def test_a_default_that_was_dropped_again_fills_nothing(sides):
    ours, theirs = sides
    add_column(ours.location.uri, "exp", "5")
    theirs.alter_columns(defaults={"c": ""})
    append(ours.location.uri, None)
    assert ours.branches.merge("exp").notes
    assert values(ours) == {**dict.fromkeys(BASE, 5), 10: None, 11: None}


def test_filled_rows_go_on_to_other_branches(sides):
    """The next merge of either branch finds nothing new, and indexes made before see the rows."""
    ours, theirs = sides
    uri = ours.location.uri
    add_column(uri, "exp", "5")
    at(uri, "exp").create_scalar_index("c", "BTREE")
    append(uri, None)
    ours.branches.merge("exp")
    assert lance.dataset(uri).count_rows("c = 5") == 7
    theirs.branches.merge("main")
    assert at(uri, "exp").to_table().sort_by("id") == lance.dataset(uri).to_table().sort_by("id")
    assert at(uri, "exp").count_rows("c = 5") == 7
    assert ours.branches.merge("exp").up_to_date
