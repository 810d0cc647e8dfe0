"""The server of the pages: on this machine's loopback only, for whoever has its address, and for reading only."""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from lance_spark.catalog.name_rules import Catalog
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import MAIN
from lance_spark.core.show import Card, Shown
from lance_spark.core.texts import masked
from lance_spark.errors import InvalidOption, LanceSparkError, Refused, StorageFailure
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.versions import version_numbers
from lance_spark.ui import looking, page_rules, pages, row_history
from lance_spark.ui.looking import Subject
from lance_spark.ui.page_rules import Problem

if TYPE_CHECKING:
    from flask import Flask
    from werkzeug.wrappers import Response

_T = TypeVar("_T")
_LOG = logging.getLogger(__name__)
_THREADS = 32
"""Parts of a page wait for the store side by side: pages that were left must not keep the next one waiting."""
_LONGEST_FORM = 64 * 1024
PATIENCE = 120.0
"""Seconds that a page waits for a store."""
_SOON = 3.0
"""Seconds after which a whole page that has no answer yet is sent as one that says so, and asks for the rest."""
_KEPT = 32
"""Looks that whole pages left behind, which the requests of their parts take up."""
_LONGEST, _LONGEST_VALUE = 2_000, 12_000
"""Characters of a name in an address, and of a value that is looked up or a list of branches."""
_FORMS = {"row": "row", "story": "row", "diff": "diff", "diff-rows": "diff", "merge": "merge"}
"""By page, the form that leads to it."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""What a page may load: its own script and style, pictures within it, and nothing from elsewhere."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Serving:
    subject: Subject
    allow_merge: bool = False
    audit: Callable[[Catalog], bool] | None = None
    """Gets the whole lake as it will be, before a branch of it is merged; False prevents that."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    port: int = 0
    """0 for any that is free."""
    patience: float = PATIENCE


class _Guard:
    """Who gets an answer: requests to this machine's loopback, with the token, not sent by a page of another site."""

    def __init__(self, serving: Serving, port: int) -> None:
        self._token = serving.token.encode()
        self.hosts = frozenset(f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]"))

    def refusal(self, request: Any) -> Problem | None:
        """Why a request gets no answer; None for one that does."""
        if request.host not in self.hosts:
            # Another site whose name leads here would otherwise read the pages: DNS rebinding.
            return Problem("This address is not one of this page's.", "Use the address that the command printed.", 403)
        typed = request.path.split("/", 2)[1].encode()
        if not hmac.compare_digest(typed, self._token):
            return Problem("This address lacks its token.", "Use the whole address that the command printed.", 403)
        sent_by = request.headers.get("Sec-Fetch-Site", "none")
        if request.method not in ("GET", "HEAD"):
            if request.headers.get("Origin") != f"http://{request.host}" or sent_by not in ("same-origin", "none"):
                return Problem("Another page sent this; nothing was done.", "Use the button of the review.", 403)
        elif sent_by not in ("same-origin", "none") and request.headers.get("Sec-Fetch-Mode") != "navigate":
            return Problem("Another page asked for this.", "Open the address in the browser.", 403)
        return None


class _StillWaiting(Exception):
    """A whole page has no answer yet; the look goes on."""


