"""Frozen sets: rows of one version, split and ordered once, that any later call reads in the same order."""
