"""What a Spark server gets from this package: a class that starts the helper, and the program that compiles it."""
