"""Catalog services: the one place that connects to them, asks them, and turns what they answer into errors of ours.

A service is on the network and belongs to somebody else: it may be slow, away, overloaded, or answer with anything.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from lance_spark.core.services import Service
from lance_spark.errors import (
    AlreadyExists,
    Conflict,
    CorruptData,
    InvalidOption,
    LanceSparkError,
    NotFound,
    NotInstalled,
    PermissionDenied,
    Refused,
    StorageFailure,
)

if TYPE_CHECKING:
    from lance_namespace import LanceNamespace

PATIENCE = 60.0
"""Seconds for which a service that is away is asked for new credentials, before that is an error: jobs wait for it."""
SHORT = 10.0
"""The same for names and descriptions, for which people wait."""
DEADLINE = 60.0
"""Seconds after which one question has no answer."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_LARGEST = 64 * 2**20
"""Bytes of an answer: more is no listing and no description."""

_clients: dict[Service, LanceNamespace] = {}
_lock = threading.Lock()
_Answer = TypeVar("_Answer")

UNSUPPORTED, UNAVAILABLE, THROTTLED = 0, 17, 21
_CODES: dict[int, type[LanceSparkError]] = {
    UNSUPPORTED: Refused,
    1: NotFound,
    2: AlreadyExists,
    3: Refused,
    4: NotFound,
    5: AlreadyExists,
    11: NotFound,
    13: InvalidOption,
    14: Conflict,
    15: PermissionDenied,
    16: PermissionDenied,
    19: Refused,
}
"""Errors by the codes of the specification; every other code is a failure of the service."""
_SAYS = {
    1: "there is no such namespace",
    2: "a namespace of that name already exists",
    3: "the namespace is not empty",
    4: "there is no such table",
    5: "a table of that name already exists",
    14: "somebody changed it at the same time",
}
_WORDS = (
    (re.compile(r"not supported|not implemented|unsupported", re.I), UNSUPPORTED),
    (re.compile(r"not empty|non-empty", re.I), 3),
    (re.compile(r"namespace (?:does not exist|not found)|no such (?:database|namespace|schema)", re.I), 1),
    (re.compile(r"already exists", re.I), 5),
    (re.compile(r"does not exist|not found|entitynotfound|nosuchobject|not a lance table", re.I), 4),
    (re.compile(r"access ?denied|forbidden|not authorized|unauthorized|HTTP 40[13]", re.I), 15),
    (re.compile(r"throttl|too many requests|HTTP 429|rate exceeded", re.I), THROTTLED),
    (re.compile(r"could not connect|connection|timed? ?out|unavailable|HTTP 50[234]|endpoint url", re.I), UNAVAILABLE),
    (re.compile(r"exactly|must have|requires|invalid|at least", re.I), 13),
)
"""What implementations without codes say."""


_LOOK = "Look whether it was done before you run it again."


class ServiceSilent(StorageFailure):
    """A service did not answer, or asked to come back later. Only inside: tasks pass on errors of the public tree."""

    @property
    def for_others(self) -> StorageFailure:
        """The same for everybody else."""
        return StorageFailure(self.message, self.hint)


def connect(service: Service) -> LanceNamespace:
    """The client of a service, one for each process. Raises InvalidOption, NotInstalled."""
    with _lock:
        if service not in _clients:
            _clients[service] = _rest(service) if service.impl == "rest" else _by_name(service)
        return _clients[service]


def _by_name(service: Service) -> LanceNamespace:
    import importlib

    import lance_namespace

    try:
        importlib.import_module("lance_namespace_impls")  # it makes its aliases known
    except ImportError:
        if service.impl in ("glue", "hive2", "hive3", "iceberg", "polaris", "unity"):
            raise NotInstalled(
                f"A catalog of {service.impl} needs the package lance-namespace-impls, which is not installed.",
                hint="pip install 'lance-spark[catalogs]'",
            ) from None
    try:
        return lance_namespace.connect(service.impl, service.for_others)
    except Exception as problem:  # noqa: BLE001 - any package's constructor; converted to an error that reports it
        if isinstance(problem.__context__, ImportError) or "pip install" in str(problem):
            raise NotInstalled(
                f"The catalog '{service.impl}' needs a package: {service.clean(str(problem))}",
                hint="pip install 'lance-spark[catalogs]'",
            ) from None
        raise InvalidOption(
            f"The catalog '{service.impl}' cannot be opened: {service.clean(str(problem))}",
            hint="Check its name and its properties.",
        ) from None


