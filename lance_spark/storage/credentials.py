"""Storage options that expire: fetched from a catalog or from people's own code, and renewed in the middle of a job.

A location carries the name of its provider, never what it handed out: so plans, logs and pickled tasks have no keys,
and each process, on a driver or on an executor, gets its own. One renewal at a time: all other threads wait for it.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from lance_spark.core.location import DatasetLocation, canonical_uri
from lance_spark.core.services import (
    EXPIRES,
    PROVIDER,
    ServedTable,
    Service,
    Vended,
    check_directory,
    keeps_versions,
    table_of,
)
from lance_spark.core.storage_options import for_table, settled_endpoint
from lance_spark.errors import (
    AlreadyExists,
    Conflict,
    InvalidOption,
    LanceSparkError,
    NotFound,
    NotInstalled,
    Refused,
    StorageFailure,
)
from lance_spark.storage import services, vended
from lance_spark.storage.failures import refusal_of
from lance_spark.storage.services import ServiceSilent, ask, pages, patiently, try_to_ask
from lance_spark.storage.vended import Refusal

if TYPE_CHECKING:
    import lance

MARK = "provides_storage_options"
"""Attribute of what may be called for storage options: an option must not call just any function."""
METHOD = "storage_options"
_Provider = TypeVar("_Provider")
_Answer = TypeVar("_Answer")

_MISSING, _TAKEN = 11, 14
"""Codes of the specification: there is no such version, and somebody else changed the table."""
_PAGE = 1000
"""How many versions a catalog is asked for at a time."""
_PAUSE = 5.0
"""Seconds after which a renewal that failed is tried again while the old credentials are good."""
_RENEWALS = 2
"""How often one request asks for new ones: a key that was due may be replaced by one that is refused as well."""
_renewing: dict[str, threading.Lock] = {}
_not_before: dict[str, float] = {}
"""When a renewal that failed is tried again, by provider."""
_lock = threading.Lock()


def storage_options_provider(provider: _Provider) -> _Provider:
    """Mark a function, or a class or object with the method ``storage_options()``, as a provider of storage options."""
    setattr(provider, MARK, True)
    return provider


def options_now(location: DatasetLocation) -> dict[str, str]:
    """The storage options that open a location now; renewed if they are about to expire.

    Raises StorageFailure if the provider does not answer for a minute and they have expired meanwhile.
    """
    check_directory(location)
    own = for_table(location.storage_options)
    provider = own.pop(PROVIDER, None)
    if provider is None:
        return own
    whole = {**own, **dict(current(provider).options)}
    return settled_endpoint(whole) if location.uri.startswith("s3://") else whole


def options_afresh(location: DatasetLocation) -> tuple[dict[str, str], float | None]:
    """:func:`options_now`, handed out this moment, for what is not renewed; and for how many seconds they are good."""
    provider = vended.provider_of(location)
    if provider is None or location.is_local:
        return options_now(location), None
    with suppress(ServiceSilent):  # then those that are known have to do
        remember(provider, fetch(provider, 0.0))
    given, known = options_now(location), vended.known(provider)
    return given, None if known is None else known.lifetime


def for_pylance(location: DatasetLocation) -> dict[str, Any]:
    """Arguments for what pylance keeps open for long: it asks for new storage options before they expire."""
    now = options_now(location)
    if EXPIRES not in now and not keeps_versions(location):
        return {"storage_options": now}
    return {"storage_options": now, "namespace_client": _renewer(location), "table_id": ["table"]}


def for_commit(location: DatasetLocation) -> dict[str, Any]:
    """Arguments for a commit of pylance: also whether it goes through the catalog."""
    return {**for_pylance(location), "namespace_client_managed_versioning": keeps_versions(location)}


def dataset_at(location: DatasetLocation, uri: str, **given: Any) -> lance.LanceDataset:
    """Pylance's handle on a dataset below a location, which renews its storage options by itself."""
    import lance

    if keeps_versions(location) and uri != location.uri:
        raise only_main(location, "open a branch")
    arguments = for_commit(location)
    if "namespace_client" not in arguments:
        return lance.dataset(uri, storage_options=arguments["storage_options"], **given)
    return lance.LanceDataset(uri, **arguments, **given)


_COMMITS = "Changes of rows, columns, indexes and settings are commits, and so are compactions."


def only_main(location: DatasetLocation, doing: str, hint: str = _COMMITS) -> Refused:
    """The error for what pylance's client does past the catalog that keeps the versions of a table."""
    return Refused(
        f"Cannot {doing}: the catalog keeps the versions of {location.uri} (managed_versioning), and takes commits to "
        "main only. Nothing was changed.",
        hint=hint,
    )


