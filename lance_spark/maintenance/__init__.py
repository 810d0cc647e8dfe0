"""Maintenance of a dataset or catalog in one job: check, compaction, indexes, expiry of refs, cleanup."""
