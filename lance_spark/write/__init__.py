"""Writes: from a DataFrame's schema to a checked plan, data files and one commit."""
