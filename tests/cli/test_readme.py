"""What README and docs/ show of lance-git and lance-catalog: verbs as in ``--help``, and an example that runs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.command_line import CATALOG_SCRIPT, SCRIPT, run

ROOT = Path(__file__).parents[2]
APPEND = "import sys, lance, pyarrow; lance.write_dataset(pyarrow.table({'id': [2]}), sys.argv[1], mode='append')"


@pytest.mark.parametrize(
    ("script", "page"),
    [(SCRIPT, ROOT / "docs" / "lance-git.md"), (CATALOG_SCRIPT, ROOT / "docs" / "catalogs.md")],
    ids=["lance-git", "lance-catalog"],
)
def test_the_page_lists_the_verbs_as_the_help_does(tmp_path, script, page):
    begin, end = f"<!-- {script.name} --help -->", f"<!-- end of {script.name} --help -->"
    listed = re.search(rf"{begin}\n```\n(.*?)```\n{end}", page.read_text(), re.S)
    assert listed, f"{page.name} has no list of verbs between {begin} and {end}"
    told = run(tmp_path, "--help", script=script, COLUMNS="80").out
    verbs = re.search(r"^Commands:\n(.*?)\n\n", told, re.M | re.S)
    assert listed[1] == f"{verbs[1]}\n"
    assert "..." not in listed[1], "a line of help that is cut short helps nobody: make the first sentence shorter"


def test_the_example_in_the_readme_publishes_what_was_written_to_the_branch(tmp_path):
    text = (ROOT / "README.md").read_text()
    example = re.search(r"<!-- in a shell -->\n```bash\n(.*?)```", text, re.S)
    assert example
    code, written = re.subn(r"(?m)^# here .* appends .*$", 'python -c "$APPEND" tree/exp', example[1])
    assert written == 1
    production = str(tmp_path / "flights.lance")
    lance.write_dataset(pa.table({"id": [0, 1]}), production)
    environment = {**os.environ, "PATH": f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}", "APPEND": APPEND}
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert sorted(lance.dataset(production).to_table()["id"].to_pylist()) == [0, 1, 2]
    assert "day 3, audited" in ran.stdout
