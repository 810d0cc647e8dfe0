"""lance-catalog's verbs for branches of the whole lake, from branch to merge; and what a directory remembers."""

from pathlib import Path

import lance
import pytest
from support.catalogs import make_table, tables
from support.command_line import append, call, catalog, catalog_main, ids
from support.killed import killed_at

from lance_spark.catalog.lake import at_ref, table_branch
from lance_spark.catalog.lake_rules import BRANCH
from lance_spark.catalog.lookup import create_namespace, locate_table, open_catalog
from lance_spark.catalog.name_rules import identify_table
from lance_spark.lake import publish as publishing

FILE = Path(".lance-catalog", "config.toml")


def make_lake(parent):
    """air.flights and air.carriers with the rows 0, 1, 2."""
    root = parent / "lake"
    opened = open_catalog(str(root))
    create_namespace(opened, "air")
    for name in ("air.flights", "air.carriers"):
        make_table(opened, name)
    return root


@pytest.fixture
def lake(tmp_path):
    return make_lake(tmp_path)


@pytest.fixture
def typed(lake):
    """Types a verb in the directory beside the lake, without naming it; the first time with ``root``."""

    def run(*arguments, root=False):
        return call(lake.parent, *(("-C", lake) if root else ()), *arguments, main=catalog_main)

    return run


def on_branch(lake, name="etl"):
    return at_ref(open_catalog(str(lake)), BRANCH, name)


def change(lake, table, value, name="etl"):
    """A row on the branch of the lake."""
    there = on_branch(lake, name)
    uri = locate_table(there, table).uri
    append(uri, table_branch(there, identify_table(table), "change it"), value)


def main_ids(lake, table):
    return ids(locate_table(open_catalog(str(lake)), table).uri)


def names(lake, *where):
    return [item["name"] for item in catalog(lake, "ls", "-r", *where, "--json").json["items"]]


def test_a_branch_from_its_creation_to_its_end(lake):
    assert catalog(lake, "branch").out == ""
    assert catalog(lake, "branch", "etl", "--dry-run").out == (
        "Branch 'etl' would be created from the newest version of every table.\n"
    )
    done = catalog(lake, "branch", "etl", "--expire-after", "30d", "--owner", "me")
    assert (done.code, done.out) == (0, "Branch 'etl' was created from the newest version of 2 tables.\n")
    assert catalog(lake, "branch", "one", "air.flights", "--json").json["tables"] == 1
    header, *lines = catalog(lake, "branch").out.splitlines()
    assert header.split() == ["name", "tables", "made", "settings"]
    assert [line.split()[:2] for line in lines] == [["etl", "2"], ["one", "1"]]
    assert lines[0].endswith("expires after 30d, owner me")
    told = catalog(lake, "branch", "--list", "e*", "--json").json["branches"]
    assert [(each["name"], each["tables"], each["ready"], each["current"]) for each in told] == [
        ("etl", 2, True, False)
    ]
    assert catalog(lake, "branch", "etl").code == 11
    assert catalog(lake, "diff", "etl").out == ""
    change(lake, "air.flights", 10)
    for arguments in (
        ("create", "stage", "--branch", "etl"),
        ("rename", "air.carriers", "air.lines", "--branch", "etl"),
        ("alter", "air.flights", "-p", "team=air", "--branch", "etl"),
    ):
        assert catalog(lake, *arguments).code == 0
    assert names(lake) == ["air", "air.carriers", "air.flights"]
    assert names(lake, "--branch", "etl") == ["air", "air.flights", "air.lines", "stage"]
    changes = catalog(lake, "diff", "etl", "--json").json["changes"]
    assert [(each["name"], each["change"], each["rows_added"]) for each in changes] == [
        ("stage", "new", 0),
        ("air.flights", "changed", 1),
        ("air.lines", "renamed", 0),
    ]
    assert "renamed from air.carriers" in catalog(lake, "diff", "etl").out
    planned = catalog(lake, "merge", "etl", "--dry-run")
    assert planned.out.startswith("Branch 'etl' would be merged: 4 changes.\n  air.flights: main 1\n")
    assert main_ids(lake, "air.flights") == [0, 1, 2]
    merged = catalog(lake, "merge", "etl", "-m", "nightly").out.splitlines()
    assert merged[:2] == ["Branch 'etl' was merged: 4 changes.", "  air.flights: main 1 -> 2"]
    assert "  stage: new" in merged
    assert (main_ids(lake, "air.flights"), names(lake)) == (
        [0, 1, 2, 10],
        ["air", "air.flights", "air.lines", "stage"],
    )
    assert catalog(lake, "merge", "etl").out == "Branch 'etl' has nothing to merge.\n"
    header, line = catalog(lake, "log").out.splitlines()
    assert header.split() == ["id", "made", "state", "branch", "tables", "message"]
    assert "air.flights (properties changed), air.lines (renamed from air.carriers), stage (new)" in line
    (publish,) = catalog(lake, "log", "-n", "5", "--json").json["publishes"]
    assert (publish["branch"], publish["state"], publish["message"]) == ("etl", "published", "nightly")
    assert publish["tables"] == [{"name": "air.flights", "before": 1, "after": 2, "columns_dropped": []}]
    assert catalog(lake, "recover").out == "Nothing was left unfinished.\n"
    assert catalog(lake, "branch", "-d", "etl").code == 3, "there is no terminal to ask on"
    assert "would be deleted" in catalog(lake, "branch", "-d", "etl", "--dry-run").out
    assert catalog(lake, "branch", "-d", "etl", "--purge", "--yes").out == "Branch 'etl' of 2 tables was deleted.\n"
    assert [each["name"] for each in catalog(lake, "branch", "--json").json["branches"]] == ["one"]


