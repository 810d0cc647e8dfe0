"""The catalog and the branch of the lake that a directory remembers: its file ``.lance-catalog/config.toml``.

    catalog = "s3://bucket/lake"
    branch = "etl/nightly"

Without it, whoever works on a branch would name both with each verb, and change main by leaving the branch out once.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lance_spark.core.ref_names import check_branch_name
from lance_spark.core.refs import MAIN
from lance_spark.core.workspace import check_uri
from lance_spark.errors import InvalidOption, NotFound
from lance_spark.storage.failures import of_local_file

FILE = ".lance-catalog/config.toml"
_HEADER = "lance-catalog's place. No secrets here: credentials come from the environment or --storage."


@dataclass(frozen=True)
class Checkout:
    """What a directory remembers."""

    catalog: str
    """A URI or an absolute path."""
    branch: str = MAIN
    """A branch of the lake, or main."""


def read_checkout(start: str) -> Checkout | None:
    """What the nearest file says, upwards; None if there is none.

    Raises InvalidOption for an invalid file, StorageFailure and PermissionDenied for an unreadable one, and NotFound
    for a directory that is gone.
    """
    try:
        here = Path(start).resolve(strict=True)
    except FileNotFoundError:
        raise NotFound("The current directory no longer exists.", hint="Go to one that does.") from None
    for directory in (here, *here.parents):
        try:
            return parse_checkout((directory / FILE).read_text(encoding="utf-8"), str(directory / FILE))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except UnicodeDecodeError:
            raise _bad(str(directory / FILE), "it is not text") from None
        except OSError as problem:
            raise of_local_file(problem, str(directory / FILE), "read") from None
    return None


def parse_checkout(text: str, file: str) -> Checkout:
    """The content of a file. Raises InvalidOption that names the file."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        found: dict[str, Any] = tomlkit.parse(text).unwrap()
    except TOMLKitError as problem:
        raise _bad(file, f"it is not TOML: {problem}") from None
    unknown = [key for key in found if key not in ("catalog", "branch")]
    if unknown:
        raise _bad(file, f"'{unknown[0]}' is not a known key")
    if not all(isinstance(value, str) for value in found.values()):
        raise _bad(file, "catalog and branch must be texts in quotes")
    checkout = Checkout(found.get("catalog", ""), found.get("branch", MAIN))
    check_uri(checkout.catalog)
    if checkout.branch != MAIN:
        check_branch_name(checkout.branch)
    return checkout


def _bad(file: str, why: str) -> InvalidOption:
    return InvalidOption(
        f"{file} cannot be used: {why}.", hint="Delete it, and run lance-catalog -C ROOT checkout NAME again."
    )


def write_checkout(directory: str, checkout: Checkout) -> None:
    """Remember it, in one step. Raises InvalidOption for a URI with credentials, PermissionDenied, StorageFailure."""
    import tomlkit

    check_uri(checkout.catalog)
    document = tomlkit.document()
    document.add(tomlkit.comment(_HEADER))
    document["catalog"], document["branch"] = checkout.catalog, checkout.branch
    file = Path(directory, FILE)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(exist_ok=True)
        draft.write_text(document.as_string(), encoding="utf-8")
        os.replace(draft, file)
    except OSError as problem:
        with suppress(OSError):
            draft.unlink()  # a full disk needs its bytes
        raise of_local_file(problem, str(file), "written") from None
