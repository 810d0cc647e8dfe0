"""Streams into and out of a branch, from beginning to end."""
