"""Procedures for SQL, ``CALL lake.system.create_branch(table => 'ns1.flights', name => 'exp')``, and SQL's tokens.

Each procedure is a plain value with the function that runs it.
"""
