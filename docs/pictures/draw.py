"""``python docs/pictures/draw.py``: draws the pictures of the documentation, as SVG, beside this file.

A picture has a background of its own and two sets of colours, so that it can be read on a light page, on a dark one,
and where page and browser disagree. Nothing is measured: texts are placed by hand, with room for wider fonts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from html import escape
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
PROJECT = HERE.parents[1] / "pyproject.toml"
LIGHT = {
    "page": "#ffffff",
    "edge": "#d1d9e0",
    "text": "#1f2328",
    "faint": "#59636e",
    "main": "#0969da",
    "exp": "#8250df",
    "good": "#1a7f37",
    "gone": "#cf222e",
    "box": "#f6f8fa",
}
DARK = {
    "page": "#0d1117",
    "edge": "#3d444d",
    "text": "#f0f6fc",
    "faint": "#9198a1",
    "main": "#4493f8",
    "exp": "#ab7df8",
    "good": "#3fb950",
    "gone": "#f85149",
    "box": "#151b23",
}
STYLE = """
text{font:14px system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif;fill:var(--text)}
.small{font-size:12.5px}.faint{fill:var(--faint)}.bold{font-weight:600}.title{font-size:15px;font-weight:600}
.code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:12.5px}
.middle{text-anchor:middle}.end{text-anchor:end}
.line{fill:none;stroke-width:3}.thin{fill:none;stroke-width:1.6}.dashed{stroke-dasharray:5 5}
"""


class Picture:
    """Shapes in the order in which they are drawn, in pixels from the left and from the top."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.shapes: list[str] = []

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """One line of text; ``kind`` are classes of the style, such as ``small faint``."""
        self.shapes.append(f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>')

    def lines(self, x: float, y: float, texts: list[str], kind: str = "small faint") -> None:
        """Lines of text below each other."""
        for number, words in enumerate(texts):
            self.text(x, y + 18 * number, words, kind)

    def path(self, form: str, colour: str, kind: str = "line") -> None:
        """A line, without an arrow."""
        self.shapes.append(f'<path d="{form}" class="{kind}" style="stroke:var(--{colour})"/>')

    def arrow(self, form: str, colour: str, kind: str = "thin", width: float = 0) -> None:
        """A line with an arrow at its end."""
        broad = f";stroke-width:{width:g}" if width else ""
        self.shapes.append(
            f'<path d="{form}" class="{kind}" style="stroke:var(--{colour}){broad}" marker-end="url(#to-{colour})"/>'
        )

    def dot(self, x: float, y: float, colour: str, hollow: bool = False) -> None:
        """A version."""
        fill = "page" if hollow else colour
        self.shapes.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="8" style="fill:var(--{fill});stroke:var(--{colour});stroke-width:2.5"/>'
        )

    def box(self, place: tuple[float, float, float, float], colour: str = "edge", dashed: bool = False) -> None:
        """A box with round corners: x, y, width and height."""
        x, y, width, height = place
        dash = ";stroke-dasharray:4 4" if dashed else ""
        self.shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" '
            f'style="fill:var(--box);stroke:var(--{colour});stroke-width:1.5{dash}"/>'
        )

    def flag(self, x: float, y: float, words: str, colour: str) -> None:
        """A label with a pole that ends at (x, y): a tag."""
        width = 14 + 7.6 * len(words)
        self.path(f"M{x:g} {y:g}V{y - 34:g}", colour, "thin")
        self.box((x, y - 56, width, 22), colour)
        self.text(x + width / 2, y - 40, words, "code middle")

    def svg(self) -> str:
        """The whole file."""
        light, dark = (";".join(f"--{name}:{value}" for name, value in colours.items()) for colours in (LIGHT, DARK))
        heads = "".join(
            f'<marker id="to-{colour}" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="11" markerHeight="11" '
            f'markerUnits="userSpaceOnUse" orient="auto-start-reverse">'
            f'<path d="M0 0L10 5L0 10z" style="fill:var(--{colour})"/></marker>'
            for colour in ("main", "exp", "good", "gone", "faint")
        )
        style = f"svg{{{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}{STYLE}"
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" role="img"><title>{escape(self.title)}</title>'
        )
        page = (
            f'<rect x=".75" y=".75" width="{self.width - 1.5}" height="{self.height - 1.5}" rx="10" '
            'style="fill:var(--page);stroke:var(--edge)"/>'
        )
        return "\n".join([head, f"<style>{style}</style><defs>{heads}</defs>", page, *self.shapes, "</svg>", ""])


