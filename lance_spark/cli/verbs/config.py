"""``lance-git config``: the settings of the current branch, and changes of its layout."""

from __future__ import annotations

import click

from lance_spark.cli.program import dry_run_option, verb
from lance_spark.cli.session import Session
from lance_spark.core.refs import MAIN
from lance_spark.errors import InvalidOption, NotFound
from lance_spark.layout.declaring import change_layout, look
from lance_spark.layout.layout_rules import PARTITION_BY, SETTINGS
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.versions import read_contents

_ELSEWHERE = {
    "user.": "LANCE_AUTHOR says who commits, as in LANCE_AUTHOR=ana lance-git merge exp.",
    "remote.": "lance-git remote lists, adds and changes remotes.",
    "branch.": "lance-git branch --alter NAME changes how long a branch lives, and whether it is protected.",
    "lance_spark.constraints.": "In Python: t.constraints.add('positive', 'price > 0'), t.constraints.drop(...).",
}
"""By the beginning of a key that is no setting of a layout: where it is changed."""
_CONNECTOR = "the JVM connector"
_BY_IT = f"The JVM connector declared '{PARTITION_BY}', in its sharding spec: writers obey it, and it stays as it is."


@verb("config")
@click.argument("key", required=False)
@click.argument("value", required=False)
@click.option("-l", "--list", "listing", is_flag=True, help="List all settings, as without a key.")
@click.option("--get", "getting", is_flag=True, help="Print the value of KEY, as without a value.")
@click.option("--unset", is_flag=True, help="Let go of KEY.")
@dry_run_option
@click.pass_obj
def command(session: Session, /, key: str | None, value: str | None, unset: bool, dry_run: bool, **given: bool) -> None:
    """Show or change the settings of the current branch.

    partition_by and cluster_by declare its layout, for what is written from now on: lance-git config partition_by
    "days(ts), bucket(8, id)", or config cluster_by "carrier, origin". Other settings are shown, and changed elsewhere.
    """
    changes = value is not None or unset
    if (changes and (key is None or given["listing"] or given["getting"])) or (value is not None and unset):
        raise InvalidOption("Name one key, with a value or --unset.", hint='lance-git config partition_by "days(ts)"')
    if changes and key is not None:
        _change(session, key, value, dry_run)
        return
    pin = pin_latest(session.location, session.branch)
    settings = dict(sorted(read_contents(session.location, pin).config.items()))
    layout, _ = look(session.location, pin)
    foreign = (layout.foreign and layout.partition_text) or None
    if key is None or given["listing"]:
        told = {"dataset": session.location.uri, "branch": session.branch or MAIN, "settings": settings}
        others = {} if foreign is None else {PARTITION_BY: foreign}
        lines = [f"{name}={text}" for name, text in {**settings, **others}.items()]
        session.output.show({**told, "declared_by_others": others}, "\n".join(lines))
        if others:
            session.output.note(_BY_IT)
        return
    name = _full(key)
    if foreign is not None and name == PARTITION_BY:
        session.output.show({"key": name, "value": foreign, "declared_by": _CONNECTOR}, foreign)
        session.output.note(_BY_IT)
        return
    if name not in settings:
        raise NotFound(f"'{key}' is not set on branch '{session.branch or MAIN}'.", hint="lance-git config lists all.")
    session.output.show({"key": name, "value": settings[name]}, settings[name])


def _full(key: str) -> str:
    return next((name for name in SETTINGS if key in (name, name.partition(".")[2])), key)


def _change(session: Session, key: str, value: str | None, dry_run: bool) -> None:
    name, branch = _full(key), session.own_branch
    if name not in SETTINGS:
        elsewhere = next((hint for begin, hint in _ELSEWHERE.items() if name.startswith(begin)), None)
        raise InvalidOption(
            f"'{key}' is not changed here: only partition_by and cluster_by are.",
            hint=elsewhere or "Properties of tables: ALTER TABLE ... SET TBLPROPERTIES in Spark.",
        )
    pin = change_layout(session.location, branch, lambda now, _: now.with_settings({name: value}), dry_run)
    what = "unset" if value is None else f"set to {value}"
    said = f"'{name}' {'would be' if dry_run else 'was'} {what} on branch '{branch or MAIN}'"
    session.did("config", dry_run, f"{said}." if dry_run else f"{said}: {pin}.", key=name, value=value)
