"""Differences between versions: ``diff`` compares two states, ``changes`` is the feed of changed rows."""
