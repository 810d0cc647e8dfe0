"""The command ``lance-git``: git's verbs for Lance datasets. One verb is one file below ``verbs/``."""
