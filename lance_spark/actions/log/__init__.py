"""The history of branches, read as far as it is shown."""
