"""The Java classes for a server, compiled by its Spark without a JDK."""

import os
import zipfile

import pyspark
import pytest

from lance_spark.errors import Refused
from lance_spark.jvm.server import compiling

HOME = os.path.dirname(pyspark.__file__)


@pytest.mark.when(day=0)
def test_a_jar_has_all_classes_and_is_made_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(compiling.tempfile, "tempdir", None)
    path = compiling.compiled_jar(HOME)
    names = zipfile.ZipFile(path).namelist()
    assert {"lance_spark/Helper.class", "lance_spark/Answers$Maker.class", "lance_spark/Batches.class"} <= {*names}
    made = os.stat(path)
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
    assert compiling.compiled_jar(HOME) == path
    assert os.stat(path) == made


@pytest.mark.parametrize("missing", ["jars", "java"])
def test_what_is_missing_is_said(tmp_path, monkeypatch, missing):
    monkeypatch.setattr(compiling.tempfile, "tempdir", str(tmp_path))
    home = str(tmp_path)
    if missing == "java":
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
        home = HOME
    with pytest.raises(Refused, match="no directory 'jars'" if missing == "jars" else "JAVA_HOME"):
        compiling.compiled_jar(home)


def test_a_directory_of_another_user_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr(compiling.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(compiling.os, "getuid", lambda: 4711)
    with pytest.raises(Refused, match="belongs to another user"):
        compiling.compiled_jar(HOME)
