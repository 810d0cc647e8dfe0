"""Rows of the manifest as values: properties, and the columns a table should have."""

import pyarrow as pa
import pytest

from lance_spark.catalog import entry_rules as rules
from lance_spark.errors import CorruptData, InvalidOption

pytestmark = pytest.mark.pure


def test_properties_are_json_as_pylance_writes_it():
    assert rules.encode_properties({"a": "b", "ü": "ß"}) == '{"a":"b","ü":"ß"}'
    assert rules.encode_properties({}) is None
    assert rules.Entry("a", "namespace", None, '{"a":"b"}').properties == {"a": "b"}
    assert (
        rules.Entry("a", "namespace", None, None).properties == rules.Entry("a", "namespace", None, "").properties == {}
    )


def test_what_another_tool_nested_is_shown_as_json():
    assert rules.Entry("a", "table", None, '{"a":{"b":[1]},"n":null}').properties == {"a": '{"b": [1]}', "n": "null"}


@pytest.mark.parametrize("text", ["[]", "7", "{", '"x"'])
def test_metadata_that_is_no_object_is_damage(text):
    with pytest.raises(CorruptData, match="'a'"):
        _ = rules.Entry("a", "table", None, text).properties


@pytest.mark.parametrize("given", [{"a": 1}, {1: "a"}, {"": "x"}, {"a": None}])
def test_properties_are_text(given):
    with pytest.raises(InvalidOption, match="is not text"):
        rules.check_properties(given)


def test_an_old_table_gets_the_mark_and_the_columns_it_lacks_and_keeps_its_own():
    old = pa.schema(
        [
            pa.field("object_id", pa.string(), False, {"mine": "1"}),
            pa.field("object_type", pa.string(), False),
            pa.field("location", pa.string()),
            pa.field("extra", pa.int64(), False),
        ]
    )
    table = pa.table({"object_id": ["a"], "object_type": ["table"], "location": ["x"], "extra": [7]}).cast(old)
    new = rules.upgraded_rows(table)
    assert new.schema == rules.upgraded(old)
    assert new.schema.names == ["object_id", "object_type", "location", "extra", "metadata", "base_objects"]
    assert new.schema.field("object_id").metadata == {b"mine": b"1", rules.PRIMARY_KEY: b"0"}
    assert new.to_pylist() == [
        {"object_id": "a", "object_type": "table", "location": "x", "extra": 7, "metadata": None, "base_objects": None}
    ]
    assert new.schema.field("extra").nullable, "its value in a new row is unknown"
    assert rules.is_complete(new.schema)
    assert rules.is_complete(rules.SCHEMA)
    assert not rules.is_complete(old)


def test_rows_of_a_large_string_table_are_found():
    fields = [pa.field(f.name, pa.large_string(), f.nullable) if f.type == pa.string() else f for f in rules.SCHEMA]
    table = rules.new_rows(pa.schema(fields), [rules.Entry("a", "table", "x"), rules.Entry("a$b", "view")])
    rows = rules.Rows(table)
    assert rows.find("a") == rules.Entry("a", "table", "x")
    assert rows.only(["a$b"]).num_rows == 1
