"""Small services for a Spark session: registering sources, refreshing caches, narrowing a query's read."""
