"""Streams into a branch (each batch committed once) and out of a branch (appended rows or changes)."""
