"""Names of files: the version of a manifest, the name of a deletion file, and names that are given only once."""

import re

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.core import layout
from lance_spark.errors import CorruptData

pytestmark = pytest.mark.pure


@given(st.integers(0, 2**64 - 1))
def test_the_version_comes_back_from_the_name_of_its_manifest(version):
    newer, old = layout.manifest_names(version)
    assert newer == f"{2**64 - 1 - version:020d}.manifest"
    assert layout.read_manifest_name(newer) == layout.ManifestName(version, detached=False)
    assert layout.read_manifest_name(f"d{version}.manifest") == layout.ManifestName(version, detached=True)
    assert layout.sorts_newest_first(newer)
    assert not layout.sorts_newest_first(f"d{version}.manifest")
    if version < 10**19:
        assert layout.read_manifest_name(old) == layout.ManifestName(version, detached=False)
        assert not layout.sorts_newest_first(old)


@given(st.integers(0, 2**64 - 2))
def test_the_manifest_of_a_newer_version_comes_first_in_a_listing(version):
    assert layout.manifest_names(version + 1)[0] < layout.manifest_names(version)[0]


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".manifest",
        "d.manifest",
        "7.manifest#1",
        "7.manifest.bak",
        "-7.manifest",
        "+7.manifest",
        "7.Manifest",
        "x7.manifest",
        "7.manifest\n",
        "latest_version_hint.json",
        "99999999999999999999.manifest",  # no number of 64 bits: taken for the oldest version, it would go
        "123456789012345678901.manifest",
        "\u0661\u0662.manifest",  # digits, but of a script that no writer uses
        "\u0661" * 20 + ".manifest",
    ],
)
def test_what_is_no_finished_manifest_has_no_version(name):
    assert layout.read_manifest_name(name) is None


def test_a_branch_has_its_files_below_tree():
    assert (layout.branch_root(None), layout.branch_root("exp/a")) == ("", "tree/exp/a/")
    assert (layout.versions_directory(None), layout.versions_directory("exp/a")) == (
        "_versions",
        "tree/exp/a/_versions",
    )
    assert layout.transaction_path("exp/a", "0-x.txn") == "tree/exp/a/_transactions/0-x.txn"
    assert layout.manifest_paths(None, 1) == ("_versions/18446744073709551614.manifest", "_versions/1.manifest")


def test_a_deletion_file_of_an_unknown_type_has_no_name():
    assert layout.deletion_path(3, 7, 2**63, 1) == "_deletions/3-7-9223372036854775808.bin"
    with pytest.raises(CorruptData, match="Fragment 3 has a deletion file of the unknown type 2"):
        layout.deletion_path(3, 7, 1, 2)


@pytest.mark.parametrize(
    ("name", "generated"),
    [
        # As pylance 14.0.2 wrote them, in every file format.
        ("000111000111100111011001bd30f74ee285460d3cc38570f7.lance", True),
        ("1110111001101001101011117517f94bcd92abeea1ff008d70.lance", True),
        # As older writers did.
        ("0c925286-ab97-47db-8065-978e9bd09009.lance", True),
        # Given by hand. A counter of 32 digits looks like an identifier without its dashes, which no writer gives.
        ("part-0.lance", False),
        ("00000000000000000000000000000001.lance", False),
        ("0c925286ab9747db8065978e9bd09009.lance", False),
        ("2024-01-01-0c925286-ab97-47db-8065-978e9bd09009.lance", False),
        ("0c925286-ab97-47db-8065-978e9bd09009.lance.lance", False),
        ("000111000111100111011001BD30F74EE285460D3CC38570F7.lance", False),
        ("000111000111100111011001bd30f74ee285460d3cc38570f7", False),
        ("000111000111100111011001bd30f74ee285460d3cc38570f7.lance\n", False),
        # What a merge calls a copy of a file named by hand: such a file can be replaced, and is then called so again.
        ("4bab99a6d16d47ffa6c7ba70-part-0.lance", False),
        ("4bab99a6d16d47ffa6c7ba70-000111000111100111011001bd30f74ee285460d3cc38570f7.lance", False),
        ("", False),
    ],
)
def test_only_names_that_pylance_generated_are_given_once(name, generated):
    assert layout.is_generated(name) == generated


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
def test_what_pylance_writes_has_the_names_that_are_expected(tmp_path, version):
    """Whatever a write, an update or a compaction leaves: a name that is new here is no mistake of the table above."""
    uri = tmp_path / "t.lance"
    dataset = lance.write_dataset(pa.table({"id": range(9)}), uri, max_rows_per_file=3, data_storage_version=version)
    dataset.delete("id = 4")
    dataset.create_scalar_index("id", "BTREE")
    dataset.update({"id": "id + 100"}, "id < 3")
    dataset.optimize.compact_files()
    deletion = next(
        fragment.metadata.deletion_file
        for fragment in dataset.checkout_version(2).get_fragments()
        if fragment.metadata.deletion_file
    )
    names = {directory.name: sorted(path.name for path in directory.iterdir()) for directory in uri.iterdir()}
    assert names["data"]
    assert all(layout.is_generated(name) for name in names["data"])
    assert (uri / layout.deletion_path(1, deletion.read_version, deletion.id, 0)).is_file()
    written = {name for name in names["_versions"] if name != "latest_version_hint.json"}
    assert written == {layout.manifest_names(entry["version"])[0] for entry in dataset.versions()}
    assert all(re.fullmatch(r"\d+-[0-9a-f-]{36}\.txn", name) for name in names["_transactions"])
