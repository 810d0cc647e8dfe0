"""Clones."""
