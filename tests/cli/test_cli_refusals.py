"""Every way to be wrong: one line, a way out, the right exit code, and nothing has changed."""

import json
import re

import pytest
from support.command_line import append, call, config, ids, make_flights

from lance_spark import LanceTable
from lance_spark.cli.catalog.main import main as catalog_main
from lance_spark.cli.git_options import OPTIONS
from lance_spark.cli.main import WORDS, cli
from lance_spark.cli.verbs import VERBS
from lance_spark.clones.clone import shallow_clone
from lance_spark.errors import InvalidOption, Refused
from lance_spark.storage.datasets import locate
from lance_spark.storage.resolving import resolve_expression

WRONG = [
    # usage
    (("brnch",), 2, "'brnch' is not a verb of lance-git. Did you mean 'branch'?"),
    (("--dataset",), 2, "Option '--dataset' requires an argument."),
    (("branch", "--nope"), 2, "No such option"),
    (("branch", "--merged"), 2, "lance-git branch has no --merged: "),
    (("push", "--force-with-lease"), 2, "a push never takes away what the remote has"),
    (("merge", "--abort"), 2, "nothing is ever in progress"),
    (("merge", "--strategy", "ours", "exp"), 2, "conflicts are told before anything is written"),
    (("tag", "-m", "first", "v9"), 2, "a tag is a name and nothing else"),
    (("restore",), 2, "Missing argument 'REF'."),
    (("-C", "nowhere", "branch"), 2, "Directory 'nowhere' does not exist."),
    (("--storage", "secret-without-a-key", "branch"), 2, "--storage takes KEY=VALUE."),
    (("branch", "-d", "exp", "new"), 2, "Too many names to delete a branch: exp, new."),
    (("branch", "-d", "-m", "exp", "new"), 2, "-d and -m cannot be combined."),
    (("branch", "-D", "exp", "--alter"), 2, "-D and --alter cannot be combined."),
    (("branch", "--list", "-m", "exp"), 2, "-l and -m cannot be combined."),
    (("branch", "a", "b", "c"), 2, "Too many names to create a branch: a, b, c."),
    (("branch", "-d"), 2, "A name is missing to delete a branch."),
    (("branch", "-r", "new"), 2, "-r cannot be used to create a branch."),
    (("branch", "--purge", "new"), 2, "--purge cannot be used to create a branch."),
    (("branch", "-v", "-d", "exp"), 2, "-v cannot be used to delete a branch."),
    (("branch", "--protected"), 2, "--protected cannot be used to list branches."),
    (("branch", "-m", "trunk"), 3, "Branch 'main' cannot be renamed"),
    (("tag", "-d", "v1", "new"), 2, "Too many names to delete a tag: v1, new."),
    (("tag", "-d", "--restore", "v1"), 2, "-d and --restore cannot be combined."),
    (("tag", "new", "--unset", "owner"), 2, "--unset cannot be used to create or move a tag."),
    (("tag", "v1", "--old", "main@2"), 2, "--old needs -f NAME."),
    (("tag", "-f"), 2, "-f cannot be used to list tags."),
    (("checkout",), 2, "No branch was named."),
    (("remote", "ad", "x", "y"), 2, "'ad' is not a verb of lance-git remote. Did you mean 'add'?"),
    (("gc", "--older-than", "soon"), 2, "must be a span such as 14d"),
    (("gc", "--retain-versions", "0"), 2, "Invalid value for '--retain-versions'"),
    (("gc", "--policy", "nowhere.toml"), 2, "There is no policy file nowhere.toml."),
    (("gc", "--execute", "--dry-run"), 2, "--execute and --dry-run cannot be combined."),
    # names and refs
    (("branch", "a b"), 2, "'a b' is not a valid branch name"),
    (("branch", "main"), 2, "'main' is reserved"),
    (("branch", "new", "main..exp"), 2, "is a range, but one ref is needed"),
    (("branch", "new", "v1@2"), 2, "a tag is one version, so it takes no '@'"),
    (("branch", "new", "main@x"), 2, "'@x' in 'main@x' is not a version"),
    (("branch", "new", "4"), 10, "There is no branch or tag '4'."),
    (("branch", "new", "exq"), 10, "There is no branch or tag 'exq'."),
    (("branch", "new", "head"), 10, "There is no branch or tag 'head'."),
    (("branch", "new", "heads/v1"), 10, "There is no branch 'v1'."),
    (("branch", "new", "tags/exp"), 10, "There is no tag 'exp'."),
    (("branch", "new", "main@9"), 10, "Branch 'main' has no version 9."),
    (("branch", "new", "main~4"), 10, "goes back 4 versions, but branch 'main' has 3 before version 4"),
    (("branch", "new", "both"), 3, "'both' is both a branch and a tag."),
    (("switch", "both"), 3, "'both' is both a branch and a tag."),
    # branches
    (("branch", "exp"), 11, "Branch 'exp' already exists."),
    (("checkout", "-b", "exp"), 11, "Branch 'exp' already exists."),
    (("branch", "-d", "exq"), 10, "There is no branch 'exq'."),
    (("branch", "-d", "main", "--yes"), 3, "it is the dataset"),
    (("branch", "-m", "main", "trunk"), 3, "Branch 'main' cannot be renamed"),
    (("branch", "-m", "exp", "other"), 3, "it has 2 versions of its own"),
    (("branch", "-m", "idle", "exp"), 11, "Branch 'exp' already exists."),
    (("branch", "-m", "idle", "a..b"), 2, "'a..b' is not a valid branch name"),
    (("switch", "exq"), 10, "There is no branch or tag 'exq'."),
    (("switch", "v1"), 3, "tag 'v1' does not move"),
    (("switch", "main@2"), 3, "the version 'main@2' does not move"),
    (("switch", "HEAD~1"), 3, "the version 'HEAD~1' does not move"),
    # tags
    (("tag", "a/b"), 2, "'a/b' is not a valid tag name"),
    (("tag", "v1"), 11, "Tag 'v1' already exists, at main@2."),
    (("tag", "-d", "v2"), 10, "There is no tag 'v2'."),
    (("tag", "-f", "v1", "main", "--old", "main@1"), 12, "Tag 'v1' is at main@2, not at main@1; it was not moved."),
    (("tag", "-f", "v9", "main", "--old", "main@1"), 12, "Tag 'v9' does not exist"),
    # restore
    (("restore", "HEAD"), 3, "Version main@4 is already the newest of branch 'main'."),
    (("restore", "exp@4", "--yes"), 3, "'exp@4' is exp@4, but the current branch is 'main'."),
    # remotes
    (("remote", "add", "a/b", "s3://bucket/t"), 2, "'a/b' is not a valid remote name"),
    (("remote", "add", "tags", "s3://bucket/t"), 2, "it means something else in a ref"),
    (("remote", "add", "origin", "s3://key:hush-hush@bucket/t"), 2, "The URI has credentials in it"),
    (("remote", "add", "origin", "s3://key@bucket/t"), 2, "The URI has credentials in it"),
    (("remote", "add", "origin", ""), 2, "The URI is empty."),
    (("remote", "add", "origin", "."), 2, "is this dataset itself"),
    (("remote", "remove", "origin"), 10, "There is no remote 'origin'."),
    (("remote", "set-url", "origin", "s3://bucket/t"), 10, "There is no remote 'origin'."),
    (("--dataset", ".", "remote", "add", "up", "s3://bucket/t"), 2, "This needs a workspace"),
    (("-C", "s3://bucket/t", "switch", "exp"), 2, "This needs a workspace"),
    (("-C", "s3://bucket/t", "--dataset", ".", "log"), 2, "-C and --dataset both name a dataset."),
    (("-C", "s3://bucket/t", "init", "."), 2, "init takes the dataset as its argument"),
    (("-C", "s3://key:hush-hush@bucket/t", "log"), 2, "The URI has credentials in it"),
    (("-C", "s3:/bucket/t", "log"), 2, "A URI needs two slashes after 's3:'."),
    (("-C", "file:///nowhere/t.lance", "log"), 2, "Directory '/nowhere/t.lance' does not exist."),
    (("--dataset", "s3://key:hush-hush@bucket/t", "switch", "exp"), 2, "The URI has credentials in it"),
    (("--dataset", ".", "switch", "exp"), 2, "This needs a workspace"),
    (("--dataset", "s3://key:hush-hush@bucket/t", "branch"), 2, "The URI has credentials in it"),
    (("--dataset", "nowhere.lance", "branch"), 10, "There is no Lance dataset at"),
    (("--dataset", "tree/exp", "branch"), 2, "is the directory of branch 'exp'"),
    # a tag on a version that would go
    (("gc", "--older-than", "0s", "--commit-window", "0s"), 3, "tag"),
]


