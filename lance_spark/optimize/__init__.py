"""Optimize."""
