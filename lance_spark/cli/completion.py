"""What a shell completes besides verbs and options: refs, remotes, tables.

click prints the script of a shell and asks here while somebody types; see docs/branches/lance-git.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from lance_spark.errors import LanceSparkError

Known = Callable[[click.Context], Iterable[str]]


class Names(click.ParamType[str]):
    """A text that is one of some names, as far as the shell is concerned."""

    name = "text"

    def __init__(self, known: Known) -> None:
        """``known`` gives the names for a context in which no verb runs."""
        self._known = known

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's signature
        """The names that begin in this way. Nothing if they cannot be found out: a shell shows no errors."""
        try:
            begun, dots, last = incomplete.rpartition("..")  # A..B: the second one is typed now
            first = f"{begun}{dots}" if self._known is refs else ""
            rest = last if first else incomplete
            return [CompletionItem(first + name) for name in self._known(ctx) if name.startswith(rest)]
        except (LanceSparkError, OSError):
            return []


def _typed(ctx: click.Context) -> dict[str, object]:
    """The options in front of the verb; goes to the directory of ``-C``, which is not done before a verb runs."""
    given = dict(ctx.find_root().params)
    place = given.get("place")
    if isinstance(place, str) and "://" not in place:
        os.chdir(place)
    return given


def refs(ctx: click.Context) -> Iterable[str]:
    """Branches, also of remotes, and tags of the dataset."""
    from lance_spark.cli.output import Output
    from lance_spark.cli.session import Session
    from lance_spark.core.ref_names import is_own_tag
    from lance_spark.core.refs import MAIN
    from lance_spark.core.storage_options import storage_from
    from lance_spark.storage.refs import read_refs

    given = _typed(ctx)
    place, storage = given.get("place"), given.get("storage")
    dataset = place if isinstance(place, str) and "://" in place else given.get("dataset")
    pairs = storage if isinstance(storage, tuple) else ()
    session = Session(Output(), dataset if isinstance(dataset, str) else None, storage_from(pairs))
    table = read_refs(session.location)
    return [MAIN, *sorted(table.branches), *sorted(name for name in table.tags if not is_own_tag(name))]


def remotes(ctx: click.Context) -> Iterable[str]:
    """Remotes of the workspace."""
    from lance_spark.cli.output import Output
    from lance_spark.cli.session import Session, known_here

    _typed(ctx)
    return sorted(known_here(Session(Output())))


def tables(ctx: click.Context) -> Iterable[str]:
    """Tables of the catalog, and namespaces."""
    from lance_spark.catalog.name_rules import Identifier
    from lance_spark.catalog.overview import overview
    from lance_spark.cli.catalog.session import CatalogSession
    from lance_spark.cli.output import Output
    from lance_spark.core.storage_options import storage_from

    given = _typed(ctx)
    root, mode, storage = given.get("root"), given.get("mode"), given.get("storage")
    pairs = storage if isinstance(storage, tuple) else ()
    session = CatalogSession(
        Output(), root if isinstance(root, str) else None, str(mode), storage=storage_from(pairs), on_refs=True
    )
    return [str(item.identifier) for item in overview(session.catalog, Identifier(()), recursive=True)]


KNOWN: dict[str, dict[str, Known]] = {
    "lance-git": {**dict.fromkeys(("ref", "first", "second", "names", "branch", "branches"), refs), "remote": remotes},
    "lance-catalog": dict.fromkeys(("name", "old", "table", "tables"), tables),
}
"""By command, what its verbs' arguments of a name may be."""


def with_names(program: str, command: click.Command) -> click.Command:
    """The verb, with names for its arguments."""
    for parameter in command.params:
        known = KNOWN.get(program, {}).get(parameter.name or "")
        if known is not None and isinstance(parameter, click.Argument) and parameter.type is click.STRING:
            parameter.type = Names(known)
    return command
