"""The steps of a search for near duplicates; runs on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, product
from typing import NamedTuple

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.format.schema import ROW_ID, conform_column, in_batches
from lance_spark.scan.fragment_reads import Scan, read_batches
from lance_spark.scan.partition_rules import ScanPartition
from lance_spark.search.duplicate_rules import Pairing, Shingling, Signer, jaccard, members, runs
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated

KEY, DIGEST, SIMILARITY = "key", "digest", "_similarity"
ONE, OTHER, ONES, OTHERS = "one", "other", "ones", "others"
LEFT, RIGHT = "left", "right"
KEYS = pa.schema([(KEY, pa.int64()), (ROW_ID, pa.int64()), (DIGEST, pa.binary())])
"""A row for each band of each text."""
PAIRS = pa.schema(
    [(ONE, pa.int64()), (OTHER, pa.int64()), (ONES, pa.list_(pa.int64())), (OTHERS, pa.list_(pa.int64()))]
)
"""Two rows to compare, and all rows that have the same parts as each; with one row twice: those with the same parts."""
_AT_ONCE = 4096
"""How many pairs, or output rows, per batch."""


class DuplicatesWork(NamedTuple):
    location: DatasetLocation
    pin: PinnedVersion
    column: str
    filter: str | None
    columns: tuple[str, ...]
    """The columns shown of each row of a pair."""
    signer: Signer
    threshold: float
    row: pa.Schema
    """_rowid and these columns, in their output types."""
    pairing: Pairing = Pairing()

    @property
    def wire(self) -> pa.Schema:
        row = pa.struct(list(self.row))
        return pa.schema(
            [pa.field(LEFT, row, False), pa.field(RIGHT, row, False), pa.field(SIMILARITY, pa.float64(), False)]
        )


def sign_texts(work: DuplicatesWork, scan: Scan, partition: ScanPartition) -> Iterator[pa.RecordBatch]:
    """KEYS of the rows of a partition."""
    for batch in read_batches(scan, partition):
        ids = batch.column(batch.schema.get_field_index(ROW_ID)).to_pylist()
        texts = batch.column(batch.schema.get_field_index(work.column)).to_pylist()
        places, digests, keys = work.signer.keys(texts)
        rows = [ids[place] for place in places]
        for band in range(keys.shape[1]):
            columns = [pa.array(keys[:, band]), pa.array(rows, pa.int64()), pa.array(digests, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=KEYS)


def pair_rows(pairing: Pairing, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """PAIRS from KEYS that are sorted by key, with all rows of a key; the same pair may appear several times.

    Raises Refused for too many.
    """
    yield from in_batches(_pairs(pairing, batches), PAIRS, _AT_ONCE)


def compare_pairs(work: DuplicatesWork, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pairs of rows that are similar enough, from distinct PAIRS."""
    for batch in batches:
        for start in range(0, batch.num_rows, _AT_ONCE):
            found = _alike(work, batch.slice(start, _AT_ONCE))
            while part := list(islice(found, _AT_ONCE)):
                yield _shown(work, part)


def _pairs(pairing: Pairing, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, list[int], list[int]]]:
    """The last key of a batch may continue in the next one."""
    held = KEYS.empty_table()
    for batch in batches:
        held = pa.concat_tables([held, pa.Table.from_batches([batch], KEYS)])
        keys = held[KEY].to_numpy()
        last = int(keys.searchsorted(keys[-1])) if len(keys) else 0
        yield from _pairs_of(pairing, held.slice(0, last))
        held = held.slice(last)
        # Checked early: a key must not accumulate more rows than can be paired.
        pairing.check_rows(held[ROW_ID].slice(0, pairing.max_group + 1).to_pylist())
    yield from _pairs_of(pairing, held)


def _pairs_of(pairing: Pairing, table: pa.Table) -> Iterator[tuple[int, int, list[int], list[int]]]:
    if table.num_rows < 2:
        return
    ids, digests = table[ROW_ID].to_pylist(), table[DIGEST].to_pylist()
    for begin, end in runs(table[KEY].to_numpy()):
        pairing.check_rows(ids[begin:end])
        groups = members(ids[begin:end], digests[begin:end])
        yield from ((one[0], other[0], one, other) for one, other in pairing.pairs(groups))


def _alike(work: DuplicatesWork, batch: pa.RecordBatch) -> Iterator[tuple[int, int, float]]:
    """All pairs of rows, the smaller id first."""
    pairs = list(zip(*(batch.column(name).to_pylist() for name in (ONE, OTHER, ONES, OTHERS)), strict=True))
    compared = sorted({row for one, other, _, _ in pairs if one != other for row in (one, other)})
    texts = _taken(work, compared, (work.column,))[work.column].to_pylist() if compared else []
    shingling: Shingling = work.signer.shingling
    parts = {row: shingling.parts(text) for row, text in zip(compared, texts, strict=True)}
    for one, other, ones, others in pairs:
        if one == other:
            yield from ((*pair, 1.0) for pair in work.pairing.equal(ones))
            continue
        similarity = jaccard(parts[one], parts[other])
        if similarity >= work.threshold:
            yield from ((min(pair), max(pair), similarity) for pair in product(ones, others))


def _shown(work: DuplicatesWork, pairs: list[tuple[int, int, float]]) -> pa.RecordBatch:
    ids = sorted({row for one, other, _ in pairs for row in (one, other)})
    place = {row: at for at, row in enumerate(ids)}
    numbers = pa.array(ids, pa.int64())
    table = (
        _taken(work, ids, work.columns).append_column(ROW_ID, numbers) if work.columns else pa.table({ROW_ID: numbers})
    )
    (batch,) = table.combine_chunks().to_batches()
    columns = [conform_column(batch.column(batch.schema.get_field_index(field.name)), field) for field in work.row]
    rows = pa.StructArray.from_arrays(columns, fields=list(work.row))
    left, right, similarity = (list(values) for values in zip(*pairs, strict=True))
    sides = [rows.take(pa.array([place[row] for row in side], pa.int64())) for side in (left, right)]
    return pa.RecordBatch.from_arrays([*sides, pa.array(similarity)], schema=work.wire)


def _taken(work: DuplicatesWork, ids: list[int], columns: tuple[str, ...]) -> pa.Table:
    dataset = open_pinned(work.location, work.pin)
    with translated(work.location, "reading rows to compare"):
        taken: pa.Table = dataset._take_rows(ids, columns=list(columns))
    return taken
