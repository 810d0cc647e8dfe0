"""The jar by which Spark's own programs have catalogs: the command that writes it, and the settings that name it."""

import zipfile
from types import SimpleNamespace

import pytest
from support.command_line import call

from lance_spark.cli.catalog.main import main
from lance_spark.errors import InvalidOption, Refused
from lance_spark.jvm.server import compiling

pytestmark = pytest.mark.pure

served = pytest.importorskip("lance_spark.native.served")


class Room:
    """What ``serve`` needs of a session."""

    def __init__(self):
        self.catalogs, self.made = {}, None

    def make_catalog(self, name, root, storage, ref=None):
        self.made = (name, root, dict(storage), ref)
        return SimpleNamespace(own_procedures={})


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ({"root": "/lake"}, ("lake", "/lake", {}, None)),
        ({"root": "/lake", "branch": "exp"}, ("lake", "/lake", {}, ("branch", "exp"))),
        ({"ROOT": "/lake", "Tag": "v1"}, ("lake", "/lake", {}, ("tag", "v1"))),
        ({"root": "/lake", "published": "true"}, ("lake", "/lake", {}, ("published", "true"))),
        ({"root": "/lake", "published": "false", "tag": "v1"}, ("lake", "/lake", {}, ("tag", "v1"))),
        (
            {"root": "s3://b/lake", "storage.aws_region": "eu", "storage.Allow_HTTP": "true"},
            ("lake", "s3://b/lake", {"aws_region": "eu", "allow_http": "true"}, None),
        ),
    ],
)
def test_settings_say_which_catalog_it_is(options, made):
    room = Room()
    catalog = served.serve(room, "lake", options, paths=False)
    assert room.made == made
    assert room.catalogs == {"lake": catalog}
    assert "lance_spark_statement" in catalog.own_procedures


def test_a_catalog_of_paths_has_no_root():
    room = Room()
    served.serve(room, "lance", {"storage.aws_region": "eu"}, paths=True)
    assert room.made == ("lance", None, {"aws_region": "eu"}, None)


@pytest.mark.parametrize(
    ("options", "paths", "said"),
    [
        ({}, False, "spark.sql.catalog.lake.root is not set"),
        ({"rood": "/lake"}, False, "no setting spark.sql.catalog.lake.rood"),
        ({"root": "/lake", "branch": "a", "tag": "b"}, False, "branch and .tag exclude each other"),
        ({"root": "/lake"}, True, "of paths, and takes no root"),
        ({"branch": "a"}, True, "of paths, and takes no root"),
    ],
)
def test_settings_that_mean_nothing_are_refused_with_their_names(options, paths, said):
    room = Room()
    with pytest.raises(InvalidOption, match=said):
        served.serve(room, "lake", options, paths)
    assert not room.catalogs


@pytest.fixture
def classes(tmp_path, monkeypatch):
    """A jar of classes as Spark's compiler would make it."""
    path = tmp_path / "kept" / "classes.jar"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as jar:
        for name in compiling._WANTED:
            jar.writestr(name, b"class")
    monkeypatch.setattr(compiling, "compiled_jar", lambda _: str(path))
    return path


def test_the_command_writes_the_classes_and_says_the_settings(tmp_path, classes):
    target = tmp_path / "out.jar"
    done = call(tmp_path, "-C", "s3://b/lake", "jar", "--spark-home", "/spark", "--json", str(target), main=main).json
    assert done["settings"] == {
        "spark.jars": str(target),
        "spark.sql.extensions": "lance_spark.Extensions",
        "spark.sql.catalog.lake": "lance_spark.Catalog",
        "spark.sql.catalog.lake.root": "s3://b/lake",
    }
    with zipfile.ZipFile(target) as jar:
        assert {*compiling._WANTED} < {*jar.namelist()}
        told = jar.read(compiling.BUILD).decode()
    assert f"digest={compiling.digest()}\n" in told
    assert compiling.BUILD not in zipfile.ZipFile(classes).namelist()
    again = call(tmp_path, "jar", "--spark-home", "/spark", str(target), main=main)  # after an upgrade
    assert again.code == 0
    assert [path.name for path in tmp_path.glob("out*")] == ["out.jar"]


def test_the_command_replaces_no_file_of_others(tmp_path, classes):
    target = tmp_path / "notes.txt"
    target.write_text("mine")
    done = call(tmp_path, "jar", "--spark-home", "/spark", str(target), main=main)
    assert done.code != 0
    assert "was not written by this command" in done.err
    assert target.read_text() == "mine"
    missing = call(tmp_path, "jar", "--spark-home", "/spark", str(tmp_path / "no" / "out.jar"), main=main)
    assert missing.code != 0
    assert "cannot be written" in missing.err


def test_a_spark_that_lacks_something_is_named_and_nothing_is_written(tmp_path, classes):
    with zipfile.ZipFile(classes, "w") as jar:
        jar.writestr("lance_spark/Helper.class", b"")
    with pytest.raises(Refused, match=r"lance_spark/Catalog.class cannot be compiled for the Spark in /spark"):
        compiling.write_jar("/spark", str(tmp_path / "out.jar"))
    assert not [*tmp_path.glob("out*")]


def test_a_path_of_python_reaches_java_as_it_is():
    assert compiling._escaped("C:\\p\\python") == "C:\\u005cp\\u005cpython"
    assert compiling._escaped("/höme/python") == "/h\\u00f6me/python"
