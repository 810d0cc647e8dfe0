"""Clones a dataset that stays elsewhere, and keeps the two in step: fetch, pull and push."""