def test_a_dry_run_of_a_merge_names_conflicts_with_the_code_of_the_error(lake):
    assert catalog(lake, "branch", "etl").code == 0
    change(lake, "air.flights", 10)
    there = on_branch(lake)
    uri = locate_table(there, "air.flights").uri
    branch = table_branch(there, identify_table("air.flights"), "change it")
    lance.dataset(f"{uri}/tree/{branch}").update({"id": "80"}, where="id = 1")
    lance.dataset(uri).update({"id": "70"}, where="id = 1")
    planned = catalog(lake, "merge", "etl", "--dry-run")
    assert planned.code == 12
    assert planned.out.startswith("Branch 'etl' cannot be merged.\n  conflict: air.flights: ")
    failed = catalog(lake, "merge", "etl")
    assert failed.code == 12
    assert "air.flights" in failed.error
    assert 10 not in main_ids(lake, "air.flights")


def test_recover_completes_a_merge_whose_process_died(lake):
    assert catalog(lake, "branch", "etl").code == 0
    change(lake, "air.flights", 10)
    with killed_at(publishing, "publish_table"):
        catalog(lake, "merge", "etl")
    assert catalog(lake, "log", "--json").json["publishes"][0]["state"] == "unfinished"
    assert catalog(lake, "recover").out.startswith("The merge of branch 'etl' is published: 1 change.\n")
    assert main_ids(lake, "air.flights") == [0, 1, 2, 10]


def test_a_branch_that_is_checked_out_is_what_verbs_act_on(lake, typed):
    assert catalog(lake, "branch", "etl").code == 0
    assert typed("ls").code == 2, "no catalog was named"
    assert typed("checkout", "etl", root=True).out == f"Branch 'etl' of {lake} is checked out here.\n"
    assert typed("branch").out.splitlines()[1].split()[:2] == ["*", "etl"]
    assert typed("create", "stage").code == typed("create", "stage.new", "-t").code == 0
    assert typed("rm", "air.carriers", "--yes").code == 0
    assert typed("tree").out.splitlines()[0] == f"{lake} on branch 'etl'"
    there = typed("ls", "-r", "--json").json
    assert (there["branch"], [item["name"] for item in there["items"]]) == (
        "etl",
        ["air", "air.flights", "stage", "stage.new"],
    )
    assert "has no data on the branch" in typed("describe", "stage.new").out
    below = lake.parent / "below"
    below.mkdir()
    assert call(below, "ls", "--json", main=catalog_main).json["branch"] == "etl"
    assert tables(open_catalog(str(lake)), recursive=True) == ["air.carriers", "air.flights"]
    main = typed("ls", "-r", "--branch", "main", "--json").json
    assert ("branch" in main, [item["name"] for item in main["items"]]) == (
        False,
        ["air", "air.carriers", "air.flights"],
    )
    assert typed("tag", "monday").code == 0, "what is about the whole lake goes on"
    assert typed("ls", "--tag", "monday", "--json").json["tag"] == "monday"
    assert typed("checkout", "main").code == 0
    assert (typed("du").code, typed("ls", "--json").json["catalog"]) == (0, str(lake))


@pytest.mark.parametrize(
    "arguments",
    [
        ("du",),
        ("doctor",),
        ("fsck",),
        ("migrate",),
        ("register", "air.x", "nowhere"),
        ("deregister", "air.flights"),
    ],
)
def test_verbs_about_main_are_refused_on_a_branch(lake, typed, arguments):
    assert catalog(lake, "branch", "etl").code == 0
    assert typed("checkout", "etl", root=True).code == 0
    refused = typed(*arguments)
    assert refused.code == 3
    assert refused.error.splitlines()[1] == "hint: Check out main first: lance-catalog checkout main."


def test_another_catalog_does_not_have_the_branch(lake, typed, tmp_path):
    other = make_lake(tmp_path / "other")
    assert catalog(lake, "branch", "etl").code == 0
    assert typed("checkout", "etl", root=True).code == 0
    assert "branch" not in typed("-C", other, "ls", "--json").json
    assert typed("-C", lake, "ls", "--json").json["branch"] == "etl"