def branches() -> Picture:
    """A branch from a tagged version, work on both sides, and the merge."""
    picture = Picture(840, 296, "The life of a branch: made from a tagged version, audited, and merged as one version")
    main, exp = 92, 196
    picture.text(24, main + 5, "main", "title")
    picture.path(f"M90 {main}H800", "main")
    picture.text(24, exp + 5, "exp", "title")
    picture.path(f"M230 {main}C290 {main} 250 {exp} 320 {exp}H560C650 {exp} 620 {main} 690 {main}", "exp")
    for x, words in ((120, "main@1"), (230, "main@2"), (450, "main@3"), (690, "main@4")):
        picture.dot(x, main, "main")
        picture.text(x, main + 27, words, "code middle")
    picture.flag(230, main - 8, "tag v2013", "good")
    picture.lines(120, main - 34, ["first write"], "small faint middle")
    picture.lines(450, main - 34, ["others go on:", "an append"], "small faint middle")
    picture.lines(690, main - 52, ["merge: rows of both,", "in one version"], "small faint middle")
    for x, words in ((340, "exp@3"), (450, "exp@4")):
        picture.dot(x, exp, "exp")
        picture.text(x, exp - 18, words, "code middle")
    picture.lines(340, exp + 28, ["late rows", "upserted"], "small faint middle")
    picture.lines(450, exp + 28, ["bad rows", "deleted"], "small faint middle")
    picture.lines(560, exp + 28, ["an audit", "passes"], "small faint middle")
    picture.path(f"M552 {exp}L558 {exp + 6}L570 {exp - 8}", "good", "line")
    picture.lines(24, 258, ["A new branch copies nothing: it", "reads the files of main@2."])
    picture.lines(
        624, 226, ["Readers of main see main@3,", "then main@4: never half of it.", "You may delete exp then."]
    )
    return picture


def lake() -> Picture:
    """A branch of one name in two tables of a lake, published together, and a tag of the whole lake."""
    picture = Picture(
        840, 404, "A lake with a branch: two tables, audited and published together, and a tag of all tables"
    )
    picture.box((412, 62, 96, 262), "exp", dashed=True)
    picture.lines(460, 28, ["an audit of", "both branches"], "small faint middle")
    picture.box((548, 62, 120, 262), "main", dashed=True)
    picture.lines(608, 28, ["one publish:", "both, or none"], "small faint middle")
    picture.path("M730 72V318", "good", "thin dashed")
    picture.flag(730, 72, "tag monday", "good")
    for table, top in (("air.flights", 100), ("air.carriers", 236)):
        low = top + 62
        picture.text(24, top - 18, table, "title")
        picture.text(24, top + 5, "main", "small faint")
        picture.path(f"M90 {top}H806", "main")
        picture.text(24, low + 5, "nightly", "small faint")
        picture.path(f"M150 {top}C205 {top} 170 {low} 236 {low}H500C590 {low} 540 {top} 608 {top}", "exp")
        for x, words in ((150, "main@1"), (608, "main@3" if top == 100 else "main@2")):
            picture.dot(x, top, "main")
            picture.text(x, top - 18, words, "code middle")
        for x in (260, 350):
            picture.dot(x, low, "exp")
        picture.path(f"M452 {low}L458 {low + 6}L470 {low - 8}", "good", "line")
    picture.dot(350, 100, "main")
    picture.text(350, 82, "main@2", "code middle")
    picture.lines(
        24,
        354,
        [
            "Each table has a branch of that name. If one table conflicts,",
            "or the audit fails, main of every table stays as it is.",
        ],
    )
    picture.lines(562, 354, ["A tag keeps one version of every", "table of the lake, and copies nothing."])
    return picture