class _Waiting:
    """Runs looks for at most some seconds each: a store that does not answer must not leave a page without words."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._pool = ThreadPoolExecutor(_THREADS * 2, "lance-page")
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, Future[Any]]] = {}

    def of(self, look: Callable[[], _T], address: str = "", whole: bool = False) -> _T:
        """The answer. Raises StorageFailure if it takes too long; what was begun goes on, and is forgotten.

        For a ``whole`` page, raises _StillWaiting long before: the browser shows nothing of a page that is not there
        yet. The next request of the same ``address`` takes up what was begun.
        """
        asked: Future[_T] = self._taken_up(address) or self._pool.submit(look)
        try:
            return asked.result(min(_SOON, self._patience) if whole else self._patience)
        except TookTooLong:
            if whole and self._patience > _SOON:
                self._leave(address, asked)
                raise _StillWaiting from None
            asked.cancel()
            raise StorageFailure(
                f"The store has not answered this within {self._patience:.0f} seconds.",
                hint="Load it again, or ask for less: a smaller part, fewer versions.",
            ) from None

    def _leave(self, address: str, asked: Future[Any]) -> None:
        with self._lock:
            self._left[address] = (time.monotonic(), asked)
            while len(self._left) > _KEPT:
                self._left.pop(next(iter(self._left)))[1].cancel()

    def _taken_up(self, address: str) -> Future[Any] | None:
        with self._lock:
            since, asked = self._left.pop(address, (0.0, None))
        # An answer that nobody came for is of another time: whoever loads the page again wants what is there now.
        return asked if asked is not None and time.monotonic() - since <= self._patience else None


def make_app(serving: Serving, port: int) -> Flask:
    """The application. Raises NotInstalled without Flask."""
    try:
        from flask import Flask, request
        from werkzeug.exceptions import HTTPException
    except ModuleNotFoundError as missing:
        raise pages.not_installed(missing.name) from None
    prefix = f"/{serving.token}"
    app = Flask(__name__, static_folder=str(pages.STATIC), static_url_path=f"{prefix}/static", template_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = _LONGEST_FORM
    guard, views = _Guard(serving, port), _Views(serving, request, _Waiting(serving.patience))

    @app.before_request
    def check() -> tuple[str, int] | None:
        refused = guard.refusal(request) or _too_long(request.args) or _too_long(request.form)
        return None if refused is None else (pages.problem_page(refused), refused.status)

    @app.after_request
    def add_headers(response: Response) -> Response:
        response.headers.update(_HEADERS)
        return response

    @app.errorhandler(_StillWaiting)
    def waited(_: _StillWaiting) -> tuple[str, int]:
        return views.still_waiting(), 202

    @app.errorhandler(LanceSparkError)
    def told(problem: LanceSparkError) -> tuple[str, int]:
        return views.problem(Problem.of(problem))

    @app.errorhandler(HTTPException)
    def unknown(problem: HTTPException) -> tuple[str, int]:
        said = Problem(f"{problem.name}.", "Begin at the first page.", problem.code or 500)
        return views.problem(said)

    @app.errorhandler(Exception)
    def fault(problem: Exception) -> tuple[str, int]:
        _LOG.error("%s: %s", type(problem).__name__, masked(str(problem)))
        said = f"This part could not be made: {type(problem).__name__}. {masked(str(problem))[:300]}"
        return views.problem(Problem(said, "The dataset was not changed. lance-git fsck says if it is damaged.", 500))

    for page, methods, view in views.all():
        app.add_url_rule(f"{prefix}/{page}", page or "first", view, methods=methods)
    return app


def _too_long(given: Mapping[str, str]) -> Problem | None:
    """Why an address with these parameters gets no answer: pages repeat what they were asked for."""
    for name, value in given.items():
        longest = _LONGEST_VALUE if name in ("value", "branches") else _LONGEST
        if len(value) > longest:
            said = f"'{name[:50]}' has {len(value):,} characters; at most {longest:,} can be asked for."
            return Problem(said, "Nothing has so long a name. Begin at the first page.", 400)
    return None


class _Views:
    """A page or a part of one for each address; all but the two merges only look."""

    def __init__(self, serving: Serving, request: Any, waiting: _Waiting) -> None:
        self._serving, self._subject, self._request, self._waiting = serving, serving.subject, request, waiting
        self._url = pages.address(f"/{serving.token}")

    def all(self) -> list[tuple[str, list[str], Callable[[], Any]]]:
        """Address, methods and function of each."""
        get = ["GET"]
        parts: Mapping[str, Callable[[DatasetLocation], page_rules.UpkeepPart]] = {
            "storage": looking.look_at_storage,
            "dependents": looking.look_at_dependents,
            "cleanup": looking.look_at_cleanup,
            "check": looking.look_at_check,
        }
        found: list[tuple[str, list[str], Callable[[], Any]]] = [
            ("", get, self.first),
            ("tables", get, self.tables),
            ("table", get, self.table),
            ("graph", get, self.graph),
            ("version", get, self.version),
            ("rows", get, self.rows),
            ("diff", get, self.diff),
            ("diff-rows", get, self.diff_rows),
            ("row", get, self.row),
            ("story", get, self.story),
            ("columns", get, self.columns),
            ("merge", get, self.review),
            ("lake-diff", get, self.lake_diff),
            ("lake-merge", get, self.lake_review),
            ("upkeep", get, self.upkeep),
            ("costs", get, self.costs),
            ("cleanups", get, self.cleanups),
            ("indexes", get, self.indexes),
            *((name, get, self._part_of(name, look)) for name, look in parts.items()),
        ]
        if self._serving.allow_merge:
            found += [("do-merge", ["POST"], self.merge), ("do-lake-merge", ["POST"], self.lake_merge)]
        return found

    # --- What all have in common

    def _given(self, name: str, otherwise: str = "") -> str:
        value: str = self._request.args.get(name, otherwise)
        return value

    def _number(self, name: str, otherwise: int, most: int) -> int:
        text = self._given(name, str(otherwise))
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            raise InvalidOption(f"'{name}' must be a number, not '{text[:50]}'.")
        return min(int(text), most)

    @property
    def _place(self) -> Callable[[], DatasetLocation]:
        """Finds the table that the page is about; to be called where the store is waited for."""
        name, at = self._name, self._given("at")
        return lambda: self._subject.table(name, at)

    def _address(self, page: str = "", **given: object) -> str:
        """The address of another page, at the same branch or tag of the lake."""
        shared = {} if page.startswith("static/") else {"at": self._given("at")}
        return self._url(page, **{**shared, **given})

    @property
    def _name(self) -> str:
        """The table that the page is about; "" if all pages are about one dataset."""
        return "" if self._subject.location is not None else self._given("t")

    def _values(self, **values: Any) -> dict[str, Any]:
        shared = {
            "url": self._address,
            "at": self._given("at"),
            "table": self._name,
            "lake": None if self._subject.catalog is None else masked(self._subject.catalog.uri),
            "allow_merge": self._serving.allow_merge,
            "whole": self._request.headers.get("X-Part") != "1",
        }
        return {**shared, **values}

    def _page(self, template: str, **values: Any) -> str:
        return pages.render(template, self._values(**values))

    def _look(self, look: Callable[[], _T]) -> _T:
        """What this request asks the store for."""
        return self._waiting.of(look, self._request.full_path, self._request.headers.get("X-Part") != "1")

    def still_waiting(self) -> str:
        """A page that says that the store has not answered, and asks again for the rest."""
        return self._page("waiting.html", address=self._request.full_path, waited=round(_SOON))

    def problem(self, problem: Problem) -> tuple[str, int]:
        """A problem, as a page or as a part of one; after a mistake in a form, with the form to try again."""
        return self._page("problem.html", problem=problem, again=self._again(problem)), problem.status

    def _again(self, problem: Problem) -> looking.Again | None:
        form = _FORMS.get(self._request.path.rpartition("/")[2])
        if form is None or problem.status not in (400, 404, 409):
            return None
        place, typed = self._place, self._request.args
        try:
            return self._waiting.of(lambda: looking.form_again(place(), form, typed))
        except LanceSparkError:
            return None  # what is wrong is said already

    def _part_of(self, name: str, look: Callable[[DatasetLocation], page_rules.UpkeepPart]) -> Callable[[], str]:
        def view() -> str:
            place = self._place
            part = self._look(lambda: look(place()))
            return self._page("part.html", part=part, title=name.capitalize())

        return view

    # --- Pages

    def first(self) -> str:
        return self.table() if self._subject.catalog is None else self.lake()

    def lake(self) -> str:
        at = self._given("at")
        page = self._look(lambda: looking.look_at_lake(self._subject, at))
        return self._page("lake.html", page=page, query=self._given("q"))

    def tables(self) -> str:
        at, query, start = self._given("at"), self._given("q"), self._number("start", 0, 10**9)
        part = self._look(lambda: looking.look_at_tables(self._subject, at, query, start))
        return self._page("tables.html", part=part)

    def table(self) -> str:
        """A table; its parts come after it."""
        name, ref, at = self._name, self._given("ref"), self._given("at")
        page = self._look(lambda: looking.look_at_table(self._subject, name, ref, at))
        return self._page("table.html", page=page)

    def graph(self) -> str:
        place, count = self._place, max(1, self._number("count", 200, 10_000))
        page = self._look(lambda: looking.look_at_graph(place(), count))
        return self._page("graph.html", page=page)

    def version(self) -> str:
        place, ref = self._place, self._given("ref", MAIN)
        page = self._look(lambda: looking.look_at_version(place(), ref))
        return self._page("version.html", page=page)

    def rows(self) -> str:
        place, ref, everything = self._place, self._given("ref", MAIN), self._given("all") == "1"
        grid = self._look(lambda: looking.look_at_rows(place(), ref, everything))
        return self._page("rows.html", grid=grid, ref=ref)

    def diff(self) -> str:
        place, a, b = self._place, self._given("a", MAIN), self._given("b")
        if not b:
            raise InvalidOption("Name two refs to compare.", hint="The page of a table has a form for it.")
        page = self._look(lambda: looking.look_at_diff(place(), a, b))
        return self._page("diff.html", page=page, a=a, b=b)

    def diff_rows(self) -> str:
        place, a, b, on = self._place, self._given("a", MAIN), self._given("b", MAIN), self._given("on")
        start = self._number("start", 0, 10**9)
        part = self._look(lambda: looking.look_at_diff_rows(place(), a, b, start, on))
        return self._page("diff_rows.html", part=part, a=a, b=b, column=part.names[0] if part.names else "")

    def row(self) -> str:
        place, column, value = self._place, self._given("column"), self._given("value")
        only = tuple(name.strip() for name in self._given("branches").split(",") if name.strip())
        page = self._look(lambda: row_history.find_row(place(), column, value, only))
        return self._page("row.html", page=page)

    def columns(self) -> str:
        """A form for the columns that only branches have."""
        place = self._place
        found = self._look(lambda: row_history.columns_of_branches(place()))
        return self._page("columns.html", found=found)

    def story(self) -> str:
        """Every version of a branch that changed a row."""
        place, column, value, ref = (
            self._place,
            self._given("column"),
            self._given("value"),
            self._given("branch", MAIN),
        )

        def look() -> row_history.RowStory:
            return row_history.tell_row(place(), ref, column, value)

        return self._page("story.html", story=self._look(look), column=column, value=value)

    def upkeep(self) -> str:
        """Reports, what a cleanup would delete, what costs most."""
        reports = self._look(self._subject.stored_reports)
        return self._page("upkeep.html", reports=reports, known_place=looking.KNOWN_PLACE)

    def indexes(self) -> str:
        """The indexes of a version and what they cover."""
        place, ref = self._place, self._given("ref", MAIN)
        part = self._look(lambda: looking.look_at_indexes(place(), ref))
        return self._page("part.html", part=part, title="Indexes")

    def cleanups(self) -> str:
        """What a cleanup of some tables of the lake would delete."""
        start, files, size = (self._number(name, 0, 10**18) for name in ("start", "files", "bytes"))
        part = self._look(lambda: looking.look_at_cleanups(self._subject, start, (files, size)))
        return self._page("cleanups.html", part=part)

    def costs(self) -> str:
        part = self._look(lambda: looking.look_at_costs(self._subject))
        return self._page("part.html", part=part, title="What costs most")

    # --- Reviews

    def review(self) -> str:
        place, asked = self._place, looking.AskedMerge.of(self._request.args)
        lake = None if self._subject.catalog is None else (self._subject.catalog.uri, self._name)

        def look() -> tuple[page_rules.ReviewPage, page_rules.AuditLine | None]:
            location = place()
            return looking.review(location, asked, lake), looking.audit_of_tables(self._subject, location, asked)

        page, audit = self._look(look)
        return self._page("review.html", page=page, asked=asked, audit=audit)

    def merge(self) -> str:
        form = self._request.form
        name = "" if self._subject.location is not None else form.get("t", "")
        asked = looking.AskedMerge.of(form)
        seen = looking.Reviewed(form.get("seen_source", ""), form.get("seen_into", ""))
        result = looking.carry_out(self._subject.table(name, form.get("at", "")), asked, seen)
        lines = str(result.said("shell")).splitlines()
        return self._page("merged.html", lines=lines, table=name, compare=(seen.into, result.into))

    def lake_diff(self) -> str:
        branch = self._given("branch")
        found = self._look(lambda: looking.look_at_lake_diff(self._subject, branch))
        return self._page("lake_diff.html", found=found)

    def lake_review(self) -> str:
        """The dry run of a merge of a branch of the lake."""
        branch, prefer = self._given("branch"), self._given("prefer")
        review = self._look(lambda: looking.review_lake(self._subject, branch, prefer))
        typed = page_rules.lake_commands(self._subject.lake.uri, branch, prefer)
        audited = self._serving.audit is not None
        return self._page(
            "lake_review.html", review=review, found=review.found, commands=typed, prefer=prefer, audited=audited
        )

    def lake_merge(self) -> str:
        """Merges a branch of the lake as it was reviewed."""
        branch, prefer, seen = (self._request.form.get(name, "") for name in ("branch", "prefer", "seen"))
        done = looking.carry_out_lake(self._subject, (branch, prefer), seen, self._serving.audit)
        tables = [f"{each.name}: main {each.before} -> {each.after}" for each in done.tables]
        lines = [f"Branch '{done.branch}': {done.state}.", *tables, *done.others, *done.conflicts]
        return self._page("merged.html", lines=lines, table="", compare=None)


# --- A server that runs


@dataclass(frozen=True, repr=False)
class Browsing(Shown):
    """Pages that are served by this process, until :meth:`close` or its end."""

    url: str
    """The address, with its token: whoever has it can read the data."""
    _server: Any = field(repr=False, compare=False)
    _thread: threading.Thread = field(repr=False, compare=False)

    def close(self) -> None:
        self._server.close()
        self._thread.join(5)

    def wait(self) -> None:
        """Serve until Ctrl-C, or until :meth:`close`."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def _card(self) -> Card:
        return Card(type(self).__name__, self.url, "close() ends it")

    def _repr_html_(self) -> str:
        """For notebooks: a link."""
        from html import escape

        shown = escape(self.url, quote=True)
        return f'<a href="{shown}" target="_blank" rel="noopener noreferrer">{shown}</a>'