def test_a_branch_that_was_deleted_is_told_with_the_way_out(lake, typed):
    assert catalog(lake, "branch", "etl").code == 0
    assert typed("checkout", "etl", root=True).code == 0
    deleted = typed("branch", "-d", "etl", "--yes")
    assert "It is checked out here: lance-catalog checkout main." in deleted.err
    gone = typed("create", "stage")
    assert (gone.code, "no branch of the lake 'etl'" in gone.error) == (10, True)
    assert typed("checkout", "main").code == 0
    assert typed("create", "stage").code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("catalog = ", "it is not TOML"),
        ('catalog = "/lake"\nbrnch = "etl"', "'brnch' is not a known key"),
        ("catalog = 7", "must be texts in quotes"),
        ('catalog = "/lake"\nbranch = "a b"', "'a b' is not a valid branch name"),
        ('branch = "etl"', "The URI is empty"),
        ('catalog = "s3://key:hidden@bucket/lake"', "has credentials in it"),
    ],
)
def test_a_file_that_cannot_be_used_is_not_passed_over(lake, typed, text, said):
    file = lake.parent / FILE
    file.parent.mkdir()
    file.write_text(text)
    refused = typed("ls", root=True)
    assert refused.code == 2
    assert said in refused.error
    assert "hidden" not in refused.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("ls", "--branch", "etl"), 10, "There is no branch of the lake 'etl'"),
        (("ls", "--branch", "etl", "--tag", "monday"), 2, "--branch and --tag cannot be combined"),
        (("branch", "a b"), 2, "'a b' is not a valid branch name"),
        (("branch", "etl", "air.nothing"), 10, "there is no table or namespace 'air.nothing'"),
        (("branch", "etl", "--purge"), 2, "--purge cannot be used to create a branch"),
        (("branch", "etl", "--expire-after", "soon"), 2, "soon"),
        (("branch", "-d", "etl"), 10, "There is no branch of the lake 'etl'"),
        (("--mode", "v1", "branch", "etl"), 3, "no table in"),
        (("diff", "etl"), 10, "There is no branch of the lake 'etl'"),
        (("merge", "etl"), 10, "There is no branch of the lake 'etl'"),
        (("checkout", "etl"), 10, "There is no branch of the lake 'etl'"),
        (("register", "x", "y", "--branch", "etl"), 2, "No such option"),
    ],
)
def test_what_is_wrong_is_said(lake, arguments, code, said):
    done = catalog(lake, *arguments)
    assert (done.code, said in done.error) == (code, True), done.err
    assert not (lake.parent / FILE).exists()


def test_settings_of_a_branch_are_altered(lake):
    catalog(lake, "branch", "etl", "--protected")
    refused = catalog(lake, "branch", "-d", "etl", "--yes")
    assert refused.code == 3
    assert "lance-catalog branch --alter etl --no-protected" in refused.err
    assert catalog(lake, "branch", "--alter", "etl").code == 2
    alter = ("branch", "--alter", "etl", "--no-protected", "--owner", "me")
    assert catalog(lake, *alter, "-n").out == "Branch 'etl' would be altered: owner me.\n"
    assert catalog(lake, "branch", "-d", "etl", "--yes").code == 3
    assert catalog(lake, *alter).out == "Branch 'etl' was altered: owner me.\n"
    missing = catalog(lake, "branch", "--alter", "elt", "--owner", "me")
    assert (missing.code, "no branch of the lake 'elt'" in missing.err, "'etl'?" in missing.err) == (10, True, True)
    assert catalog(lake, "branch", "-d", "etl", "--yes").code == 0


def test_diff_shows_the_branch_that_is_checked_out(lake, typed):
    catalog(lake, "branch", "etl")
    assert typed("diff", root=True).code == 2
    assert typed("checkout", "etl", root=True).code == 0
    change(lake, "air.flights", 10)
    assert typed("diff").out == typed("diff", "etl").out != ""
    assert typed("diff", "main").code == 2


def test_a_branch_is_made_and_checked_out_at_once_and_status_shows_it(lake, typed):
    assert typed("status", root=True).out.startswith(f"On main of {lake}, which is named here.")
    assert (
        typed("checkout", "-b", "new", root=True).out
        == f"Branch 'new' of {lake} was created, and is checked out here.\n"
    )
    assert typed("status").out == f"On branch 'new' of {lake}: 0 changes that main lacks.\n"
    assert typed("create", "ns9").code == 0
    assert typed("status", "--json").json["changes"] == 1
    assert "lance-catalog merge new" in typed("status").out
    assert typed("switch", "main").code == 0
    assert "checked out here" in typed("status").out
    assert typed("checkout", "-b", "new").code == 11
    for words in (("checkout",), ("checkout", "new", "-b", "other")):
        assert typed(*words).code == 2
