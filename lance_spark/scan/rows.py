"""A range of row addresses in the form pylance's scanner takes."""

from __future__ import annotations

import struct

from pyroaring import BitMap


def row_address_set(fragment_id: int, first: int, count: int) -> bytes:
    """The rows [first, first + count) of one fragment, as a serialised Lance ``RowAddrTreeMap``.

    Layout: number of fragments, then for each its id, the length of its bitmap and the bitmap in Roaring's
    portable format; all numbers are little-endian u32. Read by ``scanner(row_addr_allowlist=...)``.
    """
    rows = BitMap()
    rows.add_range(first, first + count)
    rows.run_optimize()
    bitmap = rows.serialize()
    return struct.pack("<III", 1, fragment_id, len(bitmap)) + bitmap
