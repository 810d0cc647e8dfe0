"""The words that producers of row changes and the engine share.

An *action frame* has one row for each row that changes: ``__row_operation`` (int), ``_rowaddr`` (bigint; null for
inserts), and the table's columns (values for updates and inserts, ignored for deletes). Rows that stay are not in it.
"""

from __future__ import annotations

OPERATION = "__row_operation"
"""Column of an action frame: what happens to the row. Spark gives its row-level operations these numbers, too."""
DELETE, UPDATE, INSERT = 1, 2, 3

DELETING, UPDATING, MERGING, REPLACING = "delete", "update", "merge", "replace"
"""Verbs, as versions remember them."""
