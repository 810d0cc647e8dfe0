"""The command ``lance-catalog``: a directory of Lance tables as a catalog. Each verb is a file below ``verbs/``."""
