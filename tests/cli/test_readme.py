"""The list of verbs in the README is that of ``lance-git --help``."""

from __future__ import annotations

import re
from pathlib import Path

from running import run

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- lance-git --help -->", "<!-- end of lance-git --help -->"


def test_the_readme_lists_the_verbs_as_the_help_does(tmp_path):
    listed = re.search(rf"{BEGIN}\n```\n(.*?)```\n{END}", README.read_text(), re.S)
    assert listed, f"README.md has no list of verbs between {BEGIN} and {END}"
    told = run(tmp_path, "--help", COLUMNS="80").out
    verbs = re.search(r"^Commands:\n(.*?)\n\n", told, re.M | re.S)
    assert listed[1] == f"{verbs[1]}\n"
    assert "..." not in listed[1], "a line of help that is cut short helps nobody: make the first sentence shorter"
