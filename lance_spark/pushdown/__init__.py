"""What Spark's planner hands to a scan, and what becomes of it: filters, partial aggregates, estimates. Pure."""
