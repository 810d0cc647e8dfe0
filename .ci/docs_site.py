"""A hook of mkdocs: the site of ``make docs`` from the pages as they are in the repository.

The README is the first page. Navigation is what the map, docs/README.md, says. Documents outside of docs/ become
pages, and links to other files of the repository become plain text, since a site has no files of it. The reference of
the API is made from the names that ``lance_spark`` exports, and from what its handles return.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import lance_spark

ROOT = Path(__file__).parents[1]
HOME, MAP = "README.md", "map.md"
ELSEWHERE = {
    "README.md": HOME,
    "docs/README.md": MAP,
    "conf/README.md": "project/settings.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
}
"""By path in the repository: the page of the site, where it is not the path below docs/."""
REFS, UPKEEP = "lance_spark.spark.refs", "lance_spark.spark.maintenance"
API = {
    "LanceTable": ["lance_spark.LanceTable"],
    "Branches, tags, remotes": [f"{REFS}.Branches", f"{REFS}.Tags", f"{REFS}.Remotes"],
    "Indexes and frozen sets": [f"{UPKEEP}.Indexes", "lance_spark.spark.frozen.FrozenSets"],
    "LanceCatalog": ["lance_spark.LanceCatalog"],
    "Errors": ["lance_spark.errors"],
}
"""By title of a page: what it describes. What else the package exports is on a page of its own."""
_LINK = re.compile(r"(!?)\[([^\]]+)\]\(([^)\s]+)\)")
_BAR = re.compile(r"(?<=\w)\\\|(?=\w)")
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Navigation: the README, then the sections of the map with their pages, the API, and what is about the project."""
    nav: list[Any] = [{"Home": [HOME, MAP]}]
    for title, pages in sections():
        outer = next((next(iter(entry.values())) for entry in nav if pages[0].startswith(_directory(entry))), None)
        (nav if outer is None else outer).append({title: pages})
    nav.append({"API": list(api_pages())})
    nav.append({"Project": [page for page in ELSEWHERE.values() if page.startswith("project/")]})
    config.nav = nav
    return config


def _directory(entry: dict[str, list[str]]) -> str:
    """The directory of a section, with a slash."""
    (pages,) = entry.values()
    return os.path.dirname(pages[0]) + "/"


def sections() -> Iterator[tuple[str, list[str]]]:
    """Title and pages of each section, its index first, as the map has them."""
    for line in (ROOT / "docs" / "README.md").read_text().splitlines():
        links = [link for link in re.findall(r"\[([^\]]+)\]\(([^)]+)\)", line) if line.startswith("| [")]
        if links:
            yield links[0][0], [path for _, path in links]


def api_pages() -> dict[str, str]:
    """By path: the text of each page of the reference of the API."""
    named = {name.rpartition(".")[2] for names in API.values() for name in names}
    rest = [f"lance_spark.{name}" for name in lance_spark.__all__ if name not in named]
    pages = {**API, "Functions and policies": rest}
    return {
        f"api/{re.sub('[^a-z]+', '-', title.lower())}.md": f"# {title}\n\n" + "\n\n".join(map(_described, names))
        for title, names in pages.items()
    }


def _described(name: str) -> str:
    """The instruction that puts the documentation of a name here; a module shows no member of its classes twice."""
    return f"::: {name}" + ("\n    options:\n      inherited_members: false" if name.islower() else "")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents outside of docs/, and the pages of the API."""
    for path, page in ELSEWHERE.items():
        if (present := files.get_file_from_path(page)) is not None:
            files.remove(present)
        files.append(File.generated(config, page, content=(ROOT / path).read_text()))
    for page, text in api_pages().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links between files of the repository at pages of the site."""
    source = page.file.src_uri
    path = next((path for path, at in ELSEWHERE.items() if at == source), f"docs/{source}")
    pieces = _FENCED.split(markdown)
    return "".join(piece if piece.startswith("```") else _adapted(piece, path, source) for piece in pieces)


def _adapted(text: str, path: str, source: str) -> str:
    """Text outside of blocks of code: with the site's links, and without the backslash of GitHub's tables in code."""
    return _BAR.sub("|", _LINK.sub(_relinked(path, source), text))


def _relinked(path: str, source: str) -> Any:
    def relinked(match: re.Match[str]) -> str:
        mark, text, link = match.groups()
        to, hash_, anchor = link.partition("#")
        if not to or re.match(r"[a-z]+:", link):
            return match[0]
        target = os.path.normpath(os.path.join(os.path.dirname(path), to))
        if target in ELSEWHERE or target.startswith("docs/"):
            at = ELSEWHERE.get(target, target.removeprefix("docs/"))
            return f"{mark}[{text}]({os.path.relpath(at, os.path.dirname(source) or '.')}{hash_}{anchor})"
        return text if (ROOT / target).exists() else match[0]

    return relinked
