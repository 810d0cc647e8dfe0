"""Indexes on any branch: creating, extending, describing and dropping them."""
