"""An extension of griffe, which reads the code for the reference of the API: a declared option as people see it.

``older_than: timedelta | None = option(None, "versions committed longer ago than this")`` is shown as a field with the
default None and this text, and not as the call that declares it.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from griffe import Attribute, Docstring, ExprCall, Extension, Object

DECLARE = ("option", "source_option")


class Options(Extension):
    """Replaces the calls that declare options by what they declare."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """A field of a class, just read."""
        call = attr.value
        if not isinstance(call, ExprCall) or str(call.function) not in DECLARE:
            return
        default, *rest = call.arguments
        attr.value = default
        if attr.docstring is None and rest:
            text = ast.literal_eval(str(rest[0]))
            attr.docstring = Docstring(f"{text[:1].upper()}{text[1:]}.", parent=attr)

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Anything, just read: Markdown has no roles such as ``:class:``."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r":\w+:`", "`", obj.docstring.value)
