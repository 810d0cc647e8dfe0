"""The workspace of the command line: which dataset, which branch, which remotes. Pure."""
