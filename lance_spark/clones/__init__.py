"""Clones a version to another place, and repairs base paths after a dataset was moved or copied."""
