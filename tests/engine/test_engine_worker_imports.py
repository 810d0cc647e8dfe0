"""A worker's modules from zip files are not looked up again for each task, unless a file changes."""

from __future__ import annotations

import importlib
import os
import sys
import zipfile
import zipimport
from pathlib import Path
from typing import Any

import pytest

from lance_spark.engine.workers_spark import _WORKER, keep_archives, plainly

pytestmark = pytest.mark.pure


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A zip file that a package was imported from, as a worker has PySpark's."""
    path = tmp_path / "given.zip"
    _write(path, "zipped_first")
    monkeypatch.setattr(sys, "path", [str(path), *sys.path])
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    importlib.import_module("zipped_first.inside")
    return path


def test_an_unchanged_file_is_not_read_again(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_WORKER, "secret")
    with plainly():
        pass
    assert _lists_read(archive, monkeypatch) == 0


def test_only_workers_keep_it(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of a user, or of a driver, has Python's own rules."""
    monkeypatch.delenv(_WORKER, raising=False)
    with plainly():
        pass
    assert not any("invalidate_caches" in vars(finder) for finder in _finders(archive))


def test_a_changed_file_is_read_again(archive: Path) -> None:
    keep_archives()
    _write(archive, "zipped_first", "zipped_second")
    os.utime(archive, ns=(1, 1))
    importlib.invalidate_caches()
    importlib.import_module("zipped_second.inside")
    assert not any("invalidate_caches" in vars(finder) for finder in _finders(archive))


def test_a_file_that_is_gone_gives_no_modules(archive: Path) -> None:
    keep_archives()
    archive.unlink()
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("zipped_second")


def _write(path: Path, *packages: str) -> None:
    with zipfile.ZipFile(path, "w") as made:
        for name in packages:
            made.writestr(f"{name}/__init__.py", "")
            made.writestr(f"{name}/inside.py", "")


def _finders(archive: Path) -> list[Any]:
    found = [each for each in sys.path_importer_cache.values() if isinstance(each, zipimport.zipimporter)]
    found = [each for each in found if each.archive == str(archive)]
    assert len(found) >= 2  # of the file, and of the package in it
    return found


def _lists_read(archive: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the file's list is read when the import caches are dropped, and a module is looked for."""
    _finders(archive)
    read = []
    ours = zipimport._read_directory  # type: ignore[attr-defined]
    monkeypatch.setattr(zipimport, "_read_directory", lambda path: read.append(path) or ours(path))
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("zipped_first.missing")
    return read.count(str(archive))
