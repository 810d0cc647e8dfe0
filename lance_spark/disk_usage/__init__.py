"""Disk usage: what a dataset takes and what each branch, tag and clone costs."""
