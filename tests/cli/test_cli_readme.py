"""What README and docs/ show of lance-git and lance-catalog: verbs as in ``--help``, and an example that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.command_line import CATALOG_SCRIPT, SCRIPT, run

ROOT = Path(__file__).parents[2]
APPEND = "import sys, lance, pyarrow; lance.write_dataset(pyarrow.table({'id': [2]}), sys.argv[1], mode='append')"


@pytest.mark.parametrize(
    "script",
    [SCRIPT, CATALOG_SCRIPT],
    ids=["lance-git", "lance-catalog"],
)
def test_the_page_lists_the_verbs_as_the_help_does(tmp_path, script):
    page = ROOT / "docs" / "reference" / "commands.md"
    begin, end = f"<!-- {script.name} --help -->", f"<!-- end of {script.name} --help -->"
    listed = re.search(rf"{begin}\n```\n(.*?)```\n{end}", page.read_text(), re.S)
    assert listed, f"{page.name} has no list of verbs between {begin} and {end}"
    told = run(tmp_path, "--help", script=script, COLUMNS="80").out
    verbs = re.search(r"^Commands:\n(.*?)\n\n", told, re.M | re.S)
    assert listed[1] == f"{verbs[1]}\n"
    assert "..." not in listed[1], "a line of help that is cut short helps nobody: make the first sentence shorter"
