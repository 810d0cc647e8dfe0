"""Taking the changes of one chain of versions over to another one: merge, cherry-pick, revert, fetch and push. Pure.

Everything is one question: given a base, what did *theirs* change, and can *ours* take it? A merge has the common
ancestor as the base; a cherry-pick of version V has V-1; a revert of V is the change from V to V-1.

Fragments are recognized by the names of their data files, which are unique. Fragment ids mean something in one chain
only. So a fragment that was merged, cloned or pushed is still recognized.
"""
