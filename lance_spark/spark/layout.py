"""``t.layout``: where the rows of a table go, and the facts by which filters leave out its fragments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lance_spark.core.options import names_of
from lance_spark.core.refs import RefSpec
from lance_spark.core.show import Card, Shown
from lance_spark.engine.session_spark import engine_of
from lance_spark.errors import InvalidOption
from lance_spark.layout.declaring import change_layout, look
from lance_spark.layout.facts import layout_bounds
from lance_spark.layout.layout_rules import TableLayout, parse
from lance_spark.optimize.by_layout import complete_facts
from lance_spark.spark import at_server_rules
from lance_spark.spark.refs import Handle, tells
from lance_spark.storage.versions import read_contents


@dataclass(frozen=True, repr=False)
class LayoutInfo(Shown):
    """The layout of a version."""

    partition_by: str
    """``days(ts), bucket(8, id)``; empty if the table is not partitioned."""
    cluster_by: str
    """``carrier, origin`` or ``zorder(lat, lon)``; empty if the table is not clustered."""
    foreign: bool
    """Whether the JVM connector partitioned the table."""
    problem: str | None
    """Why writers do not obey it; None if they do."""
    fragments: int
    with_facts: int
    """Fragments of which bounds of all columns of the layout are known."""

    def _card(self) -> Card:
        facts: list[tuple[str, str]] = [
            ("partitioned by", self.partition_by or "nothing"),
            ("clustered by", self.cluster_by or "nothing"),
        ]
        if self.foreign:
            facts.append(("declared by", "the JVM connector"))
        if self.problem is not None:
            facts.append(("not obeyed", self.problem))
        if self.partition_by or self.cluster_by:
            facts.append(("fragments", f"{self.fragments:,}, {self.with_facts:,} of them with facts"))
        return Card("Layout", facts=tuple(facts))


@tells(at_server_rules.LAYOUT)
@dataclass(frozen=True, repr=False)
class LayoutVerbs(Handle, Shown):
    """Declares the layout of a handle's branch, for what is written from now on; each verb commits a version.

    A branch begins with the layout of what it was created from.
    """

    _typed = "t.layout"

    def _card(self) -> Card:
        return self.describe()._card()

    def partition_by(self, *transforms: str) -> LayoutInfo:
        """Divide fragments by columns or functions of them, such as ``"days(ts)", "bucket(16, id)"``; by none to stop.

        Functions are ``bucket(n, column)``, ``truncate(width, column)``, and ``years``, ``months``, ``days`` and
        ``hours`` of a column. Existing fragments stay as they are. Raises InvalidOption, Refused, Conflict.
        """
        return self._declared(lambda now: replace(now, partition=parse(", ".join(transforms), None).partition))

    def cluster_by(self, *columns: str, zorder: str | Sequence[str] | None = None) -> LayoutInfo:
        """Sort the rows of each fragment by columns, or with ``zorder`` along a z-curve; without any, no more.

        Existing fragments stay as they are. Raises InvalidOption, Refused, Conflict.
        """
        curve = () if zorder is None else names_of(zorder)
        if columns and curve:
            raise InvalidOption("Columns to sort by and zorder cannot both be given.", hint="Choose one of them.")
        parsed = tuple(name for text in columns for name in parse(None, text).cluster) if columns else curve
        return self._declared(lambda now: replace(now, cluster=parsed, curve=bool(curve)))

    def analyze(self) -> LayoutInfo:
        """Measure the fragments that lack facts, as after writes of another tool; no version is committed.

        Fragments with deleted rows are left out, until :meth:`LanceTable.optimize` rewrites them. Raises NotFound.
        """
        pin = self._pin()
        layout, _ = look(self.location, pin)
        if layout:
            fragments = {each.id: each for each in read_contents(self.location, pin).fragments()}
            complete_facts(self.location, pin, layout, fragments, engine_of(self.spark))
        return self.describe()

    def describe(self) -> LayoutInfo:
        """The layout at this handle's ref, and how many fragments have facts. Raises NotFound."""
        pin = self._pin()
        layout, problem = look(self.location, pin)
        known = layout_bounds(self.location, pin, layout)
        whole = sum(bounds.keys() >= {*layout.columns} for bounds in known.values()) if layout else 0
        return LayoutInfo(layout.partition_text, layout.cluster_text, layout.foreign, problem, len(known), whole)

    def _declared(self, change: Callable[[TableLayout], TableLayout]) -> LayoutInfo:
        branch = self._moving_branch("declare the layout of")
        change_layout(self.location, branch, lambda now, _: change(now))
        return LayoutVerbs(self.spark, self.location, RefSpec(branch)).describe()
