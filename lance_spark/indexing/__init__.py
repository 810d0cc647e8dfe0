"""Indexes: which kinds fit which columns, what is covered, what is to be built, how a model is trained. Pure."""
