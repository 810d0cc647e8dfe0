"""Where the files lie that a manifest names: base paths in every spelling, of branches, clones and unknown places."""

import posixpath

import pytest
from support.cleanup_surveys import CLONE, ROOT, chain, realpath, survey

from lance_spark.cleanup.reference_rules import ANYWHERE, KeyResolver
from lance_spark.format.manifest import BasePath, NamedFile

pytestmark = pytest.mark.pure


def resolver(*chains, repositories=(ROOT, CLONE)):
    return KeyResolver(survey(*(chains or (chain(),)), repositories=repositories), realpath)


def in_base(path, name="data/x.lance", is_dataset_root=True):
    return NamedFile(BasePath(path, is_dataset_root), name)


SPELLINGS = [
    ROOT,
    f"{ROOT}/",
    f"{ROOT}//",
    f"file://{ROOT}",
    f"file://{ROOT}/",
    f"file:{ROOT}",
    f"FILE://localhost{ROOT}",
    "/warehouse/./t.lance",
    "/warehouse/other/../t.lance",
    "/links/table",
    "file:///links/table/",
    "t.lance",
    "./t.lance",
    "sub/../t.lance",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_base_path_into_the_dataset_is_known_in_every_spelling(spelling):
    assert resolver().resolve(chain("a"), in_base(spelling)) == ("data/x.lance", "data/x.lance")
    assert not resolver().is_foreign(BasePath(spelling, True))


@pytest.mark.parametrize("spelling", ["t.lance", "./t.lance", "warehouse/t.lance", "../warehouse/t.lance"])
def test_a_relative_base_path_is_the_dataset_wherever_the_job_runs(spelling):
    elsewhere = KeyResolver(survey(chain(), chain("a/b")), lambda path: posixpath.join("/somewhere/else", path))
    assert elsewhere.resolve(chain("a"), in_base(spelling)) == ("data/x.lance", "data/x.lance")
    assert elsewhere.resolve(chain("b"), in_base(f"{spelling}/tree/a/b/")) == ("tree/a/b/data/x.lance", "data/x.lance")


@pytest.mark.parametrize("spelling", ["other.lance", "lance", "t.lance/other", "t.lance/x/t.lance", "tree/a", "."])
def test_a_relative_base_path_of_another_name_is_not_taken_for_the_dataset(spelling):
    elsewhere = KeyResolver(survey(chain()), lambda path: posixpath.normpath(posixpath.join("/somewhere/else", path)))
    assert elsewhere.is_foreign(BasePath(spelling, True))


@pytest.mark.parametrize(
    "spelling",
    ["s3://b/w/t a.lance", "s3a://b/w/t a.lance/", "s3n://b/w/t%20a.lance", "S3://b/w/t%20a.lance//"],
)
def test_a_base_path_in_an_object_store_is_known_in_every_spelling(spelling):
    own = resolver(repositories=("s3://b/w/t%20a.lance",))
    assert own.resolve(chain("a"), in_base(spelling)) == ("data/x.lance", "data/x.lance")


def test_a_base_path_of_a_branch_is_found_under_its_name_as_the_store_lists_it():
    own = resolver(chain(), chain("é x"), repositories=("s3://b/t",))
    for spelling in ("s3://b/t/tree/é x", "s3a://b/t/tree/%C3%A9%20x/"):
        assert own.resolve(chain("b"), in_base(spelling)) == ("tree/é x/data/x.lance", "data/x.lance")


def test_a_percent_sign_in_a_local_path_is_no_escape():
    own = resolver(chain(), chain("a"), repositories=("/w/100%25",))
    assert own.resolve(chain(), in_base("/w/100%25/tree/a")) == ("tree/a/data/x.lance", "data/x.lance")
    assert own.resolve(chain(), in_base("/w/100%25/data/a%25b", "x.lance", False))[0] == "data/a%25b%2Fx.lance"
    assert own.is_foreign(BasePath("/w/100%", True))


@pytest.mark.parametrize("spelling", ["", "/", "//", "x/.."])
def test_files_of_branches_inside_one_another_are_known_by_the_branch_they_lie_in(spelling):
    own = resolver(chain(), chain("a"), chain("a/b"), chain("a/b/c/d"))
    suffix = "/x/.." if spelling == "x/.." else spelling
    for root in ("tree/a", "tree/a/b", "tree/a/b/c/d"):
        expected = (f"{root}/data/x.lance", "data/x.lance")
        assert own.resolve(chain("z"), in_base(f"{ROOT}/{root}{suffix}")) == expected


def test_files_without_a_base_path_lie_in_the_directory_of_their_version():
    file = NamedFile(None, "_indices/u")
    own = resolver(chain(), chain("a/b"))
    assert own.resolve(chain(), file) == ("_indices/u", "_indices/u")
    assert own.resolve(chain("a/b"), file) == ("tree/a/b/_indices/u", "_indices/u")
    assert own.resolve(chain(repository=1), file) is None
    assert own.resolve(chain("a/b", repository=1), file) is None


def test_a_base_path_that_is_a_directory_of_the_dataset_names_its_files():
    assert resolver().resolve(chain(), in_base(f"{ROOT}/data", "x.lance", False)) == ("data/x.lance", "data/x.lance")


@pytest.mark.parametrize("spelling", [CLONE, f"{CLONE}/", f"file://{CLONE}", f"{CLONE}/tree/a", "/links/clone/tree/a"])
def test_a_file_in_a_clone_is_not_the_datasets(spelling):
    own = resolver(chain(), chain(repository=1))
    assert own.resolve(chain(repository=1), in_base(spelling)) is None
    assert not own.is_foreign(BasePath(spelling, True))


@pytest.mark.parametrize(
    "spelling",
    [
        "/old/t.lance",
        f"{ROOT}2",
        f"{ROOT}.old/tree/a",
        f"{CLONE}2",
        "/warehouse",
        f"{ROOT}/..",
        f"{CLONE}/../../old/t.lance",
        "s3://bucket/warehouse/t.lance",
        "old.lance",
        "https:///nowhere",
        "",
    ],
)
def test_a_file_in_an_unknown_base_is_marked_wherever_it_may_be_by_now(spelling):
    own = resolver(chain(), chain("a"), chain(repository=1))
    for each in (chain(), chain("a"), chain(repository=1)):
        assert own.resolve(each, in_base(spelling)) == (f"{ANYWHERE}data/x.lance", "data/x.lance")
        assert own.resolve(each, in_base(spelling, "x.lance", False)) == (f"{ANYWHERE}data/x.lance", "data/x.lance")
        assert own.resolve(each, in_base(spelling, "_indices/u")) == (f"{ANYWHERE}_indices/u", "_indices/u")
    assert own.is_foreign(BasePath(spelling, True))