def start(serving: Serving) -> Browsing:
    """Serve the pages from a thread of this process. Raises NotInstalled, and Refused for a port that is taken."""
    try:
        from waitress.server import create_server
    except ModuleNotFoundError as missing:
        raise pages.not_installed(missing.name) from None
    # The port is known only once the socket is bound, and the guard needs it: the application comes after it.
    late = _Late()
    try:
        server = create_server(
            late, host="127.0.0.1", port=serving.port, threads=_THREADS, ident=None, clear_untrusted_proxy_headers=True
        )
    except OSError as taken:
        raise Refused(
            f"Port {serving.port} of this machine cannot be used: {taken.strerror or taken}.",
            hint="Name another one with --port, or none.",
        ) from None
    port = int(server.effective_port)
    late.app = make_app(serving, port)
    thread = threading.Thread(target=server.run, name="lance-pages", daemon=True)
    thread.start()
    return Browsing(f"http://127.0.0.1:{port}/{serving.token}/", server, thread)


class _Late:
    """An application that is made once the port is known."""

    app: Any = None

    def __call__(self, environment: Any, begin: Any) -> Any:
        return self.app(environment, begin)


def browse(
    about: Catalog | DatasetLocation,
    *,
    allow_merge: bool = False,
    audit: Callable[[Catalog], bool] | None = None,
    reports: tuple[str, ...] = (),
    port: int = 0,
    open_browser: bool = True,
) -> Browsing:
    """Serve pages about a lake or a dataset, and open them in the browser of this machine, if it has one.

    Raises NotInstalled, Refused, and NotFound if nothing is there. A damaged dataset is shown as far as it can be read.
    """
    if isinstance(about, DatasetLocation) and not version_numbers(about, None):
        pin_latest(about, None)  # raises NotFound, with what is there instead
    if isinstance(about, Catalog):
        subject = Subject(catalog=about, reports=reports, storage=dict(about.root.options))
    else:
        subject = Subject(location=about, reports=reports, storage=dict(about.options))
    running = start(Serving(subject, allow_merge, audit, port=port))
    if open_browser:
        import webbrowser

        webbrowser.open(running.url)
    return running
