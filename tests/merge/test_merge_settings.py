"""Settings in a merge: constraints, layouts and properties, each three-way, and the rows that have to obey them."""

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceTable
from lance_spark.errors import Conflict, SchemaMismatch
from lance_spark.merge.assembly_rules import Merged, merged, with_one_spelling
from lance_spark.merge.option_rules import Prefer

CONSTRAINT, BY = "lance_spark.constraints.positive", "lance_spark.partition_by"


@pytest.mark.pure
@pytest.mark.parametrize(
    ("base", "ours", "theirs", "prefer", "taken"),
    [
        (None, None, "1", None, "1"),
        (None, "1", None, None, ...),
        (None, "1", "1", None, ...),
        (None, "1", "2", None, Conflict),
        (None, "1", "2", "theirs", "2"),
        (None, "1", "2", "ours", ...),
        (None, "1", "2", "k=theirs", "2"),
        (None, "1", "2", "other=theirs", Conflict),
        ("1", "1", "2", None, "2"),
        ("1", "1", "2", "ours", "2"),
        ("1", "1", None, None, None),
        ("1", "2", "1", None, ...),
        ("1", None, "1", None, ...),
        ("1", None, None, None, ...),
        ("1", "2", "2", None, ...),
        ("1", "2", "3", None, Conflict),
        ("1", "2", None, None, Conflict),
        ("1", "2", None, "theirs", None),
        ("1", None, "2", None, Conflict),
        ("1", None, "2", "theirs", "2"),
        ("1", "1", "1", "theirs", ...),
    ],
)
def test_a_setting_is_merged_three_way(base, ours, theirs, prefer, taken):
    sides = [{} if value is None else {"k": value} for value in (base, ours, theirs)]
    expected = Merged({}, ("k",)) if taken is Conflict else Merged({} if taken is ... else {"k": taken})
    assert merged(*sides, Prefer.of(prefer)) == expected


OF = "lance_spark.constraints."


@pytest.mark.pure
@pytest.mark.parametrize(
    ("ours", "taken", "prefer", "found", "unclear"),
    [
        ({"pos": "1"}, {"Pos": "1"}, None, {}, []),
        ({"pos": "1"}, {"Pos": "2"}, None, {}, [("Pos", "pos")]),
        ({"pos": "1"}, {"Pos": "2"}, "ours", {}, []),
        ({"pos": "1"}, {"Pos": "2"}, "theirs", {"Pos": "2", "pos": None}, []),
        ({"pos": "1"}, {"Pos": "2"}, f"{OF}pos=theirs", {"Pos": "2", "pos": None}, []),
        ({"pos": "1"}, {"Pos": "2"}, f"{OF}Pos=ours", {}, []),
        ({"pos": "1"}, {"Pos": "2", "pos": None}, None, {"Pos": "2", "pos": None}, []),
        ({"pos": "1"}, {"pos": "2"}, None, {"pos": "2"}, []),
        ({"pos": "1"}, {"Pos": None}, None, {"Pos": None}, []),
        ({"pos": "1"}, {"neg": "2", "POS": "1"}, None, {"neg": "2"}, []),
        ({}, {"Pos": "2"}, None, {"Pos": "2"}, []),
    ],
)
def test_names_that_differ_in_case_are_one(ours, taken, prefer, found, unclear):
    def full(settings):
        return {OF + name: value for name, value in settings.items()}

    told = with_one_spelling(full(taken), full(ours), Prefer.of(prefer))
    assert told == (full(found), tuple((OF + key, OF + mine) for key, mine in unclear))


@pytest.mark.pure
def test_other_settings_keep_their_case():
    assert with_one_spelling({"Team": "a"}, {"team": "b"}, Prefer()) == ({"Team": "a"}, ())


@pytest.fixture
def uri(tmp_path):
    path = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": [1, 2], "x": [1, 2]}), path)
    LanceTable.for_path(path).branches.create("exp")
    return path


