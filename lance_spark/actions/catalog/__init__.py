"""What people do with a catalog: one file per topic."""
