"""A catalog's storage: the ``__manifest`` table, table directories and their markers."""