def again_if_refused(location: DatasetLocation, attempt: Callable[[], _Answer]) -> _Answer:
    """An attempt that may be repeated, and others if the store refused what a provider handed out before.

    Keys may be revoked before their time, and the clock by which they expire may be off.
    """
    provider = vended.provider_of(location)
    if provider is None:
        return attempt()
    for _ in range(_RENEWALS):
        used = vended.known(provider)
        try:
            return attempt()
        except FileNotFoundError:
            raise
        except Exception as problem:
            refusal = refusal_of(f"{problem} {problem.__cause__ or ''}")
            if refusal is None and isinstance(problem, PermissionError):
                refusal = Refusal.RIGHTS
            if refusal is None or not vended.refused(location, time.monotonic(), refusal, used):
                raise
    return attempt()


def current(provider: str) -> Vended:
    """What a provider handed out, renewed if due.

    As long as the old ones are good, a catalog that is away or fails stops nobody: one thread asks it, now and then.
    """
    known = vended.known(provider)
    if known is not None and not known.is_due(time.monotonic()):
        return known
    with _lock:
        one_at_a_time = _renewing.setdefault(provider, threading.Lock())
    if not one_at_a_time.acquire(blocking=known is None or known.is_over(time.monotonic())):
        assert known is not None
        return known
    try:
        return _renewed(provider)
    finally:
        one_at_a_time.release()


def _renewed(provider: str) -> Vended:
    known, now = vended.known(provider), time.monotonic()
    if known is not None and not known.is_due(now):
        return known
    usable = known is not None and not known.is_over(now)
    if known is not None and usable and now < _not_before.get(provider, 0.0):
        return known
    try:
        return remember(provider, fetch(provider, 0.0 if usable else services.PATIENCE))
    except (NotFound, Conflict):
        raise  # they are for a table that is no more
    except LanceSparkError as problem:
        if known is None or not usable:
            raise problem.for_others if isinstance(problem, ServiceSilent) else problem from None
        _not_before[provider] = time.monotonic() + _PAUSE
        return known


def remember(provider: str, options: Mapping[str, object]) -> Vended:
    """Keep what a provider handed out."""
    found = Vended.of(options, time.time(), time.monotonic(), vended.early(provider))
    vended.keep(provider, found)
    return found


def fetch(provider: str, patience: float) -> Mapping[str, object]:
    """Ask a provider. Raises ServiceSilent if it gives no answer for so many seconds."""
    served = table_of(provider)
    if served is not None:
        doing, asked = f"renew the credentials of table '{'.'.join(served.table)}'", _described(served.table)
        described = try_to_ask(served.service, *_DESCRIBE, doing, patience=patience, **asked)
        _check_same(served, described, doing)
        return described.storage_options or {}
    call = _callable(provider)

    def once() -> Mapping[str, object]:
        try:
            answer = call()
        except LanceSparkError:
            raise
        except Exception as problem:  # noqa: BLE001 - people's own code; its text may hold keys
            raise ServiceSilent(
                f"The provider of storage options '{provider}' failed: {type(problem).__name__}.",
                hint="Its own text is not shown, since it may hold keys. Call it by hand to see it.",
            ) from None
        if not isinstance(answer, Mapping):
            raise InvalidOption(
                f"The provider of storage options '{provider}' returned {type(answer).__name__}, not a dictionary."
            )
        return answer

    return patiently(once, patience)


def _check_same(served: ServedTable, described: Any, doing: str) -> None:
    """Raise Conflict if the name means another table now: its credentials are not for whoever opened the old one."""
    if served.uri is None:
        return
    moved = described.location is None or canonical_uri(described.location, os.path.realpath) != served.uri
    if not moved and (described.managed_versioning is True) == served.managed:
        return
    where = "at another place" if moved else "another one: the catalog has begun, or ceased, to keep its versions"
    raise Conflict(
        f"Cannot {doing}: the table of that name is {where}. It was {served.uri}.",
        hint="It was dropped and created again, or moved. Load it again.",
    )


_DESCRIBE = ("describe_table", "DescribeTableRequest")


def describe(service: Service, table: Sequence[str], doing: str) -> Any:
    return ask(service, *_DESCRIBE, doing, **_described(table))


def _described(table: Sequence[str]) -> dict[str, Any]:
    return {"id": list(table), "vend_credentials": True}


def _callable(provider: str) -> Callable[[], Any]:
    """The function or the method that ``module:name`` names. Raises InvalidOption, NotInstalled."""
    module_name, colon, path = provider.partition(":")
    if not colon or not path or not module_name.replace(".", "").replace("_", "").isalnum():
        raise InvalidOption(
            f"Option '{PROVIDER}' must be the name of a function, as in 'mycompany.vending:lake_keys'.",
            hint="Write it into a module that driver and executors can import.",
        )
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as problem:
        raise NotInstalled(
            f"The provider of storage options '{provider}' cannot be imported: {problem}.",
            hint="Executors need the module, too: spark.addArtifact, --py-files, or install it there.",
        ) from None
    if not getattr(found, MARK, False):
        raise InvalidOption(
            f"'{provider}' is not marked as a provider of storage options, and was not called.",
            hint="Write @lance_spark.storage_options_provider above it.",
        )
    if isinstance(found, type):
        found = found()
    method = getattr(found, METHOD, None)
    if callable(method):
        return method  # type: ignore[no-any-return]
    if callable(found):
        return found  # type: ignore[no-any-return]
    raise InvalidOption(f"'{provider}' is neither a function nor has it a method '{METHOD}'.")


