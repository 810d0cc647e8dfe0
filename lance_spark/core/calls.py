"""Calls that a verb cannot take: a wrong word, a value of the wrong kind, one that is missing. Pure.

Python's own TypeError names the class that happens to define the verb, and neither what the verb takes nor what the
word that somebody knows from pandas, git or Delta is called here.
"""

from __future__ import annotations

import difflib
import inspect
import re
from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, wraps
from numbers import Integral, Number, Real
from typing import Any, TypeVar, cast

from lance_spark.core.irreversible import proposable
from lance_spark.errors import InvalidOption, LanceSparkError, WrongArguments

Kind = TypeVar("Kind", bound=type)
Verb = TypeVar("Verb", bound=Callable[..., Any])
Words = Mapping[tuple[str, str], str]
"""What to type, by the verb and the argument that it does not take; ``""`` stands for an argument that is missing."""

SAME = (
    {"count", "limit", "n", "num", "k", "top_k", "max_count", "n_rows", "num_rows", "size"},
    {"filter", "where", "condition", "predicate", "cond"},
    {"on", "key", "keys", "by", "match_on"},
    {"name", "branch", "branch_name", "tag_name", "tag", "ref", "table", "table_name"},
    {"ref", "branch", "tag", "base", "since", "other", "against"},
    {"uri", "path", "url", "location", "root", "target", "target_uri"},
    {"split", "splits"},
    {"columns", "column", "cols", "select", "fields"},
    {"df", "frame", "data", "rows", "table", "source"},
    {"prefer", "strategy", "favor", "strategy_option"},
    {"dry_run", "dryrun", "plan", "simulate"},
    {"sort_by", "order_by", "sort"},
    {"message", "msg", "comment", "commit_message"},
    {"progress", "verbose"},
    {"run_on", "engine", "executor"},
    {"storage_options", "options", "config"},
    {"kind", "type", "index_type"},
    {"as_of", "timestamp", "at", "time"},
    {"all", "all_branches"},
)
"""Words of other libraries for one thing. A verb has at most one of each."""


class _Thing(ABC):  # noqa: B024 - it only tells whether a value is one
    """An object of Spark or of ours: neither a plain value nor a collection of Python's."""

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        return not issubclass(kind, str | bytes | bool | Number | list | tuple | dict | set | type(None))


_SIMPLE: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "str": (str, "text"),
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "bool": ((bool, Integral), "True or False"),
    "None": (type(None), ""),
    "Mapping": (Mapping, "a dict"),
    "Sequence": ((list, tuple), "a list"),
    "Name": ((str, list, tuple, _Thing), "a name, such as 'ns.flights'"),
    "Columns": ((str, list, tuple, type(None), _Thing), "names of columns"),
    "Column": (_Thing, "a Column of Spark"),
    "SparkSession": (_Thing, "a SparkSession"),
    "Policy": ((Mapping, _Thing), "a MaintenancePolicy, or a dict with the keys of a policy file"),
    "datetime": (datetime, "a datetime"),
    "timedelta": (timedelta, "a timedelta"),
}
_WIDEST = 60


def telling(kind: type, verb: Callable[..., Any], method: bool = True) -> Callable[..., Any]:
    """The verb of a class, with an error of ours for arguments that it cannot take.

    Values are looked at after a failure only, as many verbs take more than they declare. But text for True or False is
    refused before: any text counts as True, and ``t.diff('exp', 'main')`` would compare rows.
    """
    switches = (
        [
            (place, name)
            for place, (name, each) in enumerate(inspect.signature(verb).parameters.items())
            if each.annotation == "bool"
        ]
        if "bool" in getattr(verb, "__annotations__", {}).values()
        else []
    )

    @wraps(verb)
    def told(*args: Any, **kwargs: Any) -> Any:
        for place, name in switches:
            value = args[place] if place < len(args) else kwargs.get(name)
            if isinstance(value, str):
                raise wrong_call(kind, verb, args, kwargs, method) or _misfit(
                    _of(kind, verb, args, method), name, value
                )
        try:
            return verb(*args, **kwargs)
        except (TypeError, AttributeError, ValueError) as failure:
            wrong = None if isinstance(failure, LanceSparkError) else wrong_call(kind, verb, args, kwargs, method)
            if wrong is None:
                raise
            raise wrong from failure

    return told


def answering(verb: Verb) -> Verb:
    """A function of the package, with an error of ours for arguments that it cannot take."""
    return cast("Verb", telling(_Package, verb, method=False))


def making(kind: Kind) -> Kind:
    """A class of another library's kind, with an error of ours for arguments with which it cannot be made."""
    kind.__init__ = telling(kind, kind.__init__)  # type: ignore[misc]
    return kind


class _Package:
    """Stands for the class that a function does not have."""