def state(flights):
    refs = [call(flights, verb, "--json").out for verb in ("branch", "tag", "remote")]
    return refs, config(flights), ids(flights), ids(flights, "exp")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return make_flights(tmp_path_factory.mktemp("refusals"))


@pytest.mark.parametrize(("arguments", "code", "words"), WRONG, ids=[" ".join(wrong[0]) for wrong in WRONG])
def test_what_is_wrong_is_said_in_one_line(shared, arguments, code, words):
    before = state(shared)
    done = call(shared, *arguments)
    assert done.code == code
    first, *rest = done.error.splitlines()
    assert first.startswith("error: ")
    assert words in first
    assert len(rest) <= 1
    assert all(line.startswith("hint: ") for line in rest)
    assert "hush-hush" not in done.err
    as_json = call(shared, *arguments, "--json")
    if arguments != ("--dataset",):
        told = json.loads(as_json.error)
        assert (f"error: {' '.join(told['error'].split())}", told["exit_code"]) == (first, code)
        assert rest == ([f"hint: {told['hint']}"] if told["hint"] else [])
    assert state(shared) == before


HINTS = [
    (("branch", "-d", "-m", "exp", "new"), "branch (-d | -D) NAME [--purge] or lance-git branch -m [OLD] NEW"),
    (("branch", "--purge"), "lance-git branch (-d | -D) NAME [--purge]"),
    (("tag", "-f"), "lance-git tag [-f [--old REF]] NAME [REF] [SETTINGS] or lance-git tag -d NAME [-f]"),
    (("branch", "new", "4"), "For version 4, write @4."),
    (("switch", "both"), "Write heads/both for the branch, tags/both for the tag."),
    (("branch", "new", "exq"), "Did you mean 'exp'?"),
    (("branch", "new", "exp~3"), "it was made from main@3, so write main@3~1 for earlier versions."),
    (("checkout", "-b", "exp"), "lance-git switch exp goes to it."),
    (("switch", "v1"), "Start a branch there: lance-git checkout -b NAME v1."),
    (("tag", "v1", "exp"), "Move it: lance-git tag -f v1 exp@5."),
    (("restore", "exp@4"), "A restore stays on its branch. First: lance-git switch exp."),
    (("branch", "-m", "exp", "other"), "Create a branch on top of it: lance-git branch other exp."),
    (("remote", "add", "origin", "s3://a:b@c/d"), "they come from the environment, or from --storage KEY=VALUE"),
    (("gc", "--nope"), "lance-git gc --help shows the usage."),
]


