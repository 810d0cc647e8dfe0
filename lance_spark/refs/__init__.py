"""Names of branches, tags and versions, and what may be done to them. Pure."""
