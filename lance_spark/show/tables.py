"""Text in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lance_spark.show.lines import HEAD, PLAIN, PLUS, Line


def aligned(lines: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Lines of cells as text, the columns in ``right`` aligned to the right."""
    if not lines:
        return []
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    numbers = set(right)
    return [
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """A header and rows, the columns in ``right`` aligned to the right; "" if there are no rows."""
    cells = [tuple(str(cell) for cell in row) for row in rows]
    return "\n".join(aligned([tuple(header), *cells], right)) if cells else ""


def table_lines(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Iterable[int] = (),
    bright: Iterable[int] = (),
) -> list[Line]:
    """A header and rows as lines with styles; the rows in ``bright`` stand out."""
    head, *body = aligned([tuple(header), *(tuple(row) for row in rows)], right)
    shining = set(bright)
    return [[(HEAD, head)], *([(PLUS if row in shining else PLAIN, line)] for row, line in enumerate(body))]
