"""What every verb of every command starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_spark.cli.output import Output
from lance_spark.cli.progress import BAR
from lance_spark.errors import InvalidOption

if TYPE_CHECKING:
    from lance_spark.runner.interface import Engine


@dataclass(frozen=True)
class CommandCall:
    """One call of a command."""

    output: Output

    @property
    def engine(self) -> Engine:
        """The engine for copying files and other work: threads of this process."""
        from lance_spark.runner.local import LocalRunner

        return LocalRunner(tell=BAR.tell)


def parse_storage(pairs: Sequence[str]) -> dict[str, str]:
    """Storage options from ``KEY=VALUE``. Raises InvalidOption, without the text: it may be a secret."""
    hint = "For example --storage aws_region=eu-west-1."
    return {key.lower(): value for key, value in _split(pairs, "--storage takes KEY=VALUE.", hint).items()}


def parse_properties(pairs: Sequence[str]) -> dict[str, str]:
    """Properties from ``KEY=VALUE``. Raises InvalidOption."""
    return _split(pairs, "-p takes KEY=VALUE.", "For example -p owner=me.")


def _split(pairs: Sequence[str], wrong: str, hint: str) -> dict[str, str]:
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidOption(wrong, hint=hint)
        values[key] = value
    return values
