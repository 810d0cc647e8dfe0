"""A catalog service in memory, behind the REST protocol, to which accidents happen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from support.rest_catalogs import Answer, Server, said

Accident = Callable[["SmallCatalog", str, str, Callable[[], Answer]], Answer]
"""What happens to a question: the action, the id, and what the catalog would answer."""


class SmallCatalog:
    """Tables below a directory; a name of its own may mean another place later on."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tables: dict[str, dict[str, Any]] = {}
        self.namespaces: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        self.accident: Accident | None = None
        self.seconds: float | None = None
        """For how long the keys are good that it hands out; None if it hands out none."""
        self.handed_out: list[str] = []
        self.fold: Callable[[str], str] = lambda name: name
        """What it makes of names."""
        self._places = 0

    def place(self, name: str) -> str:
        """Another directory for each table that is created."""
        self._places += 1
        return str(self.directory / f"{self._places}-{''.join(filter(str.isalnum, name))}")

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        parts = urlsplit(path)
        _, kind, name, action = parts.path.strip("/").split("/", 3)
        name = self.fold(unquote(name)).strip("$")
        action = f"{kind} {action}"
        self.asked.append((action, name))
        query = {key: value for key, (value,) in parse_qs(parts.query).items()}

        def plain() -> Answer:
            return self._answered(action, name, body, query)

        return plain() if self.accident is None else self.accident(self, action, name, plain)

    def _answered(self, action: str, name: str, body: dict[str, Any], query: dict[str, str]) -> Answer:
        if action.startswith("namespace"):
            return self._of_namespaces(action, name, body, query)
        if action in ("table declare", "table register"):
            if name in self.tables:
                return said({"code": 5, "error": "taken"}, 409)
            place = body.get("location") or self.place(name)
            self.tables[name] = {"location": place, "properties": body.get("properties") or {}}
        if name not in self.tables:
            return said({"code": 4, "error": "no such table"}, 404)
        if action in ("table drop", "table deregister"):
            return said(self.tables.pop(name))
        if action == "table rename":
            return self._renamed(
                name, [*(body.get("new_namespace_id") or name.split("$")[:-1]), body["new_table_name"]]
            )
        return said({**self.tables[name], **self._keys(name)})

    def _renamed(self, name: str, parts: list[str]) -> Answer:
        new = self.fold("$".join(parts))
        if new in self.tables:
            return said({"code": 5, "error": "taken"}, 409)
        self.tables[new] = self.tables.pop(name)
        return said({})

    def _of_namespaces(self, action: str, name: str, body: dict[str, Any], query: dict[str, str]) -> Answer:
        if action == "namespace create":
            if name in self.namespaces:
                return said({"code": 2, "error": "taken"}, 409)
            self.namespaces[name] = body.get("properties") or {}
            return said({})
        if name and name not in self.namespaces:
            return said({"code": 1, "error": "no such namespace"}, 404)
        return said({"properties": self.namespaces.get(name, {}), **self._names(name, query)})

    def _names(self, within: str, query: dict[str, str]) -> dict[str, Any]:
        depth = within.count("$") + 2 if within else 1
        begin, end = int(query.get("page_token") or 0), int(query.get("page_token") or 0) + 2  # pages of two
        found = {}
        for kind, all_names in (("tables", self.tables), ("namespaces", self.namespaces)):
            inside = [each for each in sorted(all_names) if not within or each.startswith(f"{within}$")]
            found[kind] = [each.split("$")[-1] for each in inside if each.count("$") + 1 == depth]
        more = max(map(len, found.values())) > end
        return {kind: names[begin:end] for kind, names in found.items()} | ({"page_token": str(end)} if more else {})

    def _keys(self, name: str) -> dict[str, Any]:
        if self.seconds is None:
            return {}
        key = f"very-secret-{name}-{len(self.handed_out)}"
        self.handed_out.append(key)
        until = str(int((time.time() + self.seconds) * 1000))
        return {"storage_options": {"aws_secret_access_key": key, "expires_at_millis": until}}


@contextmanager
def small_catalog(directory: Path) -> Iterator[tuple[SmallCatalog, dict[str, str]]]:
    """The catalog, and the properties to connect with."""
    catalog = SmallCatalog(directory)
    with Server(catalog.answer) as server:
        yield catalog, server.properties
