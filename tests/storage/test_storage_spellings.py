"""One dataset under many spellings of its path: every one must reach the same files and write the same manifests."""

import os
from pathlib import Path

import lance
import pytest
from support.local_datasets import contents, ids, make_dataset, numbers, rows, write

from lance_spark.clones.clone import shallow_clone
from lance_spark.core.refs import RefSpec
from lance_spark.errors import InvalidOption
from lance_spark.refs.refs import create_branch, delete_branch, list_branches
from lance_spark.storage.datasets import locate
from lance_spark.storage.resolving import resolve


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A real directory that is the working directory, with a symbolic link to it beside it."""
    real = Path(os.path.realpath(tmp_path)) / "real"
    (real / "sub").mkdir(parents=True)
    (real.parent / "link").symlink_to(real)
    monkeypatch.chdir(real)
    return real


def spellings(path):
    name, above = path.name, path.parent
    return [
        f"{path}",
        f"{path}/",
        f"{path}//",
        f"file:{path}",
        f"file://{path}",
        f"FILE://{path}/",
        f"file://localhost{path}",
        name,
        f"./{name}/",
        f"sub/../{name}",
        f"{above}/sub/.././{name}",
        f"{above.parent}/link/{name}",
        f"file://{above.parent}/link/{name}/",
        f"../link/sub/../{name}",
    ]


def test_a_branch_made_through_each_spelling_is_read_and_written_through_all_others(root):
    path = root / "t.lance"
    make_dataset(str(path))
    all_spellings = spellings(path)
    for number, spelling in enumerate(all_spellings):
        create_branch(locate(spelling), f"b{number}", RefSpec())
        stored = lance.dataset(f"{path}/tree/b{number}").base_paths().values()
        assert [base.path for base in stored] == [str(path)], spelling
    for number, spelling in enumerate(all_spellings):
        write(spelling, numbers(1, 100 + number), branch="b3")
        assert ids(all_spellings[number - 1], branch=f"b{number}")[:3] == [0, 1, 2]
    expected = [0, 1, 2, *range(100, 100 + len(all_spellings))]
    assert {spelling: ids(spelling, branch="b3") for spelling in all_spellings} == dict.fromkeys(
        all_spellings, expected
    )
    assert ids(str(path)) == [0, 1, 2]
    assert {entry.name for entry in root.iterdir() if contents(entry)} == {"t.lance"}


@pytest.mark.parametrize("name", ["with space", "été", "a+b,c;d=e&f", "c:d", "s3:x", "#1", "100%", "a%20b", "~"])
def test_a_branch_of_a_dataset_with_an_odd_path_keeps_its_files_in_it(root, name):
    path = root / name
    make_dataset(str(path))
    create_branch(locate(name), "b", RefSpec())
    write(str(path), numbers(1, 9), branch="b")
    assert ids(name, branch="b") == lance.dataset(f"{path}/tree/b").to_table()["id"].to_pylist() == [0, 1, 2, 9]
    assert [base.path for base in lance.dataset(f"{path}/tree/b").base_paths().values()] == [str(path)]
    delete_branch(locate(str(path)), "b")
    assert {entry.name for entry in root.iterdir() if contents(entry)} == {name}
    assert not [file for file in contents(path) if file.startswith("tree/")]


def test_a_question_mark_in_a_path_is_refused_because_pylance_puts_branches_elsewhere(root):
    lance.write_dataset(numbers(1), str(root / "a?b"))
    before = contents(root)
    for attempt in (lambda: locate("a?b"), lambda: write("a?b", numbers(1)), lambda: rows("a?b")):
        with pytest.raises(InvalidOption):
            attempt()
    assert contents(root) == before


def test_a_dataset_created_through_each_spelling_is_one_dataset(root):
    path = root / "new.lance"
    for number, spelling in enumerate(spellings(path)):
        assert write(spelling, numbers(1, number)) == number + 1
    assert ids(str(path)) == list(range(len(spellings(path))))
    assert write(f"file://{path}/", numbers(1), overwrite=True) == len(spellings(path)) + 1
    assert lance.dataset(str(path)).count_rows() == 1


def test_a_shallow_clone_through_odd_spellings_names_its_source_canonically(root):
    source, target = root / "source", root / "target"
    make_dataset(str(source))
    location = locate(f"file://{root.parent}/link/source/")
    shallow_clone(location, resolve(location, RefSpec()), locate("./sub/../target/"))
    assert [base.path for base in lance.dataset(str(target)).base_paths().values()] == [str(source)]
    assert ids(str(target)) == [0, 1, 2]


def test_a_branch_stays_readable_from_another_working_directory(root, monkeypatch):
    make_dataset("t.lance")
    create_branch(locate("t.lance"), "b", RefSpec())
    monkeypatch.chdir(root / "sub")
    assert ids("../t.lance", branch="b") == [0, 1, 2]
    assert [branch.name for branch in list_branches(locate("../t.lance"))] == ["b"]
