"""What the page on limits lists of other writers is what pylance has: what a release adds fails here first."""

import inspect
import re
from contextlib import suppress
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import LanceTable
from lance_spark.core.layout import BOOKKEEPING, STAGING, UNKNOWN, classify
from lance_spark.errors import InvalidOption, Refused
from lance_spark.format import transactions
from lance_spark.format.manifest import _FOOTER, _LENGTH, check_flags, decode_head, manifest_span, parse
from lance_spark.indexes.index_rules import described_kind

PAGE = (Path(__file__).parents[2] / "docs/reference/limits.md").read_text()


def rows(section):
    """The cells of a table below a heading."""
    text = PAGE.split(f"### {section}\n", 1)[1].split("\n#", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell):
    return {name.strip() for name in re.sub(r"\(.*?\)", "", cell).split(",")}


def with_flags(content, reader, writer):
    span = manifest_span(content)
    placed = parse("Placed", content[span.start : span.end])
    placed.reader_flags, placed.writer_flags = reader, writer
    message = placed.SerializeToString()
    head = content[: span.start - _LENGTH.size]
    return head + _LENGTH.pack(len(message)) + message + content[-_FOOTER.size :]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    uri = str(tmp_path_factory.mktemp("flags") / "t.lance")
    lance.write_dataset(pa.table({"a": [1]}), uri)
    (manifest,) = Path(uri, "_versions").glob("*.manifest")
    return uri, manifest, manifest.read_bytes()


def refusal(uri):
    """What pylance says of a version; empty if it opens."""
    try:
        lance.dataset(uri, session=lance.Session())
    except (OSError, ValueError, RuntimeError, NotImplementedError) as problem:
        return str(problem)
    return ""


def test_every_flag_that_pylance_reads_is_listed(plain):
    uri, manifest, content = plain
    listed = {int(row[0]) for row in rows("Feature flags of a version")}
    known, said = set(), {}
    for bit in range(64):
        flag = 1 << bit
        for words in ((flag, flag), (0, flag)):
            made = with_flags(content, *words)
            with suppress(Refused):
                check_flags(decode_head(made))
                known.add(flag)
        manifest.write_bytes(with_flags(content, flag, flag))
        said[flag] = refusal(uri)
    manifest.write_bytes(content)
    assert listed == known
    refused = {flag for flag, words in said.items() if "cannot be read by this version of Lance" in words}
    read = {int(row[0]) for row in rows("Feature flags of a version") if row[2] == "yes"}
    assert {1 << bit for bit in range(64)} - refused == read


def test_every_kind_of_index_that_pylance_knows_is_listed():
    library = next(Path(lance.__file__).parent.glob("lance*.so")).read_bytes()
    found = {
        name.decode()
        for name in re.findall(rb"lance\.(?:table|index\.pb|index)\.([A-Z][A-Za-z]*?)IndexDetails", library)
    }
    listed = rows("Indexes")
    assert found == {name for row in listed for name in names(row[0])}
    for row in listed:
        for name in names(row[0]) - {"Vector"}:
            assert (described_kind(name) is not None) == row[3].startswith("yes"), name


def test_every_operation_of_pylance_is_listed():
    known = {
        name
        for name, each in vars(lance.LanceOperation).items()
        if inspect.isclass(each) and issubclass(each, lance.LanceOperation.BaseOperation)
    } - {"BaseOperation"}
    listed = {name for row in rows("Operations") for name in names(row[0])}
    assert known <= listed, "operations of pylance's Python"
    assert listed == {*transactions._OPERATIONS.values()}


@pytest.mark.parametrize("directory", ["_mem_wal", "_fri", "_blobs", "anything"])
def test_what_nobody_knows_is_kept(directory):
    assert classify(f"{directory}/a/b.lance").kind == UNKNOWN
    assert UNKNOWN not in (STAGING, BOOKKEEPING)


def test_an_index_that_cannot_be_extended_here_says_so(uri):
    text = [f"some words of row {row}" for row in range(40)]
    lance.write_dataset(pa.table({"text": text}), uri)
    lance.dataset(uri).create_scalar_index("text", "MINHASHLSH", name="alike")
    t = LanceTable.for_path(uri)
    (result,) = t.indexes.optimize()
    assert str(result).endswith("nothing to index")
    lance.write_dataset(pa.table({"text": text[:7]}), uri, mode="append")
    (result,) = t.indexes.optimize()
    assert "nothing was built; 7 rows are not covered, as this package cannot extend this kind" in str(result)
    with pytest.raises(InvalidOption, match="cannot build or extend an index of kind 'rtree'") as refused:
        t.indexes.create("text", kind="rtree")
    assert "create_scalar_index(column, 'RTREE')" in refused.value.hint
