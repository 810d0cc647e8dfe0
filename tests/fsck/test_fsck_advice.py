"""What a finding says to do is done, word by word, and the finding is gone."""

import shutil
from datetime import timedelta
from pathlib import Path

import lance
import pytest
from support.broken_datasets import cut, index, old_orphan, rich, tag_elsewhere, without_ref
from support.command_line import call
from support.local_datasets import numbers

from lance_spark import LanceTable
from lance_spark.cleanup.retention_rules import CleanupPolicy


def clean(uri):
    policy = CleanupPolicy(
        older_than=timedelta(0), commit_window=timedelta(0), retain_versions=1, error_if_tagged_old_versions=False
    )
    LanceTable.for_path(uri).cleanup(policy).apply()


def second_main(uri):
    lance.write_dataset(numbers(2, 900), f"{uri}/tree/main")


def bring_home(uri):
    lance.write_dataset(lance.dataset(f"{uri}/tree/main").to_table(), uri, mode="append")
    shutil.rmtree(f"{uri}/tree/main")


def typed(uri, *words):
    done = call(uri, *words)
    assert done.code == 0, done


def delete_tags(uri, code):
    """Those that findings name: the first ref of each, or the path that is the name of a tag."""
    for each in LanceTable.for_path(uri).fsck().findings:
        if each.code == code:
            typed(uri, "tag", "-d", (each.refs or (each.path,))[0], "-f", "--yes")


ADVICE = {
    "tag-dangling": (tag_elsewhere, lambda uri: delete_tags(uri, "tag-dangling")),
    "branch-without-versions": (
        lambda uri: shutil.rmtree(Path(uri, "tree", "dev", "_versions")),
        lambda uri: [delete_tags(uri, "tag-dangling"), typed(uri, "branch", "-D", "dev")],
    ),
    "directory-without-ref": (without_ref, lambda uri: shutil.rmtree(Path(uri, "tree", "dev"))),
    "ref-damaged": (
        lambda uri: Path(uri, "_refs", "tags", "v3.json").write_text("{"),
        lambda uri: Path(uri, "_refs", "tags", "v3.json").unlink(),
    ),
    "clone-gone": (lambda uri: shutil.rmtree(f"{uri}-clone"), lambda uri: delete_tags(uri, "clone-gone")),
    "uncommitted-files": (old_orphan, clean),
    "second-main": (second_main, bring_home),
}
"""By code: the damage, and what its advice says."""


@pytest.mark.when(day=0.5)
@pytest.mark.parametrize("code", ADVICE)
def test_the_advice_leads_out(uri, code):
    rich(uri)
    damage, follow = ADVICE[code]
    damage(uri)
    assert code in codes(uri)
    follow(uri)
    assert code not in codes(uri)


def codes(uri):
    return {finding.code for finding in LanceTable.for_path(uri).fsck().findings}


def without_its_ref(uri, name):
    lance.dataset(uri).create_branch(name)
    Path(uri, "_refs", "branches", f"{name}.json").unlink()


@pytest.mark.parametrize(("name", "make"), [("feature", without_its_ref), ("main", lambda uri, _: second_main(uri))])
def test_no_advice_removes_a_branch_that_lies_in_the_directory_of_another_one(uri, name, make):
    lance.write_dataset(numbers(3), uri)
    for inner in (f"{name}/a", f"{name}/b/c"):
        lance.dataset(uri).create_branch(inner)
    make(uri, name)
    (finding,) = LanceTable.for_path(uri).fsck().findings
    assert finding.do.endswith(f"But keep the directories in it that are of '{name}/a', '{name}/b/c'.")
    assert finding.refs == (f"{name}/a", f"{name}/b/c")
    for each in Path(uri, "tree", name).iterdir():
        if each.name not in ("a", "b"):
            shutil.rmtree(each)
    assert not codes(uri)
    assert lance.dataset(uri).checkout_version((f"{name}/b/c", None)).count_rows() == 3


@pytest.mark.when(day=0.5)
@pytest.mark.parametrize("damage", [lambda path: path.unlink(), cut], ids=["gone", "cut off"])
def test_the_advice_about_an_index_leads_out(uri, damage):
    lance.write_dataset(numbers(300), uri)
    t = LanceTable.for_path(uri)
    t.indexes.create("id", kind="btree")
    damage(index(uri))
    (finding,) = t.fsck().findings
    assert "drop the index and create it again; then clean up" in finding.do
    t.indexes.drop("id_idx")
    t.indexes.create("id", kind="btree")
    (finding,) = t.fsck().findings
    assert finding.refs == ("old versions of main",)
    assert finding.do == "Restore the file; or clean up, which removes these versions in time."
    clean(uri)
    assert not codes(uri)
