"""Which rows changed between two versions, and how: what to read, and what to make of it. Pure."""