def wrong_call(
    kind: type, verb: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], method: bool = True
) -> InvalidOption | None:
    """The error for a call that the verb cannot take; None if it can. ``method``: the first argument is the object."""
    if method and args and not isinstance(args[0], kind):
        at = _shown(args[0]) if isinstance(args[0], str) else "path"
        return WrongArguments(
            f"'{verb.__name__}' is called on an opened table, and {_shown(args[0])} is none.",
            hint=f"t = LanceTable.for_path({at}), then {_TypedCall(kind, verb, method).shape}",
        )
    call = _of(kind, verb, args, method)
    given = list(args[1:] if method else args)
    known = call.parameters
    if not call.takes_more:
        for word in kwargs:
            if word not in known:
                return _unknown(call, word, given, kwargs)
    places = [name for name, each in known.items() if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len(given) > len(places) and not any(each.kind is each.VAR_POSITIONAL for each in known.values()):
        most = f"at most {len(places)} arguments" if places else "no arguments"
        return WrongArguments(f"{call.name} takes {most} without their names, not {len(given)}.", hint=call.shape)
    bound = {**dict(zip(places, given, strict=False)), **kwargs}
    missing = [name for name, each in known.items() if _is_needed(each) and name not in bound]
    if missing:
        what = " and ".join(f"'{name}'" for name in missing)
        return WrongArguments(f"{call.name} needs {what}.", hint=call.words.get((call.verb, ""), call.shape))
    twice = [name for name in places[: len(given)] if name in kwargs]
    if twice:
        return WrongArguments(f"{call.name} got '{twice[0]}' twice.", hint=call.shape)
    return next(
        (
            _misfit(call, *each)
            for each in _values(known, given, bound)
            if not _fits(known[each[0]].annotation, each[1])
        ),
        None,
    )


def _values(
    known: Mapping[str, inspect.Parameter], given: Sequence[Any], bound: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The values of a call by their parameters; those of ``*names`` one by one."""
    for place, (name, each) in enumerate(known.items()):
        if each.kind is each.VAR_POSITIONAL:
            yield from ((name, value) for value in given[place:])
    yield from ((name, value) for name, value in bound.items() if name in known)


class _TypedCall:
    """A verb as users type it."""

    def __init__(self, kind: type, verb: Callable[..., Any], method: bool) -> None:
        self.verb = verb.__name__
        self.words: Words = getattr(kind, "_calls", {})
        typed = getattr(kind, "_typed", "") or re.findall("[A-Z]?[a-z]+", kind.__name__)[-1].lower()
        self.name = f"{typed}.{self.verb}" if method else f"{kind.__name__}.{self.verb}"
        if kind is _Package:
            self.name = self.verb
        if self.verb == "__init__":
            self.name = self.verb = kind.__name__
        every = list(inspect.signature(verb).parameters.items())
        self.parameters = dict(every[1:] if method else every)
        self.takes_more = any(each.kind is each.VAR_KEYWORD for each in self.parameters.values())

    @property
    def shape(self) -> str:
        """``t.log(count=30, stat=False, all=False)``."""
        told = []
        for name, each in self.parameters.items():
            if each.kind is each.VAR_KEYWORD:
                told.append("...")
            elif each.kind is each.VAR_POSITIONAL:
                told.append(f"*{name}")
            else:
                told.append(name if each.default is each.empty else f"{name}={_shown(each.default)}")
        return f"{self.name}({', '.join(told)})"

    def typed(self, given: Sequence[Any], named: Mapping[str, Any]) -> str:
        """A call with these arguments, to type as it stands where values are short."""
        told = [*map(_argument, given), *(f"{name}={_argument(named[name])}" for name in named)]
        return f"{self.name}({', '.join(told)})"


def _of(kind: type, verb: Callable[..., Any], args: Sequence[Any], method: bool) -> _TypedCall:
    return _TypedCall(type(args[0]) if method and args else kind, verb, method)


def _unknown(call: _TypedCall, word: str, given: Sequence[Any], kwargs: Mapping[str, Any]) -> WrongArguments:
    message = f"{call.name} takes no '{word}'."
    if (call.verb, word) in call.words:
        return WrongArguments(message, hint=call.words[call.verb, word])
    free = [name for name in list(call.parameters)[len(given) :] if name not in kwargs]
    same = next((name for group in SAME if word in group for name in free if name in group), None)
    near = difflib.get_close_matches(word, proposable(free), n=1)
    instead = same or (near[0] if near else None)
    if instead is None or not _fits(call.parameters[instead].annotation, kwargs[word]):
        return WrongArguments(message, hint=call.shape)
    named = {instead if name == word else name: value for name, value in kwargs.items()}
    return WrongArguments(message, hint=call.typed(given, named))


def _misfit(call: _TypedCall, name: str, value: Any) -> WrongArguments:
    wanted = " or ".join(filter(None, (said for _, said in _kinds(call.parameters[name].annotation) or ())))
    hint = call.words.get((call.verb, f"{name}:{type(value).__name__}"), call.shape)
    return WrongArguments(f"'{name}' of {call.name} is {_shown(value)}, but it has to be {wanted}.", hint=hint)


def _is_needed(parameter: inspect.Parameter) -> bool:
    variable = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    return parameter.default is parameter.empty and not variable


@cache
def _kinds(annotation: object) -> tuple[tuple[type | tuple[type, ...], str], ...] | None:
    """The kinds of values that an annotation names, with how users call them; None if it names one unknown here."""
    if not isinstance(annotation, str):
        return None
    names = [re.sub(r"\[.*\]", "", part).strip() for part in re.split(r"\|(?![^\[]*\])", annotation)]
    return tuple(_SIMPLE[name] for name in names) if all(name in _SIMPLE for name in names) else None


def _fits(annotation: object, value: Any) -> bool:
    kinds = _kinds(annotation)
    return kinds is None or any(isinstance(value, kind) for kind, _ in kinds)


def _argument(value: Any) -> str:
    """A value in a call that users type: rows have a name there."""
    return "df" if type(value).__name__ in ("DataFrame", "Table") else _shown(value)


def _shown(value: Any) -> str:
    """A value in a sentence; rows and long values are left out."""
    if value is None or isinstance(value, str | int | float | list | tuple | dict):
        text = repr(value)
        return text if len(text) <= _WIDEST else "..."
    return f"a {type(value).__name__}"
