"""The night in parts: together they have every test once, and what passed is not repeated."""

from pathlib import Path

import pytest
from support.kinds import take_share
from support.scripts import script

pytestmark = pytest.mark.pure
ROOT = Path(__file__).parents[2]
Code = script(".ci/records.py").Code


@pytest.fixture(scope="module")
def night():
    return script(".ci/night.py")


class Item:
    """A test, as far as a share looks at it. What is left out is noted."""

    def __init__(self, number, left_out):
        self.number, self.config = number, self
        self.hook, self.pytest_deselected = self, lambda items: left_out.extend(item.number for item in items)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 12])
def test_shares_have_each_test_once(count):
    found = []
    for number in range(1, count + 1):
        left_out = []
        items = [Item(each, left_out) for each in range(10)]
        take_share(items, f"{number}/{count}")
        assert sorted([*left_out, *(item.number for item in items)]) == list(range(10))
        found += [item.number for item in items]
    assert sorted(found) == list(range(10))


@pytest.mark.parametrize("share", ["", "1", "0/2", "3/2", "a/b", "-1/2", "1/2/3"])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(pytest.UsageError, match="K/N"):
        take_share([], share)


def test_the_parts_have_every_file_on_the_newest_spark(night):
    parts = night.parts()
    assert len({part.name for part in parts}) == len(parts)
    shares = {}
    for part in parts:
        if part.spark == "newest":
            for file in part.files:
                shares.setdefault(file, []).append(part.share)
    assert set(shares) == {str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("*/test_*.py")}
    for file, found in shares.items():
        assert found == [f"{number}/{len(found)}" for number in range(1, len(found) + 1)], file
    assert set(night.SHARES) <= set(shares)


def test_the_oldest_spark_has_each_file_with_spark_once_and_one_share_of_what_takes_an_hour(night):
    oldest = [(file, part.share) for part in night.parts() if part.spark == "oldest" for file in part.files]
    every = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("*/test_*.py")]
    with_spark = [file for file in every if night._uses_spark(file)]
    assert sorted(oldest) == sorted((file, f"1/{night.SHARES.get(file, 1)}") for file in with_spark)


@pytest.fixture
def code(night, monkeypatch, tmp_path):
    """A checkout of some files, whose results are stored elsewhere."""
    monkeypatch.setattr(night, "RESULTS", tmp_path / "night.json")
    monkeypatch.setattr(night, "LOGS", tmp_path / "logs")
    now = Code({"lance_spark/x.py": "a", "tests/lake/test_lake_publish.py": "b", "README.md": "c"}, frozenset())
    monkeypatch.setattr(night, "code", lambda: now)
    return now


def test_what_passed_is_not_repeated_and_what_failed_is(night, code, monkeypatch, capsys):
    ran = []

    def run(part, state):
        ran.append(part.name)
        return {"passed": part.name != "indexes-oldest", "seconds": 1, "said": "1 test", "state": state}

    monkeypatch.setattr(night, "run", run)
    monkeypatch.setattr(night.sys, "argv", ["night.py", "indexes"])
    assert night.main() == 1
    assert sorted(ran) == ["indexes", "indexes-oldest"]
    assert "1 parts passed, 1 failed, 0 not begun" in capsys.readouterr().out
    ran.clear()
    assert night.main() == 1
    assert ran == ["indexes-oldest"]
    monkeypatch.setattr(night.sys, "argv", ["night.py", "indexes", "--list"])
    capsys.readouterr()
    assert night.main() == 0
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["passed", "indexes"],
        ["FAILED", "indexes-oldest"],
    ]
    monkeypatch.setattr(night, "code", lambda: Code({**code.files, "lance_spark/x.py": "new"}, frozenset()))
    assert night.main() == 0
    assert [line.split()[:3] for line in capsys.readouterr().out.splitlines()] == [
        ["passed", "before", "indexes"],
        ["FAILED", "before", "indexes-oldest"],
    ]
    monkeypatch.setattr(night.sys, "argv", ["night.py", "nothing"])
    assert night.main() == 2


def test_with_uncommitted_changes_nothing_counts_as_passed(night, code, monkeypatch):
    ran = []
    monkeypatch.setattr(night, "code", lambda: Code(code.files, frozenset({"lance_spark/x.py"})))
    monkeypatch.setattr(
        night, "run", lambda part, _: ran.append(part.name) or {"passed": True, "seconds": 1, "said": "1 test"}
    )
    monkeypatch.setattr(night.sys, "argv", ["night.py", "indexes"])
    assert night.main() == night.main() == 0
    assert sorted(ran) == ["indexes", "indexes", "indexes-oldest", "indexes-oldest"]
    assert not night.RESULTS.exists()


EVERY = {"merge", "lake", "core", "core-looking", "whole-looking", "native-looking", "bad_input-1", "documentation-1"}
LOOKING = {"core-looking", "whole-looking", "documentation-1"}
CHANGES = {
    "lance_spark/x.py": EVERY,
    "tests/support/kinds.py": EVERY,
    "tests/lake/test_lake_publish.py": {"lake", "whole-looking"},
    "tests/core/test_core_public_face.py": {"core-looking", "whole-looking"},
    "tests/whole/test_night.py": {"whole-looking"},
    "tests/whole/test_bad_input.py": {"bad_input-1", "whole-looking"},
    "tests/support/merge_values.py": {"merge", "whole-looking"},
    "README.md": {"core", *LOOKING},
    "docs/reference/merging.md": {"merge", *LOOKING},
    "benchmarks/tpc.py": {"native-looking", "whole-looking"},
    ".ci/docs_site.py": {"whole-looking"},
    ".ci/night.json": set(),
}


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_repeats_what_stands_on_the_file(night, code, path):
    changed = Code({**code.files, path: "new"}, frozenset())
    named = {part.name: part for part in night.parts()}
    states = {name: (code.state(named[name].stands_on), changed.state(named[name].stands_on)) for name in EVERY}
    assert {name for name, (before, after) in states.items() if before != after} == CHANGES[path]


def test_pages_and_scripts_are_read_by_some(night):
    reading = {part.name for part in night.parts() if part.looks_at("docs/reference/merging.md")}
    documentation = {f"documentation-{number}" for number in (1, 2, 3, 4, "oldest")}
    assert reading == {"core-looking", "whole-looking", *documentation}
