"""Commits whose answer is lost or late: the rows are there once, or the job failed and nothing was deleted."""
