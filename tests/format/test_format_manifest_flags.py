"""Versions that use what this package does not know are refused, whoever reads them."""

import pytest
from support.manifest_bytes import data_file, field, fragment, head, manifest_file

from lance_spark.errors import Refused
from lance_spark.format.contents import RunDecoder
from lance_spark.format.manifest import check_flags, decode_head, named_files

pytestmark = pytest.mark.pure

KNOWN = [1, 2, 4, 8, 16, 32, 64, 128, 2048]
PAIRED = [256, 1024, 16384]
UNKNOWN = [512, 4096, 8192, *(1 << bit for bit in range(16, 64))]


def manifest(reader=0, writer=0, more=b""):
    return manifest_file(fragment(0, [data_file("a.lance")]) + head(9, (reader, writer), more=more))


@pytest.mark.parametrize(
    "words",
    [(0, 0), (0, 32768), (0, sum(KNOWN)), (sum(KNOWN), 0), (sum(PAIRED), sum(PAIRED)), (1 + 16, 1 + 16 + 32768)]
    + [(flag, 0) for flag in KNOWN]
    + [(flag, flag) for flag in PAIRED],
)
def test_known_flags_are_accepted(words):
    check_flags(decode_head(manifest(*words)))


@pytest.mark.parametrize(
    ("words", "message"),
    [((flag, 0), f"Version 9 has the unknown reader flag {flag}") for flag in [*UNKNOWN, 32768]]
    + [((0, flag), f"Version 9 has the unknown writer flag {flag}") for flag in UNKNOWN]
    + [((flag, 0), f"Version 9 has the flag {flag} only") for flag in PAIRED]
    + [((0, flag), f"Version 9 has the flag {flag} only") for flag in PAIRED]
    + [((2**20 + 2**30 + 1, 1), "reader flag 1048576")],
)
def test_an_unknown_flag_is_refused_by_name(words, message):
    content = manifest(*words)
    with pytest.raises(Refused, match=message):
        check_flags(decode_head(content))
    for read in (named_files, RunDecoder().feed):
        with pytest.raises(Refused, match=message):
            read(content)


@pytest.mark.parametrize("tree", [b"", field(1, 5)])
def test_a_fragment_tree_is_refused_even_without_a_flag(tree):
    for read in (lambda content: check_flags(decode_head(content)), named_files, RunDecoder().feed):
        with pytest.raises(Refused, match="Version 9 keeps its fragments in a tree"):
            read(manifest(more=field(22, tree)))
