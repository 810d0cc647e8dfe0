"""The one room that speaks to Spark's JVM, for classic sessions.

None of it is needed: where a name of Spark is missing, or the session is one of Spark Connect, the plain data source
gives the same answers.
"""
