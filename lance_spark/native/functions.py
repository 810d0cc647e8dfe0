"""The functions of partitions' keys, by which Spark recognizes that two tables are divided alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.jvm import answers, names
from lance_spark.jvm.bridge import java_error, plain
from lance_spark.jvm.proxies import Implementation
from lance_spark.layout.layout_rules import BUCKET, TIMES, TRUNCATE
from lance_spark.native.places import identifier

if TYPE_CHECKING:
    from lance_spark.jvm.answers import Answer

_LISTED = (BUCKET, *TIMES)
_SYSTEM = "system"


class KeyFunctions(Implementation):
    """The part of a catalog that is Spark's ``FunctionCatalog``."""

    def load_function(self, wanted: Any) -> Any:
        """The function of a name, also in the namespace of procedures; Spark's own exception for any other."""
        (*above, name), _ = plain(self.bridge, wanted)
        folded = name.lower()
        width = folded.removeprefix(f"{TRUNCATE}_")
        known = folded in _LISTED or (width != folded and width.isdecimal() and width.isascii() and int(width) > 0)
        if not known or [each.lower() for each in above] not in ([], [_SYSTEM]) or not self._has_functions:
            raise java_error(self.bridge.new(names.NO_SUCH_FUNCTION, wanted))
        return self.bridge.maker.function(folded)

    def list_functions(self, namespace: Any) -> Any:
        """The functions, in the namespace of procedures."""
        listed = _LISTED if [*namespace] == [_SYSTEM] and self._has_functions else ()
        return self.bridge.array(names.IDENTIFIER, [identifier(self.bridge, (_SYSTEM, name)) for name in listed])

    @property
    def _has_functions(self) -> bool:
        return self.bridge.groups and self.bridge.maker is not None


class FunctionsOfPaths(KeyFunctions):
    """The catalog of tables that were read by path, which have no other: Spark looks only functions up in it."""

    interfaces: ClassVar = (names.FUNCTION_CATALOG,)
    same: ClassVar = True

    def answered(self) -> dict[str, Answer]:
        return {"name": answers.text("lance")}
