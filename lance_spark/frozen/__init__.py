"""Frozen."""
