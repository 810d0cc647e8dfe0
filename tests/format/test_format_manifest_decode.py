"""What one manifest says: its head, and the names of all files in it."""

from uuid import UUID

import pytest
from support.manifest_bytes import (
    column,
    data_file,
    deletion_file,
    field,
    fragment,
    head,
    index,
    manifest_file,
)

from lance_spark.errors import CorruptData
from lance_spark.format.manifest import BasePath, ManifestHead, NamedFile, decode_head, named_files

pytestmark = pytest.mark.pure

ROOT = BasePath("s3://bucket/main/", True)
SHELF = BasePath("file:///shelf", False)
BASES = {0: ROOT, 2: SHELF}
IDENTIFIER = UUID("0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9")


def names(*records, indices=None, **arguments):
    return named_files(manifest_file(column("id", 0) + b"".join(records) + head(**arguments), indices))


def own(*paths):
    return {NamedFile(None, path) for path in paths}


def test_the_head_tells_everything_but_the_fragments():
    message = head(7, (16, 48), "6-a.txn", BASES, field(20, "exp/a") + field(22, b""))
    content = manifest_file(fragment(0, [data_file("a.lance")]) + message)
    assert decode_head(content) == ManifestHead(
        version=7,
        timestamp_ns=1_700_000_000_000_000_007,
        reader_flags=16,
        writer_flags=48,
        branch="exp/a",
        transaction_file="6-a.txn",
        has_fragment_tree=True,
        bases=BASES,
    )


def test_what_an_old_writer_left_out_of_the_head_is_absent():
    assert decode_head(manifest_file(field(3, 1))) == ManifestHead(1, 0, 0, 0, None, None, False, {})


@pytest.mark.parametrize("version", [1, 2**63 + 5, 2**64 - 1])
def test_a_version_number_may_have_its_highest_bit_set(version):
    assert decode_head(manifest_file(head(version))).version == version


@pytest.mark.parametrize(("nanos", "stamp"), [(999_999_999, -1), (0, -1_000_000_000)])
def test_a_time_before_the_epoch_is_negative(nanos, stamp):
    message = field(3, 1) + field(7, field(1, -1) + field(2, nanos))
    assert decode_head(manifest_file(message)).timestamp_ns == stamp


def test_a_manifest_without_fragments_names_its_transaction():
    assert names(transaction="0-x.txn") == own("_transactions/0-x.txn")
    assert names() == frozenset()


def test_data_files_are_below_the_data_directory():
    assert names(fragment(0, [data_file("a.lance"), data_file("x/b.lance")]), fragment(1, [data_file("c.lance")])) == (
        own("data/a.lance", "data/x%2Fb.lance", "data/c.lance")
    )


def test_files_of_another_base_are_told_from_own_files_even_if_its_id_is_0():
    files = [data_file("a.lance"), data_file("a.lance", base=0), data_file("a.lance", base=2)]
    assert names(fragment(0, files), bases=BASES) == {
        NamedFile(None, "data/a.lance"),
        NamedFile(ROOT, "data/a.lance"),
        NamedFile(SHELF, "a.lance"),
    }


def test_a_deletion_file_is_named_after_its_fragment():
    records = [
        fragment(0, [], deletion_file(3, 2**64 - 1)),
        fragment(1, []),
        fragment(2**32 - 1, [], deletion_file(4, 2**63, kind=1)),
        fragment(5, [], deletion_file(0, 0, base=0)),
    ]
    assert names(*records, bases=BASES) == own(
        "_deletions/0-3-18446744073709551615.arrow", "_deletions/4294967295-4-9223372036854775808.bin"
    ) | {NamedFile(ROOT, "_deletions/5-0-0.arrow")}


def test_overlays_are_data_files():
    overlay = field(11, field(1, data_file("o.lance"))) + field(11, field(1, data_file("p.lance", base=2)))
    assert names(fragment(1, [data_file("a.lance")], more=overlay), bases=BASES) == own(
        "data/a.lance", "data/o.lance"
    ) | {NamedFile(SHELF, "p.lance")}


