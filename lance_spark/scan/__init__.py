"""Reads: from a pinned version to partitions, and from partitions to rows."""