@pytest.mark.parametrize(("arguments", "words"), HINTS, ids=[" ".join(hint[0]) for hint in HINTS])
def test_the_hint_says_what_to_type(shared, arguments, words):
    assert words in call(shared, *arguments).error.splitlines()[-1]


def test_the_current_branch_is_not_deleted(flights):
    call(flights, "switch", "idle")
    done = call(flights, "branch", "-d", "idle", "--yes")
    assert done.code == 3
    assert "Branch 'idle' is the current branch." in done.error
    assert "idle" in call(flights, "branch").out


def test_a_branch_that_others_need_is_not_deleted(flights):
    call(flights, "branch", "child", "exp")
    done = call(flights, "branch", "-d", "exp", "--yes")
    assert done.code == 3
    assert "'child' was created from it" in done.error
    assert ids(flights, "exp") == [10, 20, 31, 32]


def test_a_current_branch_that_somebody_deleted_is_named(flights):
    call(flights, "switch", "idle")
    assert call(flights, "--dataset", ".", "branch", "-d", "idle", "--yes").code == 0
    done = call(flights, "tag", "now")
    assert done.code == 10
    assert "The current branch 'idle' does not exist." in done.error
    listed = call(flights, "branch")
    assert listed.code == 0
    assert "The current branch 'idle' does not exist; lance-git switch main leaves it." in listed.err
    assert call(flights, "switch", "main").code == 0


