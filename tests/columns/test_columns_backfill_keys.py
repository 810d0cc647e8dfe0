"""What is the same computation, and what is the same fragment: a wrong answer gives rows the values of others."""

import subprocess
import sys
from functools import partial

import pyarrow as pa
import pytest

from lance_spark.columns.fill_rules import call_key, field_ids, fragment_key, function_identity, same_sources
from lance_spark.format.contents import DataFile, DeletionFile, Field, Fragment

pytestmark = pytest.mark.pure

FIELDS = (
    Field(0, -1, "id", "int64", True, ()),
    Field(1, -1, "s", "struct", True, ()),
    Field(2, 1, "a", "int64", True, ()),
    Field(3, -1, "x", "int64", True, ()),
)
DELETION = DeletionFile(1, 4, 77, 2, None)


def fragment(number=0, files=(("one", (0, 2)), ("two", (3,))), deletion=None, rows=10):
    return Fragment(
        number, tuple(DataFile(path, fields, 9, None) for path, fields in files), deletion, rows, b"", False
    )


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (("id",), {"id": (0,)}),
        (("s", "x"), {"s": (1, 2), "x": (3,)}),
        (("a",), {}),
        ((), {}),
    ],
)
def test_the_ids_of_columns_and_of_what_is_inside(columns, found):
    assert field_ids(FIELDS, columns) == found


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (fragment(), True),
        (fragment(files=(("two", (3,)), ("one", (0, 2)))), True),
        (fragment(files=(("one", (0, 2)), ("new", (3,)))), True),  # of a column that is not read
        (fragment(files=(("new", (0, 2)), ("two", (3,)))), False),
        (fragment(files=(("one", (-2, 2)), ("new", (0,)), ("two", (3,)))), False),
        (fragment(number=1), False),
        (fragment(rows=11), False),
    ],
)
def test_a_fragment_is_the_same_if_what_is_read_of_it_is(other, same):
    inputs = {0, 2}
    assert same_sources(fragment(), other, inputs) == same
    assert (fragment_key(fragment(), inputs) == fragment_key(other, inputs)) == same


def test_a_record_does_not_outlive_a_deletion():
    assert fragment_key(fragment(), {0}) != fragment_key(fragment(deletion=DELETION), {0})
    assert same_sources(fragment(), fragment(deletion=DELETION), {0})


def test_a_call_is_told_by_what_it_computes_the_types_and_the_tag():
    schema = pa.schema([("y", pa.int32())])
    keys = [
        call_key("f", schema, ""),
        call_key("g", schema, ""),
        call_key("f", pa.schema([("y", pa.int64())]), ""),
        call_key("f", pa.schema([("z", pa.int32())]), ""),
        call_key("f", schema, "model 2"),
    ]
    assert len(set(keys)) == len(keys)
    assert call_key("f", schema, "") == keys[0]


class Model:
    size = 1

    def __init__(self, name="a"):
        self.name = name

    def __call__(self, batch):
        return {"y": batch["id"]}


class OtherModel(Model):
    def __call__(self, batch):
        return {"y": batch["x"]}


def times(factor):
    return lambda batch: {"y": [factor * value for value in batch["id"].to_pylist()]}


def test_functions_are_told_by_name_code_and_plain_values():
    functions = [
        times(2),
        times(3),
        lambda batch: {"y": batch["id"]},
        lambda batch: {"y": batch["x"]},
        Model,
        OtherModel,
        Model("a"),
        Model("b"),
        len,
    ]
    found = [function_identity(function) for function in functions]
    assert len(set(found)) == len(found)
    assert function_identity(times(2)) == found[0]
    assert function_identity(Model("a")) == found[6]
    assert function_identity(partial(len)) not in found


def test_a_function_is_the_same_in_another_process():
    code = """
from lance_spark.columns.fill_rules import function_identity
WORDS = "b"
def function(batch):
    return {"y": [WORDS, batch["id"] in {"a", "b", "c", "d"}, lambda value: value + 1]}
print(function_identity(function))
"""
    done = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout for _ in "ab"
    }
    other = subprocess.run(
        [sys.executable, "-c", code.replace('= "b"', '= "c"')], capture_output=True, text=True, check=True
    )
    assert len(done) == 1
    assert other.stdout not in done
