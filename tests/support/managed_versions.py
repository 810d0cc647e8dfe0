"""A catalog that keeps the versions of its tables, behind the REST protocol: a version is what it has accepted."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from support.rest_catalogs import Answer, Server, said

_LAST = 2**64 - 1


class ManagedVersions:
    """Tables and versions in memory; the first who asks for a number has it."""

    def __init__(self, directory: Path, moves: bool) -> None:
        self.directory, self.moves = directory, moves
        """``moves``: it puts an accepted manifest in its place, as pylance's own catalog does; or leaves it."""
        self.asked: Counter[str] = Counter()
        self.versions: dict[str, dict[int, dict[str, Any]]] = {}
        self.refused = 0
        self.meanwhile: Callable[[], None] | None = None
        """Called once, before the next version is taken."""
        self.lost: list[str] = []
        """For each next commit: "before" if it is not taken, "after" if it is; either way nobody is answered."""
        self._lock = threading.Lock()

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        parts = urlsplit(path)
        _, kind, name, action = unquote(parts.path).strip("/").split("/", 3)
        self.asked[f"{kind}/{action}"] += 1
        if kind == "namespace":
            return said({"properties": {}, "tables": sorted(self.versions), "namespaces": []})
        location = str(self.directory / name.replace("$", "_"))
        about = {"location": location, "managed_versioning": True}
        if action == "declare":
            if name in self.versions:
                return said({"code": 5, "error": "already exists"}, 409)
            self.versions[name] = {}
            return said(self._declared(dict(about)))
        if name not in self.versions:
            return said({"code": 4, "error": "no such table"}, 404)
        if action in ("drop", "deregister"):
            del self.versions[name]
            return said(about)
        if action == "describe":
            return said(about)
        return self._of_versions(action, name, body, {key: last for key, (*_, last) in parse_qs(parts.query).items()})

    def _declared(self, about: dict[str, Any]) -> dict[str, Any]:
        """What it answers to whoever takes a name."""
        return about

    def _of_versions(self, action: str, name: str, body: dict[str, Any], query: dict[str, str]) -> Answer:
        if action == "version/create":
            return self._create(name, body)
        if action == "version/describe":
            found = self.versions[name].get(body["version"])
            return said({"code": 11, "error": "no such version"}, 404) if found is None else said({"version": found})
        assert action == "version/list"
        order = sorted(self.versions[name], reverse=query.get("descending") == "true")
        begin = int(query.get("page_token", 0))
        end = begin + min(int(query.get("limit", 2)), 2)  # pages of two
        token = {"page_token": str(end)} if end < len(order) else {}
        return said({"versions": [self.versions[name][number] for number in order[begin:end]], **token})

    def _create(self, name: str, body: dict[str, Any]) -> Answer:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        with self._lock:
            lost = self.lost.pop(0) if self.lost else None
            if lost == "before":
                return said({"error": "away"}, 503)
            number, place = body["version"], body["manifest_path"]
            if number in self.versions[name]:
                self.refused += 1
                return said({"code": 14, "error": "the version exists"}, 409)
            if self.moves:
                final = f"{os.path.dirname(place)}/{_LAST - number}.manifest"
                os.rename(f"/{place}", f"/{final}")
                place = final
            kept = {"version": number, "manifest_path": place, "manifest_size": body.get("manifest_size")}
            self.versions[name][number] = kept
            return said({"error": "away"}, 503) if lost == "after" else said({"version": kept})


@contextmanager
def managed_versions(directory: Path, moves: bool) -> Iterator[tuple[ManagedVersions, dict[str, str]]]:
    """The catalog, and the properties to connect with."""
    catalog = ManagedVersions(directory, moves)
    with Server(catalog.answer) as server:
        yield catalog, server.properties
