"""What a release is checked for before it is uploaded: the checks of ``make dist`` find what is missing or too much."""

import io
import re
import sys
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from support.scripts import script

from lance_spark import __version__ as VERSION  # noqa: N812

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
INFORMATION = f"lance_spark-{VERSION}.dist-info"
LICENCE = f"{INFORMATION}/licenses/LICENSE"


@pytest.fixture(scope="module")
def checks():
    return script(".ci/check_dist.py")


def metadata(**changes):
    lines = {"Name": "lance-spark", "Version": VERSION, "License-Expression": "Apache-2.0", "License-File": "LICENSE"}
    return "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in {**lines, **changes}.items())


@pytest.fixture
def good(checks):
    """The files of a wheel with nothing wrong."""
    folders = [ROOT / "lance_spark", ROOT / "pyspark_lance"]
    modules = [path for folder in folders for kind in checks.SOURCES for path in folder.rglob(kind)]
    content = {str(path.relative_to(ROOT)): "" for path in modules}
    deployed = [path for name in ("conf", "jobs") for path in (ROOT / name).iterdir() if path.is_file()]
    content |= {f"lance_spark/deploy/{path.relative_to(ROOT)}": "" for path in deployed}
    licence = (ROOT / "LICENSE").read_text()
    return {**content, f"{INFORMATION}/METADATA": metadata(), f"{INFORMATION}/RECORD": "", LICENCE: licence}


def wheel(directory, content):
    path = directory / f"lance_spark-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in content.items():
            file.writestr(name, text)
    return path


def test_spark_comes_with_an_extra_only_and_with_all_that_it_needs():
    """pyspark alone leaves out pandas, without which its mapInArrow fails: rows cannot be merged, nor sets frozen."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    brought = {re.match(r"[\w-]+", requirement)[0] for requirement in project["dependencies"]}
    assert not brought & {"pyspark", "pandas", "torch"}
    assert project["optional-dependencies"]["spark"] == ["pyspark[sql]>=4.0", "pandas<3"]
    assert [name for name in project["optional-dependencies"]["demo"] if name.startswith("pyspark")] == []


def test_a_whole_wheel_passes(checks, good, tmp_path):
    assert checks.wheel_problems(wheel(tmp_path, good)) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"lance_spark/errors.py": None}, "lacks lance_spark/errors.py"),
        ({"lance_spark/jvm/java/Batches.java": None}, "lacks lance_spark/jvm/java/Batches.java"),
        ({"tests/conftest.py": ""}, "has tests/conftest.py, which is no module"),
        ({"lance_spark/secret.env": ""}, "has lance_spark/secret.env, which is no module"),
        ({LICENCE: None}, "lacks the LICENSE"),
        ({LICENCE: "do what you want"}, "lacks the LICENSE"),
        ({f"{INFORMATION}/METADATA": metadata(**{"License-Expression": "MIT"})}, "License-Expression is 'MIT'"),
        ({f"{INFORMATION}/METADATA": metadata(Version="9.9.9")}, "CHANGELOG.md has no section ## [9.9.9]"),
    ],
)
def test_a_wheel_with_a_fault_does_not(checks, good, tmp_path, change, problem):
    content = {name: text for name, text in {**good, **change}.items() if text is not None}
    (found,) = checks.wheel_problems(wheel(tmp_path, content))
    assert problem in found


@pytest.mark.parametrize("lacking", [None, "LICENSE", "tests/conftest.py"])
def test_an_sdist_has_documents_and_tests(checks, tmp_path, lacking):
    path = tmp_path / f"lance_spark-{VERSION}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in {*checks.DOCUMENTS, "tests/conftest.py"} - {lacking}:
            archive.addfile(tarfile.TarInfo(f"lance_spark-{VERSION}/{name}"), io.BytesIO())
    assert checks.sdist_problems(path) == ([] if lacking is None else [f"{path.name} lacks {lacking}"])


def test_the_licence_is_the_one_that_the_metadata_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "9. Accepting Warranty or Additional Liability." in text


def test_the_changelog_has_the_version_and_what_comes_after_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sections = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == ("Unreleased", "")
    assert all(date for _, date in sections[1:])
    assert sections[1][0] == project["version"] == VERSION
    assert [date for _, date in sections[1:]] == sorted((date for _, date in sections[1:]), reverse=True)


def test_no_entry_of_the_changelog_stands_there_twice():
    """A merge left some seventy lines of it beside their later wording: then eight words in a row are the same."""
    runs = {}
    for entry in re.split(r"\n(?=- |\n|#)", (ROOT / "CHANGELOG.md").read_text()):
        words = re.findall(r"\w+", re.sub(r"\]\([^)]*\)", "", entry.lower()))  # two entries may lead to one page
        for run in {" ".join(words[at : at + 8]) for at in range(len(words) - 7)}:
            runs.setdefault(run, set()).add(entry)
    pairs = Counter(frozenset(found) for found in runs.values() if len(found) == 2)
    assert [sorted(found) for found, times in pairs.items() if times > 4] == []


def test_the_package_shows_its_own_names_and_each_is_there():
    import lance_spark

    shown = dir(lance_spark)
    assert not {"Any", "TYPE_CHECKING", "import_module", "annotations"} & {*shown}
    assert {"register", "LanceTable", "errors", "__version__"} <= {*shown}
    assert all(hasattr(lance_spark, name) for name in [*lance_spark.__all__, "__version__", "errors"])


def test_the_pythons_of_the_metadata_are_those_that_it_is_tried_with():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pythons = {line.rpartition(" ")[2] for line in project["classifiers"] if ":: Python :: 3." in line}
    tried = (ROOT / "docs/reference/versions.md").read_text()
    assert pythons == set(re.findall(r"^\| \S+ \| (3\.\d+)\.\d+ \|", tried, re.MULTILINE))