def sides(uri):
    table = LanceTable.for_path(uri)
    return table, table.checkout(branch="exp")


def config(uri):
    return lance.dataset(uri).config()


@pytest.mark.parametrize("forward", [True, False])
def test_what_only_theirs_changed_is_taken_over_with_its_rows(uri, forward):
    ours, theirs = sides(uri)
    theirs.constraints.add("positive", "x > 0")
    theirs.layout.partition_by("id")
    lance.dataset(theirs.location.branch_uri("exp")).update_metadata({"team": "ops"})
    theirs.write(pa.table({"id": [3], "x": [3]}), mode="append")
    if not forward:
        ours.write(pa.table({"id": [4], "x": [4]}), mode="append")
    dry = ours.branches.merge("exp", dry_run=True)
    assert dry.notes == (f"settings are taken over: {CONSTRAINT}, {BY}, team",)
    assert config(uri) == {}
    done = ours.branches.merge("exp", ff_only=forward)
    assert done.notes == dry.notes
    assert config(uri) == {CONSTRAINT: "x > 0", BY: "id"}
    assert lance.dataset(uri).metadata == {"team": "ops"}
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == [1, 2, 3] + [4] * (not forward)
    assert ours.branches.merge("exp").up_to_date
    with pytest.raises(SchemaMismatch):
        ours.write(pa.table({"id": [5], "x": [-5]}), mode="append")


def test_settings_alone_are_a_merge_that_the_next_one_begins_with(uri):
    ours, theirs = sides(uri)
    theirs.constraints.add("positive", "x > 0")
    done = ours.branches.merge("exp")
    assert (done.up_to_date, done.version) == (False, lance.dataset(uri).version)
    ours.constraints.drop("positive")
    ours.constraints.add("positive", "x >= 0")
    assert ours.branches.merge("exp").up_to_date
    theirs.constraints.drop("positive")
    with pytest.raises(
        Conflict, match=f"both sides changed setting '{CONSTRAINT}': 'x >= 0' in ours, none in theirs"
    ) as refused:
        ours.branches.merge("exp")
    assert "say whose is taken" in refused.value.hint
    assert config(uri) == {CONSTRAINT: "x >= 0"}
    ours.branches.merge("exp", prefer="theirs")
    assert config(uri) == {}


def test_two_spellings_of_a_constraint_are_a_conflict_unless_they_say_the_same(uri):
    ours, theirs = sides(uri)
    ours.constraints.add("pos", "x > 0")
    theirs.constraints.add("Pos", "x > -1")
    expected = rf"both sides changed setting '{OF}Pos': 'x > 0' in ours as 'pos', 'x > -1' in theirs"
    with pytest.raises(Conflict, match=expected) as refused:
        ours.branches.merge("exp")
    assert "say whose is taken" in refused.value.hint
    assert config(uri) == {f"{OF}pos": "x > 0"}
    theirs.constraints.drop("Pos")
    theirs.constraints.add("Pos", "x > 0")
    ours.branches.merge("exp")
    assert config(uri) == {f"{OF}pos": "x > 0"}
    theirs.constraints.drop("Pos")
    theirs.constraints.add("Pos", "x > 7 OR x < 3")
    with pytest.raises(Conflict, match="both sides changed"):
        ours.branches.merge("exp")
    ours.branches.merge("exp", prefer="theirs")
    assert config(uri) == {f"{OF}Pos": "x > 7 OR x < 3"}
    with pytest.raises(SchemaMismatch):
        ours.write(pa.table({"id": [5], "x": [5]}), mode="append")


def test_a_constraint_that_comes_holds_for_rows_of_ours(uri):
    ours, theirs = sides(uri)
    theirs.constraints.add("positive", "x > 0")
    ours.write(pa.table({"id": [4], "x": [-4]}), mode="append")
    with pytest.raises(Conflict, match=r"CHECK positive \(x > 0\) would be broken by rows of ours.*\n +x = -4"):
        ours.branches.merge("exp")
    assert config(uri) == {}
    lance.dataset(uri).delete("id = 4")
    ours.branches.merge("exp")
    assert config(uri) == {CONSTRAINT: "x > 0"}


