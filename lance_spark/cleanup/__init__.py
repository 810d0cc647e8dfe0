"""Cleanups: decides which versions and files of a dataset may be deleted, and deletes them."""
