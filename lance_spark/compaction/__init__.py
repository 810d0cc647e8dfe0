"""Compaction: what is to be rewritten, in which commits, and what other commits leave of it. Pure."""
