"""Java classes of this package, compiled by the compiler that Spark ships for its own generated code.

They are optional: without them, Spark gets rows, and calls Python for everything.
"""
