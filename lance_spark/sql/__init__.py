"""Procedures, as SQL calls them: ``CALL lake.system.create_branch(table => 'ns1.flights', name => 'exp')``.

Each is a plain value with the function that carries it out; one file per noun.
"""