def _renewer(location: DatasetLocation) -> Any:
    """What pylance asks for new storage options: a catalog of one table, whose answer is what this process has.

    If the catalog keeps the table's versions, pylance also asks for these, and that a new one becomes the newest.
    """
    from lance_namespace import DeclareTableResponse, DescribeTableRequest, DescribeTableResponse, LanceNamespace

    class Renewer(LanceNamespace):  # type: ignore[misc]
        """Answers one question."""

        def namespace_id(self) -> str:
            return f"lance_spark {location.uri}"

        def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:  # noqa: ARG002 - one table
            try:
                return DescribeTableResponse(location=location.uri, storage_options=options_now(location))
            except LanceSparkError as problem:
                raise StorageFailure(f"The credentials could not be renewed: {problem.message}") from None

        def declare_table(self, request: Any) -> DeclareTableResponse:  # noqa: ARG002 - it has been, by its name
            now = options_now(location)
            return DeclareTableResponse(location=location.uri, storage_options=now, managed_versioning=True)

        def list_table_versions(self, request: Any) -> Any:
            return _of_versions(location, "list_table_versions", request)

        def describe_table_version(self, request: Any) -> Any:
            return _of_versions(location, "describe_table_version", request)

        def create_table_version(self, request: Any) -> Any:
            return _of_versions(location, "create_table_version", request)

    return Renewer()


def _check_place(location: DatasetLocation, served: ServedTable) -> None:
    """Raise Conflict if the name means another table now: its newest version would name files that lie here.

    A service finds tables by their names, and takes such a version without a look: nobody could read the table any
    more. pylance takes the error for a commit of somebody else; :mod:`failures` tells it instead.
    """
    doing = f"commit to {location.uri}"
    described = describe(served.service, served.table, doing)
    vended.replaced.pop(location, None)
    try:
        # Only the place: a service need not say in descriptions that it keeps versions, and refuses them if not.
        _check_same(replace(served, managed=described.managed_versioning is True), described, doing)
    except Conflict as replaced:
        vended.replaced[location] = Refused(replaced.message, hint=replaced.hint)  # another attempt changes nothing
        raise


def _of_versions(location: DatasetLocation, operation: str, request: Any) -> Any:
    """What the catalog of a table answers about its versions; pylance's questions are dictionaries.

    After any error of a new version, pylance reads which manifest has its number before it says whether it committed.
    """
    served = table_of(vended.provider_of(location) or "")
    if served is None:
        raise InvalidOption(f"Nobody keeps the versions of {location.uri}.")
    doing = f"commit to, or read, {location.uri}"
    given = dict(request if isinstance(request, Mapping) else request.model_dump(exclude_none=True))
    given = {key: value for key, value in given.items() if value is not None and key not in ("id", "identity")}
    asked = "".join(word.capitalize() for word in operation.split("_")) + "Request"
    try:
        if operation == "create_table_version":
            _check_place(location, served)
        answer = ask(served.service, operation, asked, doing, id=list(served.table), **given)
    except (NotFound, Conflict, AlreadyExists) as told:  # pylance knows the specification's errors
        from lance_namespace import from_error_code

        raise from_error_code(_MISSING if isinstance(told, NotFound) else _TAKEN, told.message) from None
    made = answer.version if operation == "create_table_version" else None
    if made is not None and made.version != given.get("version"):
        raise StorageFailure(f"Cannot {doing}: the catalog answered with version {made.version}.", hint=_UNKNOWN)
    return answer


_UNKNOWN = "Look at the newest version of the table before you run it again."


def versions_of_catalog(location: DatasetLocation, above: int = 0) -> list[int]:
    """The versions of main that the catalog of a table keeps, newest first, down to ``above``."""
    served = table_of(vended.provider_of(location) or "")
    assert served is not None

    def page(token: str | None) -> Any:
        given = {"descending": True, "limit": _PAGE} | ({"page_token": token} if token else {})
        return _of_versions(location, "list_table_versions", given)

    found: set[int] = set()
    for answer in pages(served.service, f"list the versions of {location.uri}", page):
        versions = {int(each.version) for each in answer.versions}
        found |= {version for version in versions if version > above}
        if versions and min(versions) <= above:
            break
    return sorted(found, reverse=True)
