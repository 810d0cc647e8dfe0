"""Checks datasets and catalogs for damage, repairs what can be repaired, and undoes repairs."""
