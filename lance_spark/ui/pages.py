"""Pages as HTML: templates that escape every text, and the self-contained file of a difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from lance_spark.changes.diff_rules import Diff
from lance_spark.core.location import DatasetLocation
from lance_spark.core.texts import masked, visible
from lance_spark.errors import NotInstalled
from lance_spark.lake.report import LakeDiff
from lance_spark.ui import looking, page_rules
from lance_spark.ui.page_rules import Problem

HERE = Path(__file__).parent
STATIC = HERE / "static"
_HOW = "pip install 'lance-spark[ui]'"
_MOST_PARTS = 20
"""Parts of rows in the file of a difference: a thousand rows, which mail and reviews still open."""


def not_installed(module: str | None) -> NotInstalled:
    """The error of a page without what draws or serves it."""
    return NotInstalled(f"Pages need the extra 'ui', and Python finds no module '{module}'.", _HOW)


@lru_cache(maxsize=1)
def _environment() -> Any:
    """Jinja's environment. Raises NotInstalled."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ModuleNotFoundError as missing:
        raise not_installed(missing.name) from None
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_spelled_out,
    )
    made.filters["masked"] = masked
    made.filters["exact"] = _Exact
    return made


class _Exact(str):
    """A text that a form sends back or a button copies: spelled out, it would name something else."""


def _spelled_out(value: Any) -> Any:
    """Any other text that a template writes: a name, too, may have characters that turn the order of others round."""
    return visible(value) if type(value) is str else value


def render(template: str, values: Mapping[str, Any]) -> str:
    """A page. Raises NotInstalled."""
    text: str = _environment().get_template(template).render(**values)
    return text


def address(prefix: str) -> Callable[..., str]:
    """Makes the addresses of one server's pages; parameters without a value are left out."""

    def url(page: str = "", **given: object) -> str:
        query = urlencode({name: str(value) for name, value in given.items() if value not in (None, "")})
        return f"{prefix}/{page}{'?' if query else ''}{query}"

    return url


def problem_page(problem: Problem) -> str:
    """A problem alone: to somebody who may not see the pages, it shows nothing else."""
    return render("problem_alone.html", {"problem": problem, "style": _style()})


@lru_cache(maxsize=1)
def _style() -> str:
    return (STATIC / "page.css").read_text(encoding="utf-8")


# --- Files to attach to a review


def diff_file(location: DatasetLocation, difference: Diff, rows: bool, limit: int) -> str:
    """The difference of two versions as one page that needs nothing else.

    With ``rows``, it has the first ``limit`` rows that differ side by side.
    """
    parts: list[page_rules.DiffRowsPart] = []
    start: int | None = 0
    while rows and start is not None and start < min(limit, _MOST_PARTS * page_rules.PAGE):
        part = looking.diff_rows_of(location, difference.before, difference.after, start)
        parts.append(part)
        start = part.following
    values = {
        "page": page_rules.diff_page(difference),
        "parts": parts,
        "left": 0 if not parts or start is None else parts[-1].total - start,
        "uri": masked(location.uri),
        "style": _style(),
        "url": None,
        "table": "",
    }
    return render("diff_file.html", values)


def lake_diff_file(uri: str, found: LakeDiff) -> str:
    """What a branch of a lake changed, as one page that needs nothing else."""
    return render("lake_diff_file.html", {"found": found, "uri": masked(uri), "style": _style(), "url": None})
