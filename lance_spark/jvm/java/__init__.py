"""Java classes of this package, compiled by the compiler that Spark ships for the code that it generates itself.

Nothing of it is needed: where it cannot be had, Spark gets rows, and asks Python for everything.
"""
