"""What EXPLAIN says of a scan."""

from __future__ import annotations

from lance_spark.spark.jvm.planning import PlannedScan


def described(planned: PlannedScan) -> str:
    """A scan in one line: the table, the ref and version, and what is pushed down."""
    source, pushed = planned.source, planned.pushed
    columns = [] if pushed.counted else pushed.columns.names
    facts = [f"lance {source.name}"]
    if pushed.aggregate is None:
        facts.append(f"columns: [{', '.join(columns)}]")
    else:
        groups = len(pushed.aggregate.groups)
        facts.append(f"aggregate: [{', '.join(columns[groups:])}]")
        facts += [f"group by: [{', '.join(columns[:groups])}]"] if groups else []
    if planned.measured.options.filter is not None:
        facts.append(f"filter: {_short(planned.measured.options.filter)}")
    if pushed.sample is not None:
        facts.append(f"sample: {pushed.sample.upper - pushed.sample.lower:g}")
    if pushed.order:
        facts.append(
            "order by: " + ", ".join(f"{key.column} {'asc' if key.ascending else 'desc'}" for key in pushed.order)
        )
    if pushed.limit is not None:
        facts.append(f"limit: {pushed.limit}")
    if pushed.offset:
        facts.append(f"offset: {pushed.offset}")
    return ", ".join(facts)


def _short(text: str) -> str:
    return text if len(text) <= 1000 else f"{text[:1000]}..."