def ask(service: Service, operation: str, request: str, doing: str, **given: Any) -> Any:
    """:func:`try_to_ask`, with a StorageFailure if there was no answer."""
    try:
        return try_to_ask(service, operation, request, doing, **given)
    except ServiceSilent as silent:
        raise silent.for_others from None


def try_to_ask(
    service: Service, operation: str, request: str, doing: str, *, patience: float | None = None, **given: Any
) -> Any:
    """What a service answers to one of its operations; ``request`` is the class of the question.

    ``doing`` completes "Cannot ...". A service that is away is asked again for a while, if asking twice changes
    nothing. Raises Refused, naming the operation, for one that the service does not have, and NotFound, AlreadyExists,
    InvalidOption, Conflict, PermissionDenied, StorageFailure, and ServiceSilent if there was no answer.
    """
    import lance_namespace

    def once() -> Any:
        client = connect(service)
        question = getattr(lance_namespace, request)(**given)
        return _in_time(service, lambda: getattr(client, operation)(question))

    def attempt() -> Any:
        return _translated(service, operation, doing, once)

    if operation.startswith(("describe", "list")):
        return patiently(attempt, SHORT if patience is None else patience)
    try:
        return attempt()
    except ServiceSilent as silent:
        raise ServiceSilent(f"{silent.message} It may have been done nevertheless.", hint=_LOOK) from None


def patiently(attempt: Callable[[], _Answer], patience: float) -> _Answer:
    """The answer, after asking again for a while if there is none."""
    end, pause = time.monotonic() + patience, _FIRST_PAUSE
    while True:
        try:
            return attempt()
        except ServiceSilent:
            if time.monotonic() + pause > end:
                raise
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def pages(service: Service, doing: str, ask_for: Callable[[str | None], _Answer]) -> Iterator[_Answer]:
    """All pages of a list; ``ask_for`` asks for the page of a token. Raises CorruptData for pages in a circle.

    A part that looks like all of a list would let a cleanup of all tables miss the others.
    """
    token: str | None = None
    seen: set[str] = set()
    while True:
        answer = ask_for(token)
        yield answer
        token = getattr(answer, "page_token", None) or None
        if token is None:
            return
        if token in seen:
            raise CorruptData(f"Cannot {doing}: the catalog {service.uri} answers with the same page again.")
        seen.add(token)


def _in_time(service: Service, question: Callable[[], Any]) -> Any:
    """The answer, if it comes in time: clients of other packages may wait forever."""
    if service.impl == "rest":
        return question()  # which keeps time itself
    answers: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            answers.append((True, question()))
        except BaseException as problem:  # noqa: BLE001 - raised in the thread that waits
            answers.append((False, problem))

    worker = threading.Thread(target=run, daemon=True, name="lance-spark-catalog-service")
    worker.start()
    worker.join(DEADLINE)
    if not answers:
        raise ServiceSilent(f"The catalog {service.uri} gave no answer within {DEADLINE:.0f} seconds.")
    succeeded, answer = answers[0]
    if succeeded:
        return answer
    raise answer


def _translated(service: Service, operation: str, doing: str, question: Callable[[], Any]) -> Any:
    try:
        return question()
    except LanceSparkError:
        raise
    except Exception as problem:  # noqa: BLE001 - of any package; converted to an error that reports it
        raise _error(service, operation, doing, problem) from None


