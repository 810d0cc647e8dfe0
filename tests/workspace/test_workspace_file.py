"""The workspace's file: people edit it, so it survives changes, names the line that is wrong, and holds no secret."""

from unittest.mock import Mock

import pytest

from lance_spark.core.workspace import (
    RemoteEntry,
    Workspace,
    absolute,
    parse_workspace,
    render_workspace,
    with_branch,
    with_clone_finished,
    with_remote,
    with_remote_uri,
    without_remote,
)
from lance_spark.errors import AlreadyExists, InvalidName, InvalidOption, NotFound, PermissionDenied
from lance_spark.workspace.workspace_files import (
    change_workspace,
    create_workspace,
    finish_clone,
    is_free,
    new_workspace,
    open_workspace,
    remove_with_content,
    remove_workspace,
    set_branch,
)

pytestmark = pytest.mark.pure

EDITED = """\
# the flights of the whole team
dataset = "s3://bucket/flights.lance"   # production

branch = "exp/a" # mine

[remotes.origin]
# ask Ada before pushing
uri = "s3://bucket/origin.lance"
"""


def test_a_new_file_says_what_the_workspace_is():
    workspace = Workspace("s3://bucket/t.lance", "exp", {"origin": RemoteEntry("origin", "../t.lance")})
    text = render_workspace(workspace)
    assert parse_workspace(text) == workspace
    assert text.startswith("# ")


def test_an_edited_file_is_read():
    assert parse_workspace(EDITED) == Workspace(
        "s3://bucket/flights.lance", "exp/a", {"origin": RemoteEntry("origin", "s3://bucket/origin.lance")}
    )
    assert parse_workspace('dataset = "."') == Workspace(".", "main", {})


def test_a_clone_that_is_not_finished_says_so():
    text = render_workspace(Workspace(".", "exp", {"origin": RemoteEntry("origin", "/x")}, cloning="exp@5"))
    assert parse_workspace(text).cloning == "exp@5"
    whole = with_clone_finished(text)
    assert parse_workspace(whole) == Workspace(".", "exp", {"origin": RemoteEntry("origin", "/x")})
    assert with_clone_finished(whole) == whole


def test_a_change_keeps_every_comment():
    text = with_branch(EDITED, "main")
    assert text == EDITED.replace('"exp/a"', '"main"')
    text = with_remote(text, RemoteEntry("up.stream", "s3://bucket/up"))
    assert text.startswith(EDITED.replace('"exp/a"', '"main"'))
    assert parse_workspace(text).remotes["up.stream"].uri == "s3://bucket/up"
    text = with_remote_uri(text, RemoteEntry("origin", "s3://other/t"))
    assert "# ask Ada before pushing" in text
    assert (
        without_remote(text, "up.stream").rstrip()
        == EDITED.replace('"exp/a"', '"main"').replace("s3://bucket/origin.lance", "s3://other/t").rstrip()
    )


def test_the_last_remote_leaves_a_file_that_takes_another():
    text = without_remote(EDITED, "origin")
    assert parse_workspace(text).remotes == {}
    assert parse_workspace(with_remote(text, RemoteEntry("b", "/x"))).remotes == {"b": RemoteEntry("b", "/x")}


def test_remotes_in_other_spellings_of_toml():
    text = 'dataset = "."\nremotes = { origin = { uri = "/a" } }\n'
    assert parse_workspace(with_remote_uri(text, RemoteEntry("origin", "/b"))).remotes["origin"].uri == "/b"
    text = 'dataset = "."\nremotes.origin.uri = "/a"\n'
    assert set(parse_workspace(with_remote(text, RemoteEntry("two", "/b"))).remotes) == {"origin", "two"}


