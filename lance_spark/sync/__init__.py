"""Fetch and push as decisions: which branch follows which, and what a fetch writes in which order. Pure."""
