"""Access to Spark's JVM in classic sessions.

All of it is optional: if a Spark class is missing, or on Spark Connect, the plain data source gives the same answers.
"""
