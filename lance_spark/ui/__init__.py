"""Pages in the browser: a lake, its tables, differences of versions, the review of a merge, and upkeep."""
