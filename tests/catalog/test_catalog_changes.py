"""Changes of a catalog as decisions: rows and a wish in, rows to delete and to add, or an error of ours, out."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark.catalog.doctor_rules import AddNamespaces, RemoveRows
from lance_spark.catalog.entry_rules import (
    SCHEMA,
    AddNamespace,
    AddTable,
    AddTables,
    AlterProperties,
    Entry,
    RemoveNamespace,
    RemoveTable,
    RenameTable,
    RowFilter,
    Rows,
    below,
    new_rows,
    quoted,
)
from lance_spark.catalog.name_rules import identify_namespace, identify_table
from lance_spark.errors import AlreadyExists, Conflict, CorruptData, NotFound, Refused

pytestmark = pytest.mark.pure

EXTRA = pa.schema([*SCHEMA, pa.field("owner", pa.string()), pa.field("sizes", pa.list_(pa.int64()))])
CATALOG = [
    Entry("ns", "namespace", None, '{"a":"b"}'),
    Entry("ns$in", "namespace"),
    Entry("ns$t", "table", "1_ns$t", '{"k":"v","deep":{"x":1}}'),
    Entry("ns$t$1", "table_version", None, '{"manifest_path":"p"}'),
    Entry("ns$t$2", "table_version", None, '{"manifest_path":"q"}'),
    Entry("ns$t2", "table", "2_ns$t2"),
    Entry("r", "table", "r.lance"),
    Entry("r$view", "view"),
    Entry("nsx", "table", "3_nsx"),
    Entry("ns2$lost", "table", "4_ns2$lost"),
]


def catalog(*more, schema=EXTRA):
    table = new_rows(schema, [*CATALOG, *more])
    if "owner" in schema.names:
        owners = pa.array([f"owner of {found}" for found in table["object_id"].to_pylist()])
        table = table.set_column(table.schema.get_field_index("owner"), schema.field("owner"), owners)
        table = table.set_column(
            table.schema.get_field_index("sizes"),
            schema.field("sizes"),
            pa.array([[1]] * len(table), pa.list_(pa.int64())),
        )
    return table


def after(change, table=None):
    """The rows after a change, by id. The change sees nothing but what it asked for."""
    table = catalog() if table is None else table
    edit = change.edit(Rows(table.filter(mask(change.needs, table))))
    kept = table.filter(pc.invert(pc.is_in(table["object_id"], value_set=pa.array(edit.remove, pa.string()))))
    whole = kept if edit.add is None else pa.concat_tables([kept, edit.add])
    assert whole.schema == table.schema
    found = {row["object_id"]: row for row in whole.to_pylist()}
    assert len(found) == whole.num_rows, "an id is there twice"
    return found


def mask(wanted, table):
    """What a filter of pylance would choose."""
    rows = table.select(["object_id", "location"]).to_pylist()
    return pa.array(
        [
            wanted.everything
            or row["object_id"] in wanted.ids
            or any(row["object_id"].startswith(f"{prefix}$") for prefix in wanted.below)
            or row["location"] in wanted.locations
            for row in rows
        ],
        pa.bool_(),
    )


def changed(change):
    """Rows that came, and ids that went."""
    before, now = {row["object_id"]: row for row in catalog().to_pylist()}, after(change)
    return [row for found, row in now.items() if before.get(found) != row], sorted(before.keys() - now.keys())


def table_at(name, location="new", **more):
    return AddTable(identify_table(name), location, more.pop("properties", {}), **more)


def test_a_new_namespace_has_its_properties_and_nulls_in_columns_nobody_knows():
    came, went = changed(AddNamespace(identify_namespace("ns.in.deep"), {"ü": "ß", "q": '"'}))
    (row,) = came
    assert went == []
    assert row == {
        "object_id": "ns$in$deep",
        "object_type": "namespace",
        "location": None,
        "metadata": '{"ü":"ß","q":"\\""}',
        "base_objects": None,
        "owner": None,
        "sizes": None,
    }


def test_a_new_table_has_its_directory():
    came, went = changed(table_at("ns.in.x", "9_x"))
    assert [(row["object_id"], row["object_type"], row["location"], row["metadata"]) for row in came] == [
        ("ns$in$x", "table", "9_x", None)
    ]
    assert went == []


@pytest.mark.parametrize("name", ["ns", "ns.in", "ns.t", "r"])
@pytest.mark.parametrize("make", [lambda name: AddNamespace(identify_namespace(name), {}), table_at])
def test_an_id_is_never_given_twice_not_even_to_a_table_and_a_namespace(name, make):
    with pytest.raises(AlreadyExists, match=f"Cannot create .*'{name}'"):
        after(make(name))
    with pytest.raises(AlreadyExists):
        after(RenameTable(identify_table("ns.t2"), identify_table(name), "2_ns$t2", "2_ns$t2"))


@pytest.mark.parametrize("name", ["no.x", "ns.t.x", "r.x", "ns.in.no.x"])
def test_the_namespace_something_is_put_into_has_to_be_there(name):
    for change in (
        table_at(name),
        AddNamespace(identify_namespace(name), {}),
        RenameTable(identify_table("r"), identify_table(name), "r.lance", "r.lance"),
    ):
        with pytest.raises(NotFound, match="there is no namespace"):
            after(change)


def test_a_directory_belongs_to_one_table():
    with pytest.raises(AlreadyExists, match=r"'r\.lance' belongs to 'r'"):
        after(table_at("other", "r.lance"))
    with pytest.raises(AlreadyExists, match="'1_ns\\$t' belongs to"):
        after(RenameTable(identify_table("r"), identify_table("q"), "r.lance", "1_ns$t"))


def test_an_attempt_that_had_arrived_is_not_refused():
    assert after(table_at("ns.t2", "2_ns$t2", unique=True)) == after(AddTables({}))
    done = new_rows(EXTRA, [Entry("q", "table", "77_q")])
    assert RenameTable(identify_table("gone"), identify_table("q"), "x.lance", "77_q").edit(Rows(done)).is_empty


def test_removing_a_table_takes_its_versions_along_and_nothing_else():
    assert changed(RemoveTable(identify_table("ns.t"), "1_ns$t")) == ([], ["ns$t", "ns$t$1", "ns$t$2"])
    assert changed(RemoveTable(identify_table("r"), "r.lance")) == ([], ["r", "r$view"])


def test_a_table_that_was_made_anew_is_not_removed_for_the_old_one():
    with pytest.raises(Conflict, match="Cannot drop table 'r': another process moved it or created it again"):
        after(RemoveTable(identify_table("r"), "other.lance"))


@pytest.mark.parametrize("name", ["no", "ns", "ns.in", "ns.t.1"])
def test_what_is_no_table_is_not_removed_or_renamed(name):
    with pytest.raises(NotFound, match="there is no such table"):
        after(RemoveTable(identify_table(name), "x"))
    with pytest.raises(NotFound, match="there is no such table"):
        after(RenameTable(identify_table(name), identify_table("new"), "x", "x"))


def test_a_directory_of_two_tables_is_told():
    table = catalog(Entry("twin", "table", "r.lance"))
    for change in (
        RemoveTable(identify_table("r"), "r.lance"),
        RenameTable(identify_table("r"), identify_table("q"), "r.lance", "9_q"),
    ):
        assert change.edit(Rows(table)).shared == {"r.lance"}
        assert change.edit(Rows(catalog())).shared == frozenset()


def test_a_renamed_table_keeps_every_column_and_its_versions_go_with_it():
    came, went = changed(RenameTable(identify_table("ns.t"), identify_table("ns.in.u"), "1_ns$t", "1_ns$t"))
    assert went == ["ns$t", "ns$t$1", "ns$t$2"]
    assert [(row["object_id"], row["object_type"], row["location"], row["owner"], row["sizes"]) for row in came] == [
        ("ns$in$u", "table", "1_ns$t", "owner of ns$t", [1]),
        ("ns$in$u$1", "table_version", None, "owner of ns$t$1", [1]),
        ("ns$in$u$2", "table_version", None, "owner of ns$t$2", [1]),
    ]
    assert came[0]["metadata"] == '{"k":"v","deep":{"x":1}}'


def test_a_table_whose_directory_moves_gets_the_new_one():
    came, _ = changed(RenameTable(identify_table("r"), identify_table("q"), "r.lance", "99_q"))
    assert [(row["object_id"], row["location"]) for row in came] == [("q", "99_q"), ("q$view", None)]


def test_a_namespace_goes_only_when_it_is_empty():
    with pytest.raises(Refused, match=r"not empty: 'ns\.in', 'ns\.t', 'ns\.t\.1', \.\.\."):
        after(RemoveNamespace(identify_namespace("ns"), cascade=False))
    assert changed(RemoveNamespace(identify_namespace("ns.in"), cascade=False)) == ([], ["ns$in"])
    assert changed(RemoveNamespace(identify_namespace("ns"), cascade=True)) == (
        [],
        ["ns", "ns$in", "ns$t", "ns$t$1", "ns$t$2", "ns$t2"],
    )


def test_a_cascade_tells_directories_that_stay_in_use():
    table = catalog(Entry("twin", "table", "1_ns$t"))
    edit = RemoveNamespace(identify_namespace("ns"), cascade=True).edit(Rows(table))
    assert edit.shared == {"1_ns$t"}


@pytest.mark.parametrize("name", ["no", "r", "ns.t"])
def test_what_is_no_namespace_is_not_dropped(name):
    with pytest.raises(NotFound, match=f"Cannot drop namespace '{name}': there is no such namespace"):
        after(RemoveNamespace(identify_namespace(name), cascade=True))


def test_properties_are_set_and_removed_and_what_is_no_text_stays():
    came, went = changed(AlterProperties(identify_table("ns.t"), "table", {"k": "w", "n": "1"}, ["absent"]))
    assert went == []
    assert [row["metadata"] for row in came] == ['{"k":"w","deep":{"x":1},"n":"1"}']
    assert came[0]["owner"] == "owner of ns$t"
    came, _ = changed(AlterProperties(identify_namespace("ns"), "namespace", {}, ["a"]))
    assert [row["metadata"] for row in came] == [None]
    assert changed(AlterProperties(identify_namespace("ns"), "namespace", {"a": "b"})) == ([], [])
    with pytest.raises(NotFound):
        after(AlterProperties(identify_table("ns"), "table", {"a": "b"}))


def test_many_tables_are_added_at_once_and_those_that_are_there_stay():
    came, went = changed(AddTables({"r": "r.lance", "a": "a.lance", "ns": "ns.lance", "b": "3_nsx"}))
    assert [(row["object_id"], row["location"]) for row in came] == [("a", "a.lance")]
    assert went == []


def test_repairs_do_only_what_is_still_to_be_done():
    came, _ = changed(AddNamespaces(("ns", "ns2", "r")))
    assert [(row["object_id"], row["object_type"]) for row in came] == [("ns2", "namespace")]
    gone = (Entry("r", "table", "r.lance"), Entry("ns$t2", "table", "was another"), Entry("x", "table", "x"))
    assert changed(RemoveRows(gone)) == ([], ["r"])


def test_two_rows_of_one_id_are_damage_and_no_change_is_decided_on_them():
    table = catalog(Entry("r", "table", "other"))
    for change in (table_at("r"), RemoveTable(identify_table("r"), "r.lance")):
        with pytest.raises(CorruptData, match="2 rows for 'r'"):
            change.edit(Rows(table))


def test_a_table_without_the_columns_that_matter_is_no_catalog():
    with pytest.raises(CorruptData, match="no column 'location'"):
        Rows(pa.table({"object_id": ["a"], "object_type": ["table"]}))


def test_ids_with_quotes_cannot_leave_their_place_in_a_predicate():
    assert quoted("it's") == "'it''s'"
    assert RowFilter(ids=("a' OR 'x'='x",)).predicate() == "object_id IN ('a'' OR ''x''=''x')"
    assert below("ns") == "(object_id >= 'ns$' AND object_id < 'ns%')"
    assert RowFilter().predicate() == "false"
    assert RowFilter(everything=True).predicate() is None
