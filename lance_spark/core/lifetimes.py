"""Lifetime, owner and protection of a branch or tag, kept in the metadata of its ref file. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TypedDict, TypeVar

from lance_spark.core.show import Card, Shown
from lance_spark.core.texts import counted, from_span, to_span
from lance_spark.errors import InvalidOption

# pylance keeps the map ``metadata`` of a ref file whenever it rewrites the file (to move a tag or to replace metadata),
# and drops all other unknown keys. So the settings are in that map. The default branch has no ref file, and pylance
# creates none; main's settings are in a file of this package, see :func:`main_file`.

EXPIRE_AFTER, RETAIN_VERSIONS, OWNER, PROTECTED = (
    "lance_spark.expire_after",
    "lance_spark.retain_versions",
    "lance_spark.owner",
    "lance_spark.protected",
)

_Value = TypeVar("_Value")
WARNED = "lance_spark.expiry_warned"
"""When an expiry first announced the end of the ref, and which end that was."""
_KEYS = {"expire_after": EXPIRE_AFTER, "retain_versions": RETAIN_VERSIONS, "owner": OWNER, "protected": PROTECTED}
TAG_SETTINGS = ("expire_after", "owner")
"""The settings of a tag: it has one version, and is never written to."""
SETTINGS = tuple(_KEYS)


class BranchSettings(TypedDict, total=False):
    """The arguments for the lifetime of a branch; an omitted one stays unchanged."""

    expire_after: str | timedelta
    retain_versions: int
    owner: str
    protected: bool


class TagSettings(TypedDict, total=False):
    """The arguments for the lifetime of a tag; an omitted one stays unchanged."""

    expire_after: str | timedelta
    owner: str


@dataclass(frozen=True)
class Warned:
    since: datetime
    """UTC."""
    of: datetime
    """The announced end. If the ref now ends at another time, the warning does not count."""

    def __str__(self) -> str:
        return f"{self.since.isoformat()} {self.of.isoformat()}"


@dataclass(frozen=True, repr=False)
class Lifetime(Shown):
    expire_after: timedelta | None = None
    """A branch expires this long after its newest version was committed, a tag this long after it was last placed."""
    retain_versions: int | None = None
    """How many of its newest versions every cleanup keeps, regardless of the policy."""
    owner: str | None = None
    """The contact person."""
    protected: bool = False
    """Whether only branch merges may write to it, and deletion is refused."""
    warned: Warned | None = None
    unreadable: tuple[str, ...] = ()
    """Settings that other software wrote and that cannot be parsed. They cause no deletion, and a branch whose
    protection is among them counts as protected."""

    def __str__(self) -> str:
        said = [f"expires after {from_span(self.expire_after)}"] if self.expire_after is not None else []
        said += [f"keeps {counted(self.retain_versions, 'version')}"] if self.retain_versions is not None else []
        said += [f"owner {self.owner}"] if self.owner else []
        said += ["protected"] if self.protected else []
        return ", ".join([*said, *(f"{name} not understood" for name in self.unreadable)])

    def _card(self) -> Card:
        span = None if self.expire_after is None else from_span(self.expire_after)
        facts = (
            ("expires after", span or "never"),
            ("versions kept", f"{self.retain_versions:,}" if self.retain_versions else "as the cleanup says"),
            ("owner", self.owner or ""),
            ("protected", "yes" if self.protected else "no"),
            ("not understood", ", ".join(self.unreadable)),
        )
        return Card(type(self).__name__, summary=str(self) or "nothing is set", facts=facts)

    def as_record(self) -> dict[str, object]:
        """JSON values; None for a missing setting."""
        span = None if self.expire_after is None else from_span(self.expire_after)
        return {
            "expire_after": span,
            "retain_versions": self.retain_versions,
            "owner": self.owner,
            "protected": self.protected,
        }


def read_lifetime(metadata: Mapping[str, str]) -> Lifetime:
    """The lifetime in a ref's metadata. Never raises: see ``Lifetime.unreadable``."""
    unreadable: list[str] = []

    def value(name: str, read: Callable[[str], _Value]) -> _Value | None:
        text = metadata.get(_KEYS[name])
        try:
            return None if text is None else read(text)
        except ValueError:
            unreadable.append(name)
            return None

    span = value("expire_after", partial(to_span, "expire_after"))
    versions, owner = value("retain_versions", _positive), value("owner", str)
    protected = value("protected", _boolean)
    return Lifetime(
        expire_after=span,
        retain_versions=versions,
        owner=owner,
        protected=bool(protected) or "protected" in unreadable,
        warned=_read_warned(metadata),
        unreadable=tuple(unreadable),
    )


_PLACE_WORDS = frozenset({"at", "base", "commit", "from", "from_", "ref", "source", "start", "start_point", "target"})
_PLACES = {True: "branch= or version=", False: "branch=, tag= or version="}


def changed_metadata(
    metadata: Mapping[str, str], settings: Mapping[str, object], unset: Iterable[str] = (), tag: bool = False
) -> dict[str, str]:
    """The metadata of a ref with some settings set and others removed; the rest stays.

    Raises InvalidOption for an unknown setting or an invalid value.
    """
    known = TAG_SETTINGS if tag else SETTINGS
    for name in (*settings, *unset):
        if name not in known:
            kind = "tag" if tag else "branch"
            place = f" It is at a version that {_PLACES[tag]} names." if name in _PLACE_WORDS else ""
            raise InvalidOption(f"A {kind} has no setting '{name}'.", hint=f"Settings: {', '.join(known)}.{place}")
    put = {_KEYS[name]: _text(name, value) for name, value in settings.items() if value is not None}
    gone = {_KEYS[name] for name in unset}
    both = sorted(gone & put.keys())
    if settings.get("protected") is False:
        gone.add(PROTECTED)
        del put[PROTECTED]
    if both:
        raise InvalidOption(f"'{both[0].rpartition('.')[2]}' cannot be set and unset at the same time.")
    if EXPIRE_AFTER in gone or EXPIRE_AFTER in put:
        gone.add(WARNED)  # the warning was about another end
    return {**{key: value for key, value in metadata.items() if key not in gone}, **put}


def with_warning(metadata: Mapping[str, str], warned: Warned) -> dict[str, str]:
    return {**metadata, WARNED: str(warned)}


def only_lifetime(metadata: Mapping[str, str]) -> bool:
    """Whether the metadata of a ref holds only its lifetime."""
    return metadata.keys() <= {*_KEYS.values(), WARNED}


def _text(name: str, value: object) -> str:
    if name == "expire_after":
        span = value if isinstance(value, timedelta) else to_span(name, str(value))
        if span <= timedelta(0):
            raise InvalidOption("expire_after must be longer than zero.", hint="Give a span such as 30d.")
        return from_span(span)
    if name == "retain_versions":
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidOption(f"retain_versions is {value!r}, but it must be a whole number of at least 1.")
        return str(value)
    if name == "protected":
        if not isinstance(value, bool):
            raise InvalidOption(f"protected is {value!r}, but it must be True or False.")
        return str(value).lower()
    if not isinstance(value, str) or not value.strip():
        raise InvalidOption(f"owner is {value!r}, but it must be a text.", hint="To remove it: unset=['owner'].")
    return value


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _read_warned(metadata: Mapping[str, str]) -> Warned | None:
    """None for an unreadable warning: the ref then gets a new one."""
    try:
        since, of = (datetime.fromisoformat(part) for part in metadata.get(WARNED, "").split())
        return Warned(since.astimezone(timezone.utc), of.astimezone(timezone.utc))
    except ValueError:
        return None
