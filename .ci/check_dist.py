"""``check_dist.py WHEEL SDIST``: what a release must have in it, and what it must not have. Needs nothing installed."""

from __future__ import annotations

import email.parser
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("lance_spark", "pyspark_lance")
SOURCES = ("*.py", "*.java", "*.html", "*.css", "*.js", "py.typed")
DEPLOYED = "lance_spark/deploy"
"""Where the wheel has what lance-catalog schedule writes."""
DOCUMENTS = ("LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", "Makefile")


def main(wheel: str, sdist: str) -> None:
    """Raise SystemExit with what is wrong, if anything is."""
    problems = [*wheel_problems(Path(wheel)), *sdist_problems(Path(sdist))]
    if problems:
        raise SystemExit("\n".join(problems))


def wheel_problems(path: Path) -> list[str]:
    """Exactly the modules, Java sources, pages, jobs/ and conf/ of the checkout, the licence, and metadata of both."""
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        information = next(name.partition("/")[0] for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.parser.Parser().parsestr(wheel.read(f"{information}/METADATA").decode())
        licence = f"{information}/licenses/LICENSE"
        same = licence in names and wheel.read(licence) == (ROOT / "LICENSE").read_bytes()
    sources = [file for folder in PACKAGES for kind in SOURCES for file in (ROOT / folder).rglob(kind)]
    expected = {str(file.relative_to(ROOT)) for file in sources}
    deployed = [file for folder in ("conf", "jobs") for file in (ROOT / folder).iterdir() if file.is_file()]
    expected |= {f"{DEPLOYED}/{file.relative_to(ROOT)}" for file in deployed}
    found = {name for name in names if not name.startswith(information)}
    problems = [f"{path.name} lacks {name}" for name in sorted(expected - found)]
    problems += [f"{path.name} has {name}, which is no module of the packages" for name in sorted(found - expected)]
    problems += [] if same else [f"{path.name} lacks the LICENSE of the checkout"]
    for key, value in (("Name", "lance-spark"), ("License-Expression", "Apache-2.0"), ("License-File", "LICENSE")):
        problems += [] if metadata[key] == value else [f"{path.name}: {key} is {metadata[key]!r}, not {value!r}"]
    version = f"## [{metadata['Version']}]"
    problems += [] if version in (ROOT / "CHANGELOG.md").read_text() else [f"CHANGELOG.md has no section {version}"]
    return problems


def sdist_problems(path: Path) -> list[str]:
    """The documents, and the tests: whoever packages it again runs them."""
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    return [f"{path.name} lacks {name}" for name in (*DOCUMENTS, "tests/conftest.py") if name not in names]


if __name__ == "__main__":
    main(*sys.argv[1:])
