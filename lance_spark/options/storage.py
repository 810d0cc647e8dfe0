"""Storage options: one set, in pylance's spelling, that serves pylance and fsspec alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lance_spark.errors import InvalidOption

PREFIX = "storage."
"""Options of a Spark read or write that start with this are storage options."""
_TRUE = frozenset({"1", "true", "on", "yes", "y"})
"""What pylance takes for true, in any case of letters."""


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


def settled_endpoint(storage: Mapping[str, str]) -> dict[str, str]:
    """The S3 storage options with a given endpoint made to win over the environment's.

    pylance prefers AWS_ENDPOINT_URL_S3 from the environment even to an explicit ``aws_endpoint`` option; the data
    would go to another store than the one that was named.
    """
    given = {key.lower(): value for key, value in storage.items()}
    if not {"aws_endpoint_url_s3", "endpoint_url_s3"}.isdisjoint(given):
        return dict(storage)
    names = ("aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url")
    endpoint = next((given[name] for name in names if name in given), None)
    return dict(storage) if endpoint is None else {**storage, "aws_endpoint_url_s3": endpoint}


def fsspec_options(scheme: str, storage: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Keyword arguments for ``fsspec.filesystem(scheme)`` that mean what the storage options mean to pylance.

    Only S3 needs translating; for other schemes fsspec's own environment look-up applies. The environment is
    used where an option is absent, under the names pylance reads.
    """
    if scheme != "s3":
        return {}
    look = _Lookup(storage, environment)
    client: dict[str, Any] = {}
    # pylance lets the endpoint of S3 alone win over the one of all services, wherever each of them comes from.
    if endpoint := look("endpoint_url_s3") or look("endpoint", "endpoint_url"):
        client["endpoint_url"] = endpoint
    if region := look("region", "default_region"):
        client["region_name"] = region
    style = "virtual" if (look("virtual_hosted_style_request") or "").lower() in _TRUE else "path"
    arguments: dict[str, Any] = {
        "key": look("access_key_id"),
        "secret": look("secret_access_key"),
        "token": look("session_token", "token"),
        "client_kwargs": client,
        "anon": (look("skip_signature") or "").lower() in _TRUE,
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
    """Storage options from ``KEY=VALUE``. Raises InvalidOption, without the text: it may be a secret."""
    given = list(pairs)
    if any("=" not in pair for pair in given):
        raise InvalidOption("--storage takes KEY=VALUE.", hint="For example --storage aws_region=eu-west-1.")
    return dict(pair.split("=", 1) for pair in given)