def _error(service: Service, operation: str, doing: str, problem: Exception) -> LanceSparkError:
    """The error for whatever the client of a service raised."""
    if type(problem).__name__ == "ValidationError":  # of pydantic: the answer has another form
        return CorruptData(
            f"Cannot {doing}: the catalog {service.uri} answered {operation} with something else.",
            hint="Check that its address is that of a catalog of Lance tables, and its version.",
        )
    text = service.clean(str(problem)).split("\n")[0].strip().rstrip(".")[:500]
    code = _code(problem, text)
    if code == UNSUPPORTED:
        return Refused(
            f"Cannot {doing}: the catalog {service.uri} does not support {operation}.",
            hint="Use the tool that manages this catalog.",
        )
    if code in (UNAVAILABLE, THROTTLED):
        return ServiceSilent(f"Cannot {doing}: the catalog {service.uri} is away or overloaded: {text}.")
    kind = _CODES.get(code, StorageFailure)
    if code in (15, 16):
        return PermissionDenied(
            f"Cannot {doing}: the catalog {service.uri} denied it: {text}.",
            hint="Check the credentials in its properties, and what they may do.",
        )
    said = _SAYS.get(code, f"it failed: {text}")
    return kind(f"Cannot {doing}: {said}.", hint=f"The catalog is {service.uri}. It said: {text}.")


def _code(problem: Exception, text: str) -> int:
    if isinstance(problem, NotImplementedError):
        return UNSUPPORTED
    code = getattr(problem, "code", None)
    if isinstance(code, int) and int(code) != 18:  # 18 is anything, also what is not supported
        return int(code)
    return next((known for words, known in _WORDS if words.search(text)), 18)


# --- The REST protocol
# pylance's own client follows redirects to other hosts, with all headers: a key would go to whoever redirects.

_ACTIONS = {
    "create_namespace": "create",
    "describe_namespace": "describe",
    "drop_namespace": "drop",
    "describe_table": "describe",
    "declare_table": "declare",
    "register_table": "register",
    "deregister_table": "deregister",
    "drop_table": "drop",
    "rename_table": "rename",
    "create_table_version": "version/create",
    "describe_table_version": "version/describe",
}
_LISTS = {
    "list_namespaces": ("GET", "namespace", "list"),
    "list_tables": ("GET", "namespace", "table/list"),
    "list_table_versions": ("POST", "table", "version/list"),
}
_ASKED = ("page_token", "limit", "include_declared", "descending")
"""What a list is asked for in its address."""
_STATUS = {400: 13, 401: 16, 403: 15, 404: 4, 405: 0, 406: 0, 408: 17, 409: 14, 501: 0, 502: 17, 504: 17}
"""Codes for answers without one."""


def _rest(service: Service) -> LanceNamespace:
    from lance_namespace import LanceNamespace

    class RestCatalog(LanceNamespace):  # type: ignore[misc]
        """The operations of the REST protocol that catalogs need."""

        def __init__(self) -> None:
            self._asked = _Rest(service)

        def namespace_id(self) -> str:
            return service.uri

        def __getattribute__(self, name: str) -> Any:
            if name in _ACTIONS or name in _LISTS:
                return lambda request: object.__getattribute__(self, "_asked").ask(name, request)
            return object.__getattribute__(self, name)

    return RestCatalog()


