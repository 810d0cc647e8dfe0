"""The rules that keep the code in one shape: imports, sizes, no JVM, and values that cross to executors."""

import ast
import functools
import graphlib
import pickle
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.table_options import parse_write_options
from lance_spark.scan.fragment_reads import Scan, ScanColumns
from lance_spark.scan.partition_rules import ScanPartition
from lance_spark.write.plan_rules import WriteJob, WritePlan

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for folder in ("lance_spark", "pyspark_lance", "jobs") for path in (ROOT / folder).rglob("*.py"))
JVM = {"_jvm", "_gateway", "_jdf", "_jreader", "_jsparkSession", "_sc", "sparkContext", "rdd", "_jsc"}
CODE = ("lance_spark", "pyspark_lance", "jobs", "benchmarks", "tests")
PACKAGE = [path for path in SOURCES if path.is_relative_to(ROOT / "lance_spark")]
MAX_FILE = 1000
MAX_FUNCTION = 60


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


def test_the_import_contracts_hold():
    command = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    if command is None:
        pytest.skip("import-linter is not installed here")
    done = subprocess.run([command, "--no-logo"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_imports_go_in_no_circles():
    grimp = pytest.importorskip("grimp")  # comes with import-linter
    graph = grimp.build_graph("lance_spark", "pyspark_lance", cache_dir=None)
    assert len(graph.modules) > len(PACKAGE)
    needs = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    graphlib.TopologicalSorter(needs).prepare()  # raises CycleError, which names the files


def test_a_class_name_means_one_class():
    names = Counter(node.name for path in PACKAGE for node in parsed(path).body if isinstance(node, ast.ClassDef))
    assert [name for name, times in names.items() if times > 1] == []


def test_files_and_functions_stay_small():
    assert [str(path) for path in SOURCES if path.read_text().count("\n") > MAX_FILE] == []
    functions = [
        (path, node)
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [(str(path), it.name) for path, it in functions if (it.end_lineno or 0) - it.lineno >= MAX_FUNCTION] == []


IMPURE = {"pyspark", "py4j", "lance", "fsspec", "s3fs", "click", "torch", "flask", "jinja2", "waitress", "werkzeug"}
IMPURE |= {"os", "pathlib", "time", "socket", "tempfile", "threading", "subprocess"}
PURE_ROOMS = {"core", "format", "pushdown"}
CALL_PYLANCE = {
    "catalog/manifest_commits",
    "changes/changed_rows",
    "clones/base_commits",
    "columns/column_files",
    "frozen/set_plans",
    "fsck/file_contents",
    "indexes/index_segments",
    "merge/cell_files",
    "merge/replay_commits",
    "optimize/mem_wal",
    "optimize/rewrites",
    "rows/rows",
    "scan/fragment_reads",
    "search/search_tasks",
    "search/text_clones",
    "streams/query_records",
    "write/data_files",
}
"""The files outside of ``storage/`` that import pylance: they write data files, commit, and read rows."""
MAY_IMPORT = {
    "lance": ({"storage"}, None),
    "fsspec": ({"storage"}, None),
    "s3fs": ({"storage"}, None),
    "pyspark": ({"spark", "native", "connect", "jvm", "session", "datasource"}, "spark"),
    "py4j": ({"jvm", "native"}, None),
    "click": ({"cli"}, None),
    "torch": ({"training"}, None),
    **{name: ({"ui"}, None) for name in ("flask", "jinja2", "waitress", "werkzeug")},
}
"""Which rooms import what, and the last word in the name of other files that do. For pylance see ``CALL_PYLANCE``."""


def _in_package(path):
    return str(path.relative_to(ROOT / "lance_spark").with_suffix(""))


def room_of(path):
    return path.relative_to(ROOT / "lance_spark").parts[0].removesuffix(".py")


def is_pure(path):
    """Files of decisions, and what a verb says at its end."""
    last = path.stem.rpartition("_")[2]
    return room_of(path) in {*PURE_ROOMS, "errors", "hints"} or last in {"rules", "report"}


def test_a_file_imports_what_its_name_says():
    for path in PACKAGE:
        roots = {name.split(".")[0] for name in imported(path)}
        for library, (rooms, word) in MAY_IMPORT.items():
            allowed = room_of(path) in rooms or path.stem.rpartition("_")[2] == word
            allowed |= library == "lance" and _in_package(path) in CALL_PYLANCE
            assert library not in roots or allowed, (path, library)
        assert not is_pure(path) or not roots & IMPURE, path


def test_only_files_that_call_pylance_are_listed_as_such():
    calling = {_in_package(path) for path in PACKAGE if "lance" in {name.split(".")[0] for name in imported(path)}}
    assert sorted(file for file in calling if not file.startswith("storage/")) == sorted(CALL_PYLANCE)


def test_a_file_is_named_by_what_it_does():
    """``pylance`` is the library's name, and with one ``rules.py`` for each room nobody knows which is meant."""
    assert not [str(path) for path in PACKAGE if path.stem == "rules" or "pylance" in path.stem]


def test_decisions_need_only_decisions():
    for path in filter(is_pure, PACKAGE):
        for name in imported(path):
            if name.startswith("lance_spark."):
                file = ROOT / f"{name.replace('.', '/')}.py"
                assert is_pure(file if file.exists() else file.with_suffix("") / "__init__.py"), (path, name)


def test_one_room_reaches_for_the_jvm():
    """In every other file the code works on Spark Connect. What has another way there too is in ``native``."""
    for path in PACKAGE:
        names = {node.attr for node in ast.walk(parsed(path)) if isinstance(node, ast.Attribute)}
        names |= {node.value for node in ast.walk(parsed(path)) if isinstance(node, ast.Constant)}
        found = names & JVM
        found |= {name for name in imported(path) if name.split(".")[0] == "py4j" or "java_gateway" in name}
        forbidden = {"jvm": {"rdd", "_jdf", "_jsc"}, "native": {"rdd", "_jsc"}}.get(room_of(path), JVM)
        assert not (found & forbidden if room_of(path) in {"jvm", "native"} else found), path


def test_the_tests_of_a_room_lie_in_the_directory_of_its_name():
    rooms = {room_of(path) for path in PACKAGE}
    for path in (ROOT / "tests").rglob("test_*.py"):
        room = path.parent.name
        assert path.parents[1] == ROOT / "tests", path
        assert room == "whole" or (room in rooms and path.name.startswith(f"test_{room}_")), path


def test_pure_tests_need_no_session_and_no_server():
    for path in (ROOT / "tests").rglob("test_*.py"):
        marks = set(re.findall(r"mark\.(pure|spark|s3)\b", path.read_text()))
        assert "pure" not in marks or len(marks) == 1, path


@functools.cache
def imported(path):
    return tuple(_imported(path))


def _imported(path):
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules = {f"{node.module}.{alias.name}" for alias in node.names}
            files = {name for name in modules if (ROOT / f"{name.replace('.', '/')}.py").exists()}
            yield from files
            if len(files) < len(modules):
                yield node.module or ""


def test_names_of_sparks_classes_stand_in_one_file():
    """What may be missing in another Spark is looked for there before any of it is used."""
    known = ROOT / "lance_spark/jvm/names.py"
    for path in PACKAGE:
        texts = [node.value for node in ast.walk(parsed(path)) if isinstance(node, ast.Constant)]
        if path != known:
            assert not [text for text in texts if isinstance(text, str) and text.startswith("org.apache.spark")], path


def test_lance_is_never_imported_with_a_module():
    """Spark forks its Python workers from a process that imported the source, and Lance does not survive a fork."""
    for path in PACKAGE:
        outside = [node for node in _module_level(parsed(path)) if isinstance(node, ast.Import | ast.ImportFrom)]
        modules = {alias.name for node in outside if isinstance(node, ast.Import) for alias in node.names}
        modules |= {node.module or "" for node in outside if isinstance(node, ast.ImportFrom)}
        assert not {name for name in modules if name.split(".")[0] in {"lance", "s3fs", "fsspec"}}, path


def _module_level(tree):
    """Statements that run on import: not those of functions, nor those for type checkers."""
    for node in tree.body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node


def test_importing_the_source_loads_neither_lance_nor_a_file_system():
    code = "import sys, pyspark_lance; print([m for m in ('lance', 'fsspec', 's3fs', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_reading_by_a_path_loads_neither_catalogs_nor_merges(uri):
    """Each Python worker pays for what a read imports. What only a catalog or a merge needs is for those who ask it."""
    code = f"""
import lance, pyarrow, sys
from pyspark.sql.types import LongType, StructField, StructType
lance.write_dataset(pyarrow.table({{"id": [1, 2]}}), {uri!r})
lance.dataset({uri!r}).create_branch("exp")
lance.dataset({uri!r}).tags.create("t", 1)
from lance_spark.datasource.datasource import LanceDataSource
for ref in ({{}}, {{"branch": "exp"}}, {{"tag": "t"}}, {{"version": "1"}}, {{"filter": "id > 0"}}):
    source = LanceDataSource({{"path": {uri!r}, **ref}})
    reader = source.reader(source.schema())
    assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == 2
needed = "core errors hints format storage layout scan tables datasource session engine".split()
rooms = set(name.split(".")[1] for name in sys.modules if name.startswith("lance_spark."))
print(sorted(rooms.difference(needed)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def crossing(uri):
    """One of everything that Spark carries to executors and back."""
    import lance
    from pyspark.sql import types as st

    from lance_spark.datasource.reader import LancePartition, LanceReader
    from lance_spark.datasource.writer import LanceCommitMessage, LanceWriter
    from lance_spark.native.tasks import ScanTask, TaskPart
    from lance_spark.tables.read import pin_read

    lance.write_dataset(pa.table({"id": [1, 2]}), uri)
    schema = st.StructType([st.StructField("id", st.LongType())])
    location = DatasetLocation.at(uri, {"aws_secret_access_key": "hush-hush"})
    pin = PinnedVersion("exp/a", 7)
    read = pin_read({"path": uri, "columns": "id", "filter": "id > 1"})
    part = ScanPartition((1, 2), 3, 4, 5)
    return {
        "DatasetLocation": location,
        "PinnedRead": read,
        "ScanPartition": part,
        "Scan": Scan(location, pin, ScanColumns(("id",), True, True, "all_binary"), "id > 1", 9),
        "WriteJob": WriteJob(
            WritePlan(location, parse_write_options({"branch": "exp/a"}), "append", pa.schema([]), pin), pin
        ),
        "LancePartition": LancePartition(part),
        "LanceReader": LanceReader(read, schema),
        "LanceWriter": LanceWriter({"path": uri}, schema, overwrite=False),
        "ScanTask": ScanTask(Scan(location, pin, ScanColumns(("id",)), "id > 1", 9), pa.schema([("id", pa.int64())])),
        "TaskPart": TaskPart(part, "id > 1"),
        "LanceCommitMessage": LanceCommitMessage(['{"files": []}']),
    }


@pytest.mark.parametrize("dump", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"])
def test_what_crosses_to_executors_survives_the_way(crossing, dump):
    for name, value in crossing.items():
        again = pickle.loads(dump(value))
        assert type(again).__name__ == name
        if name in {"LancePartition", "LanceReader", "LanceWriter"}:
            assert vars(again) == {**vars(value), **({"_partitions": ()} if name == "LanceReader" else {})}
        else:
            assert again == value


def test_a_reader_and_a_writer_work_after_the_way(crossing):
    reader = pickle.loads(pickle.dumps(crossing["LanceReader"]))
    batches = [batch for part in crossing["LanceReader"].partitions() for batch in reader.read(part)]
    assert pa.Table.from_batches(batches)["id"].to_pylist() == [2]
    writer = pickle.loads(pickle.dumps(crossing["LanceWriter"]))
    message = writer.write(iter([pa.record_batch({"id": [3]})]))
    crossing["LanceWriter"].commit([pickle.loads(pickle.dumps(message))])
    import lance

    assert lance.dataset(crossing["PinnedRead"].location.uri).to_table()["id"].to_pylist() == [1, 2, 3]


def test_no_representation_shows_a_secret(crossing):
    for value in crossing.values():
        assert "hush-hush" not in f"{value!r} {value}"


def test_no_machine_and_no_secret_is_named_in_the_sources():
    for path in SOURCES:
        assert not re.search(r"/(home|root|Users)/\w+|AKIA[0-9A-Z]{16}", path.read_text()), path


def test_documents_that_the_code_cites_are_in_the_repository():
    """Whoever has the repository, or a wheel of it, can look nowhere else. What is public has an address instead."""
    texts = {path: path.read_text() for folder in CODE for path in (ROOT / folder).rglob("*.py")}
    cited = {(path, name) for path, text in texts.items() for name in re.findall(r"(?<![\w/.:*-])[\w./-]+\.md\b", text)}
    assert any(name == "README.md" for _, name in cited)
    folders = [ROOT, ROOT / "conf", ROOT / "docs", *(path for path in (ROOT / "docs").rglob("*") if path.is_dir())]
    assert not [
        (str(path.relative_to(ROOT)), name)
        for path, name in cited
        if name.startswith("..") or not any((folder / name).is_file() for folder in folders)
    ]


def test_the_walks_for_newcomers_lead_through_files_that_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Three walks\n")[2].partition("\n## ")[0]
    walks = text.split("\n### ")[1:]
    assert len(walks) == 3
    for walk in walks:
        steps = re.findall(r"^\d\. `([^`]+)`: (.+?)(?=^\d\. |\n\n|\Z)", walk, re.MULTILINE | re.DOTALL)
        assert 2 <= len(steps) <= 5
        for path, what in steps:
            code = (ROOT / path).read_text()
            named = re.findall(r"`(\w+)`", what)
            assert not [name for name in named if not re.search(rf"\b{name}\b", code)], (path, named)
