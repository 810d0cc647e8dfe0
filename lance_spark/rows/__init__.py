"""Changing rows: what an action frame is, which commits in between a change can be combined with. Pure."""