def cleanup() -> Picture:
    """Which versions of a branch a cleanup removes, which stay and why, and what becomes of files."""
    picture = Picture(840, 420, "A cleanup: which versions go, which stay and why, and what happens to their files")
    picture.text(24, 34, "A cleanup with older_than = 14 days", "title")
    y, old, young = 130, 510, 690
    picture.path(f"M40 {y}H800", "main")
    for x, words in ((old, "14 days ago"), (young, "1 day ago")):
        picture.path(f"M{x} 62V214", "faint", "thin dashed")
        picture.text(x + 6, 72, words, "small faint")
    picture.text(40, 72, "older", "small faint")
    goes = (80, 260, 440)
    versions = [80, 170, 260, 350, 440, 580, 740, 785]
    for number, x in enumerate(versions, 1):
        gone = x in goes
        picture.dot(x, y, "gone" if gone else "main", hollow=gone)
        picture.text(x, y - 18, f"@{number}", "code middle")
    for x in goes:
        picture.text(x, y + 30, "goes", "small bold middle")
    picture.lines(170, y + 30, ["stays: a tag", "points at it"], "small faint middle")
    picture.lines(350, y + 30, ["stays: branch", "exp began here"], "small faint middle")
    picture.lines(600, y + 30, ["stays: younger", "than the policy"], "small faint middle")
    picture.lines(762, y + 30, ["stay: a running", "job may need", "them; the newest"], "small faint middle")
    picture.path("M24 232H816", "edge", "thin")
    picture.text(24, 258, "Then the files", "title")
    rows = [
        ("gone", "a file that only @1, @3 or @5 name", "is deleted"),
        ("main", "a file that a version which stays names, on any branch or clone", "stays"),
        ("main", "a file that no version names, younger than 7 days", "stays: its commit may still come"),
        ("gone", "a file that no version names, older than 7 days", "is deleted"),
        ("main", "anything in a directory that is not the dataset's own, or of an unknown kind", "is never touched"),
    ]
    for number, (colour, what, result) in enumerate(rows):
        top = 286 + 26 * number
        picture.dot(36, top - 5, colour, hollow=colour == "gone")
        picture.text(56, top, what, "small")
        picture.text(560, top, result, "small bold")
    return picture


def remotes() -> Picture:
    """Clone, fetch and push between a dataset and its clone."""
    picture = Picture(840, 400, "Clone, fetch and push: what moves between a dataset and its clone")
    left, right = (20, 46, 250, 290), (570, 46, 250, 290)
    picture.text(24, 32, "origin", "title")
    picture.text(80, 32, "s3://bucket/flights.lance", "code")
    picture.text(570, 32, "mine", "title")
    picture.text(618, 32, "/home/me/mine", "code")
    picture.box(left)
    picture.box(right)
    picture.text(40, 86, "main", "code")
    picture.path("M100 81H240", "main")
    for x in (110, 150, 190, 230):
        picture.dot(x, 81, "main")
    picture.text(40, 126, "exp", "code")
    picture.path("M150 81C165 81 160 121 175 121H240", "exp")
    for x in (190, 230):
        picture.dot(x, 121, "exp")
    picture.box((40, 190, 210, 60))
    picture.text(145, 216, "its data files", "middle")
    picture.text(145, 236, "protected by tags clone-...", "small faint middle")
    picture.box((40, 266, 210, 50), "good", dashed=True)
    picture.text(145, 287, "your new files,", "middle")
    picture.text(145, 305, "after a push", "small faint middle")
    picture.text(590, 86, "origin/main", "code")
    picture.path("M700 81H790", "main", "line dashed")
    for x in (700, 745, 790):
        picture.dot(x, 81, "main", hollow=True)
    picture.text(590, 126, "origin/exp", "code")
    picture.path("M745 121H790", "exp", "line dashed")
    for x in (745, 790):
        picture.dot(x, 121, "exp", hollow=True)
    picture.text(590, 166, "exp", "code")
    picture.path("M700 161H790", "good")
    for x in (700, 745, 790):
        picture.dot(x, 161, "good")
    picture.text(640, 166, "yours", "small faint")
    picture.box((590, 266, 210, 50), "good")
    picture.text(695, 296, "files that you wrote", "middle")
    picture.arrow("M274 76H562", "main")
    picture.text(418, 66, "clone, fetch", "bold middle")
    picture.text(418, 96, "metadata only: refs and versions", "small faint middle")
    picture.arrow("M562 161H274", "good")
    picture.text(418, 151, "push", "bold middle")
    picture.text(418, 181, "one version, if it is a fast-forward", "small faint middle")
    picture.arrow("M590 232H258", "faint", "thin dashed")
    picture.text(418, 222, "reads rows where they are", "small middle")
    picture.arrow("M586 291H258", "good", width=3)
    picture.text(418, 280, "push copies what origin lacks", "small middle")
    picture.lines(
        24,
        362,
        [
            "pull = fetch, then a merge of origin/exp into exp. Only a fetch writes to origin/main and origin/exp.",
            "clone --deep also copies the data files; then the clone needs nothing of origin.",
        ],
    )
    return picture


