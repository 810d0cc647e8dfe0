"""Maintenance: what is to be done to tables, and doing it."""
