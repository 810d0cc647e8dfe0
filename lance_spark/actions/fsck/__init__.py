"""Checks a whole dataset, and changes nothing."""
