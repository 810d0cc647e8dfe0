"""The session of a ``lance-catalog`` verb: the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from lance_spark.cli.program import CommandCall
from lance_spark.core.workspace import check_uri
from lance_spark.errors import InvalidOption

if TYPE_CHECKING:
    from lance_spark.catalog.rules import Catalog, Mode


@dataclass(frozen=True)
class CatalogSession(CommandCall):
    """One call of ``lance-catalog``."""

    root: str | None = None
    """``--catalog``: a URI or path."""
    mode: str = "compatibility"
    typed: str = "lance-catalog"
    """How the command was called, up to the verb, for hints on what to type next."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """``--storage``. Values may be secrets; they are never stored."""

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog. Raises InvalidOption if none was named, and NotFound for a missing local directory.

        Sends no request to other stores: there, a directory exists once something is in it.
        """
        from lance_spark.catalog.lookup import check_root  # pulls in pyarrow, for which --help does not wait

        check_root(self.new_catalog)
        return self.new_catalog

    @cached_property
    def new_catalog(self) -> Catalog:
        """The catalog, whose directory may be created. Raises InvalidOption if none was named."""
        from lance_spark.catalog.lookup import open_catalog

        if not self.root:
            raise InvalidOption(
                "No catalog was named.", hint="Use lance-catalog -C ROOT ..., or set LANCE_CATALOG to its directory."
            )
        check_uri(self.root)
        return open_catalog(self.root, self.storage, cast("Mode", self.mode))

    def show(self, data: Mapping[str, Any], text: str) -> None:
        """Print the result; JSON also names the catalog."""
        self.output.show({"catalog": self.new_catalog.uri, **data}, text)
