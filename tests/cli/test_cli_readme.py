"""What README and docs/ show of lance-git and lance-catalog: verbs as in ``--help``, and an example that runs."""

import re
from pathlib import Path

import pytest
from support.command_line import CATALOG_SCRIPT, SCRIPT, run

from lance_spark.cli.catalog.verbs import GROUPS as CATALOG_GROUPS
from lance_spark.cli.verbs import GROUPS as GIT_GROUPS

ROOT = Path(__file__).parents[2]
APPEND = "import sys, lance, pyarrow; lance.write_dataset(pyarrow.table({'id': [2]}), sys.argv[1], mode='append')"


@pytest.mark.parametrize(
    ("script", "groups"),
    [(SCRIPT, GIT_GROUPS), (CATALOG_SCRIPT, CATALOG_GROUPS)],
    ids=["lance-git", "lance-catalog"],
)
def test_the_page_lists_the_verbs_as_the_help_does(tmp_path, script, groups):
    page = ROOT / "docs" / "reference" / "commands.md"
    begin, end = f"<!-- {script.name} --help -->", f"<!-- end of {script.name} --help -->"
    listed = re.search(rf"{begin}\n```\n(.*?)```\n{end}", page.read_text(), re.S)
    assert listed, f"{page.name} has no list of verbs between {begin} and {end}"
    told = run(tmp_path, "--help", script=script, COLUMNS="80").out
    first = next(iter(groups))
    verbs = re.search(rf"^{first}:\n.*?\n(?=\nOptions:)", told, re.M | re.S)
    assert listed[1] == verbs[0]
    assert re.findall(r"^(\S.*):$", verbs[0], re.M) == list(groups)
    assert "..." not in listed[1], "a line of help that is cut short helps nobody: make the first sentence shorter"
