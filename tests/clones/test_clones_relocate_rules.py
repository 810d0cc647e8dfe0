"""Which place here may be the counterpart of a base path, and which files prove it."""

import pytest

from lance_spark.clones import base_rules
from lance_spark.format.versions import Root

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("path", "is_dataset", "places"),
    [
        ("/old/t", True, ["old/t", "t", ""]),
        ("/old/t/tree/a/b", True, ["old/t/tree/a/b", "t/tree/a/b", "tree/a/b", "a/b", "b", ""]),
        ("s3://bucket/t/", True, ["bucket/t", "t", ""]),
        ("file:///old/t", True, ["old/t", "t", ""]),
        ("./sub/../t", True, ["sub/t", "t", ""]),
        ("/old/t/extra", False, ["old/t/extra", "t/extra", "extra"]),
    ],
)
def test_where_files_of_a_base_path_may_be_here(path, is_dataset, places):
    assert base_rules.likely_places(path, is_dataset) == places


@pytest.mark.parametrize(
    ("file", "is_there"),
    [
        (base_rules.Needed("data/a.lance", 10), True),
        (base_rules.Needed("data/a.lance", 0), True),
        (base_rules.Needed("data/a.lance", 11), False),
        (base_rules.Needed("data/b.lance", 10), True),
        (base_rules.Needed("data/c.lance", 0), False),
        (base_rules.Needed("_indices/x/", 0), True),
        (base_rules.Needed("_indices/y/", 0), False),
    ],
)
def test_a_file_of_that_name_and_size_is_the_file(file, is_there):
    listed = {"data/a.lance": 10, "data/b.lance": None, "_indices/x/page.lance": 1}
    assert base_rules.missing([file], listed) == ([] if is_there else [file.path])


def test_only_directories_with_files_are_listed():
    assert base_rules.directories(
        [base_rules.Needed("data/a", 0), base_rules.Needed("_deletions/b", 0), base_rules.Needed("data/c/d", 0)]
    ) == [
        "_deletions",
        "data",
    ]
    assert base_rules.directories([base_rules.Needed("a.lance", 0), base_rules.Needed("x/y", 0)]) == [""]


@pytest.mark.parametrize(
    ("uri", "there"),
    [("/old/t", "/new"), ("/old/t/tree/a", "/new/tree/a"), ("/old/tt", None), ("/old", None)],
)
def test_a_uri_below_the_old_root_has_a_counterpart(uri, there):
    assert base_rules.moved(uri, "/old/t", "/new") == there


def state(path, found, target):
    return base_rules.BaseState("exp", 0, path, found, target=Root(target))


def test_the_former_root_is_told_by_what_is_whole():
    found = [
        state("/old/t/", base_rules.OLD, "/new/t"),
        state("/older/t/tree/a", base_rules.OLD, "/new/t/tree/a"),
        state("/half/t", base_rules.INCOMPLETE, "/new/t"),
        state("/other/t", base_rules.FOREIGN, "/new/t"),
        state("/clone/source", base_rules.OLD, "/elsewhere"),
        state("/odd/t/x", base_rules.OLD, "/new/t/y"),
    ]
    assert base_rules.former_roots("/new/t", found) == {"/old/t", "/older/t"}


@pytest.mark.parametrize(
    ("path", "relative"),
    [("t", True), ("./t", True), ("/t", False), ("file:/t", False), ("s3://b/t", False)],
)
def test_a_path_that_counts_from_the_reader(path, relative):
    assert base_rules.BaseUse(0, path, is_dataset=True).is_relative == relative


@pytest.mark.parametrize(
    ("files", "indexes", "dry_run", "said"),
    [
        (1, (), False, "exp: 1 file is read from the new place (exp@3)."),
        (2, (), False, "exp: 2 files are read from the new place (exp@3)."),
        (1, ("i",), False, "exp: 1 file and 1 index are read from the new place (exp@3)."),
        (1, (), True, "exp: 1 file would be read from the new place (exp@3)."),
    ],
)
def test_what_was_done_is_said_in_a_sentence(files, indexes, dry_run, said):
    assert base_rules.Relocated(branch="exp", before=2, version=3, files=files, indexes=indexes).told(dry_run) == said