def test_a_constraint_that_goes_no_longer_holds_for_rows_of_theirs(uri):
    ours, _ = sides(uri)
    ours.constraints.add("positive", "x > 0")
    ours.branches.create("more")
    more = ours.checkout(branch="more")
    more.constraints.drop("positive")
    more.write(pa.table({"id": [4], "x": [-4]}), mode="append")
    ours.branches.merge("more")
    assert (config(uri), lance.dataset(uri).count_rows()) == ({}, 3)


@pytest.mark.parametrize("condition", ["y > 0", "y IS NOT NULL"])
def test_a_constraint_comes_with_its_column(uri, condition):
    ours, theirs = sides(uri)
    lance.dataset(theirs.location.branch_uri("exp")).add_columns({"y": "nullif(id, 0)"})
    theirs.constraints.add("positive", condition)
    ours.write(pa.table({"id": [4], "x": [4]}), mode="append")
    if "NULL" in condition:
        with pytest.raises(Conflict, match="would be broken by rows of ours"):
            ours.branches.merge("exp")
        return
    ours.branches.merge("exp")
    assert config(uri) == {CONSTRAINT: condition}
    with pytest.raises(SchemaMismatch):
        ours.write(pa.table({"id": [5], "x": [5], "y": [-5]}), mode="append")


def test_a_setting_that_names_a_dropped_column_is_a_conflict(uri):
    ours, theirs = sides(uri)
    theirs.layout.cluster_by("x")
    ours.drop_columns("x")
    with pytest.raises(Conflict, match="names a column that the result does not have: 'x'"):
        ours.branches.merge("exp")
    theirs.layout.cluster_by()
    theirs.constraints.add("positive", "x > 0")
    with pytest.raises(Conflict, match="cannot be checked"):
        ours.branches.merge("exp")


@pytest.mark.parametrize("change", ["drop", "rename"])
def test_a_column_of_our_layout_that_theirs_dropped_or_renamed_is_a_conflict(uri, change):
    ours, theirs = sides(uri)
    ours.layout.cluster_by("x")
    theirs.drop_columns("x") if change == "drop" else theirs.rename_columns({"x": "y"})
    with pytest.raises(Conflict, match="names a column that the result does not have: 'x'") as refused:
        ours.branches.merge("exp")
    assert "on the side that has it: t.layout" in refused.value.hint
    ours.layout.cluster_by()
    ours.branches.merge("exp")


def test_a_layout_whose_column_another_tool_dropped_before_stops_no_merge(uri):
    ours, theirs = sides(uri)
    ours.layout.cluster_by("x")
    lance.dataset(uri).drop_columns(["x"])
    theirs.constraints.add("positive", "id > 0")
    ours.branches.merge("exp")
    assert config(uri) == {CONSTRAINT: "id > 0", "lance_spark.cluster_by": "x"}


def test_settings_of_lance_itself_stay(uri):
    ours, theirs = sides(uri)
    lance.dataset(theirs.location.branch_uri("exp")).update_config({"lance.auto_cleanup.interval": "5"})
    assert ours.branches.merge("exp").notes == ("settings are not taken over: lance.auto_cleanup.interval",)
    assert config(uri) == {}


def test_a_pick_takes_a_setting_and_a_revert_gives_it_back(uri):
    ours, theirs = sides(uri)
    theirs.constraints.add("positive", "x > 0")
    version = lance.dataset(theirs.location.branch_uri("exp")).version
    picked = ours.cherry_pick("exp", version)
    assert (config(uri), picked.up_to_date) == ({CONSTRAINT: "x > 0"}, False)
    ours.revert(picked.version)
    assert config(uri) == {}
