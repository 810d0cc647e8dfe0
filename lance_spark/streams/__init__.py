"""Decisions of streams into and out of a branch. Pure."""
