"""Searching vectors and text, nearest-neighbor joins, and near duplicates."""
