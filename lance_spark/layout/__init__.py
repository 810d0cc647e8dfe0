"""Names on disk: what a file is by its path, manifests by their names, and ranges of keys to list. Pure."""