def test_a_tag_that_protects_a_clone_is_hidden_and_only_goes_by_force(flights, tmp_path):
    here, there = locate(str(flights)), locate(str(tmp_path / "clone.lance"))
    shallow_clone(here, resolve_expression(here, "main@3", None), there)
    shown = [{tag["name"] for tag in call(flights, "tag", *rest, "--json").json["tags"]} for rest in ((), ("--all",))]
    assert shown[0] == {"v1", "both"}
    (name,) = shown[1] - shown[0]
    done = call(flights, "tag", "-d", name, "--yes")
    assert done.code == 3
    assert f"protects what the clone at {there.uri} needs" in done.error
    assert call(flights, "tag", "-d", name, "-f", "--yes").code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('dataset = "."\nbrunch = "exp"\n', "line 2: 'brunch' is not a known key"),
        ('dataset = "."\n\n[storage]\naws_region = "x"\n', "line 3: 'storage' does not belong here"),
        ("dataset = \n", "line 1: this is not TOML"),
    ],
)
def test_a_workspace_that_was_edited_badly_names_the_line(flights, text, words):
    (flights / ".lance-git" / "config.toml").write_text(text)
    done = call(flights, "branch")
    assert done.code == 2
    assert words in done.error


def test_an_unreadable_dataset_is_not_an_absent_one(flights):
    for manifest in (flights / "_versions").glob("*.manifest"):
        manifest.write_bytes(b"\1" * 100)
    assert call(flights, "branch").code == 22


def test_a_commit_that_came_in_between_is_told(flights, monkeypatch):
    """Settings can only be restored by pylance, which conflicts with nothing."""
    import lance

    from lance_spark.storage import datasets

    lance.dataset(str(flights)).update_config({"mine": "yes"})
    real = datasets.restore

    def late(location, pin):
        append(flights, None, 99)
        return real(location, pin)

    monkeypatch.setattr(datasets, "restore", late)
    done = call(flights, "restore", "@2", "--yes")
    assert done.code == 12
    assert "version 6 was committed first and is covered" in done.error


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_git_that_means_nothing_here_says_what_to_type(tmp_path, word):
    """Without a dataset as well: it is the first thing that many people type."""
    done = call(tmp_path, word, "--hard", "x")
    assert done.code == 2
    first, hint = done.error.splitlines()
    assert first == f"error: lance-git has no '{word}': {WORDS[word][0]}."
    assert hint == f"hint: {WORDS[word][1]}"
    assert word not in VERBS
    for verb in re.findall(r"lance-git ([a-z-]+)", hint):
        assert verb in VERBS


def test_a_misspelt_word_of_git_gets_the_same_answer(tmp_path):
    assert "lance-git has no 'commit'" in call(tmp_path, "comit", "-m", "x").error
    assert json.loads(call(tmp_path, "--json", "commit").error)["exit_code"] == 2


def test_help_is_a_verb_as_in_git(tmp_path):
    assert call(tmp_path, "help").out == call(tmp_path, "--help").out
    assert call(tmp_path, "help", "tag").out == call(tmp_path, "tag", "--help").out
    assert call(tmp_path, "help", "remote", "add").out == call(tmp_path, "remote", "add", "--help").out
    assert "  help" not in call(tmp_path, "help").out
    assert "lance-git has no 'commit'" in call(tmp_path, "help", "commit").error
    for words, said in ((("nope",), "'nope' is not a verb"), (("tag", "x"), "'lance-git tag' has no further verbs")):
        done = call(tmp_path, "help", *words)
        assert (done.code, said in done.error) == (2, True)


def test_the_tags_of_a_frozen_set_go_with_the_set_alone(flights):
    table = LanceTable.for_path(str(flights))
    table.frozen.create("train")
    for words in (("-d", "train"), ("-d", "train", "-f"), ("-d", "frozen-train", "-f"), ("-f", "train", "main@1")):
        done = call(flights, "tag", *words, "--yes")
        assert done.code == 3
        assert "belongs to the frozen set 'train'" in done.error
        assert "t.frozen.delete('train') in Python deletes the frozen set" in done.error
    assert table.checkout(tag="train").version == 4
    names = [{tag["name"] for tag in call(flights, "tag", *rest, "--json").json["tags"]} for rest in ((), ("-a",))]
    assert (names[1] - names[0], "train" in names[0]) == ({"frozen-train"}, True)
    listed = [call(flights, "branch", *rest, "--json").json["branches"] for rest in ((), ("-a",))]
    branches = [{branch["name"] for branch in each} for each in listed]
    assert branches[1] - branches[0] == {"frozen/train"}


