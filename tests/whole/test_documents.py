"""README and docs/: every link leads somewhere, nothing stands twice, and tables are as the code has them."""

import ast
import re
import runpy
import shlex
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

import click
import pytest
from support.pages import DOCS, ROOT

from lance_spark import LanceTable, errors
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.cli.catalog.main import cli as lance_catalog
from lance_spark.cli.main import cli as lance_git
from lance_spark.core import table_options
from lance_spark.core.catalog_options import CATALOG_OPTIONS
from lance_spark.core.records.finding_codes import MEANINGS
from lance_spark.core.ref_expressions import METADATA_TABLES
from lance_spark.format.metadata import SCHEMAS
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions
from lance_spark.maintenance.expiry_rules import ExpiryOptions
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.search.search_rules import SearchOptions
from lance_spark.spark.frozen import FrozenSets
from lance_spark.spark.maintenance import Indexes
from lance_spark.spark.refs import Branches, Remotes, Tags
from lance_spark.sql.procedures import PROCEDURES
from tests.support.option_tables import as_markdown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.pure

README = ROOT / "README.md"
PAGES = [README, *DOCS, *(path for path in (ROOT / "CONTRIBUTING.md", ROOT / "conf" / "README.md") if path.exists())]
REFERENCE = ROOT / "docs" / "reference"
INDEXES = [page for page in DOCS if page.name == "README.md"]
MAX_README, MAX_PAGE = 150, 200

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: Counter[str] = Counter()
    names = set()
    for heading in re.findall(r"^#{1,6} (.+)$", without_code(page.read_text()), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        names.add(f"{slug}-{found[slug]}" if found[slug] else slug)
        found[slug] += 1
    return names


def links(page: Path) -> list[str]:
    """The relative links of a page; a title may be wrapped over two lines."""
    targets = re.findall(r"\[[^\]]+\]\(([^)\s]+)\)", without_code(page.read_text()))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def table(page: Path, beginning: str) -> list[list[str]]:
    """The rows of the table that begins with these words or comes right behind them, without its head."""
    text = page.read_text()
    assert text.count(beginning) == 1, f"{page.name} has to have one table that begins with {beginning}"
    paragraph = text[text.index(beginning) :].split("\n\n", 1)[0]
    lines = [line for line in paragraph.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_a_page_is_short_unless_one_looks_things_up_in_it():
    assert README.read_text().count("\n") <= MAX_README
    lengths = {page: page.read_text().count("\n") for page in DOCS if REFERENCE not in page.parents}
    assert {page.name: length for page, length in lengths.items() if length > MAX_PAGE} == {}


@each_page
def test_every_relative_link_leads_to_a_file_and_a_heading(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_the_links_of_the_readme_and_the_docs_are_found():
    """The tests above read what ``links`` and ``anchors`` find: neither is blind."""
    assert "docs/README.md" in links(README)
    assert "#the-commit-window" in links(ROOT / "docs" / "operations" / "cleanup.md")
    assert "lance-git-gits-words-for-datasets" in anchors(ROOT / "docs" / "branches" / "lance-git.md")


def test_the_map_leads_to_every_page():
    begin = ROOT / "docs" / "README.md"
    found = Counter(begin.parent / link for link in links(begin) if not link.startswith(".."))
    assert found == Counter(page for page in DOCS if page != begin)


@pytest.mark.parametrize("index", INDEXES, ids=lambda page: page.parent.name)
def test_the_index_of_a_section_leads_to_each_of_its_pages(index):
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    pages = {page for page in index.parent.glob("*.md") if page != index}
    assert pages | {*index.parent.glob("*/README.md")} <= linked


def test_the_readme_leads_to_every_section():
    linked = {link.partition("#")[0] for link in links(README)}
    assert {str(index.relative_to(ROOT)) for index in INDEXES if REFERENCE not in index.parent.parents} <= linked


def test_the_pictures_are_those_that_the_script_draws_and_each_is_shown():
    directory = ROOT / "docs" / "pictures"
    drawn = {
        f"{name}.svg": draw().svg() for name, draw in runpy.run_path(str(directory / "draw.py"))["PICTURES"].items()
    }
    assert {path.name: path.read_text() for path in directory.glob("*.svg")} == drawn, "run docs/pictures/draw.py"
    shown = {(page.parent / link).resolve() for page in PAGES for link in links(page) if link.endswith(".svg")}
    assert shown == {*directory.glob("*.svg")}


def test_no_text_stands_twice():
    """No sentence and no row of a table of more than 60 characters."""
    seen: dict[str, str] = {}
    for page in [README, *DOCS]:
        for piece in pieces(page.read_text()):
            assert piece not in seen, f"{page.name} repeats {seen[piece]}: {piece}"
            seen[piece] = page.name


def pieces(text: str) -> list[str]:
    """Long sentences outside of tables and code, and long rows of tables."""
    prose, rows = [], []
    for paragraph in without_code(text).split("\n\n"):
        if paragraph.startswith("|"):
            rows += [line for line in paragraph.splitlines() if not set(line) <= set("|-: ")]
        elif not paragraph.startswith("    "):
            prose += re.split(r"(?<=[.:;]) ", " ".join(paragraph.split()))
    return [piece.strip("- ") for piece in chain(prose, rows) if len(piece) > 60]


@each_page
def test_python_in_the_pages_can_be_parsed(page):
    for code in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        ast.parse(code)


@pytest.mark.parametrize("purpose", ["reading", "writing"])
def test_the_table_of_the_data_source_also_has_what_names_a_table_of_a_catalog(purpose):
    rows = table(ROOT / "docs" / "tables" / "reading-and-writing.md", f"<!-- options for {purpose} -->")
    documented = [name for row in rows for name in names_in(row[0])]
    options = table_options.READ_OPTIONS if purpose == "reading" else table_options.WRITE_OPTIONS
    assert {*options, *CATALOG_OPTIONS, "storage.<key>"} <= {*documented}
    assert len(documented) == len(set(documented))


def test_the_metadata_tables_are_those_of_the_code():
    rows = table(ROOT / "docs" / "tables" / "sql.md", "| metadata table | columns |")
    assert {names_in(row[0])[0]: names_in(row[1]) for row in rows} == {
        name: schema.names for name, schema in SCHEMAS.items()
    }
    assert tuple(SCHEMAS) == METADATA_TABLES


@pytest.mark.parametrize(
    ("page", "options"),
    [
        ("reference/cleanup-options.md", [CleanupPolicy]),
        ("operations/fsck.md", [FsckOptions]),
        ("operations/fsck.md", [RepairOptions]),
        ("branches/refs-that-expire.md", [ExpiryOptions]),
        ("operations/optimizing.md", [OptimizeOptions]),
        ("reference/searching.md", [SearchOptions]),
        ("tables/reading-and-writing.md", [table_options.RefOptions, table_options.ReadOptions]),
        (
            "tables/reading-and-writing.md",
            [table_options.WriteOptions, table_options.NewBranchOptions, table_options.FileOptions],
        ),
        ("tables/streaming.md", [table_options.StreamOptions]),
        ("tables/streaming-source.md", [table_options.StreamReadOptions]),
    ],
)
def test_the_tables_of_options_are_those_that_are_declared(page, options):
    text, rows = (ROOT / "docs" / page).read_text(), list(as_markdown(*options))
    missing = [row for row in rows if row not in text.splitlines()]
    assert not missing, f"docs/{page} has no such rows:\n" + "\n".join(missing)
    assert "\n".join(rows) in text, f"docs/{page} has these rows in another order, or more of them"


def test_the_procedures_are_those_of_the_code():
    rows = table(REFERENCE / "procedures.md", "| procedure | arguments | what it does |")
    declared = [
        [f"`{found.name}`", ", ".join(map(shown_parameter, found.parameters)), found.doc]
        for found in PROCEDURES.values()
    ]
    other = [" | ".join(row) for row in declared if row not in rows]
    assert not other, "docs/reference/procedures.md has no such rows:\n" + "\n".join(other)
    assert rows == declared


def shown_parameter(parameter):
    text = f"`{parameter.name}` {parameter.type}"
    if parameter.required:
        return f"**{text}**"
    default = str(parameter.default).lower() if isinstance(parameter.default, bool) else parameter.default
    return text if default is None else f"{text} = {default}"


def test_the_exit_codes_are_those_of_the_errors():
    rows = table(ROOT / "docs" / "start" / "when-something-goes-wrong.md", "| error | code | meaning |")
    documented = {name: int(row[1]) for row in rows for name in names_in(row[0])}
    raised = {
        name: value.exit_code
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.LanceSparkError) and value is not errors.LanceSparkError
    }
    assert documented == raised


def test_the_rooms_are_those_of_the_repository():
    page = REFERENCE / "architecture.md"
    rows = [row for kind in ("shared room", "feature", "rim") for row in table(page, f"| {kind} | what is in it |")]
    documented = {name for row in rows for name in names_in(row[0]) if name.endswith(("/", ".py"))}
    package = [path for path in (ROOT / "lance_spark").iterdir() if path.name not in ("__init__.py", "__pycache__")]
    rooms = {f"lance_spark/{path.name}{'/' if path.is_dir() else ''}" for path in package if path.suffix in ("", ".py")}
    assert {name for name in documented if name.startswith("lance_spark/")} == rooms
    assert all((ROOT / name).exists() for name in documented)


def test_the_dependencies_are_those_of_the_project():
    rows = table(REFERENCE / "architecture.md", "| package | why |")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.match(r"[\w-]+", requirement)[0] for requirement in project["dependencies"]}
    assert {name for row in rows for name in names_in(row[0])} == declared


def test_the_page_of_the_demo_has_the_steps_of_the_job_in_their_order():
    page = (ROOT / "docs" / "start" / "demo.md").read_text()
    shown = re.findall(r"^```\n(start .*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(shown) == 1
    lines = [line for line in shown[0].splitlines() if not line.startswith(" ")]
    job = ast.parse((ROOT / "jobs" / "write_audit_publish.py").read_text())
    calls = [node for node in ast.walk(job) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "step"]
    calls.sort(key=lambda call: call.lineno)
    assert len(lines) == len(calls)
    for line, call in zip(lines, calls, strict=True):
        verb, what = (text_of(argument) for argument in call.args)
        assert re.match(rf"{verb} +{what}(  |$)", line), line


def text_of(argument: ast.expr) -> str:
    """A pattern for the text that an argument stands for: f-strings have anything where their values go."""
    parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
    return "".join(re.escape(part.value) if isinstance(part, ast.Constant) else ".+" for part in parts)


# --- What pages say in a line has no example that runs: its names have to exist


def code_in_lines():
    """Page and code, for all code inside of sentences and of tables."""
    for page in [README, *DOCS]:
        text = without_code(page.read_text()).replace("\\|", "|")
        yield from ((page.name, code) for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text))


def test_what_pages_call_on_a_table_exists():
    collections = {"branches": Branches, "tags": Tags, "remotes": Remotes, "indexes": Indexes, "frozen": FrozenSets}
    a_call = re.compile(r"(?<![\w./])t\.([a-z_]+)(?:\.([a-z_]+))?\(")
    found = {(page, *call) for page, code in code_in_lines() for call in a_call.findall(code)}
    assert len(found) > 50
    assert not [
        (page, verb, of)
        for page, verb, of in found
        if not (hasattr(LanceTable, verb) and (not of or verb not in collections or hasattr(collections[verb], of)))
    ]


@pytest.mark.parametrize("command", [lance_git, lance_catalog], ids=["lance-git", "lance-catalog"])
def test_what_pages_type_in_a_shell_exists(command):
    typed = [shlex.split(line) for _, code in code_in_lines() for line in code.split("&&")]
    typed = [words[1:] for words in typed if words[:1] == [command.name] and words[1:2] and words[1][0].islower()]
    assert typed
    for verb, *words in typed:
        found = command.get_command(click.Context(command), verb)
        assert found is not None, verb
        options = {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in words if word.startswith("-")} <= {*options, "--help"}, (verb, words)


def test_what_pages_call_in_sql_exists():
    calls = [call for _, code in code_in_lines() for call in re.findall(r"lake\.system\.([a-z_]+)\((.*)\)", code)]
    assert len(calls) > 5
    for name, arguments in calls:
        known = {parameter.name for parameter in PROCEDURES[name].parameters}
        assert {*re.findall(r"(\w+) =>", arguments)} <= known, (name, arguments)


def test_the_findings_of_a_check_are_those_of_the_code():
    rows = table(ROOT / "docs" / "operations" / "fsck.md", "<!-- codes of findings -->")
    documented = [(names_in(code)[0], severity, says) for code, severity, says in rows]
    assert documented == [(code, meaning.severity, meaning.says) for code, meaning in MEANINGS.items()]
