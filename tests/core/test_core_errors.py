"""Errors: one tree, one exit code each, and messages that survive the way from a worker to the driver."""

import copy
import inspect
import pickle

import pytest

from lance_spark import errors
from lance_spark.errors import LanceSparkError

pytestmark = pytest.mark.pure

EXIT_CODES = {
    "LanceSparkError": 1,
    "InvalidOption": 2,
    "InvalidName": 2,
    "NoSuchName": 2,
    "WrongArguments": 2,
    "Refused": 3,
    "NotCommittable": 3,
    "NotInstalled": 4,
    "SchemaMismatch": 5,
    "NotFound": 10,
    "AlreadyExists": 11,
    "Conflict": 12,
    "StorageFailure": 20,
    "PermissionDenied": 21,
    "CorruptData": 22,
    "StorageFull": 23,
    "ReportFailure": 24,
}
TREE = {
    name: kind
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, Exception) and not issubclass(kind, Warning) and kind.__module__ == errors.__name__
}


def test_the_tree_has_exactly_the_documented_classes_and_exit_codes():
    assert {name: kind.exit_code for name, kind in TREE.items()} == EXIT_CODES
    assert all(issubclass(kind, LanceSparkError) for kind in TREE.values())


@pytest.mark.parametrize(
    ("kind", "also"),
    [
        (errors.InvalidOption, ValueError),
        (errors.InvalidName, errors.InvalidOption),
        (errors.NoSuchName, AttributeError),
        (errors.WrongArguments, TypeError),
        (errors.NotInstalled, ModuleNotFoundError),
        (errors.SchemaMismatch, ValueError),
        (errors.NotFound, LookupError),
        (errors.PermissionDenied, errors.StorageFailure),
    ],
)
def test_an_error_is_caught_as_what_a_caller_would_expect(kind, also):
    assert issubclass(kind, also)


def test_absent_and_unreachable_are_never_one_another():
    assert not issubclass(errors.NotFound, errors.StorageFailure)
    assert not issubclass(errors.StorageFailure, errors.NotFound)
    assert not issubclass(errors.StorageFailure, LookupError)


@pytest.mark.parametrize("kind", TREE.values(), ids=TREE)
@pytest.mark.parametrize("hint", [None, "do this"])
def test_an_error_keeps_its_class_message_and_hint_through_pickle_and_copy(kind, hint):
    for again in (pickle.loads(pickle.dumps(kind("what", hint))), copy.copy(kind("what", hint))):
        assert type(again) is kind
        assert (again.message, again.hint, str(again)) == ("what", hint, str(kind("what", hint)))


def test_the_message_comes_first_and_the_hint_on_its_own_line():
    assert str(LanceSparkError("what is wrong", "what to do")) == "what is wrong\n  hint: what to do"
    assert str(LanceSparkError("what is wrong")) == str(LanceSparkError("what is wrong", "")) == "what is wrong"