WRONG = [
    ("dataset =", "line 1: this is not TOML"),
    ('dataset = "."\ndataset = "x"', "line 2: this is not TOML"),
    ("", "'dataset' is missing"),
    ("dataset = 5", "line 1: 'dataset' is 5"),
    ('dataset = ""', "line 1: The URI is empty"),
    ('dataset = "s3://b/a?c"', "line 1: 's3://b/a?c' cannot be"),
    ('dataset = "."\nbrunch = "x"', "line 2: 'brunch' is not a known key"),
    ('dataset = "."\n\nbranch = "a b"', "line 3: 'a b' is not a valid branch name"),
    ('dataset = "."\nbranch = ["x"]', "line 2: 'branch' is ['x']"),
    ('dataset = "."\ncloning = 5', "line 2: 'cloning' is 5"),
    ('dataset = "."\nremotes = 1', "line 2: 'remotes' is 1"),
    ('dataset = "."\n[remotes]\norigin = "/x"', "line 3: 'remotes.origin' is '/x'"),
    ('dataset = "."\n[remotes.origin]\n', "line 2: 'remotes.origin.uri' is missing"),
    ('dataset = "."\n[remotes.origin]\nurl = "x"', "line 3: 'remotes.origin.url' is not a known key"),
    ('dataset = "."\n[remotes.heads]\nuri = "x"', "line 2: 'heads' is not a valid remote name"),
    ('dataset = "s3://key:hush@b/t"', "line 1: The URI has credentials in it"),
    ('dataset = "."\n[remotes.o]\nuri = "s3://key@b/t"', "line 3: The URI has credentials in it"),
    ('dataset = "."\n[storage]\naws_region = "x"', "line 2: 'storage' does not belong here"),
    ('dataset = "."\naws_secret_access_key = "hush"', "line 2: 'aws_secret_access_key' does not belong here"),
    ('dataset = "."\n[remotes.o]\nuri = "/x"\ntoken = "hush"', "line 4: 'remotes.o.token' does not belong here"),
]


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_what_is_wrong_is_named_with_its_line(text, words):
    with pytest.raises(InvalidOption) as caught:
        parse_workspace(text)
    assert words in caught.value.message
    assert "hush" not in str(caught.value)


def test_uris_with_credentials_are_refused():
    for uri in ("s3://key:secret@bucket/t", "s3a://key@bucket/t", "https://me:secret@host/t"):
        with pytest.raises(InvalidOption, match="credentials"):
            render_workspace(Workspace(uri))
        with pytest.raises(InvalidOption, match="credentials"):
            with_remote(EDITED, RemoteEntry("new", uri))
        with pytest.raises(InvalidOption, match="credentials"):
            with_remote_uri(EDITED, RemoteEntry("origin", uri))


def test_an_azure_container_is_no_credential():
    assert parse_workspace('dataset = "abfss://box@account.dfs.core.windows.net/t"').dataset.startswith("abfss://box@")


def test_remotes_that_are_there_or_not():
    with pytest.raises(AlreadyExists):
        with_remote(EDITED, RemoteEntry("origin", "/x"))
    for change in (without_remote, lambda text, name: with_remote_uri(text, RemoteEntry(name, "/x"))):
        with pytest.raises(NotFound) as caught:
            change(EDITED, "orign")
        assert "'origin'" in caught.value.hint
    for name in ("", "a/b", "a b", "..", "a..b", "-x", "tags", "HEAD", "main"):
        with pytest.raises(InvalidName):
            with_remote(EDITED, RemoteEntry(name, "/x"))


def test_paths_count_from_the_workspace():
    assert absolute("../t.lance", "/work/here") == "/work/here/../t.lance"
    assert absolute("/t.lance", "/work") == "/t.lance"
    for uri in ("s3://bucket/t", "file:///t.lance", "file:/t.lance"):
        assert absolute(uri, "/work") == uri


def test_a_second_workspace_is_refused_and_a_failed_one_leaves_nothing(tmp_path):
    place = tmp_path / "w"
    create_workspace(str(place), Workspace("."))
    with pytest.raises(AlreadyExists):
        create_workspace(str(place), Workspace("other"))
    remove_workspace(str(place))
    assert not place.exists()


