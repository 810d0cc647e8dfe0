"""Changing rows: delete, update, replace and merge, each as one version on top of the newest one."""
