"""The lists of verbs in the README are those of ``lance-git --help`` and ``lance-catalog --help``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from running import CATALOG_SCRIPT, SCRIPT, run

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.parametrize("script", [SCRIPT, CATALOG_SCRIPT], ids=lambda script: script.name)
def test_the_readme_lists_the_verbs_as_the_help_does(tmp_path, script):
    begin, end = f"<!-- {script.name} --help -->", f"<!-- end of {script.name} --help -->"
    listed = re.search(rf"{begin}\n```\n(.*?)```\n{end}", README.read_text(), re.S)
    assert listed, f"README.md has no list of verbs between {begin} and {end}"
    told = run(tmp_path, "--help", script=script, COLUMNS="80").out
    verbs = re.search(r"^Commands:\n(.*?)\n\n", told, re.M | re.S)
    assert listed[1] == f"{verbs[1]}\n"
    assert "..." not in listed[1], "a line of help that is cut short helps nobody: make the first sentence shorter"
