"""``lance-catalog jar``: writes the classes by which Spark's own programs have catalogs, and no Python."""

from __future__ import annotations

import os
import sys
import zipfile

import click

from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.program import verb
from lance_spark.errors import AlreadyExists, PermissionDenied, StorageFailure


@verb("jar")
@click.argument("target", metavar="OUT.jar", type=click.Path())
@click.option(
    "--spark-home",
    metavar="DIR",
    envvar="SPARK_HOME",
    help="The Spark that will run it: a directory with 'jars'. Or $SPARK_HOME; default: the PySpark that is here.",
)
@click.pass_obj
def jar(session: CatalogSession, target: str, spark_home: str | None) -> None:
    """Write a jar for JDBC, spark-sql and other languages.

    With it the Thrift server, Spark's shells and all clients of Spark Connect have the catalog.

    That Spark's own compiler compiles it: no JDK is needed, and another version of Spark needs another jar. Put it and
    the lines that are printed into spark-defaults.conf. The first use of the catalog starts a process of this Python
    beside Spark's driver (spark.lance.python names another one); it ends with the driver.
    """
    from lance_spark.jvm.server.compiling import BUILD, pyspark_home, write_jar

    session.check_directory("jar", "Programs of PySpark have services: spark.sql.catalog.NAME.impl.")
    path = os.path.abspath(target)
    if os.path.lexists(path) and not _is_own(path, BUILD):
        raise AlreadyExists(f"{path} exists, and was not written by this command. Nothing was written.")
    home = os.path.abspath(spark_home or pyspark_home())
    try:
        write_jar(home, path)
    except PermissionError as problem:
        raise PermissionDenied(f"{path} cannot be written: {problem.strerror}.") from None
    except OSError as problem:
        raise StorageFailure(f"{path} cannot be written: {problem.strerror}.") from None
    root = session.root or (session.remembered.catalog if session.remembered is not None else "<ROOT>")
    settings = {
        "spark.jars": path,
        "spark.sql.extensions": "lance_spark.Extensions",
        "spark.sql.catalog.lake": "lance_spark.Catalog",
        "spark.sql.catalog.lake.root": root,
    }
    lines = [f"Wrote {path} for {home}.", "Into spark-defaults.conf:"]
    lines += [f"  {name} {value}" for name, value in settings.items()]
    data = {"action": "jar", "file": path, "spark_home": home, "python": sys.executable, "settings": settings}
    session.output.show({**data, "dry_run": False}, "\n".join(lines))


def _is_own(path: str, mark: str) -> bool:
    try:
        with zipfile.ZipFile(path) as found:
            return mark in found.namelist()
    except (OSError, zipfile.BadZipFile):
        return False
