"""The operations on a local disk, and on an object store that is 30 ms away."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import lance
from lance.namespace import RestAdapter, RestNamespace

from benchmarks import measure
from benchmarks.cataloging import data, work
from benchmarks.cataloging.work import FIVE_TIMES, IN_A_ROW, LEVEL, LOOKS
from benchmarks.cleanup_s3 import Store, slow_store, storage_options
from benchmarks.forwarding import ForwardingHandler
from benchmarks.measure import Case, Result, Target
from lance_spark.catalog.lookup import open_service
from lance_spark.catalog.migrate import migrate

ONE_COMMIT = Target("one commit", seconds=float("inf"))
_FAST = 5_000
"""Tables above which V1 is measured once: pylance takes half a minute to list 50,000 directories."""
_SLOWEST = 1_000
"""Tables from which on pylance's listing of V1 on the object store, one request for each, is not measured."""


@dataclass
class Measured:
    """One operation in one place on a catalog of one size."""

    place: str
    tables: int
    operation: str
    result: Result
    times: int = 1
    """How often the operation was done in what was measured."""
    requests: dict[str, dict[str, int]] = field(default_factory=dict)
    """Of one operation, by type."""
    note: str = ""

    def milliseconds(self, who: str) -> float | None:
        median = self.result.medians.get(who)
        return None if median is None else 1000 * median / self.times


def local(sizes: Sequence[int], rounds: int) -> Iterator[Measured]:
    for tables in sizes:
        slow = rounds if tables <= _FAST else 1

        def measured(name: str, case: Case, times: int = 1, rounds: int = rounds, tables: int = tables) -> Measured:
            print(f"measuring: local, {tables:,} tables, {name}", flush=True)
            return Measured("local", tables, name, measure.run(name, case, rounds), times)

        with data.scratch() as root:
            v1 = str(data.fill_v1(root / "v1", tables))
            case = work.listing(data.ours(v1, "v1"), data.theirs(v1, data.V1), None)
            yield measured("list, V1", case, rounds=slow)
            yield _migration("local", tables, v1, None, slow)
            v2 = str(data.fill_v2(root / "v2", tables))
            both = (data.ours(v2, "v2"), data.theirs(v2, data.V2))
            yield measured("list", work.listing(*both, LEVEL))
            yield measured("list ten", work.page(*both))
            yield measured("look-up", work.look_up(*both, tables), LOOKS)
            copies = {who: shutil.copytree(v2, root / who) for who in ("pylance", "pylance_indexed")}
            properties = {"pylance": data.V2, "pylance_indexed": data.INDEXED}
            peers = {who: data.theirs(str(copies[who]), properties[who]) for who in copies}
            yield measured("create", work.create(both[0], peers), IN_A_ROW)
            yield measured("rename", work.rename(both[0]), IN_A_ROW)


def _migration(place: str, tables: int, uri: str, storage: dict[str, str] | None, rounds: int) -> Measured:
    """Each round on a catalog without ``__manifest``. Commits are those that brought rows."""
    catalog = data.ours(uri, "compatibility", storage)
    result = Result("migrate", Case({"ours": tuple}, (ONE_COMMIT,)))
    print(f"measuring: {place}, {tables:,} tables, migrate", flush=True)
    commits = 0
    for _ in range(rounds):
        if storage is None:
            shutil.rmtree(Path(uri) / "__manifest", ignore_errors=True)
        started = time.perf_counter()
        migration = migrate(catalog)
        result.seconds.setdefault("ours", []).append(time.perf_counter() - started)
        commits = _commits_of_rows(catalog.manifest.uri, catalog.manifest.storage_options)
        if len(migration.tables) != tables:
            result.problems["ours"] = f"{len(migration.tables)} of {tables} tables were registered"
    if commits != 1:
        result.problems["ours"] = f"{commits} commits of rows"
    return Measured(place, tables, "migrate", result, note=f"{commits} commit")


