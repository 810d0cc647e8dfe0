"""Frozen training sets: what a set is, the hashes that split and order its rows, and what differs between two."""
