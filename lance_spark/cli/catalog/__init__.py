"""The command ``lance-catalog``: a directory of Lance tables as a catalog. One verb is one file below ``verbs/``."""
