"""Workspaces of the command line: the dataset, branch and remotes that a directory stands for."""
