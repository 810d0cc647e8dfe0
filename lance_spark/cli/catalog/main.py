"""The entry point of ``lance-catalog``, with its global options."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial

import click
from click.core import ParameterSource

from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.catalog.verbs import GROUPS
from lance_spark.cli.completion import with_names
from lance_spark.cli.output import exit_codes_text, put
from lance_spark.cli.program import Verbs, run, wanted_output
from lance_spark.core.storage_options import pairs_of, storage_from
from lance_spark.errors import InvalidOption

NAME = "lance-catalog"
_GIT = "lance-git -C TABLE {}, on the directory that lance-catalog describe NAME shows."
WORDS = {
    "init": ("a catalog begins with its first namespace or table", "lance-catalog -C ROOT create NAMESPACE."),
    "mkdir": ("a namespace is no directory", "lance-catalog create NAMESPACE."),
    "drop": ("tables and namespaces are removed as files are", "lance-catalog rm NAME."),
    "mv": ("tables are renamed", "lance-catalog rename OLD NEW."),
    "gc": (
        "old versions are for the maintenance",
        "python -m lance_spark.jobs.cleanup --catalog ROOT, or ...jobs.maintain ROOT.",
    ),
    "cleanup": ("it is a job", "python -m lance_spark.jobs.cleanup --catalog ROOT."),
    "maintain": (
        "it is a job",
        "python -m lance_spark.jobs.maintain ROOT; lance-catalog schedule runs it every night.",
    ),
    "history": ("versions are those of a table", _GIT.format("log")),
    "import": ("rows are those of a table", _GIT.format("import FILE")),
    "commit": ("every write is a version at once", "lance-catalog merge BRANCH publishes a branch of all tables."),
    "publish": ("a branch is published by merging it", "lance-catalog merge BRANCH."),
}
"""Words that people type but that are no verbs: why, and what to type instead."""
_PARTLY = "doctor, fsck: the catalog has problems"


@click.group(
    NAME,
    cls=Verbs,
    package="lance_spark.cli.catalog.verbs",
    groups=GROUPS,
    words=WORDS,
    prepare=partial(with_names, NAME),
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nA NAME is ns1.ns2.flights; put a part that holds a dot in backticks.\n\n"
    f"\b\nExit codes:\n{exit_codes_text(_PARTLY)}",
)
@click.option(
    "-C",
    "--catalog",
    "root",
    metavar="ROOT",
    envvar="LANCE_CATALOG",
    help="The catalog's directory, or $LANCE_CATALOG.",
)
@click.option(
    "--mode",
    type=click.Choice(["v1", "v2", "compatibility"]),
    default="compatibility",
    envvar="LANCE_CATALOG_MODE",
    help="v1: directories only; v2: __manifest only; compatibility (default): both. Or $LANCE_CATALOG_MODE.",
)
@click.option(
    "--impl",
    metavar="NAME",
    envvar="LANCE_CATALOG_IMPL",
    help="A catalog service in place of ROOT: rest, glue, hive2, hive3, unity, polaris, or a class; or dir. "
    "Or $LANCE_CATALOG_IMPL.",
)
@click.option(
    "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property of the service (repeatable)."
)
@click.option("--storage", multiple=True, metavar="KEY=VALUE", help="A storage option; never stored (repeatable).")
@click.option("--no-color", is_flag=True, help="Plain text even on a terminal (like NO_COLOR).")
@click.version_option(package_name="lance-spark", prog_name=NAME)
@click.pass_context
def cli(
    context: click.Context,
    /,
    root: str | None,
    mode: str,
    impl: str | None,
    properties: tuple[str, ...],
    storage: tuple[str, ...],
    no_color: bool,
) -> None:
    """A directory of Lance tables as a catalog: namespaces, tables, their names.

    ROOT is a directory or a URI such as s3://bucket/lake. Credentials come from the environment or --storage. With
    --impl, it is the catalog of a service.
    """
    typed = [NAME]
    for name, words in (("root", ["-C", root or ""]), ("mode", ["--mode", mode]), ("impl", ["--impl", impl or ""])):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            typed += words
    output = wanted_output(context, no_color)
    service = None if impl is None else (impl, pairs_of("--property", properties, "uri=https://catalog.example"))
    if impl is None and properties:
        raise InvalidOption("Properties belong to an implementation.", hint="Give --impl rest as well.")
    if impl is not None and root is not None and context.get_parameter_source("root") is ParameterSource.COMMANDLINE:
        raise InvalidOption("--impl and --catalog exclude each other.", hint="Give one of them.")
    context.obj = CatalogSession(output, root, mode, shlex.join(typed), storage_from(storage), service)
    if context.invoked_subcommand is None:
        put(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    return run(cli, NAME, argv)
