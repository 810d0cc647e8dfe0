"""Bringing the changes of one chain of versions into another: merge, cherry-pick, revert, fetch and push.

Everything is one question: given a base, what did *theirs* change, and can *ours* take it? The base of a merge is the
common ancestor. The base of a cherry-pick of version V is V-1. A revert of V is the change from V to V-1.

Fragments are recognized by the names of their data files, which are unique. A fragment id is valid in one chain only.
That is why a fragment is still recognized after a merge, clone or push.
"""
