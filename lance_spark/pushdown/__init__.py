"""Pushdown from Spark's planner: filters, partial aggregates, sort orders and estimates. Pure."""