def _commits_of_rows(uri: str, storage: dict[str, str] | None) -> int:
    versions = [entry["version"] for entry in lance.dataset(uri, storage_options=storage).versions()]
    counts = [lance.dataset(uri, version=each, storage_options=storage).count_rows() for each in sorted(versions)]
    return sum(after != before for before, after in zip([0, *counts], counts, strict=False))


def object_store(sizes: Sequence[int], rounds: int) -> Iterator[Measured]:
    with slow_store(time.time()) as store, data.scratch() as root:
        for tables in sizes:
            yield from _v2_there(store, root, tables, rounds)
        # Last, as this store goes through all objects of its bucket for each listing, of whatever prefix.
        for tables in sizes:
            yield from _v1_there(store, root, tables)


def _v1_there(store: Store, root: Path, tables: int) -> Iterator[Measured]:
    if tables > 5 * _SLOWEST:
        return
    storage = storage_options(store.slow)
    with store.copy(data.fill_v1(root / f"v1-{tables}", tables)) as uri:
        both = work.listing(data.ours(uri, "v1", storage), data.theirs(uri, data.V1, storage), FIVE_TIMES)
        if tables > _SLOWEST:
            both = Case({"ours": both.work["ours"]})
        yield _counted(store, tables, "list, V1", both, 1)
        store.requests()
        migration = _migration("S3", tables, uri, storage, 1)
        yield migration


def _v2_there(store: Store, root: Path, tables: int, rounds: int) -> Iterator[Measured]:
    storage = storage_options(store.slow)
    local_copy = data.fill_v2(root / f"v2-{tables}", tables)
    with store.copy(local_copy) as uri, store.copy(local_copy) as another:
        both: tuple[Any, Any] = (data.ours(uri, "v2", storage), data.theirs(uri, data.V2, storage))
        yield _counted(store, tables, "list", work.listing(*both, LEVEL), rounds)
        yield _counted(store, tables, "look-up", work.look_up(*both, tables, 1), rounds)
        peers = {"pylance": data.theirs(another, data.V2, storage)}
        yield _counted(store, tables, "create", work.create(both[0], peers, 1), rounds)
        yield _counted(store, tables, "rename", work.rename(both[0], 1), rounds)


def rest(sizes: Sequence[int], rounds: int) -> Iterator[Measured]:
    """Both as clients of pylance's server over a directory; each request is counted on its way."""
    for tables in sizes:
        with data.scratch() as root:
            local_copy = data.fill_v2(root / f"v2-{tables}", tables)
            with RestAdapter("dir", {"root": str(local_copy), **data.V2}, port=0) as adapter, Way(adapter.port) as way:
                both: tuple[Any, Any] = (open_service("rest", {"uri": way.uri}), RestNamespace(uri=way.uri))
                cases = (
                    ("list", work.listing(*both, LEVEL)),
                    ("look-up", work.look_up(*both, tables, 1)),
                )
                for name, case in cases:
                    print(f"measuring: REST, {tables:,} tables, {name}", flush=True)
                    measured = Measured("REST", tables, name, measure.run(name, Case(case.work, ()), rounds))
                    for who, once in case.work.items():
                        way.requests.clear()
                        once()
                        measured.requests[who] = dict(way.requests)
                    yield measured


class Way:
    """A proxy on the way to a server, which counts requests by their method."""

    def __init__(self, port: int) -> None:
        requests: Counter[str] = Counter()

        class Handler(ForwardingHandler):
            def address(self) -> str:
                return f"127.0.0.1:{port}"

            def answer(self, body: bytes) -> None:
                requests[self.command] += 1
                self.reply(*self.ask(self.path, body))

        self.requests = requests
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.uri = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Way:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _counted(store: Store, tables: int, name: str, case: Case, rounds: int) -> Measured:
    print(f"measuring: S3, {tables:,} tables, {name}", flush=True)
    measured = Measured("S3", tables, name, measure.run(name, case, rounds))
    for who, once in case.work.items():
        if who not in measured.result.problems:
            measured.requests[who] = _requests_of(store, once)
    return measured


def _requests_of(store: Store, once: Callable[[], object]) -> dict[str, int]:
    store.requests()
    once()
    return store.requests()