def test_the_tag_of_a_stream_goes_by_force_alone_and_is_not_meant_by_another_name(flights):
    call(flights, "tag", "stream-3f0c", "main@2")
    assert "stream-3f0c" not in call(flights, "tag").out
    assert "stream-" not in call(flights, "log").out
    done = call(flights, "tag", "-d", "stream-3f0c", "--yes")
    assert done.code == 3
    assert "a streaming query continues from it" in done.error
    assert "hint: Once that query is over: lance-git tag -d stream-3f0c -f." in done.error
    assert "stream-" not in call(flights, "branch", "new", "team").error
    assert "Did you mean 'stream-3f0c'?" in call(flights, "branch", "new", "stream-3f0d").error
    assert call(flights, "tag", "-d", "stream-3f0c", "-f", "--yes").code == 0


def test_hints_are_in_the_language_of_the_shell(flights):
    call(flights, "branch", "--alter", "exp", "--protected")
    done = call(flights, "branch", "-d", "exp", "--yes")
    assert done.error.splitlines()[-1] == "hint: To delete it anyway: lance-git branch --alter exp --no-protected."
    table = LanceTable.for_path(str(flights))
    with pytest.raises(Refused) as caught:
        table.branches.delete("exp")
    assert str(caught.value).endswith("hint: To delete it anyway: t.branches.alter('exp', protected=False).")


@pytest.mark.parametrize(("verb", "option"), [(verb, option) for verb, known in OPTIONS.items() for option in known])
def test_an_option_of_git_that_a_verb_lacks_has_an_answer_that_names_things_that_are_there(flights, verb, option):
    error = call(flights, verb, option).error
    assert error.startswith(f"error: lance-git {verb} has no {option}: ")
    for typed, words in re.findall(r"lance-git (?:-C URI )?([a-z-]+)([^.;:,]*)", error.partition("hint:")[2]):
        parameters = cli.get_command(None, typed).params
        known = {spelling for each in parameters for spelling in (*each.opts, *each.secondary_opts)}
        assert set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", words)) <= known | {"--help"}, error


@pytest.mark.parametrize("option", ["--pur", "--purg", "--merg", "--forc", "--execut", "--delete-unverifie"])
@pytest.mark.parametrize("verb", ["branch", "gc", "tag", "expire-refs"])
def test_no_near_name_is_what_deletes_for_good(flights, verb, option):
    error = call(flights, verb, option).error
    assert not re.search(r"--(purge|force|execute|delete-unverified)\b", error)


@pytest.mark.parametrize("word", ["gcc", "gc-", "expire-ref", "prun", "vacum", "rmm", "clea"])
def test_no_near_verb_is_what_deletes_for_good(flights, word):
    assert not re.search(r"'(gc|expire-refs|prune|vacuum|rm|clean)'", call(flights, word).error)


@pytest.mark.parametrize("words", [("status", "s3://b/f.lance"), ("log", "s3://b/f.lance"), ("fsck", "tree")])
def test_a_place_behind_the_verb_is_told_where_it_goes(flights, words):
    (flights / "tree").mkdir(exist_ok=True)
    assert f"hint: The place goes before the verb: lance-git -C {words[1]} {words[0]}\n" in call(flights, *words).error


@pytest.mark.parametrize("words", [("log", "t.lance"), ("diff", "s3://b/f.lance"), ("branch", "t.lance")])
def test_a_place_behind_a_verb_that_takes_refs_is_told_where_it_goes_where_nothing_else_is(tmp_path, words):
    """The hint named a bucket of nobody's."""
    (tmp_path / "t.lance").mkdir()
    assert f"hint: The place goes before the verb: lance-git -C {words[1]} {words[0]}\n" in call(tmp_path, *words).err


@pytest.mark.parametrize(
    ("word", "instead"), [("init", "create NAMESPACE"), ("gc", "jobs.cleanup --catalog"), ("mv", "rename")]
)
def test_a_word_that_no_catalog_has_is_answered(capsys, word, instead):
    assert catalog_main([word]) == 2
    assert instead in capsys.readouterr().err


def test_a_session_in_the_place_of_options_is_answered(uri):
    with pytest.raises(InvalidOption, match="must be a dict") as refused:
        LanceTable.for_path(uri, object())
    assert "spark=spark" in refused.value.hint


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("log", "main..exp"), "hint: lance-git diff main..exp compares the two."),
        (("merge", "exp", "--continue"), "--dry-run lists the conflicts"),
    ],
)
def test_what_git_has_and_lance_git_has_not_names_what_does_it(shared, arguments, words):
    done = call(shared, *arguments)
    assert (done.code, words in done.error) == (2, True), done.error