def test_removing_leaves_what_else_is_there(tmp_path):
    create_workspace(str(tmp_path), Workspace("."))
    (tmp_path / "notes.txt").write_text("mine")
    remove_workspace(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_directory_that_was_made_for_nothing_goes_with_all_in_it(tmp_path):
    place = tmp_path / "w"
    assert is_free(str(place))
    create_workspace(str(place), Workspace("."))
    assert not is_free(str(place))
    (place / "data").mkdir()
    (place / "data" / "file").write_text("x")
    (tmp_path / "mine").mkdir()
    (place / "link").symlink_to(tmp_path / "mine")
    remove_with_content(str(place))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    remove_with_content(str(place))
    (tmp_path / "note").write_text("x")
    assert (is_free(str(tmp_path / "mine")), is_free(str(tmp_path / "note"))) == (True, False)


def test_a_trial_writes_nothing_and_finds_what_is_wrong(tmp_path):
    create_workspace(str(tmp_path), Workspace("."))
    changed = change_workspace(str(tmp_path), lambda text: with_branch(text, "exp"), dry_run=True)
    assert (changed.branch, open_workspace(str(tmp_path)).workspace.branch) == ("exp", "main")
    with pytest.raises(InvalidOption):
        change_workspace(str(tmp_path), lambda text: with_branch(text, "a b"), dry_run=True)


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    create_workspace(str(tmp_path), Workspace("."))
    monkeypatch.setattr("os.replace", Mock(side_effect=PermissionError(13, "Permission denied")))
    with pytest.raises(PermissionDenied, match="cannot be written"):
        change_workspace(str(tmp_path), lambda text: with_branch(text, "exp"))
    assert open_workspace(str(tmp_path)).workspace.branch == "main"


def test_a_change_that_makes_no_sense_is_not_written(tmp_path):
    create_workspace(str(tmp_path), Workspace("."))
    with pytest.raises(InvalidOption):
        change_workspace(str(tmp_path), lambda text: with_branch(text, "a b"))
    assert open_workspace(str(tmp_path)).workspace.branch == "main"


def test_a_file_that_is_no_text_is_said_so(tmp_path):
    create_workspace(str(tmp_path), Workspace("."))
    (tmp_path / ".lance-git" / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidOption, match="not UTF-8"):
        open_workspace(str(tmp_path))


def test_a_config_that_is_a_directory_or_a_file_in_the_way(tmp_path):
    (tmp_path / ".lance-git").write_text("a file")
    assert open_workspace(str(tmp_path)) is None


def test_a_workspace_stays_when_what_it_is_for_was_made(tmp_path):
    place = str(tmp_path / "work")
    with new_workspace(place, Workspace("t.lance", "main", {}, "exp@3")):
        assert open_workspace(place).workspace.cloning == "exp@3"
    finish_clone(place, "exp")
    assert (open_workspace(place).workspace.branch, open_workspace(place).workspace.cloning) == (
        "exp",
        None,
    )
    set_branch(place, "main")
    assert open_workspace(place).workspace.branch == "main"


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("problem", [NotFound("there is nothing"), KeyboardInterrupt()])
def test_a_workspace_goes_when_what_it_is_for_failed(tmp_path, problem, whole):
    place = tmp_path / "work"
    undo = (lambda: remove_with_content(str(place))) if whole else None

    def fail_amid():
        with new_workspace(str(place), Workspace("t.lance"), undo):
            (place / "half").write_text("a half")
            raise problem

    with pytest.raises(type(problem)):
        fail_amid()
    assert [path.name for path in place.glob("*")] == ([] if whole else ["half"])


def test_a_workspace_that_is_there_already_is_left_alone(tmp_path):
    create_workspace(str(tmp_path), Workspace("t.lance", "exp"))
    with (
        pytest.raises(AlreadyExists),
        new_workspace(str(tmp_path), Workspace("other.lance"), lambda: pytest.fail("no")),
    ):
        pytest.fail("the block does not run")
    assert open_workspace(str(tmp_path)).workspace == Workspace("t.lance", "exp")
