"""The night in parts: together they have every test once, and what passed is not repeated."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from support.kinds import take_share

pytestmark = pytest.mark.pure
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def night():
    spec = importlib.util.spec_from_file_location("night", ROOT / ".ci/night.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setitem(sys.modules, "night", module)  # where dataclasses looks for it
    spec.loader.exec_module(module)
    yield module
    monkeypatch.undo()


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


def test_what_passed_is_not_repeated_and_what_failed_is(night, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(night, "RECORDS", tmp_path)
    monkeypatch.setattr(night, "state", lambda with_pages: "abc" if with_pages else "def")
    ran = []

    def run(part, records, remember):
        ran.append(part.name)
        result = {"passed": part.name != "merge-oldest", "seconds": 1, "said": "1 test"}
        (records / f"{part.name}.json").write_text(night.json.dumps(result))
        return result

    monkeypatch.setattr(night, "run", run)
    monkeypatch.setattr(night.sys, "argv", ["night.py", "merge"])
    assert night.main() == 1
    assert sorted(ran) == ["merge", "merge-oldest"]
    assert "1 parts passed, 1 failed, 0 not begun" in capsys.readouterr().out
    ran.clear()
    assert night.main() == 1
    assert ran == ["merge-oldest"]
    monkeypatch.setattr(night.sys, "argv", ["night.py", "nothing"])
    assert night.main() == 2


def test_a_change_of_a_page_repeats_only_what_reads_pages(night, monkeypatch):
    listed = {"a": "lance_spark/x.py", "b": "docs/pages", "c": "README.md"}
    said = {"status": "", "ls-tree": "\n".join(f"100644 blob {name}\t{path}" for name, path in listed.items())}
    monkeypatch.setattr(night, "_git", lambda command, *_: said[command])
    before = night.state(False), night.state(True)
    said["ls-tree"] = said["ls-tree"].replace("blob b", "blob d").replace("blob c", "blob e")
    assert night.state(False) == before[0]
    assert night.state(True) != before[1]
    said["ls-tree"] = said["ls-tree"].replace("blob a", "blob f")
    assert night.state(False) != before[0]
    said["status"] = " M lance_spark/x.py"
    assert night.state(False) is None
    reading = {part.name for part in night.parts() if part.reads_pages}
    assert {"documentation-1", "whole", "cli"} <= reading
    assert not {"changes", "lake", "rows", "catalog"} & reading