@pytest.mark.parametrize("number", [6, 8, 10])
def test_row_ids_and_row_versions_in_files_of_their_own_are_below_the_root(number):
    records = [fragment(n, [], more=field(number, field(1, f"_rows/{n}.bin") + field(3, 8))) for n in range(3)]
    assert names(*records) == own("_rows/0.bin", "_rows/1.bin", "_rows/2.bin")


@pytest.mark.parametrize("prefix", [b"", b"pages of a dictionary"])
def test_an_index_is_a_directory_and_its_section_may_be_at_position_0(prefix):
    section = index(IDENTIFIER) + index(IDENTIFIER, base=0) + index(IDENTIFIER, base=2)
    content = manifest_file(head(bases=BASES), section, prefix)
    assert named_files(content) == {
        NamedFile(None, "_indices/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"),
        NamedFile(ROOT, "_indices/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"),
        NamedFile(SHELF, "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"),
    }


def test_fields_may_come_in_any_order():
    records = [fragment(n, [data_file(f"{n}.lance")], deletion_file(1, n)) for n in range(3)]
    expected = names(*records)
    message = records[2] + head() + records[0] + column("id", 0) + records[1]
    assert named_files(manifest_file(message)) == expected


@pytest.mark.parametrize(
    ("record", "word"),
    [
        (fragment(1, [data_file("a.lance", base=1)]), "base 1"),
        (fragment(1, [data_file("a.lance", base=2**32)]), "base 4294967296"),
        (fragment(1, [], deletion_file(1, 1, base=1)), "base 1"),
        (fragment(1, [], deletion_file(1, 1, base=2)), "base 2"),
        (fragment(7, [], deletion_file(1, 1, kind=2)), "Fragment 7 .* type 2"),
        (fragment(1, [field(4, 2)]), "no name"),
        (fragment(1, [], more=field(11, b"")), "no name"),
        (fragment(1, [], more=field(6, field(2, 1))), "no name"),
        (fragment(1, [field(1, b"\xff.lance")]), "(?i)utf-8"),
        (fragment(1, [], more=field(11, field(1, field(1, b"\xff")))), "(?i)utf-8"),
        (field(20, b"\xff"), "(?i)utf-8"),
        (field(12, b"\xff"), "(?i)utf-8"),
        (field(18, field(1, 5) + field(4, b"\xff")), "(?i)utf-8"),
        (fragment(1, [], more=field(8, field(1, b"\xff"))), "(?i)utf-8"),
        (fragment(1, [b"\x0a\x7fa"]), "damaged"),
        (field(2, b"\xff"), "damaged"),
        (b"\x12\x7f", "damaged"),
        (b"\0", "damaged"),
    ],
)
def test_a_file_that_cannot_be_told_makes_the_manifest_corrupt(record, word):
    with pytest.raises(CorruptData, match=word):
        named_files(manifest_file(head(bases=BASES) + record))


@pytest.mark.parametrize(
    ("section", "word"),
    [
        (index(IDENTIFIER, base=1), "base 1"),
        (field(1, field(1, field(1, b"short"))), "5 bytes"),
        (field(1, b""), "0 bytes"),
        (b"\xff", "damaged"),
    ],
)
def test_an_index_that_cannot_be_told_makes_the_manifest_corrupt(section, word):
    with pytest.raises(CorruptData, match=word):
        named_files(manifest_file(head(bases=BASES), section))


def test_a_version_without_a_number_is_corrupt():
    for message in (b"", field(20, "exp"), head(0)):
        with pytest.raises(CorruptData, match="no version number"):
            decode_head(manifest_file(message))


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("é.lance", "%C3%A9.lance"),
        ("a~b.lance", "a%7Eb.lance"),
        ("2024/x.lance", "2024%2Fx.lance"),
        ("a%20b.lance", "a%2520b.lance"),
        ('"#%*<>?[\\]^`{|}~', "%22%23%25%2A%3C%3E%3F%5B%5C%5D%5E%60%7B%7C%7D%7E"),
        (" !$&'()+,-.09:;=@AZ_az.lance", " !$&'()+,-.09:;=@AZ_az.lance"),
    ],
)
def test_a_data_file_has_the_name_under_which_pylance_stores_it(name, stored):
    content = manifest_file(fragment(0, [data_file(name)]) + head())
    assert named_files(content) == {NamedFile(None, f"data/{stored}")}
