"""A file that is not whole is corrupt: it never looks like a manifest that names nothing."""

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.manifest_bytes import data_file, field, fragment, head, index, manifest_file

from lance_spark.errors import CorruptData, Refused
from lance_spark.format.contents import RunDecoder
from lance_spark.format.manifest import decode_head, named_files

pytestmark = pytest.mark.pure

RECORDS = b"".join(fragment(n, [data_file(f"{n}.lance")]) for n in range(3))
WHOLE = manifest_file(RECORDS + head(), index(UUID(int=1)))
READERS = [decode_head, named_files, RunDecoder().feed]

each_reader = pytest.mark.parametrize("read", READERS, ids=["decode_head", "named_files", "feed"])


def footer(position, magic=b"LANC"):
    return struct.pack("<qhh", position, 0, 2) + magic


@each_reader
@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "has 0 bytes"),
        (b"LANC", "has 4 bytes"),
        (footer(0), "has 16 bytes"),
        (bytes(10), "has 10 bytes"),
        (bytes(len(WHOLE)), "ends in"),
        (WHOLE[:-4] + b"LANX", "ends in"),
        (WHOLE + b"\n", "ends in"),
        (WHOLE[:-16] + footer(-1), "points to byte -1"),
        (WHOLE[:-16] + footer(2**62), "points to byte 46116"),
        (WHOLE[:-16] + footer(len(WHOLE) - 19), "points to byte"),
        (WHOLE[:-16] + footer(0), "message ends at byte"),
        (WHOLE[40:], "damaged"),
        (bytes(len(WHOLE) - 16) + WHOLE[-16:], "message ends at byte"),
        (WHOLE[:-20] + WHOLE[-16:], "message ends at byte"),
        (WHOLE[:-16] + WHOLE, "message ends at byte"),
        (manifest_file(bytes(50)), "damaged"),
    ],
)
def test_a_damaged_file_is_told_by_what_is_wrong(read, content, word):
    with pytest.raises(CorruptData, match=word):
        read(content)


@each_reader
def test_every_beginning_of_a_file_is_corrupt(read):
    for size in range(len(WHOLE)):
        with pytest.raises(CorruptData):
            read(WHOLE[:size])


@pytest.mark.parametrize("read", READERS[1:], ids=["named_files", "feed"])
@pytest.mark.parametrize(
    ("length", "position"), [(20, 1000), (20, 21), (21, 0), (2**32 - 1, 0), (20, 2**63), (20, 2**64 - 1)]
)
def test_an_index_section_lies_in_front_of_the_message(read, length, position):
    sections = struct.pack("<I", length) + bytes(20)
    message = head() + field(6, position)
    content = sections + struct.pack("<I", len(message)) + message + footer(len(sections))
    with pytest.raises(CorruptData, match="index section"):
        read(content)


@pytest.mark.parametrize("before", [[], [WHOLE]], ids=["first", "second"])
def test_a_fragment_does_not_reach_into_the_footer(before):
    message = head() + b"\x12\x04\x08\x01"
    content = bytes(0x0120) + struct.pack("<I", len(message)) + message + footer(0x0120)
    assert content[-16:].startswith(b"\x20\x01"), "the footer would do as the end of the fragment"
    decoder = RunDecoder()
    for manifest in before:
        decoder.feed(manifest)
    for read in (named_files, decoder.feed):
        with pytest.raises(CorruptData, match="damaged"):
            read(content)


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_wrong_byte_makes_both_readers_say_the_same(position, change):
    content = bytearray(WHOLE)
    content[position] ^= change
    assert outcome(named_files, bytes(content)) == outcome(all_added, bytes(content))


def all_added(content):
    _, added, removed = RunDecoder().feed(content)
    assert not removed
    return set(added)


def outcome(read, content):
    try:
        return read(content)
    except (CorruptData, Refused) as problem:
        return type(problem)
