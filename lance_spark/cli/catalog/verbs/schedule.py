"""``lance-catalog schedule``: writes what a platform needs to run the maintenance every night.

The files are those of ``conf/`` and ``jobs/``. The wheel has them in ``deploy/``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import click

from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.program import dry_run_option, verb
from lance_spark.core.workspace import check_uri
from lance_spark.errors import AlreadyExists, NotFound, PermissionDenied, StorageFailure

_POLICY = "conf/maintenance-policy.toml"
_JOB = "jobs/maintain.py"
_PACK = "conf/pack-environment.sh"
_SUBMIT = ("conf/spark-defaults.conf", "conf/log4j2.properties")
_LAKE, _CHECKOUT = "s3://my-bucket/lake", "/opt/lance-spark"
"""What the files have in place of the catalog, and of the directory that they are in."""
_PROGRAMS = f"PATH={_CHECKOUT}/.venv/bin:"


@dataclass(frozen=True)
class Platform:
    """The files for one platform, and how to use them there."""

    files: tuple[str, ...]
    how: str

    @property
    def all_files(self) -> tuple[str, ...]:
        """With the policy."""
        return (*self.files, _POLICY)


_UPLOAD = "aws s3 cp {policy} s3://my-bucket/maintenance/policy.toml"
_EMR = f"{_UPLOAD}\naws s3 cp {{job}} s3://my-bucket/jobs/\n{{pack}}\n"
_EMR += "aws s3 cp lance-spark-environment.tar.gz s3://my-bucket/environments/\n"
_EMR += "aws scheduler create-schedule --cli-input-json file://"
_STEP, _SERVERLESS = "conf/maintenance-emr-step", "conf/maintenance-emr-serverless"
PLATFORMS: Mapping[str, Platform] = {
    "emr": Platform((_JOB, _PACK, f"{_STEP}.json", f"{_STEP}-schedule.json"), f"{_EMR}{_STEP}-schedule.json"),
    "emr-serverless": Platform(
        (_JOB, _PACK, f"{_SERVERLESS}-job.json", f"{_SERVERLESS}-schedule.json"), f"{_EMR}{_SERVERLESS}-schedule.json"
    ),
    "databricks": Platform(
        (_JOB, "conf/maintenance-databricks.yml"),
        "cp conf/maintenance-databricks.yml databricks.yml\ndatabricks bundle deploy --target prod\n"
        "databricks fs cp {policy} dbfs:/Volumes/<CATALOG>/<SCHEMA>/<VOLUME>/policy.toml",
    ),
    "airflow": Platform(
        (_JOB, "conf/maintenance-airflow.py"),
        f'{_UPLOAD}\ncp conf/maintenance-airflow.py "$AIRFLOW_HOME/dags/lance_maintenance.py"',
    ),
    "kubernetes": Platform(
        ("conf/maintenance-kubernetes.yaml",), f"{_UPLOAD}\nkubectl apply -f conf/maintenance-kubernetes.yaml"
    ),
    "cron": Platform((_JOB, "conf/maintenance.cron", *_SUBMIT), "(crontab -l; cat conf/maintenance.cron) | crontab -"),
}


@verb("schedule")
@click.option("--for", "platform", type=click.Choice([*PLATFORMS]), required=True, help="Where the job is to run.")
@click.option("--to", "directory", metavar="DIR", default="lance-maintenance", show_default=True, help="A directory.")
@dry_run_option
@click.pass_obj
def schedule(session: CatalogSession, platform: str, directory: str, dry_run: bool) -> None:
    """Write files that run the maintenance every night.

    They are in DIR/conf and DIR/jobs, and name the catalog of -C, whose policy is conf/maintenance-policy.toml. Nothing
    is sent anywhere: read them, replace what is in <...>, and type the last lines. Existing files stay.
    """
    job = f"the job takes --impl {session.service[0] if session.service else ''} and --property"
    session.check_directory("schedule", f"Write the files for a directory, and replace its root in them: {job}.")
    chosen = PLATFORMS[platform]
    root = session.root or (session.remembered.catalog if session.remembered is not None else "")
    check_uri(root or _LAKE)
    target = os.path.abspath(directory)
    texts = {name: _filled(name, root, target) for name in chosen.all_files}
    there = [name for name in texts if os.path.lexists(os.path.join(target, name))]
    if there:
        raise AlreadyExists(
            f"{os.path.join(target, there[0])} exists. Nothing was written.", hint="Name another directory with --to."
        )
    if not dry_run:
        for name, text in texts.items():
            _write(os.path.join(target, name), text)
    left = sorted({mark for text in texts.values() for mark in _PLACEHOLDER.findall(text)})
    how = _placed(chosen.how.format(policy=_POLICY, job=_JOB, pack=_PACK), root)
    replaced = [f"Replace {', '.join(left)} in them."] if left else []
    lines = [f"{'Would write' if dry_run else 'Wrote'} to {target}:", *(f"  {name}" for name in texts), *replaced]
    lines += ["Then:", *(f"  {line}" for line in (f"cd {shlex.quote(target)}", *how.splitlines()))]
    data = {"action": "schedule", "for": platform, "directory": target, "files": [*texts], "placeholders": left}
    session.output.show({**data, "then": how.splitlines(), "dry_run": dry_run}, "\n".join(lines))


_PLACEHOLDER = re.compile(r"<[A-Z_]+>|my-bucket|[\w.-]+@example\.com")


def source() -> Path:
    """The directory that has ``conf/`` and ``jobs/``: of the wheel, or of the checkout."""
    package = Path(__file__).parents[3]
    inside = package / "deploy"
    return inside if inside.is_dir() else package.parent


def _filled(name: str, root: str, target: str) -> str:
    try:
        text = (source() / name).read_text(encoding="utf-8")
    except OSError:
        raise NotFound(
            f"This installation of lance-spark lacks {name}.", hint="Install the wheel again: pip install lance-spark."
        ) from None
    if name == _POLICY:
        text = _without_examples(text)
    release = f"lance-spark=={version('lance-spark')}"
    text = text.replace("${PACKAGE:-lance-spark}", f"${{PACKAGE:-{release}}}")
    text = text.replace("--wheel-dir dist .", f"--wheel-dir dist {release}")
    text = text.replace(_PROGRAMS, f"PATH={':'.join(_directories_of_programs())}:")
    return _placed(text.replace(_CHECKOUT, target), root)


def _without_examples(policy: str) -> str:
    """The policy with its rules for tables and branches as comments.

    A policy that names a table which does not exist is refused, and of a pattern that matches no branch each run says
    so, until nobody reads what a run says.
    """
    blocks = policy.split("\n\n")
    return "\n\n".join(_ACTIVE.sub("# ", block) if _EXAMPLE.search(block) else block for block in blocks)


_EXAMPLE = re.compile(r'^\[[\w.]*(tables|branches)\."', re.MULTILINE)
_ACTIVE = re.compile(r"^(?=[^#\s])", re.MULTILINE)


def _directories_of_programs() -> list[str]:
    """Where this Python, spark-submit and java are: cron does not know the ``PATH`` of a shell."""
    found = (sys.executable, shutil.which("spark-submit"), shutil.which("java"))
    return [*dict.fromkeys(os.path.dirname(os.path.abspath(program)) for program in found if program)]


def _placed(text: str, root: str) -> str:
    """The text with the user's catalog, if it is known, and its bucket for all else that the job reads and writes."""
    if not root:
        return text
    bucket = re.match(r"s3://([^/]+)", root)
    text = text.replace(_LAKE, root)
    return text.replace("my-bucket", bucket[1]) if bucket else text


def _write(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755 if path.endswith(".sh") else 0o644)
    except PermissionError as problem:
        raise PermissionDenied(f"{path} cannot be written: {problem.strerror}.") from None
    except OSError as problem:
        raise StorageFailure(f"{path} cannot be written: {problem.strerror}.") from None
