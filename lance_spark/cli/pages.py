"""``serve``, which both commands have, and ``diff --html``: pages in the browser, and as a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from lance_spark.cli.output import Output, put
from lance_spark.cli.program import AnyCallable

if TYPE_CHECKING:
    from lance_spark.catalog.name_rules import Catalog
    from lance_spark.core.location import DatasetLocation


def serve_options(function: AnyCallable) -> AnyCallable:
    """The options of ``serve``."""
    options = (
        click.option("--port", type=click.IntRange(0, 65_535), default=0, metavar="N", help="Any free one by default."),
        click.option("--no-browser", is_flag=True, help="Only print the address."),
        click.option("--allow-merge", is_flag=True, help="A button on the review of a merge, which does it."),
        click.option(
            "--report",
            "reports",
            multiple=True,
            metavar="PLACE",
            help="Stored reports (JSON) of checks, cleanups or maintenance: a file, or a directory whose newest ones "
            "count; a path or URI (repeatable).",
        ),
    )
    for add in reversed(options):
        function = add(function)
    return function


def html_option(function: AnyCallable) -> AnyCallable:
    """``--html``."""
    return click.option("--html", metavar="FILE", help="Write it as one self-contained page: a path or URI.")(function)


def written(file: str) -> str:
    """Where a page was written, in full: after ``-C``, a path is relative to that directory, as with git."""
    return f"The page is {file if '://' in file else os.path.abspath(file)}"


def serve_until_stopped(
    output: Output,
    about: Catalog | DatasetLocation,
    *,
    port: int,
    no_browser: bool,
    allow_merge: bool,
    reports: tuple[str, ...],
) -> None:
    """Serve pages until Ctrl-C, which is the usual end and no failure."""
    from lance_spark.ui.server import browse

    running = browse(about, allow_merge=allow_merge, reports=reports, port=port, open_browser=not no_browser)
    if output.json:
        output.show({"url": running.url}, "")
    else:
        put(running.url)
        output.note("Whoever has this address can read the data. Ctrl-C ends it.")
    try:
        running.wait()
    except KeyboardInterrupt:
        running.close()