def sessions() -> Picture:
    """Which part of a query Lance answers, and what crosses to Spark, on each way."""
    picture = Picture(
        840, 476, "Where the work of a query happens: in a classic session, on Spark Connect, and without help"
    )
    picture.text(24, 34, "SELECT carrier, count(*) FROM flights WHERE delay > 60 GROUP BY carrier", "code")
    picture.text(170, 66, "Lance, in Python", "bold middle")
    picture.text(475, 66, "what crosses", "bold middle")
    picture.text(700, 66, "Spark, in the JVM", "bold middle")
    ways = [
        (
            "Classic session",
            "main",
            ["reads 2 of 30 columns, filters by", "indexes, counts for each carrier"],
            ["Arrow batches:", "a row for each carrier"],
            ["adds up, joins, sorts;", "its planner told Lance", "what the query needs"],
            3,
        ),
        (
            "LanceTable.query, also on Spark Connect",
            "exp",
            ["reads 2 of 30 columns, and filters", "by indexes"],
            ["rows of 2 columns", "that pass the filter"],
            ["counts, joins, sorts; its", "plan of the query told", "which rows to read"],
            5,
        ),
        (
            "A plain read on Spark Connect",
            "gone",
            ["reads every column and row, unless the", "options columns and filter narrow it"],
            ["every row", "with all 30 columns"],
            ["does all the rest: filters,", "counts, joins, sorts"],
            22,
        ),
    ]
    for number, (name, colour, lance, crosses, spark, width) in enumerate(ways):
        top = 84 + 124 * number
        picture.text(24, top + 16, name, "title")
        picture.box((20, top + 26, 300, 78), colour)
        picture.lines(36, top + 60, lance, "small")
        picture.box((590, top + 26, 230, 78))
        picture.lines(606, top + (52 if len(spark) == 3 else 60), spark, "small")
        if width > 10:
            picture.path(f"M328 {top + 65}H572", colour, "thin")
            picture.shapes[-1] = picture.shapes[-1].replace("var(--gone)", "var(--gone);stroke-width:22;opacity:.35")
            picture.arrow(f"M328 {top + 65}H584", colour)
        else:
            picture.arrow(f"M328 {top + 65}H584", colour, width=width)
        picture.text(455, top + 48, crosses[0], "small faint middle")
        picture.text(455, top + 94, crosses[1], "small faint middle")
    picture.text(24, 456, "The rows of the answer are the same on each way.", "small faint")
    return picture


REMARKS = {
    "spark": "the public face: LanceTable, LanceCatalog",
    "native": "Spark's planner",
    "cli": "commands, spark-submit, statements of SQL",
    "datasource": 'format("lance"); many tables at once',
    "storage": "pylance and fsspec",
    "format": "what Lance has on disk",
    "core": "values",
}
"""By the first room of a layer: what is said beside it."""


def rooms() -> Picture:
    """The layers of the import contract, as pyproject.toml has them."""
    contract = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"][0]
    layers = [re.findall(r"\w+", layer) for layer in contract["layers"]]
    picture = Picture(840, 74 + 36 * len(layers), "The rooms of lance_spark, in the layers of the import contract")
    picture.text(24, 34, "A room imports only rooms below it, never one above or beside it.", "title")
    for number, layer in enumerate(layers):
        top, left = 52 + 36 * number, 64.0
        for room in layer:
            width = 24 + 7.7 * len(room)
            picture.box((left, top, width, 28), "main")
            picture.text(left + width / 2, top + 19, room, "code middle")
            left += width + 10
        picture.text(max(left + 10, 420), top + 19, REMARKS.get(layer[0], ""), "small faint")
    picture.arrow(f"M36 56V{52 + 36 * len(layers) - 12}", "faint")
    return picture


PICTURES: dict[str, Callable[[], Picture]] = {
    "branches": branches,
    "lake": lake,
    "cleanup": cleanup,
    "remotes": remotes,
    "sessions": sessions,
    "rooms": rooms,
}


def main() -> None:
    """Write all pictures."""
    for name, draw in PICTURES.items():
        (HERE / f"{name}.svg").write_text(draw().svg())


if __name__ == "__main__":
    main()
