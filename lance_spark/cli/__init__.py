"""The command ``lance-git``: git's verbs for Lance datasets. Each verb is a file below ``verbs/``."""
