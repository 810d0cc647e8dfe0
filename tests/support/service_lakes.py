"""The same empty lake in a directory, behind pylance's REST server, and in Glue on moto: what tests of any catalog ask.

A test with the mark ``on_services`` whose fixture ``lake`` is parametrised runs with all of them at night.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest

from lance_spark import LanceCatalog, register
from lance_spark.core.services import Service
from support.kinds import NIGHT
from support.rest_catalogs import KEY, served

DIRECTORY, REST, GLUE = "dir", "rest", "glue"
_WHERE: dict[str, ServiceLake] = {}
"""The lakes that tests have open, by the URI of their catalog."""


@dataclass(frozen=True)
class ServiceLake:
    """Which catalog it is, how to connect to it, and the directory of its tables."""

    impl: str
    directory: Path
    properties: Mapping[str, str] = field(default_factory=dict)

    def connect(self, **given: Any) -> LanceCatalog:
        return LanceCatalog.connect(self.impl, self.properties, **given)

    def register(self, spark: Any, name: str) -> None:
        if self.impl == DIRECTORY:
            register(spark, catalog=name, root=str(self.directory))
        else:
            register(spark, catalog=name, impl=self.impl, properties=self.properties)

    @property
    def client(self) -> Any:
        """Another client of it: pylance's own, or that of ``lance-namespace-impls``."""
        importlib.import_module("lance_namespace_impls")  # makes its names known
        namespace = importlib.import_module("lance_namespace")  # here: it takes half a second, and few tests need it
        return namespace.connect(self.impl, Service.of(self.impl, self.properties).for_others)

    def create_namespace(self, name: str) -> None:
        where = {"location": str(self.directory / name)} if self.impl == GLUE else {}
        self.connect().create_namespace(name, where)


@contextmanager
def service_lake(impl: str, directory: Path, endpoint: str | None = None) -> Iterator[ServiceLake]:
    """An empty lake; ``endpoint`` is moto's, for Glue."""
    if impl == DIRECTORY:
        found = ServiceLake(impl, directory, {"root": str(directory)})
        yield from _remembered(found)
    elif impl == REST:
        with served(str(directory)) as properties:
            yield from _remembered(ServiceLake(impl, directory, {**properties, **_journal(directory)}))
    else:
        keys = {"region": "eu-west-3", "access_key_id": "me", "secret_access_key": KEY, "endpoint": str(endpoint)}
        try:
            yield from _remembered(ServiceLake(impl, directory, {**keys, **_journal(directory)}))
        finally:
            empty_glue(str(endpoint))


def _journal(directory: Path) -> dict[str, str]:
    return {"publish_journal": f"{directory}-publishes"}


def _remembered(lake: ServiceLake) -> Iterator[ServiceLake]:
    uri = lake.connect().catalog.uri
    _WHERE[uri] = lake
    try:
        yield lake
    finally:
        del _WHERE[uri]


def empty_glue(endpoint: str, region: str = "eu-west-3") -> None:
    """Databases outlive a test: moto is one process for all of them."""
    keys = {"aws_access_key_id": "me", "aws_secret_access_key": KEY, "region_name": region}
    glue = boto3.client("glue", endpoint_url=endpoint, **keys)
    for database in glue.get_databases()["DatabaseList"]:
        glue.delete_database(Name=database["Name"])


def of(lake: LanceCatalog) -> ServiceLake:
    """What a test's catalog is."""
    return _WHERE[lake.catalog.uri]


def place(lake: LanceCatalog, name: str) -> tuple[str, str]:
    """Where a test may write a dataset, and how that is spelled to register it."""
    found = of(lake)
    uri = str(found.directory / name)
    return uri, uri if found.impl == GLUE else name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The services of tests with the mark ``on_services``: which, and by day one case of them or none."""
    mark = next(metafunc.definition.iter_markers("on_services"), None)
    if mark is None or False in mark.args or "lake_of" not in metafunc.fixturenames:
        return
    services = [impl for impl in mark.args or (REST, GLUE) if NIGHT or impl == mark.kwargs.get("day")]
    if not services:
        return
    cases = [pytest.param(DIRECTORY, id=pytest.HIDDEN_PARAM), *services]
    metafunc.parametrize("lake_of", cases, indirect=True)


@pytest.fixture
def lake_of(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServiceLake]:
    """An empty lake in a directory, or of the services that the mark ``on_services`` names."""
    impl = getattr(request, "param", DIRECTORY)
    endpoint = request.getfixturevalue("moto") if impl == GLUE else None
    with service_lake(impl, tmp_path / "lake", endpoint) as found:
        yield found
