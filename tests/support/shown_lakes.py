"""A lake for the pages: branches, a conflict, hostile names and texts, images of which some are none, and vectors."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import lance
import pyarrow as pa

from lance_spark import LanceCatalog
from lance_spark.tables.write import finish
from support.branched_lakes import begin_table

SCRIPT = "<script>document.title='taken'</script>"
HOSTILE = (
    SCRIPT,
    '" onmouseover="alert(1)',
    "'; DROP TABLE x; --",
    "مرحبا بالعالم، هذا نص من اليمين إلى اليسار",
    "abc\u202egnp.exe",
    "{{ 7 * 7 }} {% raw %}",
    "x" * 10_000,
    "line one\nline two\n<b>bold</b>",
    "\u0000\u0007control",
    "🦀 ünïcödé 漢字",
)
"""Texts that a careless page would run, mix up or choke on."""


def png(color: tuple[int, int, int], size: int = 24) -> bytes:
    """A picture of one color."""

    def part(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    lines = b"".join(b"\0" + bytes(color) * size for _ in range(size))
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(lines)) + part(b"IEND", b"")


def products(count: int = 60, plain: bool = False) -> pa.Table:
    """Rows with text, numbers, an image, a vector and a list; ``plain`` ones have nothing hostile."""
    pictures = [png((40 + number * 3 % 200, 120, 220 - number * 2 % 200)) for number in range(count)]
    if count > 2 and not plain:
        pictures[1] = pictures[1][:-30]  # none: it only begins like one
        pictures[2] = b"no picture at all"
    notes = ("new in store", "back in stock") if plain else HOSTILE
    vectors = [[((number * 7 + at * 13) % 29) / 29 for at in range(32)] for number in range(count)]
    key = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    table = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "name": [f"product {number}" for number in range(count)],
            "price": [round(2.5 + number * 1.25, 2) for number in range(count)],
            "note": [notes[number % len(notes)] if number % 3 == 0 else None for number in range(count)],
            "picture": pa.array(pictures, pa.binary()),
            "embedding": pa.array(vectors, pa.list_(pa.float32(), 32)),
            "labels": [["new", "sale"][: number % 3] for number in range(count)],
        }
    )
    return table.cast(pa.schema([key, *list(table.schema)[1:]]))


def branch_of(uri: str, name: str) -> lance.LanceDataset:
    """The newest version of a branch."""
    return lance.dataset(f"{uri}/tree/{name}")


def shown_table(uri: str, count: int = 60) -> str:
    """A table with branches that changed the same row differently, one that deleted it, and one that did nothing."""
    lance.write_dataset(products(count), uri, max_rows_per_file=20)
    return with_branches(uri)


def with_branches(uri: str, name_of_seven: str = SCRIPT) -> str:
    """The branches of :func:`shown_table`, on a table with the same rows."""
    dataset = lance.dataset(uri)
    dataset.update({"price": "3.5"}, where="id = 7")
    dataset.tags.create("v1", dataset.version)
    for name in ("exp", "cheaper", "idle", "without-seven"):
        dataset.create_branch(name)
    quoted = name_of_seven.replace("'", "''")
    branch_of(uri, "exp").update({"price": "9.99", "name": f"'{quoted}'"}, where="id = 7")
    branch_of(uri, "exp").update({"price": "price + 1"}, where="id > 50")
    branch_of(uri, "cheaper").update({"price": "price * 0.5"}, where="id < 5")
    branch_of(uri, "without-seven").delete("id = 7")
    lance.dataset(uri).update({"price": "4.25"}, where="id = 7")
    lance.dataset(uri).delete("id = 40")
    return uri


def shown_lake(root: str | Path, tables: int = 4, plain: bool = False) -> LanceCatalog:
    """Tables in namespaces, one as :func:`shown_table` makes it, and a branch of the lake with changes."""
    lake = LanceCatalog(str(root))
    for namespace in ("shop", "shop.archive", "raw"):
        lake.create_namespace(namespace)
    write(lake, "shop.products", products(plain=plain))
    uri = lake.describe_table("shop.products").location.uri
    with_branches(uri, "product seven" if plain else SCRIPT)
    for number in range(tables):
        write(lake, f"raw.events_{number:02}", pa.table({"id": pa.array(range(number * 10 + 3), pa.int64())}))
    lake.branches.create("etl/nightly")
    on_branch = lake.checkout(branch="etl/nightly")
    write(on_branch, "raw.events_00", pa.table({"id": pa.array([100, 101], pa.int64())}))
    return lake


def write(lake: LanceCatalog, name: str, rows: pa.Table) -> None:
    """Appends rows, on the branch of the lake that is checked out."""
    finish(*begin_table(lake, name, rows))
