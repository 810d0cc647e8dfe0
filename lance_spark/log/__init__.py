"""What happened to a table: versions as entries of a log, and the graph of branches."""
