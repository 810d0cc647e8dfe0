"""Branches, tags and versions: listing, creating, moving, deleting and restoring them."""
