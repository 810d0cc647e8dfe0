"""What a file is, told by its path: a wrong answer deletes a file that somebody needs, or one that is not Lance's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.core import layout

pytestmark = pytest.mark.pure

KINDS = (layout.MANIFEST, layout.DATA, layout.BLOB, layout.DELETION, layout.INDEX, layout.TRANSACTION, layout.STAGING)
UUID = "0a1b2c3d-0000-4444-8888-0123456789ab"
BLOB_NAME = "1" + "0" * 31 + ".blob"
DATA_NAME = "01" * 12 + "0123456789ab4def8123456789"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"data/{DATA_NAME}.lance", layout.DATA),
        ("data/0a1b2c3d-0000-4444-8888-0123456789ab.lance", layout.DATA),
        ("data/part-0.lance", layout.DATA),
        ("data/2024%2Fpart-0.lance", layout.DATA),
        ("data/.tmpA1b2C3", layout.STAGING),
        ("data/sub/.tmpA1b2C3", layout.STAGING),
        ("_transactions/.tmpA1b2C3", layout.STAGING),
        ("_backfill/0a1b/2c3d.json", layout.STAGING),
        ("_deletions/.tmpA1b2C3", layout.STAGING),
        ("_versions/.tmp_1.manifest_0a1b", layout.STAGING),
        ("_versions/18446744073709551614.manifest#1", layout.STAGING),
        (f"_versions/18446744073709551614.manifest-{UUID}", layout.STAGING),
        ("_versions/d9223372036854775809.manifest#1", layout.STAGING),
        ("_versions/18446744073709551614.manifest", layout.MANIFEST),
        ("_versions/7.manifest", layout.MANIFEST),
        ("_versions/d9223372036854775809.manifest", layout.MANIFEST),
        (f"_transactions/7-{UUID}.txn", layout.TRANSACTION),
        ("_deletions/0-1-17.arrow", layout.DELETION),
        ("_deletions/0-1-17.bin", layout.DELETION),
    ],
)
def test_a_file_that_versions_name_or_writers_leave_is_known_by_its_path(path, kind):
    assert layout.classify(path) == layout.Named(kind, path)
    assert kind in KINDS


def test_a_data_file_in_a_subdirectory_is_known_by_the_name_with_which_pylance_would_store_it():
    assert layout.classify("data/2024/01/part.lance") == layout.Named(layout.DATA, "data/2024%2F01%2Fpart.lance")


def test_a_blob_is_known_by_its_data_file():
    assert layout.classify(f"data/{DATA_NAME}/{BLOB_NAME}") == layout.Named(layout.BLOB, f"data/{DATA_NAME}.lance")
    assert layout.classify(f"data/a.b/{BLOB_NAME}") == layout.Named(layout.BLOB, "data/a.b.lance")


@pytest.mark.parametrize("rest", ["index.idx", "part_0/page.lance", ".tmpabc", "a/b/c"])
def test_every_file_of_an_index_is_known_by_the_directory(rest):
    assert layout.classify(f"_indices/{UUID}/{rest}") == layout.Named(layout.INDEX, f"_indices/{UUID}")


@pytest.mark.parametrize(
    "path",
    [
        "_refs/tags/v1.json",
        "_refs/branches/a%2Fb.json",
        "_clones/c.json",
        "_streams/7-0a1b.json",
        "_versions/latest_version_hint.json",
        "_latest.manifest",
        ".lance-reserved",  # of a name that a catalog declared
    ],
)
def test_bookkeeping_is_never_of_a_kind_that_goes(path):
    assert layout.classify(path).kind == layout.BOOKKEEPING
    assert layout.BOOKKEEPING not in KINDS


@pytest.mark.parametrize(
    "path",
    [
        "",
        "README.md",
        "part-0.lance",
        "data",
        "data/",
        "data/x.lance/",
        f"_indices/{UUID}/",
        "_versions/7.manifest/",
        "_transactions/a.txn/",
        "/data/x.lance",
        "data//x.lance",
        "data/./x.lance",
        "data/../../other.lance/data/x.lance",
        f"_indices/{UUID}/../../data/x.lance",
        "data/x.parquet",
        "data/x.lance.bak",
        f"data/{BLOB_NAME}",
        f"data/sub/stem/{BLOB_NAME}",
        f"data/stem/{'2' * 32}.blob",
        f"data/stem/{'0' * 31}.blob",
        f"_blobs/{UUID}.blob",
        "_indices/stray.idx",
        "_indices/not-an-id/index.idx",
        f"_indices/{UUID.upper()}/index.idx",
        f"_indices/{UUID}",
        "_transactions/a.txn.bak",
        "_transactions/sub/a.txn",
        "_deletions/a.parquet",
        "_deletions/sub/0-1-17.arrow",
        "_versions/notes.txt",
        "_versions/sub/7.manifest",
        "_versions/7.manifest.bak",
        "_versions/d7.manifestx",
        "_mem_wal/x/1.wal",
        "tree/gone/data/x.lance",
        "Data/x.lance",
    ],
)
def test_whatever_else_lies_there_is_unknown(path):
    assert layout.classify(path) == layout.Named(layout.UNKNOWN, path)
    assert layout.UNKNOWN not in KINDS


@given(
    st.text("/._-#d01a", max_size=12).flatmap(
        lambda tail: st.sampled_from(["data/", "_versions/", ""]).map(lambda head: head + tail)
    )
)
def test_a_path_that_another_path_may_mean_as_well_is_never_of_a_kind_that_goes(path):
    if any(part in ("", ".", "..") for part in path.split("/")):
        assert layout.classify(path).kind == layout.UNKNOWN


ROOTS = ["", "tree/a", "tree/a/b", "tree/ab", "tree/x/y"]
PATHS = st.lists(st.sampled_from(["tree", "a", "b", "ab", "x", "y", "data", "f"]), min_size=1, max_size=6).map("/".join)


@given(roots=st.sets(st.sampled_from(ROOTS)), paths=st.lists(PATHS, max_size=10))
def test_a_file_belongs_to_the_deepest_root_above_it(roots, paths):
    owners = layout.Roots(roots)
    for path in paths:
        above = [root for root in roots if root and path.startswith(f"{root}/")]
        assert owners.owner(path) == max(above, key=len, default="")


def test_branches_inside_the_directory_of_another_branch_own_their_files():
    owners = layout.Roots(ROOTS)
    assert owners.owner("data/x.lance") == ""
    assert owners.owner("tree/a/data/x.lance") == "tree/a"
    assert owners.owner("tree/a/b/data/x.lance") == "tree/a/b"
    assert owners.owner("tree/a/bc/data/x.lance") == "tree/a"
    assert owners.owner("tree/abc/data/x.lance") == ""
    assert owners.owner("tree/a") == ""
