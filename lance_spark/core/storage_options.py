"""Storage options: one set, in pylance's spelling, for both pylance and fsspec. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lance_spark.errors import InvalidOption

PREFIX = "storage."
"""Prefix of the storage options of a Spark read or write."""
OF_BLOBS = "blobs."
"""Prefix of storage options for objects elsewhere that blobs refer to, in place of the table's own."""
_SWITCHED_ON = frozenset({"1", "true", "on", "yes", "y"})
"""What pylance reads as true, ignoring case."""


def split_storage(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """(everything else, storage options without their prefix, keys in lower case)."""
    rest: dict[str, str] = {}
    storage: dict[str, str] = {}
    for key, value in options.items():
        if key.lower().startswith(PREFIX):
            storage[key[len(PREFIX) :].lower()] = value
        else:
            rest[key] = value
    return rest, storage


def for_table(storage: Mapping[str, str]) -> dict[str, str]:
    """The storage options of a table's own files."""
    return {key: value for key, value in storage.items() if not key.lower().startswith(OF_BLOBS)}


def for_blobs(storage: Mapping[str, str]) -> dict[str, str]:
    """The storage options of objects elsewhere, without their prefix: none if they are those of the table."""
    own = len(OF_BLOBS)
    return {key[own:]: value for key, value in storage.items() if key.lower().startswith(OF_BLOBS)}


def settled_endpoint(storage: Mapping[str, str]) -> dict[str, str]:
    """The S3 storage options, changed so that an explicit endpoint wins over the environment's.

    pylance prefers AWS_ENDPOINT_URL_S3 from the environment even to an explicit ``aws_endpoint`` option; the data
    would go to the wrong store.
    """
    given = {key.lower(): value for key, value in storage.items()}
    if not {"aws_endpoint_url_s3", "endpoint_url_s3"}.isdisjoint(given):
        return dict(storage)
    names = ("aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url")
    endpoint = next((given[name] for name in names if name in given), None)
    return dict(storage) if endpoint is None else {**storage, "aws_endpoint_url_s3": endpoint}


def fsspec_options(scheme: str, storage: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Keyword arguments for ``fsspec.filesystem(scheme)`` that mean the same as the storage options mean to pylance.

    Only S3 needs translating; for other schemes fsspec's own environment look-up applies. The environment applies
    if an option is absent, under the names that pylance reads.
    """
    if scheme != "s3":
        return {}
    look = _Lookup(storage, environment)
    client: dict[str, Any] = {}
    # pylance prefers the S3 endpoint to the one for all services, wherever each of them comes from.
    if endpoint := look("endpoint_url_s3") or look("endpoint", "endpoint_url"):
        client["endpoint_url"] = endpoint
    if region := look("region", "default_region"):
        client["region_name"] = region
    style = "virtual" if (look("virtual_hosted_style_request") or "").lower() in _SWITCHED_ON else "path"
    arguments: dict[str, Any] = {
        "key": look("access_key_id"),
        "secret": look("secret_access_key"),
        "token": look("session_token", "token"),
        "client_kwargs": client,
        "anon": (look("skip_signature") or "").lower() in _SWITCHED_ON,
    }
    if "endpoint_url" in client:
        arguments["config_kwargs"] = {"s3": {"addressing_style": style}}
    return {key: value for key, value in arguments.items() if value not in (None, {}, False)}


class _Lookup:
    """Finds an S3 setting under pylance's spellings: with and without ``aws_``, then in the environment."""

    def __init__(self, storage: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self._storage = {key.lower(): value for key, value in storage.items()}
        self._environment = environment

    def __call__(self, *names: str) -> str | None:
        for name in names:
            for key in (f"aws_{name}", name):
                if key in self._storage:
                    return self._storage[key]
        for name in names:
            if value := self._environment.get(f"AWS_{name}".upper()):
                return value
        return None


def storage_from(pairs: Iterable[str]) -> dict[str, str]:
    """Storage options from ``KEY=VALUE``, with keys in lower case. Raises InvalidOption without the text: a secret."""
    return {key.lower(): value for key, value in pairs_of("--storage", pairs, "aws_region=eu-west-1").items()}


def pairs_of(flag: str, pairs: Iterable[str], example: str) -> dict[str, str]:
    """Values by key, from ``KEY=VALUE``. Raises InvalidOption."""
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidOption(f"{flag} takes KEY=VALUE.", hint=f"For example, {flag} {example}.")
        values[key] = value
    return values
