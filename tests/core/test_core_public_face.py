"""What ``import lance_spark`` shows: the public names, what each of them is, and that the documentation has them."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lance_spark
from lance_spark import errors

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
NAMES = [
    "BooleanQuery",
    "BoostQuery",
    "CleanupPolicy",
    "LanceCatalog",
    "LanceDataSource",
    "LanceTable",
    "MaintenancePolicy",
    "MatchQuery",
    "MultiMatchQuery",
    "PhraseQuery",
    "VersionRule",
    "capabilities",
    "progress_bar",
    "register",
    "register_search",
    "storage_options_provider",
    "unregister",
]
WITH_TORCH = ["Batching", "FrozenBatches", "FrozenRows"]
HANDLE = [
    "add_columns",
    "add_columns_from",
    "add_columns_with",
    "alter_columns",
    "analyze",
    "blobs",
    "branch",
    "branches",
    "browse",
    "changes",
    "checkout",
    "cherry_pick",
    "cleanup",
    "clone",
    "compact_wal",
    "constraints",
    "count_rows",
    "delete",
    "diff",
    "disable_auto_cleanup",
    "drop_columns",
    "enable_auto_cleanup",
    "expire_refs",
    "flatten",
    "frozen",
    "fsck",
    "head",
    "history",
    "indexes",
    "layout",
    "log",
    "maintain",
    "merge",
    "near_duplicates",
    "nearest_join",
    "open_cleanup_plan",
    "optimize",
    "overwrite",
    "query",
    "reflog",
    "relocate",
    "remotes",
    "rename_columns",
    "repair",
    "restore",
    "revert",
    "schema",
    "search",
    "storage",
    "streams",
    "tags",
    "to_df",
    "transaction",
    "undo_repair",
    "update",
    "update_columns",
    "update_columns_from",
    "update_columns_with",
    "version",
    "versions",
    "write",
]
"""Of a handle, beside what it is made of."""


def test_the_package_shows_its_names_and_nothing_else():
    assert lance_spark.__all__ == NAMES
    assert dir(lance_spark) == sorted([*NAMES, *WITH_TORCH, "__version__", "errors"])
    assert lance_spark.errors is errors
    with pytest.raises(AttributeError, match="lance_spark has no 'upsert_batches'"):
        _ = lance_spark.upsert_batches


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_documented_and_typed(name):
    thing = getattr(lance_spark, name)
    assert thing.__name__ == name
    assert inspect.getdoc(thing)
    if inspect.isfunction(thing):
        assert "return" in thing.__annotations__
        assert all(each.annotation is not each.empty for each in inspect.signature(thing).parameters.values())


def test_completion_of_a_handle_shows_its_nouns_and_verbs():
    shown = {name for name in dir(lance_spark.LanceTable) if not name.startswith("_")}
    assert shown - {"for_path"} == set(HANDLE)


def test_every_verb_of_a_handle_says_what_it_does_and_of_which_types():
    for name in HANDLE:
        thing = inspect.getattr_static(lance_spark.LanceTable, name)
        call = inspect.unwrap(getattr(thing, "fget", None) or getattr(thing, "__func__", None) or thing)
        assert inspect.getdoc(thing), name
        given = inspect.signature(call).parameters.values()
        assert all(each.annotation is not each.empty for each in given if each.name != "self"), name
        assert inspect.signature(call).return_annotation is not inspect.Signature.empty, name


def test_the_documentation_imports_from_the_package_and_its_errors_only():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "conf").glob("*.md")]
    found = {
        (page.name, line)
        for page in pages
        for line in re.findall(r"^from lance_spark\.(?!errors )\S+ import .*", page.read_text(), re.MULTILINE)
    }
    assert found == set()


def test_importing_the_package_loads_neither_spark_nor_pylance():
    code = "import sys, lance_spark; print(sorted({'pyspark', 'lance', 'pyarrow', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_types_are_declared_to_checkers():
    assert (Path(lance_spark.__file__).parent / "py.typed").is_file()
