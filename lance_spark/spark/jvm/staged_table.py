"""A table that is being created or replaced, together with its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.spark.jvm import answers, names
from lance_spark.spark.jvm.proxies import Implementation
from lance_spark.spark.jvm.writing import WRITABLE, NativeWriteBuilder

if TYPE_CHECKING:
    from lance_spark.actions.stages import Stage
    from lance_spark.spark.jvm.answers import Answer
    from lance_spark.spark.jvm.bridge import Bridge


class NativeStagedTable(Implementation):
    """Spark's ``StagedTable``: it is written to, and then committed or aborted."""

    interfaces: ClassVar = (names.STAGED_TABLE, names.SUPPORTS_WRITE)

    def __init__(self, bridge: Bridge, name: str, schema: Any, stage: Stage) -> None:
        super().__init__(bridge)
        self._name, self._schema, self._stage = name, schema, stage
        self._written = False

    def name(self) -> str:
        """Its name in plans."""
        return self._name

    def schema(self) -> Any:
        """All columns."""
        return self._schema

    def answered(self) -> dict[str, Answer]:
        """What Spark may do with it."""
        return {"capabilities": answers.capabilities(WRITABLE)}

    def new_write_builder(self, info: Any) -> Any:
        """The only write. It overwrites, also where Spark appends: what there is has other columns."""
        self._written = True
        return NativeWriteBuilder(self.bridge, info, self._stage.options, self._schema).truncate()

    def commit_staged_changes(self) -> None:
        """After the write, or in its place: CREATE OR REPLACE TABLE without AS has none."""
        self._stage.commit(self._written)

    def abort_staged_changes(self) -> None:
        """Leave nothing behind of a new table; what was there stays as it was."""
        self._stage.abort()
