"""``lance-catalog schedule``: what it writes runs, and names the catalog."""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from support.command_line import call

from lance_spark.cli.catalog.main import main
from lance_spark.cli.catalog.verbs import schedule
from lance_spark.jobs.maintain import parser
from lance_spark.maintenance.policy_rules import check_tables, parse_maintenance

pytestmark = pytest.mark.pure


def written(directory, platform, root="s3://acme/prod/lake"):
    done = call(directory, "-C", root, "schedule", "--for", platform, "--json", main=main).json
    assert sorted(str(path.relative_to(directory / "lance-maintenance")) for path in files(directory)) == sorted(
        done["files"]
    )
    return done


def files(directory):
    return [path for path in (directory / "lance-maintenance").rglob("*") if path.is_file()]


@pytest.mark.parametrize("platform", schedule.PLATFORMS)
def test_every_platform_gets_files_that_name_the_catalog_and_a_policy_for_any(tmp_path, platform):
    done = written(tmp_path, platform)
    texts = {path.name: path.read_text() for path in files(tmp_path)}
    assert "s3://acme/prod/lake" in "".join(texts.values())
    assert not [name for name, text in texts.items() if re.search(r"my-bucket|/opt/lance-spark", text)]
    left = set(re.findall(r"<[A-Z_]+>|[a-z]+@example\.com", "".join(texts.values())))
    assert set(done["placeholders"]) == left
    assert check_tables(parse_maintenance(texts["maintenance-policy.toml"]), ["any"]) == ()
    sections = [line for line in texts["maintenance-policy.toml"].splitlines() if line.startswith("[")]
    assert "[cleanup]" in sections
    assert not [name for name in sections if '"' in name]  # examples: each run would say that they match nothing
    assert not [line for line in done["then"] if "my-bucket" in line]
    again = call(tmp_path, "-C", "s3://acme/prod/lake", "schedule", "--for", platform, main=main)
    assert again.code == 11
    assert "Nothing was written." in again.error


def test_what_cron_types_is_there_and_the_job_takes_it(tmp_path):
    written(tmp_path, "cron")
    target = tmp_path / "lance-maintenance"
    line = (target / "conf" / "maintenance.cron").read_text().splitlines()[-1]
    words = shlex.split(line)
    assert words[5:7] == ["cd", str(target)]
    assert all(Path(word).is_file() for word in words if word.startswith(f"{target}/"))
    arguments = parser().parse_args(words[words.index(f"{target}/jobs/maintain.py") + 1 :])
    assert (arguments.uri, arguments.execute) == ("s3://acme/prod/lake", True)


def test_cron_finds_the_python_that_wrote_its_line_and_other_lines_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}/spark/bin:/usr/bin")
    (tmp_path / "spark" / "bin").mkdir(parents=True)
    (tmp_path / "spark" / "bin" / "spark-submit").write_text("#!/bin/sh\n")
    (tmp_path / "spark" / "bin" / "spark-submit").chmod(0o755)
    done = written(tmp_path, "cron")
    assert done["then"] == ["(crontab -l; cat conf/maintenance.cron) | crontab -"]  # without -l all other lines go
    lines = (tmp_path / "lance-maintenance" / "conf" / "maintenance.cron").read_text().splitlines()
    (path,) = (line.removeprefix("PATH=").split(":") for line in lines if line.startswith("PATH="))
    assert path[:2] == [os.path.dirname(sys.executable), f"{tmp_path}/spark/bin"]
    assert shutil.which("spark-submit", path=":".join(path))
    assert path[-2:] == ["/usr/bin", "/bin"]


def test_a_dry_run_writes_nothing_and_a_platform_must_be_known(tmp_path):
    assert call(tmp_path, "schedule", "--for", "cron", "--dry-run", main=main).code == 0
    assert not [*tmp_path.iterdir()]
    assert call(tmp_path, "schedule", "--for", "mesos", main=main).code == 2
