"""The one room that speaks to Spark's JVM. Everything in it is for classic sessions, and none of it is needed:

where a name of Spark is missing, or the session is a Spark Connect one, the plain data source answers the same.
"""