class _Rest:
    """Requests to one address, each of which ends in time, and goes nowhere else."""

    def __init__(self, service: Service) -> None:
        import urllib3

        given = dict(service.properties)
        if not given.get("uri"):
            raise InvalidOption(
                "A catalog of REST needs the property 'uri'.", hint="properties={'uri': 'https://catalog.example'}"
            )
        self._service, self._headers = service, service.headers
        self._uri, self._delimiter = _address(service, given["uri"].strip()), given.get("delimiter", "$")
        tls = {"cert_file": "tls.cert_file", "key_file": "tls.key_file", "ca_certs": "tls.ssl_ca_cert"}
        secured = {name: given[key] for name, key in tls.items() if given.get(key)}
        if given.get("tls.assert_hostname", "").lower() == "false":
            secured["assert_hostname"] = False  # type: ignore[assignment]
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=10.0, read=DEADLINE / 2), retries=False, maxsize=16, **secured
        )

    def ask(self, operation: str, request: Any) -> Any:
        import lance_namespace

        parts = list(request.id or ())
        where = quote(self._delimiter.join(parts) or self._delimiter, safe="")
        query = {"delimiter": self._delimiter}
        if operation in _LISTS:
            body = None
            method, what, action = _LISTS[operation]
            path = f"{what}/{where}/{action}"
            for name in _ASKED:
                value = getattr(request, name, None)
                if value is not None:
                    query[name] = str(value).lower() if isinstance(value, bool) else str(value)
        else:
            body, method = request.model_dump(exclude_none=True, by_alias=True), "POST"
            body.pop("context", None)
            path = f"{'namespace' if operation.endswith('namespace') else 'table'}/{where}/{_ACTIONS[operation]}"
        answer = self._send(method, f"{self._uri}/v1/{path}?{urlencode(query)}", body)
        name = "".join(word.capitalize() for word in operation.split("_")) + "Response"
        response = getattr(lance_namespace, name)
        return response.model_validate(answer)

    def _send(self, method: str, url: str, body: Mapping[str, Any] | None) -> Any:
        import urllib3

        headers = {"accept": "application/json", "content-type": "application/json", **self._headers}
        content = None if body is None else json.dumps(body).encode()
        end = time.monotonic() + DEADLINE
        try:
            with self._pool.request(
                method, url, body=content, headers=headers, redirect=False, preload_content=False
            ) as answer:
                status, told = answer.status, self._read(answer, end)
        except urllib3.exceptions.HTTPError as problem:
            said = self._service.clean(str(problem))
            raise ServiceSilent(f"The catalog {self._service.uri} cannot be reached: {said}.") from None
        if 300 <= status < 400:
            raise PermissionDenied(
                f"The catalog {self._service.uri} redirects to another address, which was not asked: the credentials "
                "would go there.",
                hint="If that is where it is now, give that address as the property 'uri'.",
            )
        if status >= 400:
            raise _refused(status, told, self._service)
        answer = _parsed(told, self._service)
        if answer.get("error") or answer.get("code") not in (None, 0, 200):  # as every error of the specification has
            raise _refused(status, told, self._service)
        return _lenient(answer)

    def _read(self, answer: Any, end: float) -> bytes:
        pieces, size = [], 0
        for piece in answer.stream(2**16):
            pieces.append(piece)
            size += len(piece)
            if size > _LARGEST:
                raise CorruptData(f"The catalog {self._service.uri} answered with more than {_LARGEST >> 20} MiB.")
            if time.monotonic() > end:
                raise ServiceSilent(f"The catalog {self._service.uri} gave no answer within {DEADLINE:.0f} seconds.")
        expected = answer.headers.get("content-length")
        encoded = "content-encoding" in answer.headers
        if expected is not None and expected.isdigit() and int(expected) != size and not encoded:
            raise ServiceSilent(f"The catalog {self._service.uri} broke off in the middle of its answer.")
        return b"".join(pieces)


def _address(service: Service, uri: str) -> str:
    """Where requests go. Raises InvalidOption, without showing it, for one with keys in it: they would be in logs."""
    parts = urlsplit(uri)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise InvalidOption(
            f"The property 'uri' of the catalog {service.uri} does not begin with http:// or https://.",
            hint="properties={'uri': 'https://catalog.example'}",
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidOption(
            f"The property 'uri' of the catalog {service.uri} has a user, a query or a fragment.",
            hint="Give keys as headers: {'headers.authorization': 'Bearer ...'}.",
        )
    return uri.rstrip("/")


def _lenient(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with text in its maps: some services have null for a property without a value, or a number."""
    for name in ("properties", "storage_options"):
        given = answer.get(name)
        if isinstance(given, dict):
            plain = {key: value for key, value in given.items() if value is not None}
            answer[name] = {
                key: json.dumps(value) if isinstance(value, bool | int | float) else value
                for key, value in plain.items()
            }
    return answer


def _parsed(told: bytes, service: Service) -> Any:
    if not told.strip():
        return {}
    try:
        answer = json.loads(told)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise CorruptData(
            f"The catalog {service.uri} answered with something that is not an object in JSON.",
            hint="Check that its address is that of a catalog of Lance tables.",
        )
    return answer


def _refused(status: int, told: bytes, service: Service) -> Exception:
    """The error of the specification's client for an answer that is none of success."""
    import lance_namespace

    code, text = _STATUS.get(status, 18), f"it answered with status {status}"
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        given = json.loads(told)
        text = str(given.get("error") or given.get("detail") or "no reason was given")
        code = int(given["code"])
    if status in (429, 503) or code == THROTTLED:
        return ServiceSilent(f"The catalog {service.uri} is overloaded or away: {service.clean(text)}.")
    known: Exception = lance_namespace.from_error_code(code, text)
    return known
