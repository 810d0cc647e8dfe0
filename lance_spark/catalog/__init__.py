"""The directory namespace: catalogs of tables and namespaces, found, created, changed, removed and checked."""
